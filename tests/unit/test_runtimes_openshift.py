"""Test that the SCC `restricted-v2` of OpenShift accepts the pods of every family with any user.

Its admission plugin is not a Go module that tests could run. The fields below are from the SCC in
openshift/cluster-kube-apiserver-operator bindata/bootkube/scc-manifests (scc-restricted-v2.yaml);
openshift/apiserver-library-go pkg/securitycontextconstraints defines their meaning.
"""

from __future__ import annotations

from typing import Any

import pytest

from generator import Cluster, Runtime
from generator.facts.families import FAMILIES
from generator.runtimes.training_runtime import training_runtimes
from tests.update_runtimes import POOLS

VOLUMES = {"configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
CATALOGUE = [(family.name, device) for family in FAMILIES.values() for device in family.devices]


@pytest.fixture(params=CATALOGUE, ids="-".join)
def pods(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Return the pod specs of a family on a device, on OpenShift, with all options that extend them."""
    family, device = request.param
    runtime = Runtime.model_validate(
        {
            "name": "r",
            "use": family,
            "pool": POOLS[device].name,
            "image": "i",
            "readOnlyRootFilesystem": True,
            "volumes": [{"name": "data", "mountPath": "/data", "claim": "data"}],
        }
    )
    (body,) = training_runtimes(runtime, POOLS[device], Cluster(distribution="openshift"))
    jobs = body["spec"]["template"]["spec"]["replicatedJobs"]
    return [job["template"]["spec"]["template"]["spec"] for job in jobs]


def containers(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [container for pod in pods for container in (*pod["initContainers"], *pod["containers"])]


def test_pods_on_openshift_set_no_user_or_group(pods: list[dict[str, Any]]) -> None:
    """MustRunAsRange and MustRunAs reject values outside the namespace's range, and set missing ones."""
    contexts = [pod["securityContext"] for pod in pods] + [each["securityContext"] for each in containers(pods)]
    for context in contexts:
        assert not {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"} & set(context)


def test_privileges_are_dropped(pods: list[dict[str, Any]]) -> None:
    for container in containers(pods):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert "privileged" not in context
        assert context["capabilities"]["drop"] == ["ALL"]
        assert set(context["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"}


def test_host_namespaces_ports_and_paths_are_not_used(pods: list[dict[str, Any]]) -> None:
    for pod in pods:
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= VOLUMES
    assert not [port for container in containers(pods) for port in container.get("ports", []) if "hostPort" in port]


def test_only_runtimes_that_lock_memory_require_the_memlock_scc() -> None:
    runtime = Runtime.model_validate({"name": "r", "pool": "cpu", "image": "i", "memlock": "capability"})
    (body,) = training_runtimes(runtime, POOLS["cpu"], Cluster(distribution="openshift"))
    for job in body["spec"]["template"]["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]
        assert pod["metadata"]["annotations"] == {"openshift.io/required-scc": "mpigen-memlock"}
        (prepare,), (node,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
        assert prepare["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}
        assert prepare["securityContext"]["allowPrivilegeEscalation"] is False
        assert node["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK", "NET_BIND_SERVICE"]}
        assert node["securityContext"]["allowPrivilegeEscalation"] is True
