"""Compare Kueue's messages on missing quota, whose wording is random in Kueue 0.18.

Kueue 0.19 names every resource that a flavor lacks. Kueue 0.18 goes through the resources in the order of a Go map,
which is random, and stops at the first that is lacking, so that it names one of them for each flavor
(kueue v0.18.3 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.findFlavorForPodSets; in kueue v0.19.2
pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.findFlavorForPodSets the `return` ends only one step of a
loop). Both sort what they found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product

from tests.cluster.client import Body

_INTRODUCTION = re.compile(r"couldn't assign flavors to pod set \S+: ")
_BETWEEN = "; "
_SHORTAGE = re.compile(r"insufficient quota for \S+ in flavor (\S+), .*? > maximum capacity \([^)]*\)")


def in_recorded_words(said: Mapping[str, Body], recorded: Mapping[str, Body], kueue: str) -> dict[str, Body]:
    """Return the messages of a Kueue release, replaced by the recorded ones of 0.19 where both are equivalent."""
    return {job: _in_recorded_words(condition, recorded.get(job), kueue) for job, condition in said.items()}


def _in_recorded_words(condition: Body, recorded: Body | None, kueue: str) -> Body:
    if recorded and condition["message"] in possible(recorded["message"], kueue):
        return condition | {"message": recorded["message"]}
    return condition


def possible(message: str, kueue: str) -> set[str]:
    """Return all messages that a release of Kueue may use where 0.19 uses `message`."""
    if not kueue.startswith("v0.18."):
        return {message}
    return {_BETWEEN.join(said) for said in product(*map(_possible_of_pod_set, message.split(_BETWEEN)))}


def _possible_of_pod_set(message: str) -> set[str]:
    introduction = _INTRODUCTION.match(message)
    if not introduction:
        return {message}
    lacking: dict[str, list[str]] = {}
    for shortage in _SHORTAGE.finditer(message):
        lacking.setdefault(shortage[1], []).append(shortage[0])
    others = _SHORTAGE.sub("", message[introduction.end() :]).split(", ")
    named = [*([other] for other in others if other), *lacking.values()]
    return {introduction[0] + ", ".join(sorted(chosen)) for chosen in product(*named)}
