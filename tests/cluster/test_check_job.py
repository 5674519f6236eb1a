"""Test that `mpigen check-job` decides about TrainJobs as a real control plane does."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial

import pytest

from tests.cluster import trees
from tests.cluster.argocd_order import in_order
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.training import JOB, conditions
from tests.verdicts import Answer, Case, Verdicts, disagreements, read_verdicts, record

pytestmark = pytest.mark.cluster
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_KUEUE = "kueue.x-k8s.io/v1beta2"
_STILL = 3.0
"""Seconds in which no object changes until all controllers are done."""
_STILL_WITHOUT_PODS = 15.0
"""Seconds in which no JobSet gets pods until the other JobSets never get them."""
_STATE = ((_TRAINER, "TrainJob"), (_KUEUE, "Workload"), ("jobset.x-k8s.io/v1alpha2", "JobSet"))
Key = tuple[str, str]
"""Namespace and name of a TrainJob."""


def deploy(admin: Client, verdicts: Verdicts) -> trees.Deployed:
    """Apply the release and the other objects, wait until Kueue opens the queues, and return the release."""
    deployed = trees.deploy(admin, verdicts.platform, in_order(list(verdicts.release)), admin)
    for body in verdicts.objects:
        admin.apply(body, "tests")
        if body["kind"] == "ResourceQuota":  # the API server enforces only the status
            wait_until("the quota has a status", partial(_is_enforced, admin, body))
    queue = {"apiVersion": _KUEUE, "kind": "LocalQueue", "metadata": {"name": "default", "namespace": "verdicts-bare"}}
    wait_until("the queue is active", lambda: _holds(admin.read(queue), "Active"))
    return deployed


def _is_enforced(admin: Client, quota: Body) -> bool:
    return bool(admin.read(quota).get("status", {}).get("hard"))


def answers(cluster: Cluster, verdicts: Verdicts) -> dict[str, Answer]:
    """Submit all TrainJobs, and return name → answer of the control plane."""
    admin, found, created = cluster.admin, dict[str, Answer](), dict[Key, Case]()
    for number in range(max(map(len, verdicts.groups))):
        for case in (group[number] for group in verdicts.groups if number < len(group)):
            if refusal := _create(admin, case):
                found[case.name] = Answer("rejected", refusal)
            else:
                created[_key(case.body)] = case
        _settle(admin)
    _wait_for_pods(admin, created)
    seen = _look(cluster, created)
    later = _admitted_later(admin, created, seen)
    for key, case in created.items():
        verdict, reason = seen[key]
        found[case.name] = Answer("waits" if verdict == "never" and key in later else verdict, reason)
    return found


@pytest.fixture(scope="module")
def real(
    cluster: Cluster, pytestconfig: pytest.Config, on_the_cluster: list[trees.Deployed]
) -> Iterator[Mapping[str, Answer]]:
    """Yield name → answer of the control plane, with the release in place of an example."""
    if cluster.versions.name != "default":
        pytest.skip("mpigen refuses the topology of this platform for Kueue 0.18")
    trees.remove_all(cluster.admin, on_the_cluster)
    verdicts = read_verdicts()
    deployed = deploy(cluster.admin, verdicts)
    found = answers(cluster, verdicts)
    if pytestconfig.getoption("--record"):
        record(found)
    yield found
    for body in reversed(verdicts.objects):
        cluster.admin.delete(body)
    trees.remove(cluster.admin, deployed)


@pytest.mark.parametrize("group", read_verdicts().groups, ids=lambda group: group[0].name)
def test_the_control_plane_decides_as_check_job_predicts(real: Mapping[str, Answer], group: tuple[Case, ...]) -> None:
    assert [*disagreements(group, real, read_verdicts())] == []


def _create(admin: Client, case: Case) -> str:
    """Create a TrainJob as its user, and return the refusal, or an empty string."""
    client = admin.as_person(case.user[0], case.user[1:]) if case.user else admin
    try:
        client.create(case.body)
    except RefusedError as refused:
        return refused.message
    return ""


def _settle(admin: Client) -> None:
    since, before = time.monotonic(), _states(admin)

    def is_still() -> bool:
        nonlocal since, before
        now = _states(admin)
        if now != before:
            since, before = time.monotonic(), now
        time.sleep(0.5)
        return time.monotonic() - since > _STILL

    wait_until("all controllers are done", is_still, 180)


def _wait_for_pods(admin: Client, created: Mapping[Key, Case]) -> None:
    """Wait until each running JobSet has all its pods or an error, or until no further JobSet gets them.

    JobSet creates the Jobs of many JobSets one after the other, while the states of all other objects are still.
    """
    since, before = time.monotonic(), {*created}
    while before and time.monotonic() - since < _STILL_WITHOUT_PODS:
        now = {*_find_without_pods(admin, created)}
        if now != before:
            since, before = time.monotonic(), now
        time.sleep(1)


def _find_without_pods(admin: Client, created: Mapping[Key, Case]) -> Iterator[Key]:
    events = [event for event in admin.items("v1", "Event") if event["type"] == "Warning"]
    pods = _count_pods(admin)
    for item in admin.items("jobset.x-k8s.io/v1alpha2", "JobSet"):
        key, is_running = _key(item), item["spec"].get("suspend") is not True
        if key in created and is_running and pods[key] < _size(item) and not _are_errors([*_messages(events, key)]):
            yield key


def _states(admin: Client) -> list[object]:
    """Return the states of all objects; Kueue retries a workload that cannot run, and writes the same conditions."""
    return [
        (
            item["metadata"]["uid"],
            item.get("spec", {}).get("suspend"),
            [(c["type"], c["status"]) for c in conditions(item)],
        )
        for kind in _STATE
        for item in admin.items(*kind)
    ]


def _look(cluster: Cluster, created: Mapping[Key, Case]) -> dict[Key, Answer]:
    """Return the answers for TrainJobs that the API server accepted."""
    admin = cluster.admin
    workloads = {_owner(item): item for item in admin.items(_KUEUE, "Workload")}
    events = [event for event in admin.items("v1", "Event") if event["type"] == "Warning"]
    jobs = {_key(item): item for item in admin.items(_TRAINER, "TrainJob")}
    sets = {_key(item): item for item in admin.items("jobset.x-k8s.io/v1alpha2", "JobSet")}
    pods = _count_pods(admin)
    found = {}
    for key in created:
        warnings = [*_messages(events, key)]
        answer = _answer(jobs[key], key in sets, workloads.get(key), warnings, cluster)
        is_refused = _are_errors(warnings) or not pods[key]  # the API server stores no event of over 1 KiB
        is_broken = answer.verdict == "admitted" and is_refused and pods[key] < _size(sets[key])
        found[key] = Answer("rejected", "; ".join(warnings)) if is_broken else answer
    return found


def _count_pods(admin: Client) -> Counter[Key]:
    return Counter(
        (item["metadata"]["namespace"], item["metadata"].get("labels", {}).get(JOB))
        for item in admin.items("v1", "Pod")
    )


def _size(job_set: Body) -> int:
    """Return the number of pods of a JobSet."""
    jobs = job_set["spec"]["replicatedJobs"]
    return sum(item.get("replicas", 1) * item["template"]["spec"].get("parallelism", 1) for item in jobs)


def _answer(job: Body, has_job_set: bool, workload: Body | None, warnings: list[str], cluster: Cluster) -> Answer:
    status = {item["type"]: item for item in conditions(workload or {})}
    failed = [item["message"] for item in conditions(job) if item["type"] == "Failed" and item["status"] == "True"]
    if failed or not has_job_set:
        return Answer("rejected", "; ".join([*failed, *warnings]))
    if workload is None and job["spec"].get("suspend") is not True:
        return Answer("admitted", "no Workload")
    if workload is None:
        reason = "; ".join(_log(cluster, job))
        return Answer("rejected" if "denied the request" in reason else "never", reason)
    if status.get("Admitted", {}).get("status") != "True":
        return Answer("never", "; ".join([status.get("QuotaReserved", {}).get("message", ""), *warnings]))
    if job["spec"].get("suspend") is True:
        return Answer("rejected", "; ".join([*_log(cluster, job), *warnings]))
    return Answer("admitted")


def _are_errors(warnings: list[str]) -> bool:
    """Return True if the API server rejected pods or an update of the JobSet at least once."""
    return any("Error creating" in warning or "is invalid" in warning or "forbidden" in warning for warning in warnings)


def _log(cluster: Cluster, job: Body) -> Iterator[str]:
    """Yield the last error of Kueue about a TrainJob without a Workload, or with a suspended one."""
    text = cluster.processes.log("kueue").read_text(errors="replace")
    lines = [line for line in text.splitlines() if f'"{job["metadata"]["name"]}"' in line and '"error"' in line]
    yield from (match[1] for line in lines[-1:] if (match := re.search(r'"error": ?"((?:[^"\\]|\\.)*)"', line)))


def _messages(events: list[Body], key: Key) -> Iterator[str]:
    namespace, name = key
    for event in events:
        about = event["involvedObject"]
        mine = about["name"] == name or re.fullmatch(rf"{re.escape(name)}-[a-z-]+-\d+", about["name"])
        if about.get("namespace") == namespace and about["kind"] in ("TrainJob", "JobSet", "Job") and mine:
            yield event["message"]


def _admitted_later(admin: Client, created: Mapping[Key, Case], seen: Mapping[Key, Answer]) -> set[Key]:
    """Delete running TrainJobs until Kueue admits no others, and return the TrainJobs that Kueue admitted later."""
    running, pending, later = (
        {key for key in seen if seen[key].verdict != "never"},
        {key for key in seen if seen[key].verdict == "never"},
        set[Key](),
    )
    while running:
        for key in running:
            admin.delete(created[key].body)
        wait_until("they are gone", partial(_are_gone, admin, running))
        time.sleep(_STILL)
        _settle(admin)
        admitted = {_owner(item) for item in admin.items(_KUEUE, "Workload") if _holds(item, "Admitted")}
        running = admitted & pending
        later |= running
        pending -= running
    return later


def _are_gone(admin: Client, keys: AbstractSet[Key]) -> bool:
    return not keys & {_key(job) for job in admin.items(_TRAINER, "TrainJob")}


def _holds(body: Body, condition: str) -> bool:
    return any(item["type"] == condition and item["status"] == "True" for item in conditions(body))


def _key(body: Body) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _owner(workload: Body) -> Key:
    return workload["metadata"]["namespace"], workload["metadata"]["ownerReferences"][0]["name"]
