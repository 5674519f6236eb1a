"""Test that Kueue treats jobs as the checks on changed flavors and priorities report."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cluster.changing import Changing, changing
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.training import conditions
from tests.cluster.trees import is_gone

pytestmark = pytest.mark.cluster

_KUEUE = "kueue.x-k8s.io/v1beta2"
_QUIET = 5  # seconds in which nothing happens that should not
_LABELS = {"nodeLabels": {"tests.mpigen.dev/changing": "elsewhere"}}
_TAINTS = {"nodeTaints": [{"key": "tests.mpigen.dev/new", "effect": "NoSchedule"}]}
_NO_TOLERATIONS = {"tolerations": None}


@pytest.fixture
def place(admin: Client, namespace: str) -> Iterator[Changing]:
    """A runtime, and a queue for its jobs."""
    yield from changing(admin, namespace)


def flavor(place: Changing) -> Body:
    return place.around[1]


def stays(place: Changing, pods: set[str], workload: Body) -> None:
    """Assert that a running job keeps its pods and its charge."""
    place.touch()
    time.sleep(_QUIET)
    assert place.running() == pods
    assert place.workload()["metadata"]["uid"] == workload["metadata"]["uid"]
    assert place.charged() == "32"


def refusal(place: Changing) -> str:
    """Return the reason why Kueue does not admit the job."""
    held = [each for each in conditions(place.workload()) if each["type"] == "QuotaReserved"]
    return "".join(each["message"] for each in held if each["status"] == "False")


def unscheduled(place: Changing) -> str:
    """Return the reason why pods of the job are unscheduled."""
    found = [each for pod in place.pods() for each in conditions(pod) if each["type"] == "PodScheduled"]
    return "".join(each["message"] for each in found if each["status"] == "False")


@pytest.mark.parametrize("change", [_LABELS, _TAINTS, _NO_TOLERATIONS], ids=["labels", "taints", "tolerations"])
def test_running_jobs_stay_when_their_flavor_changes(change: Body, place: Changing) -> None:
    place.submit()
    pods, workload = place.running(), place.workload()
    place.patch(flavor(place), change)
    stays(place, pods, workload)


@pytest.mark.parametrize(
    ("change", "said"),
    [(_LABELS, "node affinity/selector"), (_NO_TOLERATIONS, "untolerated taint")],
    ids=["labels", "tolerations"],
)
def test_pending_jobs_use_the_new_nodes_of_a_changed_flavor(change: Body, said: str, place: Changing) -> None:
    place.hold("Hold")
    place.submit()
    wait_until("Kueue counts it", lambda: bool(place.counted("node")))
    place.patch(flavor(place), change)
    place.hold("None")
    wait_until("it is admitted, and no node takes it", lambda: said in unscheduled(place))
    wait_until("it is charged", lambda: place.charged() == "32")


def test_pending_jobs_without_toleration_for_a_new_taint_never_start(place: Changing) -> None:
    place.hold("Hold")
    place.submit()
    wait_until("Kueue counts it", lambda: bool(place.counted("node")))
    place.patch(flavor(place), _TAINTS)
    place.hold("None")
    wait_until("Kueue says why", lambda: "untolerated taint" in refusal(place))


@pytest.fixture
def topology(admin: Client, place: Changing) -> Iterator[Changing]:
    """The place, with a Topology and a second flavor."""
    name = {"name": place.namespace}
    levels = [{"nodeLabel": "tests.mpigen.dev/changing"}]
    more = [
        {"apiVersion": _KUEUE, "kind": "Topology", "metadata": name, "spec": {"levels": levels}},
        {"apiVersion": _KUEUE, "kind": "ResourceFlavor", "metadata": {"name": f"{place.namespace}-more"}, "spec": {}},
    ]
    for body in more:
        admin.apply(body)
    yield place
    admin.delete(place.job)
    for body in (place.around[3], place.around[2], place.around[1], *more):
        admin.delete(body)
        wait_until(f"{body['kind']} is gone", lambda body=body: is_gone(admin, body))  # type: ignore[misc]


def with_two_flavors(place: Changing) -> Body:
    """Return the queue's spec with a second flavor that has no quota."""
    queue = place.around[2]
    group = queue["spec"]["resourceGroups"][0]
    nothing = [{**each, "nominalQuota": "0"} for each in group["flavors"][0]["resources"]]
    flavors = [*group["flavors"], {"name": f"{place.namespace}-more", "resources": nothing}]
    return {"resourceGroups": [{**group, "flavors": flavors}]}


def test_jobs_without_topology_request_wait_if_one_of_two_flavors_has_a_topology(topology: Changing) -> None:
    place = topology
    place.patch(place.around[2], with_two_flavors(place))
    place.submit()
    pods, workload = place.running(), place.workload()
    place.patch(flavor(place), {"topologyName": place.namespace})
    stays(place, pods, workload)
    place.admin.delete(place.job)
    wait_until("the job is gone", lambda: is_gone(place.admin, place.job) and not place.pods())
    place.submit()
    wait_until("Kueue says why", lambda: "supports only TopologyAwareScheduling" in refusal(place))


def test_jobs_are_admitted_if_all_flavors_get_a_topology(topology: Changing) -> None:
    place = topology
    place.hold("Hold")
    place.submit()
    wait_until("Kueue counts it", lambda: bool(place.counted("node")))
    place.patch(flavor(place), {"topologyName": place.namespace})
    place.hold("None")
    place.running()


@pytest.fixture
def priority(admin: Client, place: Changing) -> Iterator[Body]:
    """Return a WorkloadPriorityClass that does not exist yet."""
    name = {"name": place.namespace}
    body = {"apiVersion": _KUEUE, "kind": "WorkloadPriorityClass", "metadata": name, "value": 7}
    yield body
    admin.delete(body)


def with_priority(place: Changing) -> Body:
    """The TrainJob, which names the priority."""
    metadata = place.job["metadata"]
    labels = {**metadata["labels"], "kueue.x-k8s.io/priority-class": place.namespace}
    return {**place.job, "metadata": {**metadata, "labels": labels}}


def test_a_job_keeps_its_priority_after_its_priority_class_is_deleted(place: Changing, priority: Body) -> None:
    place.admin.create(priority)
    place.hold("Hold")
    wait_until("the TrainJob is taken", lambda: place.takes(with_priority(place)))
    assert place.workload()["spec"]["priority"] == 7
    place.admin.delete(priority)
    place.hold("None")
    pods, workload = place.running(), place.workload()
    stays(place, pods, workload)
    assert workload["spec"]["priority"] == 7


def test_a_job_with_a_missing_priority_class_is_never_queued_and_gets_no_event(place: Changing, priority: Body) -> None:
    wait_until("the TrainJob is taken", lambda: place.takes(with_priority(place)))
    wait_until("Trainer makes its JobSet", place.has_job_set)
    time.sleep(_QUIET)
    assert place.admin.items(_KUEUE, "Workload", place.namespace) == []
    assert [
        each for each in place.admin.items("v1", "Event", place.namespace) if place.namespace in each["message"]
    ] == []
    place.admin.create(priority)
    wait_until("the job runs", place.has_pods, 120)
