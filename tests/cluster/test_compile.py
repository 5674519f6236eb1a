"""Test that compiled TrainJobs equal the objects that the real Trainer, JobSet and Job controllers create."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from generator.manifests import Manifest
from generator.objects.fields import mappings
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.compiling import (
    NAMESPACE,
    REJECTED,
    Case,
    Objects,
    cases,
    changed,
    differences,
    normal_forms,
    record,
    without_shared_service,
)

pytestmark = pytest.mark.cluster
_KINDS = {
    "v1": ("ConfigMap", "Secret", "Service", "Pod"),
    "batch/v1": ("Job",),
    "jobset.x-k8s.io/v1alpha2": ("JobSet",),
}
_SECONDS = 150
_RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class Watch:
    """The objects in the namespace, each as it is when it appears, before a controller changes it."""

    def __init__(self, admin: Client) -> None:
        self._admin = admin
        self.seen: dict[tuple[str, str], Body] = {}

    def read(self) -> None:
        """Add new objects."""
        for api_version, kinds in _KINDS.items():
            for kind in kinds:
                for item in self._admin.items(api_version, kind, NAMESPACE):
                    body = {"apiVersion": api_version, "kind": kind, **item}
                    self.seen.setdefault((kind, item["metadata"]["name"]), body)

    def of(self, kind: str) -> list[Body]:
        """Return the objects of a kind."""
        return [body for (other, _), body in self.seen.items() if other == kind]

    def start(self, finished: frozenset[str]) -> None:
        """Make all pods ready, as a kubelet would. Pods of the replicated jobs `finished` succeed."""
        for pod in self._admin.items("v1", "Pod", NAMESPACE):
            role = pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]
            status: Body = {"phase": "Succeeded"} if role in finished else _RUNNING
            is_known = ("Pod", pod["metadata"]["name"]) in self.seen
            if is_known and pod["status"].get("phase") != status["phase"]:
                path = self._admin.path_of({"apiVersion": "v1", "kind": "Pod", **pod})
                self._admin.request("PATCH", f"{path}/status", {"status": status}, "application/merge-patch+json")

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the objects that the real JobSets and Jobs announce and that did not appear yet."""
        sets = {body["metadata"]["name"]: body for body in self.of("JobSet")}
        lacking = [f"JobSet {name}" for name in names if name not in sets]
        for name, body in sets.items():
            for each in body["spec"]["replicatedJobs"]:
                jobs = [f"{name}-{each['name']}-{index}" for index in range(each["replicas"])]
                lacking += [f"Job {job}" for job in jobs if ("Job", job) not in self.seen]
        for job in self.of("Job"):
            pods = [pod for pod in self.of("Pod") if pod["metadata"]["labels"]["job-name"] == job["metadata"]["name"]]
            if len(pods) < job["spec"]["parallelism"]:
                lacking.append(f"pods of {job['metadata']['name']}")
        return lacking

    def objects(self, name: str) -> list[Body]:
        """Return the objects of a TrainJob."""
        owners, found = {("TrainJob", name)}, list[Body]()
        for _ in range(3):
            for key, body in self.seen.items():
                owner = next(iter(mappings(body["metadata"].get("ownerReferences"))), {})
                if (owner.get("kind"), owner.get("name")) in owners and body not in found:
                    found.append(body)
                    owners.add(key)
        return found


@pytest.fixture(scope="module")
def release(cluster: Cluster) -> str:
    """Return the name of the set of releases."""
    return cluster.versions.name


@pytest.fixture(scope="module")
def submitted(cluster: Cluster, release: str) -> Iterator[dict[str, Case]]:
    """Submit every TrainJob, and remove all of them afterwards."""
    admin, found = cluster.admin, dict(cases(release))
    place = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    wait_until("the namespace is free", lambda: not admin.exists(place))
    admin.create(place)
    account: Body = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": NAMESPACE},
    }
    wait_until("the namespace has its account", lambda: admin.exists(account))
    for name in ("mpi", "other"):
        admin.create({**account, "metadata": {"name": name, "namespace": NAMESPACE}})
    runtimes = {case.runtime.name: case.runtime for case in found.values()}
    assert list(_refused(admin, runtimes.values())) == []
    assert list(_refused(admin, (case.job for case in found.values()))) == []
    yield found
    for pod in admin.items("v1", "Pod", NAMESPACE):
        path = admin.path_of({"apiVersion": "v1", "kind": "Pod", **pod})
        admin.request("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    admin.delete(place)


def _refused(admin: Client, manifests: Iterable[Manifest]) -> Iterator[str]:
    """Create objects, and yield the message of each refusal."""
    for manifest in manifests:
        try:
            admin.create(manifest.body)
        except RefusedError as refused:
            yield f"{manifest.resource}: {refused.message}"


@pytest.fixture(scope="module")
def real(cluster: Cluster, release: str, submitted: dict[str, Case], pytestconfig: pytest.Config) -> dict[str, Objects]:
    """Return case → the objects that the controllers create, in normal form."""
    watch = Watch(cluster.admin)
    finished = frozenset({"dataset-initializer", "model-initializer"})

    def everything() -> bool | None:
        watch.read()
        watch.start(finished)
        lacking = watch.missing(submitted)
        return None if lacking else True

    try:
        wait_for("all objects of the TrainJobs", everything, _SECONDS)
    except TimeoutError:
        pytest.fail(f"missing: {watch.missing(submitted)}")
    found = {name: normal_forms(watch.objects(name), release) for name in submitted}
    if pytestconfig.getoption("--record"):
        record(release, found)
    return found


def test_compiled_objects_equal_the_real_objects(
    real: dict[str, Objects], submitted: dict[str, Case], release: str
) -> None:
    wrong = {name: found for name, case in submitted.items() if (found := _differences(real[name], case, release))}
    assert wrong == {}


@pytest.mark.parametrize("name", REJECTED)
def test_a_rejected_train_job_gets_no_workers(admin: Client, release: str, namespace: str, name: str) -> None:
    case, place, value = REJECTED[name]
    rejected = changed(cases(release)[case], place, value, namespace)
    refused = list(_refused(admin, (rejected.runtime, rejected.job)))
    if not refused:
        wait_until("a controller reports the failure", lambda: _failures(admin, namespace), _SECONDS)
    jobs = [job["metadata"]["name"] for job in admin.items("batch/v1", "Job", namespace)]
    assert f"{rejected.job.name}-node-0" not in jobs


def _failures(admin: Client, namespace: str) -> bool:
    reasons = {event["reason"] for event in admin.items("v1", "Event", namespace)}
    return bool(reasons & {"JobCreationFailed", "TrainJobResourcesCreationFailed"})


def _differences(real: Objects, case: Case, release: str) -> list[str]:
    ours = normal_forms(case.compiled(release).objects, release)
    return list(differences(real, without_shared_service(ours, real)))
