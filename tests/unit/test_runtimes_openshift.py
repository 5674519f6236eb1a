"""Test that the SCC `restricted-v2` of OpenShift accepts the pods of every family with any user.

mpigen decides as the admission plugin of OpenShift does: see tests/unit/upstream/test_security_contexts.py. The fields
below are from openshift/cluster-kube-apiserver-operator bindata/bootkube/scc-manifests/*_scc-restricted-v2.yaml.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from generator import Cluster, Runtime
from generator.checks.admission import security_context_constraints
from generator.checks.objects import Objects
from generator.checks.registry import ERROR
from generator.facts.families import FAMILIES
from generator.facts.table import read_table
from generator.manifests import Manifest, read
from generator.policies import access
from generator.runtimes.training_runtime import training_runtimes
from generator.upstream.kubernetes.pod_security import Level, find_violations
from generator.upstream.openshift.scc.decide import Answer, Constraints
from tests.conftest import ROOT
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


def test_openshift_admits_the_pods_with_restricted_v2(pods: list[dict[str, Any]]) -> None:
    constraints = Constraints.read([], is_complete=True)
    situation = constraints.find_situation({"metadata": {"name": "team"}}, "mpi")
    for spec in pods:
        decision = constraints.decide({"metadata": {}, "spec": spec}, situation)
        assert (decision.answer, decision.constraint, decision.doubt) == (Answer.ADMITTED, "restricted-v2", "")
        assert find_violations(decision.pod, Level("restricted"), 34) == []


def test_openshift_admits_locked_memory_only_in_exempt_namespaces() -> None:
    runtime = Runtime.model_validate({"name": "r", "pool": "cpu", "image": "i", "memlock": "capability"})
    (body,) = training_runtimes(runtime, POOLS["cpu"], Cluster(distribution="openshift"))
    subject = {"kind": "ServiceAccount", "name": "mpi", "namespace": "exempt"}
    role = {"apiGroup": access.RBAC, "kind": "ClusterRole", "name": "mpigen-memlock"}
    binding = {
        "apiVersion": f"{access.RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "mpigen-memlock", "namespace": "exempt"},
        "roleRef": role,
        "subjects": [subject],
    }
    objects = [read_table("objects", "generator.policies")["memlock"], access.memlock_role(), binding]
    constraints = Constraints.read([Manifest(item, "") for item in objects], is_complete=True)
    for job in body["spec"]["template"]["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]
        answers = {
            name: constraints.decide(pod, constraints.find_situation({"metadata": {"name": name}}, "mpi"))
            for name in ("exempt", "other")
        }
        assert answers["exempt"].constraint == "mpigen-memlock"
        assert answers["other"].answer is Answer.REJECTED
        assert answers["other"].describe("node") == (
            "the pods `node` require the SCC `mpigen-memlock`, but ServiceAccount `mpi` may not use it"
        )


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
        (node,) = pod["spec"]["containers"]
        for first in pod["spec"]["initContainers"]:
            assert first["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}
            assert first["securityContext"]["allowPrivilegeEscalation"] is False
        assert node["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK", "NET_BIND_SERVICE"]}
        assert node["securityContext"]["allowPrivilegeEscalation"] is True


def test_a_complete_release_reports_a_runtime_that_no_constraint_admits() -> None:
    files = sorted((ROOT / "output/openshift-h100").rglob("*.yaml"))
    manifests = [item for file in files for item in read(file.read_bytes(), str(file))]
    changed = deepcopy(manifests)
    for item in changed:
        if item.name == "openmpi-h100" and item.kind == "ClusterTrainingRuntime":
            (job,) = item.body["spec"]["template"]["spec"]["replicatedJobs"][:1]
            job["template"]["spec"]["template"]["spec"]["hostNetwork"] = True
    assert [*security_context_constraints(Objects(tuple(manifests), {}, is_complete=True))] == []
    (breach,) = security_context_constraints(Objects(tuple(changed), {}, is_complete=True))
    assert breach.severity is ERROR
    assert "provider restricted-v2: .spec.securityContext.hostNetwork: Invalid value: true" in breach.message
