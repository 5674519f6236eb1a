"""Test the rule that compares quota messages of an older Kueue with the recorded ones."""

from __future__ import annotations

from tests.cluster.shortages import in_recorded_words, possible

REQUESTED = "previously considered podsets requests (0) + current podset request (9)"
CPU = f"insufficient quota for cpu in flavor a, {REQUESTED} > maximum capacity (1)"
GPU = f"insufficient quota for x/gpu in flavor a, {REQUESTED} > maximum capacity (0)"
OTHER = f"insufficient quota for cpu in flavor b, {REQUESTED} > maximum capacity (2Gi)"
TAINT = "untolerated taint {x NoSchedule <nil>} in flavor c"
START = "couldn't assign flavors to pod set node: "
ALL = f"{START}{CPU}, {OTHER}, {GPU}, {TAINT}"


def test_the_recorded_release_has_one_possible_message() -> None:
    assert possible(ALL, "v0.19.2") == {ALL}


def test_the_older_release_reports_one_resource_per_flavor_and_all_other_reasons() -> None:
    assert possible(ALL, "v0.18.3") == {f"{START}{CPU}, {OTHER}, {TAINT}", f"{START}{OTHER}, {GPU}, {TAINT}"}


def test_two_pod_sets_can_name_different_resources() -> None:
    both = f"{START}{CPU}, {GPU}; {START}{CPU}, {GPU}"
    assert possible(both, "v0.18.3") == {f"{START}{one}; {START}{other}" for one in (CPU, GPU) for other in (CPU, GPU)}


def test_messages_without_quota_are_the_same_in_both_releases() -> None:
    message = "couldn't assign flavors to pod set node: flavor a doesn't match node affinity"
    assert possible(message, "v0.18.3") == {message}
    assert possible("LocalQueue x doesn't exist", "v0.18.3") == {"LocalQueue x doesn't exist"}


def test_equivalent_messages_are_replaced_by_the_recorded_ones() -> None:
    recorded = {"openmpi": {"status": "False", "message": ALL}}
    said = {"openmpi": {"status": "False", "message": f"{START}{OTHER}, {GPU}, {TAINT}"}}
    assert in_recorded_words(said, recorded, "v0.18.3") == recorded
    assert in_recorded_words(said, recorded, "v0.19.2") == said
    assert in_recorded_words(said, {}, "v0.18.3") == said
    assert in_recorded_words({"openmpi": {"status": "True", "message": ALL}}, recorded, "v0.19.2") != recorded
