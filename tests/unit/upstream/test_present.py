"""Test that the workloads of an export stand for the same state of the cluster as the steps that led to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from generator.errors import NotModelledError
from generator.manifests import Body, Manifest
from generator.objects.queue import FlavorResource
from generator.upstream.kueue.admission import predict
from generator.upstream.kueue.configuration import Settings
from generator.upstream.kueue.present import read_present
from generator.upstream.kueue.workloads import Finished, Job, Outcome, State, Workload
from tests.unit.upstream.test_admission import FAIR, POLICIES, QUEUES, STEPS, job
from tests.unit.upstream.trees import door, flavor, queue, topology, tree

CPU = FlavorResource("f", "cpu")
DOORS = [door("team", name, name) for name in (*QUEUES, "q")]


def condition(kind: str, status: str = "True", reason: str = "", since: int = 0) -> Body:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": time(since)}


def time(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def workload(name: str, queue_name: str, cpu: int, *conditions: Body, created: int = 0, **fields: Any) -> Manifest:
    """Return a Workload of one pod. It holds its quota with the condition QuotaReserved."""
    template = {"spec": {"containers": [{"name": "node", "resources": {"requests": {"cpu": str(cpu)}}}]}}
    is_held = any(each["type"] == "QuotaReserved" and each["status"] == "True" for each in conditions)
    assigned = {"name": "node", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": str(cpu)}, "count": 1}
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"trainjob-{name}",
            "namespace": "team",
            "uid": name,
            "creationTimestamp": time(created),
            "ownerReferences": [{"kind": "TrainJob", "name": name}],
        },
        "spec": {
            "queueName": queue_name,
            "priority": fields.pop("priority", 0),
            "podSets": [{"name": "node", "count": 1, "template": template}],
            **fields.pop("spec", {}),
        },
        "status": {
            "conditions": [*conditions],
            **({"admission": {"clusterQueue": queue_name, "podSetAssignments": [assigned]}} if is_held else {}),
            **fields,
        },
    }
    return Manifest(body, "export.yaml")


def holding(since: int = 0) -> Body:
    return condition("QuotaReserved", since=since)


def exported(queues: list[Manifest], workloads: list[Manifest]) -> list[Manifest]:
    """Return the Workloads, and the queues with the quota that the Workloads hold in their status."""
    found = []
    for item in queues:
        total = sum(
            int(each.body["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]["cpu"])
            for each in workloads
            if each.body["status"].get("admission", {}).get("clusterQueue") == item.name
        )
        status = {"flavorsReservation": [{"name": "f", "resources": [{"name": "cpu", "total": str(total)}]}]}
        found.append(replace(item, body={**item.body, "status": status}))
    return [*found, *workloads]


def read(*workloads: Manifest, jobs: tuple[str, ...] = ()) -> list[Workload]:
    spec = queue("q", {"f/cpu": "9"})
    return read_present(exported([spec], [*workloads]), [], tree(spec, *DOORS), ["q"], jobs)


def test_workloads_have_their_quota_and_their_order() -> None:
    found = read(
        workload("late", "q", 2, holding(50), created=9),
        workload("early", "q", 3, holding(60), created=3),
        workload("waits", "q", 4, condition("QuotaReserved", "False", "Pending"), created=5, priority=7),
    )
    assert [(each.job.name, each.usage, each.admitted, each.number) for each in found] == [
        ("team/early", {CPU: 3000}, 2, 0),
        ("team/waits", {}, 0, 1),
        ("team/late", {CPU: 2000}, 1, 2),
    ]
    assert found[1].job.priority == 7
    assert found[1].job.podsets[0].requests == {"cpu": 4000}


@pytest.mark.parametrize(
    "ignored",
    [
        workload("done", "q", 4, condition("Finished")),
        workload("held", "q", 4, spec={"active": False}),
        workload("gated", "q", 4, condition("QuotaReserved", "False", "AdmissionGated")),
        workload("later", "q", 4, condition("Requeued", "False", "Backoff")),
        workload("replaced", "q", 4, condition("WaitingForReplacementPods")),
        workload("elsewhere", "a", 4),
    ],
    ids=lambda item: item.name,
)
def test_workloads_that_kueue_does_not_try_are_left_out(ignored: Manifest) -> None:
    assert [each.job.name for each in read(ignored, workload("waits", "q", 1))] == ["team/waits"]


def test_an_evicted_workload_waits_since_its_eviction() -> None:
    late = workload("late", "q", 1, condition("Evicted", reason="PodsReadyTimeout", since=9), created=1)
    assert [each.job.name for each in read(late, workload("other", "q", 1, created=5))] == ["team/other", "team/late"]


def test_a_job_that_the_cluster_has_has_no_answer() -> None:
    with pytest.raises(NotModelledError, match="--usage has a Workload of `team/mine` already"):
        read(workload("mine", "q", 1, holding()), jobs=("team/mine",))


def test_a_workload_of_an_unknown_queue_has_no_answer() -> None:
    with pytest.raises(NotModelledError, match="no file has the LocalQueue `team/fast` of `team/one`"):
        read(workload("one", "fast", 1))
    spec = queue("q", {"f/cpu": "9"})
    export = [*exported([spec], [workload("one", "fast", 1)]), *DOORS]  # all LocalQueues: Kueue ignores the Workload
    assert read_present(export, [], tree(spec, *DOORS), ["q"], ()) == []


def test_a_new_job_comes_after_all_workloads_of_the_export() -> None:
    """StrictFIFO queues try an older job first."""
    spec = queue("q", {"f/cpu": "9"}, queueingStrategy="StrictFIFO")
    idle = [workload(f"idle-{number}", "q", 1, spec={"active": False}) for number in range(3)]
    items = [*idle, workload("running", "q", 5, holding(), created=1), workload("first", "q", 8, created=2)]
    queues = tree(spec, *DOORS)
    present = read_present(exported([spec], items), [], queues, ["q"], ())
    found = predict(queues, [job("team/new", "q", 2)], present=present)["team/new"]
    assert (found.state, found.before) == (State.WAITS, ("team/first",))


def test_the_smallest_uid_of_one_second_is_preempted_first() -> None:
    spec = queue("q", {"f/cpu": "4"}, preemption={"withinClusterQueue": "LowerPriority"})
    items = [workload(name, "q", 2, holding(30), created=number) for number, name in enumerate(("b", "a", "c"))][:2]
    queues = tree(spec, *DOORS)
    present = read_present(exported([spec], items), [], queues, ["q"], ())
    found = predict(queues, [job("team/new", "q", 2, 5)], present=present)
    assert [name for name, each in found.items() if each.was_preempted] == ["team/a"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"status": {"pendingWorkloads": 2}}, "`q` has 2 pending Workloads, and --usage has 1"),
        ({"status": {"flavorsReservation": []}}, "hold 2 cpu of flavor `f`, and its status has 0"),
        ({"status": {"conditions": [condition("Active", "False", "FlavorNotFound")]}}, "`q` is inactive for a reason"),
        ({"metadata": {"deletionTimestamp": time(0)}}, "ClusterQueue `q` is being deleted"),
        ({"spec": {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}}, "by past usage"),
    ],
    ids=["pending", "held", "inactive", "deleted", "scope"],
)
def test_a_queue_that_differs_from_its_workloads_has_no_answer(change: Body, told: str) -> None:
    spec = queue("q", {"f/cpu": "9"})
    export = exported([spec], [workload("one", "q", 2, holding()), workload("two", "q", 8)])
    body = export[0].body
    export[0] = replace(export[0], body={**body, **{key: {**body[key], **value} for key, value in change.items()}})
    with pytest.raises(NotModelledError, match=told):
        read_present(export, [], tree(spec, *DOORS), ["q"], ())


def test_workloads_that_no_queue_counts_do_not_stand_for_missing_ones() -> None:
    spec = queue("q", {"f/cpu": "9"})
    others = [
        workload("idle", "q", 1, spec={"active": False}),
        workload("later", "q", 1, condition("Requeued", "False")),
    ]
    for pending, is_whole in ((1, True), (2, False)):  # Kueue counts `later` alone
        export = exported([spec], others)
        export[0].body["status"]["pendingWorkloads"] = pending
        if is_whole:
            assert read_present(export, [], tree(spec, *DOORS), ["q"], ()) == []
        else:
            with pytest.raises(NotModelledError, match="has 2 pending Workloads, and --usage has 1"):
                read_present(export, [], tree(spec, *DOORS), ["q"], ())


def test_a_configuration_that_blocks_admission_has_no_answer() -> None:
    spec = queue("q", {"f/cpu": "9"})
    blocking = replace(tree(spec, *DOORS), settings=Settings(blocks=True))
    for conditions, is_blocked in (((holding(),), True), ((holding(), condition("PodsReady")), False)):
        export = exported([spec], [workload("one", "q", 2, *conditions)])
        if is_blocked:
            with pytest.raises(NotModelledError, match="until the pods of `team/one` are ready"):
                read_present(export, [], blocking, ["q"], ())
        else:
            assert read_present(export, [], blocking, ["q"], ())


def test_pods_that_ended_hold_no_quota() -> None:
    body = workload("half", "q", 8, holding())
    pods = body.body["status"]["admission"]["podSetAssignments"][0]
    pods |= {"count": 4}
    body.body["spec"]["podSets"][0]["count"] = 4
    body.body["status"]["reclaimablePods"] = [{"name": "node", "count": 3}]
    spec = queue("q", {"f/cpu": "9"})
    export = exported([spec], [body])
    export[0].body["status"]["flavorsReservation"][0]["resources"][0]["total"] = "2"
    (found,) = read_present(export, [], tree(spec, *DOORS), ["q"], ())
    assert found.usage == {CPU: 2000}


@pytest.mark.parametrize(
    "assignment",
    [
        {"domains": [{"values": ["n1"], "count": 2}, {"values": ["n2"], "count": 1}]},
        {
            "slices": [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"individual": {"prefix": "n", "roots": ["1", "2"]}}],
                    "podCounts": {"individual": [2, 1]},
                }
            ]
        },
        {
            "slices": [
                {"domainCount": 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 2}},
                {
                    "domainCount": 1,
                    "valuesPerLevel": [{"individual": {"roots": ["n2"]}}],
                    "podCounts": {"universal": 1},
                },
            ]
        },
    ],
    ids=["v1beta1", "individual", "universal"],
)
def test_pods_occupy_the_nodes_of_their_topology_assignment(assignment: Body) -> None:
    item = workload("placed", "q", 3, holding())
    item.body["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = assignment
    (found,) = read(item)
    assert [(each.flavor, each.key, each.count) for each in found.occupancies] == [("f", ("n1",), 2), ("f", ("n2",), 1)]


def test_an_incomplete_export_has_no_answer() -> None:
    spec = queue("q", {"f/cpu": "9"}, "c")
    other = queue("a", {"f/cpu": "9"}, "c")
    held = workload("one", "q", 2, holding())
    export = exported([spec, other], [held])
    queues = tree(spec, other, *DOORS)
    assert len(read_present(export, [], queues, ["q"], ())) == 1
    lacking = {
        "--usage has no ClusterQueue `a` with its status": [export[0], held],
        "`q` in --usage hold 0 cpu of flavor `f`, and its status has 2": export[:2],
        "Kueue is stopping `team/two`": exported(
            [spec, other], [workload("two", "a", 1, holding(), condition("Evicted"))]
        ),
    }
    for message, part in lacking.items():
        with pytest.raises(NotModelledError, match=message):
            read_present(part, [], queues, ["q"], ())


def test_a_topology_needs_the_nodes_and_the_pods() -> None:
    specs = [topology("racks", "rack"), flavor("f", topologyName="racks"), queue("q", {"f/cpu": "9"})]
    queues, export = tree(*specs, *DOORS), exported(specs[2:], [])
    node, pod = (
        Manifest({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}}, "") for kind in ("Node", "Pod")
    )
    for part, kind in ((export, "Node"), ([*export, node], "Pod")):
        with pytest.raises(NotModelledError, match=f"places pods of flavor `f` by topology, and --usage has no {kind}"):
            read_present(part, [], queues, ["q"], ())
    assert read_present([*export, node, pod], [], queues, ["q"], ()) == []


def test_a_state_that_kueue_would_change_has_no_answer() -> None:
    spec = queue("q", {"f/cpu": "9"})
    queues = tree(spec, *DOORS)
    present = read_present(exported([spec], [workload("free", "q", 2)]), [], queues, ["q"], ())
    with pytest.raises(NotModelledError, match="`team/free` would be admitted at once"):
        predict(queues, [job("new", "q", 1)], present=present)


@given(STEPS, st.lists(POLICIES, min_size=3, max_size=3), st.sampled_from([(), FAIR]))
@settings(max_examples=150, deadline=None)
def test_a_job_has_the_same_outcome_after_the_steps_and_after_their_export(
    steps: list[Any], policies: list[dict[str, str]], strategies: tuple[str, ...]
) -> None:
    specs = [queue(n, {"f/cpu": ("3", "4")}, "c", preemption=p) for n, p in zip(QUEUES, policies, strict=True)]
    queues = tree(*specs, *DOORS)
    sent: list[Job | Finished] = []
    for number, step in enumerate(steps):
        names = [each.name for each in sent if isinstance(each, Job) and Finished(each.name) not in sent]
        if isinstance(step, tuple):
            sent.append(replace(job(f"team/j{number}", *step), namespace=""))
        elif names:
            sent.append(Finished(names[step % len(names)]))
    assume(sent and isinstance(sent[-1], Job))
    try:
        since = admissions(queues, sent[:-1], strategies)
        before, after = predict(queues, sent[:-1], strategies), predict(queues, sent, strategies)
    except NotModelledError:
        assume(False)
    workloads = [
        workload(
            each.name.removeprefix("team/"),
            each.queue,
            each.podsets[0].requests["cpu"] // 1000,
            *held(since, each.name),
            created=number,
            priority=each.priority,
        )
        for number, each in enumerate(sent[:-1])
        if isinstance(each, Job) and before[each.name].state is not State.FINISHED
    ]
    present = read_present(exported(specs, workloads), [], queues, ["a"], ())
    try:
        found = predict(queues, [sent[-1]], strategies, present=present)
    except NotModelledError:  # an attempt is repeated that Kueue does not repeat
        assume(False)
    assert {name: outcome.state for name, outcome in found.items()} == {
        name: outcome.state for name, outcome in after.items() if name in found
    }


def held(since: Mapping[str, int], name: str) -> list[Body]:
    return [holding(since[name])] if name in since else []


def admissions(queues: Any, steps: list[Job | Finished], strategies: tuple[str, ...]) -> dict[str, int]:
    """Return running job → the number of the step that admitted it. Steps that admit two jobs have no single order."""
    since: dict[str, int] = {}
    for number in range(1, len(steps) + 1):
        found: Mapping[str, Outcome] = predict(queues, steps[:number], strategies)
        running = {name for name, outcome in found.items() if outcome.state is State.ADMITTED}
        assume(len(running - since.keys()) <= 1)
        since = {name: since.get(name, number) for name in running}
    return since
