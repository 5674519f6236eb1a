"""Test that the policies of 300 tenants stay within the cost limits of CEL, and reject large requests clearly.

An expression over a limit is an error, so the API server would reject the request without the message of the rule:
apiserver v0.34.2 pkg/apis/cel/config.go PerCallLimit; apiserver v0.34.2 pkg/apis/cel/config.go RuntimeCELCostBudget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.platforms import platform_file
from generator import pipeline
from generator.facts.names import OWNER, QUEUE_NAME
from generator.manifests import Manifest
from generator.upstream.kubernetes.admission_policies.policy import KINDS
from tests.cluster import trees
from tests.cluster.client import Body, Client, RefusedError
from tests.cluster.policies import type_warnings, with_canary, without_canary
from tests.cluster.training import wait_for_queue

pytestmark = pytest.mark.cluster
_TENANTS = 300
_TEAM = "team-00000"
_OF_ALL = (
    "Namespace",
    "ClusterRole",
    "ClusterTrainingRuntime",
    "ResourceFlavor",
    "Cohort",
    "WorkloadPriorityClass",
    *KINDS,
)
"""Kinds of which the test applies all objects; of other kinds, the objects of one team."""
_GROUPS = [f"group:guests-{number}" for number in range(300)]
_PATTERNS = [f"group:partner-{number}-*" for number in range(300)]
_UNCLEAR = re.compile(r"cost|resulted in error|fails to evaluate|failed expression")
_RUNTIME = "openmpi-h100"


@pytest.fixture(scope="module")
def large(
    admin: Client, on_the_cluster: list[trees.Deployed], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Manifest]]:
    """Apply the policies and Namespaces of 300 tenants, and all objects of one team with 300 groups."""
    trees.remove_all(admin, on_the_cluster)
    file = platform_file(tmp_path_factory.mktemp("large"), _TENANTS, has_limits=True)
    access = f"view: [{', '.join(_GROUPS)}], grantable: [{', '.join(map(repr, _PATTERNS))}]"
    file.write_text(file.read_text().replace("view: [group:all]", access, 1))
    platform, app = pipeline.load(file)
    tree = trees.as_argocd_applies(pipeline.render(platform, app))
    chosen = [found for found in tree if found.kind in _OF_ALL or _TEAM in (found.namespace, found.name)]
    for body in trees.prerequisites(platform):
        admin.apply(body, "tests")
    without_canary(admin)
    for found in chosen:
        admin.apply(found.body)
    with_canary(admin)
    wait_for_queue(admin, _TEAM)
    yield chosen
    for found in reversed(chosen):
        admin.delete(found.body)
    without_canary(admin)


def test_the_api_server_accepts_all_policies_without_type_warnings(large: list[Manifest], admin: Client) -> None:
    policies = [found.name for found in large if found.kind == KINDS[0]]
    assert sum(found.kind == "Namespace" for found in large) == _TENANTS + 1  # of the catalogue
    assert len(policies) >= 26
    assert {name: found for name in policies if (found := type_warnings(admin, name))} == {}


def _job(spec: Body | None = None, trainer: Body | None = None, metadata: Body | None = None) -> Body:
    """Return a TrainJob with these fields in place of its own."""
    trainer = {"numNodes": 2, "command": ["mpirun", "hostname"], **(trainer or {})}
    named = {
        "name": "large",
        "namespace": _TEAM,
        "annotations": {OWNER: "ada"},
        "labels": {QUEUE_NAME: "default"},
        **(metadata or {}),
    }
    spec = {"runtimeRef": {"name": _RUNTIME}, "trainer": trainer, **(spec or {})}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": named, "spec": spec}


def _patches(pod: Body, jobs: int = 1, patches: int = 1, metadata: Body | None = None) -> Body:
    """Return `runtimePatches` with this pod for each job of each patch."""
    template = {"spec": pod, **({"metadata": metadata} if metadata else {})}
    names = ["node", *(f"other-{number}" for number in range(1, jobs))]
    rows = [{"name": name, "template": {"spec": {"template": template}}} for name in names]
    specs = {"template": {"spec": {"replicatedJobs": rows}}}
    return {
        "runtimePatches": [
            {"manager": f"example.com/{number}", "trainingRuntimeSpec": specs} for number in range(patches)
        ]
    }


def _environment(length: int, **value: object) -> list[Body]:
    return [{"name": f"VARIABLE_{number}", **(value or {"value": "a" * 20})} for number in range(length)]


_FULL_POD: Body = {
    "volumes": [{"name": f"volume-{number}", "emptyDir": {"sizeLimit": "1Mi"}} for number in range(128)],
    "containers": [
        {
            "name": "node",
            "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/{number}"} for number in range(128)],
        }
    ],
    "initContainers": [{"name": "init", "env": _environment(128)}],
}
"""A pod with as many volumes, mounts and variables as the schema of a TrainJob allows."""


def _two_full_patches() -> Body:
    """Return two patches with 128 different volumes each, the most that the schema of a TrainJob allows in a pod."""
    full, other = _patches(_FULL_POD, patches=2)["runtimePatches"]
    volumes = [{"name": f"other-{number}", "emptyDir": {"sizeLimit": "1Mi"}} for number in range(128)]
    job = {"name": "node", "template": {"spec": {"template": {"spec": {"volumes": volumes}}}}}
    return {
        "runtimePatches": [
            full, {**other, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}},
        ]
    }  # fmt: skip


_SECRET = {"valueFrom": {"secretKeyRef": {"name": "other", "key": "key"}}}
_ARGUMENT = 50 * 1024
"""Characters of an argument. Trainer 2.2 accepts at most 65536."""
_LARGEST: dict[str, Body] = {
    "128 variables and 128 arguments": _job(
        trainer={"env": _environment(128), "args": [f"--option-{number}=value" for number in range(128)]}
    ),
    "arguments of 200 KiB": _job(trainer={"command": ["bash", "-c", *["x" * _ARGUMENT] * 4]}),
    "a script of 60 KiB that reads a variable of the fabric": _job(
        trainer={"command": ["bash", "-c", "x" * 60 * 1024 + ' echo "$UCX_TLS" -mca']}
    ),
    "a patch with a full pod": _job(_patches(_FULL_POD)),
    "15 patches with full containers": _job(_patches({"initContainers": _FULL_POD["initContainers"]}, patches=15)),
    "2 patches with 128 volumes each": _job(_two_full_patches()),
    "256 labels": _job(metadata={"labels": {QUEUE_NAME: "default", **{f"key-{number}": "a" for number in range(255)}}}),
}


@pytest.mark.parametrize("name", _LARGEST)
@pytest.mark.usefixtures("large")
def test_the_largest_jobs_are_accepted(name: str, admin: Client) -> None:
    _member(admin).create(_LARGEST[name], dry_run=True)


_HOSTILE: dict[str, tuple[Body, str]] = {
    "30,000 labels": (
        _job(metadata={"labels": {QUEUE_NAME: "default", **{f"evil.com/{number}": "a" for number in range(30_000)}}}),
        "the TrainJob has 30001 labels, and this policy reads at most 256",
    ),
    "10,000 annotations": (
        _job(metadata={"annotations": {OWNER: "ada", **{f"evil.com/{number}": "a" for number in range(10_000)}}}),
        "the TrainJob has 10001 annotations, and this policy reads at most 256",
    ),
    "10,000 resources": (
        _job(trainer={"resourcesPerNode": {"limits": {f"evil.com/{number}": "1" for number in range(10_000)}}}),
        "lists over 256 resources|each worker pod of",  # of the rule requests or fabric
    ),
    "10,000 finalizers": (
        _job(metadata={"finalizers": [f"evil.com/{number}" for number in range(10_000)]}),
        "adds over 256 finalizers",
    ),
    "arguments of 900 KiB": (
        _job(trainer={"command": ["bash", "-c", *["x" * _ARGUMENT] * 18]}),
        "only in up to 65536; move the script",
    ),
    "1,500 pods with a node selector": (
        _job(_patches({"nodeSelector": {"example.com/rack": "a"}}, jobs=100, patches=15)),
        "selects nodes by|the rule placement rejects",
    ),
    "1,500 pods with a ServiceAccount": (
        _job(_patches({"serviceAccountName": "other"}, jobs=100, patches=15)),
        "sets serviceAccountName|the rule patches rejects",
    ),
    "15 patches with a full pod": (
        _job(_patches(_FULL_POD, patches=15)),
        "have the volume over 256 volumes, which Trainer merges",
    ),
    "64 containers with 128 Secrets each": (
        _job(_patches({"containers": [{"name": f"c-{n}", "env": _environment(128, **_SECRET)} for n in range(64)]})),
        "cannot use the Secret|the rule job-secrets rejects",
    ),
    "pods with 10,000 labels": (
        _job(_patches({}, metadata={"labels": {f"evil.com/{number}": "a" for number in range(10_000)}})),
        "cannot set the label|the rule metadata rejects",
    ),
}


@pytest.mark.parametrize("name", _HOSTILE)
@pytest.mark.usefixtures("large")
def test_too_large_jobs_are_rejected_with_a_clear_message(name: str, admin: Client) -> None:
    job, expected = _HOSTILE[name]
    with pytest.raises(RefusedError) as refused:
        _member(admin).create(job, dry_run=True)
    assert re.search(expected, refused.value.message), refused.value.message[-1000:]
    assert not _UNCLEAR.search(refused.value.message), refused.value.message[-1000:]


@pytest.mark.usefixtures("large")
def test_a_team_admin_binds_all_300_groups_at_once(admin: Client) -> None:
    _team_admin(admin).create(_role_binding([group.removeprefix("group:") for group in _GROUPS]), dry_run=True)


@pytest.mark.usefixtures("large")
def test_300_groups_outside_the_team_are_rejected_with_a_clear_message(admin: Client) -> None:
    with pytest.raises(RefusedError) as refused:
        _team_admin(admin).create(_role_binding([f"strangers-{number}" for number in range(300)]), dry_run=True)
    assert re.search(r"RoleBinding names group:strangers-0|the rule subjects rejects", refused.value.message)
    assert not _UNCLEAR.search(refused.value.message), refused.value.message[-1000:]


def _member(admin: Client) -> Client:
    return admin.as_person("ada", ("team-0", "system:authenticated"))


def _team_admin(admin: Client) -> Client:
    return admin.as_person("lead", ("leads-0", "system:authenticated"))


def _role_binding(groups: list[str]) -> Body:
    rbac = "rbac.authorization.k8s.io"
    subjects: list[dict[str, Any]] = [{"apiGroup": rbac, "kind": "Group", "name": name} for name in groups]
    return {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "many", "namespace": _TEAM},
        "subjects": subjects,
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "mpigen-view"},
    }
