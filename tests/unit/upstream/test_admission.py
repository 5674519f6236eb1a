"""Test scenarios that are computed by hand from Kueue's rules: admitted, pending and preempted jobs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from generator.errors import NotModelledError, SimulationError
from generator.manifests import Manifest
from generator.objects.queue import FlavorResource
from generator.upstream.kueue.admission import predict, would_admit
from generator.upstream.kueue.podsets import PodSet, podsets
from generator.upstream.kueue.queues import QueueTree
from generator.upstream.kueue.workloads import Finished, Job, Outcome, State
from tests.unit.upstream.runtimes import mpi
from tests.unit.upstream.trees import cohort, flavor, queue, topology, tree

FAIR = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
RECLAIM = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def job(name: str, queue_name: str, cpu: int, priority: int = 0, **wishes: Any) -> Job:
    """Return a job with one pod of so many cores."""
    return Job(name, queue_name, (PodSet("node", 1, {"cpu": cpu * 1000}, **wishes),), priority)


def states(found: Mapping[str, Outcome]) -> dict[str, str]:
    return {name: each.state.value + ("!" if each.was_preempted else "") for name, each in found.items()}


def run(*steps: Job | Finished | Manifest, strategies: tuple[str, ...] = ()) -> dict[str, str]:
    """Return job → state, with `!` if the job was preempted."""
    queues = tree(*(each for each in steps if isinstance(each, Manifest)))
    return states(predict(queues, [each for each in steps if not isinstance(each, Manifest)], strategies))


def pair(**spec: Any) -> tuple[Manifest, Manifest]:
    """Return two queues with 4 cores each that lend each other everything."""
    return queue("a", {"f/cpu": "4"}, "c", **spec), queue("b", {"f/cpu": "4"}, "c", **spec)


def test_jobs_are_admitted_while_quota_is_free() -> None:
    found = run(queue("q", {"f/cpu": "4"}), job("one", "q", 3), job("two", "q", 2), job("three", "q", 1))
    assert found == {"one": "admitted", "two": "waits", "three": "admitted"}


def test_strict_fifo_blocks_jobs_behind_the_first() -> None:
    strict = queue("q", {"f/cpu": "4"}, queueingStrategy="StrictFIFO")
    found = run(strict, job("one", "q", 3), job("two", "q", 2), job("three", "q", 1))
    assert found == {"one": "admitted", "two": "waits", "three": "waits"}


def test_pending_jobs_are_admitted_after_quota_is_released() -> None:
    jobs = (job("one", "q", 4), job("old", "q", 3), job("new", "q", 3), job("high", "q", 3, 5))
    assert run(queue("q", {"f/cpu": "4"}), *jobs, Finished("one"))["high"] == "admitted"
    found = run(queue("q", {"f/cpu": "4"}), *jobs[:3], Finished("one"))
    assert found == {"one": "finished", "old": "admitted", "new": "waits"}


def test_jobs_that_can_never_fit_differ_from_pending_jobs() -> None:
    queues = tree(queue("a", {"f/cpu": ("4", "2")}, "c"), queue("b", {"f/cpu": "4"}, "c"))
    found = predict(queues, [job("big", "a", 7), job("first", "a", 6), job("second", "a", 1)])
    assert states(found) == {"big": "never", "first": "admitted", "second": "waits"}
    assert found["big"].reason == "with `node` the job needs 7 cpu of flavor `f`, and `a` never gets more than 6"
    assert found["second"].reason == "with `node` the job needs 1 cpu of flavor `f`, and 0 is free"
    assert (found["first"].borrows, found["first"].flavors) == (True, {"node": {"cpu": "f"}})


def test_a_queue_reclaims_its_quota() -> None:
    found = predict(tree(*pair(preemption=RECLAIM)), [job("wide", "a", 8), job("own", "b", 4)])
    assert states(found) == {"wide": "waits!", "own": "admitted"}
    assert found["wide"].history == ("admitted", "preempted by own")


@pytest.mark.parametrize(
    ("policy", "priority", "expected"),
    [
        ("Any", 0, "admitted"),
        ("LowerPriority", 0, "waits"),
        ("LowerPriority", 1, "admitted"),
        ("Never", 9, "waits"),
    ],
)
def test_the_reclaim_policy_limits_preemption_by_priority(policy: str, priority: int, expected: str) -> None:
    found = run(*pair(preemption={"reclaimWithinCohort": policy}), job("wide", "a", 8), job("own", "b", 4, priority))
    assert found["own"] == expected


def test_a_queue_reclaims_no_more_than_its_quota() -> None:
    found = run(*pair(preemption=RECLAIM), job("wide", "a", 6), job("own", "b", 5, 9))
    assert found == {"wide": "admitted", "own": "waits"}


def test_only_needed_jobs_are_preempted_and_the_last_admitted_first() -> None:
    small = [job(f"a{number}", "a", 2) for number in range(4)]
    found = run(*pair(preemption=RECLAIM), *small, job("own", "b", 2))
    assert found == {"a0": "admitted", "a1": "admitted", "a2": "admitted", "a3": "waits!", "own": "admitted"}


def test_jobs_with_lower_priority_are_preempted_first() -> None:
    jobs = (job("low", "a", 4, -1), job("late", "a", 4), job("own", "b", 4))
    assert run(*pair(preemption=RECLAIM), *jobs) == {"low": "waits!", "late": "admitted", "own": "admitted"}


def test_a_candidate_that_need_not_be_preempted_stays() -> None:
    """Preempting the job of 1 makes no room for the job of 4, but preempting the job of 6 alone does."""
    jobs = (job("large", "a", 6), job("small", "a", 1), job("own", "b", 4))
    assert run(*pair(preemption=RECLAIM), *jobs) == {"large": "waits!", "small": "admitted", "own": "admitted"}


def test_a_higher_priority_preempts_within_its_queue() -> None:
    mine = queue("q", {"f/cpu": "4"}, preemption={"withinClusterQueue": "LowerPriority"})
    found = run(mine, job("low", "q", 4), job("same", "q", 4), job("high", "q", 4, 1), Finished("high"))
    assert found == {"low": "admitted!", "same": "waits", "high": "finished"}


def test_an_older_job_preempts_a_newer_one_of_equal_priority_only_by_policy() -> None:
    for policy, expected in (("LowerOrNewerEqualPriority", "waits!"), ("LowerPriority", "admitted")):
        mine = queue("q", {"f/cpu": "4"}, preemption={"withinClusterQueue": policy})
        found = run(mine, job("old", "q", 3), job("older", "q", 4), job("new", "q", 1), Finished("old"))
        assert found["new"] == expected


def test_a_borrowing_job_preempts_only_lower_priorities() -> None:
    policy = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}}
    two = (queue("a", {"f/cpu": "2"}, "c"), queue("b", {"f/cpu": "2"}, "c", preemption=policy))
    spare = queue("spare", {"f/cpu": "4"}, "c")
    assert run(*two, spare, job("wide", "a", 8), job("own", "b", 4, 1)) == {"wide": "waits!", "own": "admitted"}
    threshold = {**policy, "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -1}}
    guarded = (two[0], queue("b", {"f/cpu": "2"}, "c", preemption=threshold), spare)
    assert run(*guarded, job("wide", "a", 8), job("own", "b", 4, 1)) == {"wide": "admitted", "own": "waits"}


def test_cohorts_reclaim_their_quota() -> None:
    """`b` has no quota, but its cohort has: it is closer to that than `a`."""
    queues = (
        cohort("root"), cohort("x", "root"), cohort("y", "root", {"f/cpu": "4"}),
        queue("a", {"f/cpu": "4"}, "x"), queue("b", {"f/cpu": "0"}, "y", preemption=RECLAIM),
    )  # fmt: skip
    assert run(*queues, job("wide", "a", 8), job("own", "b", 4)) == {"wide": "waits!", "own": "admitted"}
    assert run(*queues, job("wide", "a", 4), job("more", "b", 5)) == {"wide": "admitted", "more": "waits"}


def test_flavors_are_tried_in_order() -> None:
    two = queue("q", {"f/cpu": "4", "g/cpu": "4"})
    found = predict(tree(two), [job("one", "q", 3), job("two", "q", 3), job("three", "q", 1)])
    assert [each.flavors["node"]["cpu"] for each in found.values()] == ["f", "g", "f"]


def test_flavors_with_untolerated_taints_are_skipped() -> None:
    tainted = flavor("f", nodeTaints=[{"key": "gpu", "effect": "NoSchedule"}])
    queues = tree(tainted, queue("q", {"f/cpu": "4", "g/cpu": "4"}))
    found = predict(queues, [job("one", "q", 4), job("two", "q", 4)])
    assert states(found) == {"one": "admitted", "two": "waits"}
    assert found["two"].reason == "with `node` the job needs 4 cpu of flavor `g`, and 0 is free"
    alone = predict(queues, [job("large", "q", 5)])["large"].reason
    assert "the pods `node` do not tolerate the taint gpu:NoSchedule of flavor `f`" in alone


@pytest.mark.parametrize(
    ("fungibility", "expected"),
    [
        ({}, "f"),
        ({"whenCanBorrow": "TryNextFlavor"}, "g"),
    ],
)
def test_borrowing_in_a_flavor_precedes_the_next_flavor_by_default(fungibility: dict[str, str], expected: str) -> None:
    queues = tree(
        queue("a", {"f/cpu": "2", "g/cpu": "4"}, "c", flavorFungibility=fungibility), queue("b", {"f/cpu": "4"}, "c")
    )
    assert predict(queues, [job("one", "a", 3)])["one"].flavors == {"node": {"cpu": expected}}


@pytest.mark.parametrize(("can_preempt", "expected"), [("TryNextFlavor", "admitted"), ("MayStopSearch", "waits!")])
def test_preemption_in_a_flavor_follows_the_next_flavor_by_default(can_preempt: str, expected: str) -> None:
    mine = queue(
        "q", {"f/cpu": "4", "g/cpu": "3"}, preemption=RECLAIM, flavorFungibility={"whenCanPreempt": can_preempt}
    )
    found = run(mine, job("low", "q", 4), job("high", "q", 3, 1))
    assert found == {"low": expected, "high": "admitted"}


@pytest.mark.parametrize(
    ("preference", "expected"), [("BorrowingOverPreemption", "admitted"), ("PreemptionOverBorrowing", "waits")]
)
def test_preemption_over_borrowing_waits_for_a_resource_without_candidates(preference: str, expected: str) -> None:
    """Kueue ranks the flavor as free, because the devices are, and preempts no job for the cores."""
    rules = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor", "preference": preference}
    mine = queue("a", {"f/cpu": "4", "f/a.com/gpu": "0"}, "c", preemption=RECLAIM, flavorFungibility=rules)
    other = queue("b", {"f/cpu": "0", "f/a.com/gpu": "2"}, "c")
    wanted = Job("own", "a", (PodSet("node", 1, {"cpu": 4000, "a.com/gpu": 1}),), priority=1)
    assert states(predict(tree(mine, other), [job("wide", "b", 2), wanted], FAIR))["own"] == expected


def test_the_hosts_and_the_launcher_of_a_job_share_a_quota() -> None:
    mine = tree(queue("q", {"f/cpu": "8"}))
    four, five = (Job("j", "q", podsets(mpi(cpu="2").body, nodes)) for nodes in (4, 5))
    assert predict(mine, [four])["j"].flavors == {"node": {"cpu": "f"}, "launcher": {"cpu": "f"}}
    assert predict(mine, [five])["j"].state is State.NEVER


def test_hosts_move_to_another_flavor_if_the_launcher_needs_the_first() -> None:
    """The hosts fill the first flavor, which is the only one that the launcher tolerates."""
    tainted = flavor("g", nodeTaints=[{"key": "gpu", "effect": "NoSchedule"}])
    hosts = PodSet("node", 4, {"cpu": 2000}, tolerations=({"key": "gpu", "operator": "Exists"},))
    queues = tree(tainted, queue("q", {"f/cpu": "8", "g/cpu": "8"}))
    found = predict(queues, [Job("j", "q", (hosts, PodSet("launcher", 1, {"cpu": 4000})))])
    assert found["j"].flavors == {"node": {"cpu": "g"}, "launcher": {"cpu": "f"}}


def test_pods_are_counted_if_the_queue_has_a_quota_for_them() -> None:
    found = run(queue("q", {"f/cpu": "9", "f/pods": "2"}), *(job(f"j{number}", "q", 1) for number in range(3)))
    assert list(found.values()) == ["admitted", "admitted", "waits"]


@pytest.mark.parametrize(("strategy", "expected"), [("StrictFIFO", "waits"), ("BestEffortFIFO", "admitted")])
def test_a_job_without_candidates_reserves_quota_while_it_is_tried(strategy: str, expected: str) -> None:
    """`own` is within its quota but may not reclaim. Without its reservation, `next` would fit."""
    first = queue("a", {"f/cpu": "4"}, "c", queueingStrategy=strategy)
    others = (queue("b", {"f/cpu": "0"}, "c"), queue("d", {"f/cpu": "0"}, "c"))
    jobs = (job("wide", "b", 3), job("held", "d", 1), job("own", "a", 4, 1), job("next", "d", 1))
    found = run(first, *others, *jobs, Finished("wide"))
    assert (found["own"], found["next"]) == ("waits", expected)


def test_fair_sharing_balances_borrowed_quota() -> None:
    three = (*pair(preemption=RECLAIM), queue("spare", {"f/cpu": "4"}, "c"))
    jobs = [job(f"a{number}", "a", 1) for number in range(12)]
    more = [job(f"b{number}", "b", 1) for number in range(8)]
    fair = run(*three, *jobs, *more, strategies=FAIR)
    assert sum(each == "admitted" for name, each in fair.items() if name.startswith("a")) == 6
    assert sum(each == "admitted" for name, each in fair.items() if name.startswith("b")) == 6
    plain = run(*three, *jobs, *more)
    assert sum(each == "admitted" for name, each in plain.items() if name.startswith("b")) == 4


def test_a_weight_of_two_doubles_the_share() -> None:
    three = (
        queue("a", {"f/cpu": "0"}, "c", preemption=RECLAIM),
        queue("b", {"f/cpu": "0"}, "c", preemption=RECLAIM, fairSharing={"weight": "2"}),
        queue("spare", {"f/cpu": "12"}, "c"),
    )
    jobs = [*(job(f"a{number}", "a", 1) for number in range(12)), *(job(f"b{number}", "b", 1) for number in range(12))]
    found = run(*three, *jobs, strategies=FAIR)
    assert sum(each == "admitted" for name, each in found.items() if name.startswith("b")) == 8


def test_the_second_strategy_preempts_a_large_job_for_a_smaller_share() -> None:
    """Without its only job `a` has a smaller share than `b`: only the first strategy spares the job."""
    three = (queue("a", {"f/cpu": "0"}, "c"), queue("b", {"f/cpu": "0"}, "c", preemption=RECLAIM))
    spare = queue("spare", {"f/cpu": "8"}, "c")
    jobs = (job("large", "a", 8), job("small", "b", 2))
    assert run(*three, spare, *jobs, strategies=FAIR[:1]) == {"large": "admitted", "small": "waits"}
    assert run(*three, spare, *jobs, strategies=FAIR) == {"large": "waits!", "small": "admitted"}


@pytest.mark.parametrize(("strategies", "cores"), [(FAIR[:1], 8), (FAIR[1:], 9), (FAIR, 9)])
@pytest.mark.parametrize(("size", "expected"), [(4, "admitted"), (5, "waits")])
def test_a_fair_share_preempts_only_larger_shares(
    strategies: tuple[str, ...], cores: int, size: int, expected: str
) -> None:
    """kueue v0.19.2 pkg/scheduler/preemption/fairsharing/strategy.go.

    With 8 cores, the job of 4 gets as much as queue `a` keeps. With 9 cores, the job of 5 would get as much as `a` has
    before the last preemption.
    """
    lender, *borrowers = (queue(name, {"f/cpu": str(cores * (name == "c"))}, "d", preemption=RECLAIM) for name in "cab")
    small = [job(f"a{number}", "a", 1) for number in range(cores)]
    assert run(lender, *borrowers, *small, job("b", "b", size), strategies=strategies)["b"] == expected


def test_fair_sharing_reclaims_nominal_quota_regardless_of_shares() -> None:
    found = run(*pair(preemption=RECLAIM), job("wide", "a", 8), job("own", "b", 4), strategies=FAIR)
    assert found == {"wide": "waits!", "own": "admitted"}


@pytest.mark.parametrize("strategies", [(), FAIR], ids=["plain", "fair"])
def test_deep_cohort_trees_admit_and_preempt_jobs(strategies: tuple[str, ...]) -> None:
    """The branches are deeper than the recursion limit of Python."""
    deep, limit = 300, sys.getrecursionlimit()
    branches = [
        cohort(f"{branch}{number}", f"{branch}{number - 1}" if number else "top")
        for branch in ("x", "y")
        for number in range(deep)
    ]
    ends = f"x{deep - 1}", f"y{deep - 1}"
    queues = [queue(name, {"f/cpu": "4"}, end, preemption=RECLAIM) for name, end in zip("ab", ends, strict=True)]
    jobs = (job("wide", "a", 8), job("own", "b", 4), job("more", "b", 1), job("rest", "a", 4))
    sys.setrecursionlimit(len(inspect.stack(0)) + deep // 2)
    try:
        found = run(*branches, *queues, *jobs, strategies=strategies)
    finally:
        sys.setrecursionlimit(limit)
    assert found == {"wide": "waits!", "own": "admitted", "more": "waits!", "rest": "admitted"}


def test_an_inactive_queue_reports_its_reason() -> None:
    queues = tree(
        queue("held", {"f/cpu": "1"}, stopPolicy="HoldAndDrain"), cohort("x", "y"), cohort("y", "x"),
        queue("stuck", {"f/cpu": "1"}, "x"), queue("closed", {"f/cpu": "1"}, namespaceSelector=None),
    )  # fmt: skip
    steps = [job(name, name, 1) for name in ("held", "stuck", "nowhere")]
    found = predict(queues, [*steps, Job("closed", "closed", (), namespace="team")])
    assert {each.state for each in found.values()} == {State.NEVER}
    assert "HoldAndDrain" in found["held"].reason
    assert "cycle" in found["stuck"].reason
    assert found["nowhere"].reason == "there is no ClusterQueue `nowhere`"
    assert "namespaceSelector" in found["closed"].reason


def test_would_admit_accounts_for_usage_of_other_queues() -> None:
    queues, cpu = tree(*pair(preemption=RECLAIM)), FlavorResource("f", "cpu")
    assert would_admit(queues, job("j", "a", 5)).borrows
    assert would_admit(queues, job("j", "a", 5), {"b": {cpu: 4000}}).state is State.WAITS
    assert would_admit(queues, job("j", "a", 9)).state is State.NEVER


@pytest.mark.parametrize(
    ("queues", "steps", "strategies"),
    [
        (tree(queue("q", {"f/cpu": "1"})), [job("j", "q", 1), job("j", "q", 1)], ()),
        (tree(queue("q", {"f/cpu": "1"})), [Finished("j")], ()),
        (tree(queue("q", {"f/cpu": "1"})), [job("j", "q", 1), Finished("j"), Finished("j")], ()),
        (tree(queue("q", {"f/cpu": "1"})), [], FAIR[::-1]),
    ],
    ids=["twice", "unknown", "finished", "strategies"],
)
def test_invalid_scenarios_are_rejected(
    queues: QueueTree, steps: list[Job | Finished], strategies: tuple[str, ...]
) -> None:
    with pytest.raises(SimulationError):
        predict(queues, steps, strategies)


@pytest.mark.parametrize(
    "queues",
    [
        tree(queue("q", {"f/cpu": "1"}, admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})),
        tree(topology("racks", "rack"), flavor("f", topologyName="racks"), queue("q", {"f/cpu": "1"})),
    ],
    ids=["checks", "topology"],
)
def test_unsupported_features_raise_not_modelled(queues: QueueTree) -> None:
    with pytest.raises(NotModelledError):
        predict(queues, [job("j", "q", 1)])


QUEUES = ("a", "b", "d")
STEPS = st.lists(
    st.tuples(st.sampled_from(QUEUES), st.integers(1, 6), st.integers(-1, 1)) | st.integers(0, 9), max_size=10
)
POLICIES = st.fixed_dictionaries(
    {
        "reclaimWithinCohort": st.sampled_from(("Never", "LowerPriority", "Any")),
        "withinClusterQueue": st.sampled_from(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
    }
)


@given(
    STEPS, st.lists(POLICIES, min_size=3, max_size=3), st.sampled_from([(), FAIR]), st.sampled_from(["0", "2", None])
)
@example(
    [("a", 6, -1), ("b", 1, 0), ("d", 2, 0), ("d", 5, 1), ("a", 4, 0), 0, ("a", 6, -1), ("a", 2, 0)],
    [
        {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
        {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
        {"reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "LowerPriority"},
    ],
    FAIR,
    None,
)
@settings(max_examples=150, deadline=None)
def test_no_queue_exceeds_its_limits_and_all_together_stay_within_quota(
    steps: list[Any], policies: list[dict[str, str]], strategies: tuple[str, ...], limit: str | None
) -> None:
    queues = tree(
        *(queue(n, {"f/cpu": ("3", limit)}, "c", preemption=p) for n, p in zip(QUEUES, policies, strict=True))
    )
    sent: list[Job | Finished] = []
    for number, step in enumerate(steps):
        names = [each.name for each in sent if isinstance(each, Job) and Finished(each.name) not in sent]
        if isinstance(step, tuple):
            sent.append(job(f"j{number}", step[0], step[1], step[2]))
        elif names:
            sent.append(Finished(names[step % len(names)]))
    try:
        found = predict(queues, sent, strategies)
    except NotModelledError:  # jobs of a fair cohort may preempt one another for ever
        assert strategies
        return
    sizes = {each.name: each.podsets[0].requests["cpu"] for each in sent if isinstance(each, Job)}
    where = {each.name: each.queue for each in sent if isinstance(each, Job)}
    running = [name for name, each in found.items() if each.state is State.ADMITTED]
    assert sum(sizes[name] for name in running) <= 9000
    for each in QUEUES:
        used = sum(sizes[name] for name in running if where[name] == each)
        assert used <= (9000 if limit is None else 3000 + int(limit) * 1000)
    most = 9000 if limit is None else 3000 + int(limit) * 1000
    assert all(
        (each.state is State.NEVER) == (sizes[n] > most) for n, each in found.items() if each.state != State.FINISHED
    )
