"""The rule for what an older Kueue says of a job over quota: it must not take anything for an answer."""

from __future__ import annotations

from tests.cluster.shortages import in_recorded_words, possible

REQUESTED = "previously considered podsets requests (0) + current podset request (9)"
CPU = f"insufficient quota for cpu in flavor a, {REQUESTED} > maximum capacity (1)"
GPU = f"insufficient quota for x/gpu in flavor a, {REQUESTED} > maximum capacity (0)"
OTHER = f"insufficient quota for cpu in flavor b, {REQUESTED} > maximum capacity (2Gi)"
TAINT = "untolerated taint {x NoSchedule <nil>} in flavor c"
START = "couldn't assign flavors to pod set node: "
ALL = f"{START}{CPU}, {OTHER}, {GPU}, {TAINT}"


def test_the_release_that_was_recorded_says_nothing_else() -> None:
    assert possible(ALL, "v0.19.2") == {ALL}


def test_the_older_release_names_one_resource_for_each_flavor_and_all_other_reasons() -> None:
    assert possible(ALL, "v0.18.3") == {f"{START}{CPU}, {OTHER}, {TAINT}", f"{START}{OTHER}, {GPU}, {TAINT}"}


def test_what_is_not_about_quota_is_the_same_in_both() -> None:
    message = "couldn't assign flavors to pod set node: flavor a doesn't match node affinity"
    assert possible(message, "v0.18.3") == {message}
    assert possible("LocalQueue x doesn't exist", "v0.18.3") == {"LocalQueue x doesn't exist"}


def test_what_means_the_same_is_said_in_the_recorded_words() -> None:
    recorded = {"openmpi": {"status": "False", "message": ALL}}
    said = {"openmpi": {"status": "False", "message": f"{START}{OTHER}, {GPU}, {TAINT}"}}
    assert in_recorded_words(said, recorded, "v0.18.3") == recorded
    assert in_recorded_words(said, recorded, "v0.19.2") == said
    assert in_recorded_words(said, {}, "v0.18.3") == said
    assert in_recorded_words({"openmpi": {"status": "True", "message": ALL}}, recorded, "v0.19.2") != recorded
