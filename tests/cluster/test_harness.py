from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from generator.errors import EngineError
from tests.cluster import build
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.definitions import WANTED, definitions
from tests.cluster.modules import module_folders
from tests.cluster.processes import Processes, StartError, free_ports
from tests.cluster.versions import HERE, Program, Versions

pytestmark = pytest.mark.cluster


def quota(namespace: str, **spec: object) -> Body:
    metadata = {"name": "q", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def test_all_programs_run_at_the_requested_version(cluster: Cluster) -> None:
    version = cluster.admin.request("GET", "/version").body["gitVersion"]
    assert version == cluster.versions["kubernetes"].version
    assert {"trainer", "jobset", "kueue", "kwok", "etcd"} <= set(cluster.processes.names())


def test_an_unknown_field_is_rejected(admin: Client, namespace: str) -> None:
    with pytest.raises(RefusedError, match="not declared in schema"):
        admin.apply(quota(namespace, hrad={"pods": "1"}), dry_run=True)


def test_a_dry_run_stores_nothing(admin: Client, namespace: str) -> None:
    admin.apply(quota(namespace, hard={"pods": "1"}), dry_run=True)
    assert not admin.exists(quota(namespace))


LAUNCHERS: Body = {
    "name": "launcher",
    "replicas": 2,
    "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}},
    },
}
SUCCESS = {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["absent"]}}
RUNTIME = {"template": {"spec": {"replicatedJobs": [LAUNCHERS]}}}
WRONG: list[
    tuple[str, str, Body, str]
] = [  # each is refused by one controller only: several are asked at the same time
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor", {"nodeLabels": {"-": "x"}}, "vresourceflavor.kb.io"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", SUCCESS, "invalid replicatedJob name 'absent'"),
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", RUNTIME, "validator.clustertrainingruntime"),
]


@pytest.mark.parametrize(("version", "kind", "spec", "webhook"), WRONG)
def test_the_webhooks_of_every_controller_reject_invalid_objects(
    admin: Client, namespace: str, version: str, kind: str, spec: Body, webhook: str
) -> None:
    scope = {"namespace": namespace} if kind == "JobSet" else {}
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **scope}, "spec": spec}
    with pytest.raises(RefusedError, match=webhook):
        admin.apply(body, dry_run=True)


PINS = HERE / "go" / "definitions" / "cluster-network-policy"
SOUND: list[Body] = list(yaml.safe_load_all((HERE / "fixtures" / "sound_objects.yaml").read_text()))


def test_kinds_without_a_controller_are_served_as_defined_upstream(cluster: Cluster) -> None:
    for definition in definitions(cluster.versions):
        spec = definition["spec"]
        for version in spec["versions"]:
            if version["served"]:
                served = cluster.admin.resource(f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                assert served["namespaced"] == (spec["scope"] == "Namespaced")


def test_every_group_without_a_controller_has_a_valid_object(control_plane_versions: Versions) -> None:
    defined = {definition["spec"]["group"] for definition in definitions(control_plane_versions)}
    assert {body["apiVersion"].partition("/")[0] for body in SOUND} == defined


@pytest.mark.parametrize("body", SOUND, ids=lambda body: body["kind"])
def test_kinds_without_a_controller_accept_a_valid_object_and_reject_unknown_fields(admin: Client, body: Body) -> None:
    assert admin.apply(body, dry_run=True).warnings == ()
    wrong = deepcopy(body)
    wrong.get("spec", wrong)["unknownField"] = "x"
    with pytest.raises(RefusedError, match=r"unknownField.*not declared in schema"):
        admin.apply(wrong, dry_run=True)


def test_only_the_default_features_of_openshift_are_installed(control_plane_versions: Versions) -> None:
    label, found = "release.openshift.io/feature-set", definitions(control_plane_versions)
    assert {(each["metadata"].get("annotations") or {}).get(label, "Default") for each in found} == {"Default"}


def test_every_pinned_module_of_definitions_is_used() -> None:
    assert {pins: set(module_folders(HERE / "go" / pins)) for pins in WANTED} == {
        pins: set(wanted) for pins, wanted in WANTED.items()
    }


def test_a_module_with_another_checksum_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_bytes((PINS / "go.mod").read_bytes())
    (tmp_path / "go.sum").write_text(re.sub(" h1:.{9}", " h1:different", (PINS / "go.sum").read_text()))
    with pytest.raises(EngineError, match="checksum mismatch"):
        module_folders(tmp_path)


def test_a_module_missing_from_go_sum_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONOSUMDB", "*")  # so that nothing but go.sum could object
    (tmp_path / "go.mod").write_bytes((PINS / "go.mod").read_bytes())
    (tmp_path / "go.sum").write_text("")
    with pytest.raises(EngineError, match=r"does not know all of sigs\.k8s\.io/network-policy-api@v0"):
        module_folders(tmp_path)


def test_processes_end_with_a_killed_test_run(tmp_path: Path) -> None:
    script = f"""
import pathlib, time
from tests.cluster.processes import Processes
processes = Processes(pathlib.Path({str(tmp_path)!r}))
processes.start("sleeper", ["/bin/sh", "-c", "echo $$; exec sleep 600"])
time.sleep(600)
"""
    run = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    log = tmp_path / "sleeper.log"
    sleeper = wait_for("it runs", lambda: int(log.read_text() or 0) or None if log.exists() else None)
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait_until("it ended too", lambda: not Path(f"/proc/{sleeper}").exists(), 5)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Return a program that builds fast, and an empty cache."""
    monkeypatch.setenv("MPIGEN_CACHE", str(tmp_path))
    pins = tmp_path / "tiny" / "v0.0.1"
    pins.mkdir(parents=True)
    (pins / "go.mod").write_text("module tiny\n\ngo 1.24\n")
    (pins / "go.sum").touch()
    (pins.parent / "main.go").write_text('package main\n\nfunc main() { println("it runs") }\n')
    return Program(name="tiny", pins=str(pins), module="tiny", package=".")


def test_the_next_build_removes_leftovers_of_a_killed_build(tiny: Program) -> None:
    script = f"""
from tests.cluster.build import build
from tests.cluster.versions import Program
build(Program(name="tiny", pins={tiny.pins!r}, module="tiny", package="."))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.Popen([sys.executable, "-c", script], env=environment, start_new_session=True)
    while not leftovers():
        assert killed.poll() is None
    os.killpg(killed.pid, signal.SIGKILL)  # with its compiler
    killed.wait()
    assert leftovers()
    binary = build.build(tiny)
    assert leftovers() == []
    assert subprocess.run([binary], capture_output=True, text=True, check=True).stderr == "it runs\n"


def test_leftovers_of_a_running_build_are_kept(tiny: Program) -> None:
    with build.alone(tiny.name), build._scratch(tiny, tiny.name):
        build.remove_leftovers()
        assert len(leftovers()) == 1


def leftovers() -> list[Path]:
    return list(build.cache().glob(".build-*"))


def test_a_start_error_contains_the_log_of_the_program(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("broken", ["/bin/sh", "-c", "echo no such luck; exit 3"])
    with pytest.raises(StartError, match="code 3:\nno such luck"):
        processes.wait("broken", lambda: False)


def test_free_ports_are_distinct() -> None:
    ports = [*free_ports(25), *free_ports(25)]
    assert len(set(ports)) == 50


def test_workers_choose_among_different_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    for worker in range(2):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        assert {port % 2 for port in free_ports(20)} == {worker}
