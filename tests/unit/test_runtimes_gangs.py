"""Test gang scheduling: with a gang scheduler, only the launcher waits for the hosts."""

from __future__ import annotations

from typing import Any

import pytest

from generator import App, Cluster, Platform, Runtime
from generator.checks.run import check_rendered
from generator.components.constructs import collect
from generator.facts.families import FAMILIES
from generator.manifests import Manifest, write
from generator.runtimes.training_runtime import training_runtimes
from generator.schemas.catalog import Catalog
from tests.conftest import small_platform
from tests.update_runtimes import IMAGE, POOLS

GANGS = {"coscheduling": "scheduler-plugins-scheduler", "volcano": "volcano"}


def body(gang: str, family: str = "openmpi", cluster: Cluster | None = None, **options: Any) -> dict[str, Any]:
    pool = POOLS[FAMILIES[family].devices[0]]
    runtime = Runtime(name="r", use=family, pool=pool.name, image=IMAGE, gang=gang, **options)
    return training_runtimes(runtime, pool, cluster or Cluster())[0]


def jobs(runtime: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return found


def pods(runtime: dict[str, Any]) -> list[dict[str, Any]]:
    return [job["template"]["spec"]["template"]["spec"] for job in jobs(runtime)]


@pytest.mark.parametrize("gang", GANGS)
def test_every_pod_of_a_gang_uses_its_scheduler(gang: str) -> None:
    assert [pod["schedulerName"] for pod in pods(body(gang))] == [GANGS[gang]] * 2
    assert [pod["schedulerName"] for pod in pods(body(gang, scheduler="other"))] == ["other"] * 2


def test_trainer_gets_the_pod_group_policy_of_the_gang() -> None:
    policies = {gang: body(gang)["spec"].get("podGroupPolicy") for gang in ("kueue", *GANGS)}
    assert policies == {
        "kueue": None,
        "coscheduling": {"coscheduling": {"scheduleTimeoutSeconds": 60}},
        "volcano": {"volcano": {}},
    }


def test_with_kueue_alone_pods_use_the_default_scheduler_and_the_launcher_waits_for_names_only() -> None:
    runtime = body("kueue")
    assert [pod.get("schedulerName") for pod in pods(runtime)] == [None, None]
    node, launcher = (pod["initContainers"] for pod in pods(runtime))
    assert ([each["name"] for each in node], [each["name"] for each in launcher]) == (["prepare"], ["prepare", "hosts"])
    assert launcher[1]["command"][2].startswith("patience=120 gang=\n")
    assert [mount["name"] for mount in launcher[1]["volumeMounts"]] == ["mpi-hostfile"]
    assert jobs(runtime)[1]["dependsOn"] == [{"name": "node", "status": "Ready"}]


@pytest.mark.parametrize("gang", GANGS)
def test_the_launcher_of_a_gang_starts_with_its_hosts_and_waits_for_them(gang: str) -> None:
    runtime = body(gang)
    assert all("dependsOn" not in job for job in jobs(runtime))
    node, launcher = ([each["name"] for each in pod["initContainers"]] for pod in pods(runtime))
    assert (node, launcher) == (["prepare"], ["prepare", "hosts"])


def test_the_waiting_container_has_the_settings_of_mpirun() -> None:
    """Both have the same rights, user name, ssh configuration and key, and hostfile."""
    pod = pods(body("coscheduling", readOnlyRootFilesystem=True))[1]
    hosts, mpirun = pod["initContainers"][1], pod["containers"][0]
    assert hosts["securityContext"] == mpirun["securityContext"]
    mounts = {mount["mountPath"]: mount["name"] for mount in hosts["volumeMounts"]}
    assert mounts == {
        "/run/mpi": "run",
        "/etc/passwd": "run",
        "/etc/ssh/ssh_config": "run",
        "/home/mpiuser": "home",
        "/home/mpiuser/.ssh": "mpi-ssh-auth",
        "/etc/mpi": "mpi-hostfile",
        "/tmp": "tmp",
    }


def test_a_launcher_waits_as_long_as_the_timeout_of_kueue() -> None:
    """Kueue's timer starts first, so Kueue requeues the job before the launcher fails it."""
    data = small_platform()
    data["runtimes"][0] |= {"gang": "volcano"}
    data["queues"] = {"waitForPodsReady": {"timeout": "2h"}}
    platform = Platform.model_validate(data)
    name = data["runtimes"][0]["name"]
    (runtime,) = [
        manifest.body
        for manifest in collect(App(platform))
        if manifest.kind == "ClusterTrainingRuntime" and manifest.name == name
    ]
    assert pods(runtime)[1]["initContainers"][1]["command"][2].startswith("patience=7200 gang=yes\n")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gang", GANGS)
def test_gang_runtimes_of_every_family_have_no_findings(gang: str, family: str) -> None:
    manifests = [Manifest(body(gang, family), "runtime.yaml")]
    assert check_rendered(manifests, write(manifests), Catalog.bundled()).in_order() == []
