"""Test the row that `mpigen job status` chooses for a message of Kueue on several flavors and pod sets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import yaml

from generator.facts.phases import Reason
from generator.jobs.status.refusal import find_refusal
from generator.manifests import Body, Manifest
from generator.objects.conditions import Condition
from tests.conftest import ROOT

ANSWERS: dict[str, list[str]] = yaml.safe_load((ROOT / "tests/cluster/fixtures/check-job-answers.yaml").read_text())
POD_SET = "couldn't assign flavors to pod set node: "
MAXIMUM = "previously considered podsets requests (0) + current podset request (9) > maximum capacity (1)"
NEVER = {name: f"insufficient quota for cpu in flavor {name}, {MAXIMUM}" for name in "abc"}
LATER = {name: f"insufficient unused quota for cpu in flavor {name}, 5 more needed" for name in "abc"}
TAINT = {name: f"untolerated taint {{x NoSchedule <nil>}} in flavor {name}" for name in "abc"}
TOPOLOGY = (
    'topology "racks" allows to fit only 1 out of 4 pod(s). Total nodes: 2; excluded: taint: 1, resource "cpu": 1'
)


def refusal(message: str, *groups: str, reason: str = "Pending", events: Sequence[str] = ()) -> Reason:
    """Return the row about a message. `groups`: for each resource group, its flavors, each a letter."""
    flavors = [{"name": name, "resources": [{"name": group}]} for group in groups for name in group]
    body: Body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "default"}}
    queue = Manifest(body | {"status": {"flavorsReservation": flavors}}, "export.yaml") if groups else None
    row, decisive = find_refusal(Condition("QuotaReserved", "False", reason, message, ""), queue, events)
    assert row
    assert decisive in (message, *events)
    return row


@pytest.mark.parametrize(
    ("message", "groups", "part"),
    [
        (POD_SET + NEVER["a"], ["a"], "> maximum capacity"),
        (POD_SET + NEVER["a"], [], "> maximum capacity"),
        (f"{POD_SET}{NEVER['a']}, {LATER['a']}", ["a"], "> maximum capacity"),
        (f"{POD_SET}{NEVER['a']}, {LATER['a']}, {TAINT['b']}", ["ab"], "> maximum capacity"),
        (f"{POD_SET}{TAINT['a']}, {TAINT['b']}", ["ab"], "untolerated taint"),
        (f"{POD_SET}{NEVER['a']}, {LATER['b']}, {TAINT['b']}", ["a", "b"], "> maximum capacity"),
        (f"{POD_SET}{LATER['a']}, {TAINT['b']}, {TAINT['c']}", ["ab", "c"], "untolerated taint"),
        (f"{POD_SET}{LATER['a']}, resource x/y unavailable in ClusterQueue", [], "unavailable in ClusterQueue"),
        (f"{POD_SET}{LATER['a']}; {POD_SET}{NEVER['a']}", ["a"], "> maximum capacity"),
        (POD_SET + "resource cpu unavailable in ClusterQueue", ["a"], "unavailable in ClusterQueue"),
        (f"{POD_SET}{TOPOLOGY}; {POD_SET}{NEVER['a']}", ["a"], "> maximum capacity"),
        (POD_SET + 'Flavor "a" supports only TopologyAwareScheduling', ["a"], "TopologyAwareScheduling"),
        ("Workload namespace doesn't match ClusterQueue selector", ["a"], "doesn't match ClusterQueue selector"),
    ],
)
def test_a_job_never_runs_if_no_flavor_can_take_a_pod_set(message: str, groups: list[str], part: str) -> None:
    row = refusal(message, *groups)
    assert (row.blocks, row.message) == (True, part)


@pytest.mark.parametrize(
    ("message", "groups", "part"),
    [
        (POD_SET + LATER["a"], ["a"], "insufficient unused quota"),
        (f"{POD_SET}{NEVER['a']}, {LATER['b']}", ["ab"], "insufficient unused quota"),
        (f"{POD_SET}{NEVER['a']}, {LATER['b']}", [], "insufficient unused quota"),
        (f"{POD_SET}{NEVER['a']}, {TOPOLOGY}", ["ab"], 'topology "'),
        (f"{POD_SET}{NEVER['a']}, {TOPOLOGY}", [], 'topology "'),
        (f"{POD_SET}{NEVER['a']}, {TAINT['b']}", ["abc"], ""),
        (f"{POD_SET}{NEVER['a'][:60]}", ["a"], ""),
    ],
)
def test_a_job_waits_for_quota_that_is_free_later(message: str, groups: list[str], part: str) -> None:
    """Also if Kueue has not tried a flavor yet, or if its message is cut."""
    row = refusal(message, *groups)
    assert (row.blocks, row.message) == (False, part)


def test_events_decide_if_the_last_attempt_of_kueue_omits_a_flavor() -> None:
    """Kueue continues with the next flavor of a pod set, and its condition then has only this attempt."""
    last, never, later = f"{POD_SET}{TAINT['b']}", f"{POD_SET}{NEVER['a']}, {TAINT['b']}", f"{POD_SET}{LATER['a']}"
    assert refusal(last, "ab").message == ""
    assert refusal(last, "ab", events=[last, never]).message == "> maximum capacity"
    assert refusal(last, "ab", events=[f"{later}, {TAINT['b']}", never]).message == ""
    assert refusal(f"{later}, {TAINT['b']}", "ab", events=[never]).message == "insufficient unused quota"


def test_a_preempting_job_waits() -> None:
    preempting = f"{POD_SET}{LATER['a']}, {TAINT['b']}"
    assert refusal(f"{preempting}. Preempting 1 workload(s) failed, will retry.", "ab").message == LATER["a"][:25]
    row = refusal(f"{preempting}. Pending the preemption of 1 workload(s)", "ab")
    assert (row.blocks, row.message) == (False, "Pending the preemption of")


def test_a_reason_that_kueue_decided_counts() -> None:
    """Kueue sets it with its feature gate UnadmittedWorkloadsObservability."""
    assert refusal(POD_SET + NEVER["a"], "a", reason="WaitingForQuota").reason == "WaitingForQuota"


@pytest.mark.parametrize("name", [name for name, answer in ANSWERS.items() if POD_SET in answer[1]])
def test_recorded_answers_of_kueue_are_understood(name: str) -> None:
    """If the pods of a job fit no rack, the message of Kueue is the same as for quota that other jobs use."""
    verdict, message = ANSWERS[name]
    assert refusal(message).blocks == (verdict == "never" and name != "too-large-for-a-rack"), message
