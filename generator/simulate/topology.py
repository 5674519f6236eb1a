"""What pods ask of a topology, and which flavors that leaves them.

kueue v0.19.2 pkg/controller/jobframework/tas.go; pkg/scheduler/flavorassigner/tas_flavorassigner.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from generator.errors import NotModelledError, Problem
from generator.facts.names import PODSET_PREFIX

_TRUE = ("1", "t", "T", "TRUE", "true", "True")


class How(Enum):
    """How close together pods are to be."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


@dataclass(frozen=True, slots=True)
class Wish:
    """What annotations of a pod say.

    Attributes:
        how: how close together.
        level: the node label whose value they are to have in common; empty where they may be anywhere.
        group: pods with the same name here get one flavor and one place; empty for none.
        is_sliced: they are to be close together in slices.
    """

    how: How
    level: str = ""
    group: str = ""
    is_sliced: bool = False


def wish(annotations: Mapping[str, str]) -> Wish | None:
    """What a pod asks for; None if it says nothing of it (`NewPodSetTopologyRequest`)."""
    said = {
        name.removeprefix(PODSET_PREFIX): value for name, value in annotations.items() if name.startswith(PODSET_PREFIX)
    }
    is_sliced = {"slice-required-topology", "slice-size"} <= said.keys()
    for how in (How.REQUIRED, How.PREFERRED):
        if level := said.get(f"{how.value}-topology"):
            return Wish(how, level, said.get("group-name", ""), is_sliced)
    if is_sliced or said.get("unconstrained-topology") in _TRUE:
        return Wish(How.UNCONSTRAINED, is_sliced=is_sliced)
    return None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a flavor is to pods that ask for a topology, or do not.

    Attributes:
        flavor: its name.
        levels: of its topology, from the widest place to the narrowest; empty without one.
        covers: the resources that the queue gives of it.
        is_implied: whether all flavors of the queue have a topology: then nobody needs to ask for one.
    """

    flavor: str
    levels: Sequence[str]
    covers: Sequence[str]
    is_implied: bool


def mismatch(pods: str, asks: Wish | None, requested: Mapping[str, int], offer: Offer) -> str:
    """Why pods may not have a flavor; empty if they may (`checkPodSetAndFlavorMatchForTAS`).

    Raises:
        NotModelledError: they ask for slices.
    """
    if asks is None:
        if not offer.levels or offer.is_implied:
            return ""
        return f"`{pods}` asks for no topology, and flavor `{offer.flavor}` takes only who does"
    if asks.is_sliced:
        raise NotModelledError((Problem(f"`{pods}` asks for slices of a topology, which are not simulated"),))
    if not offer.levels:
        is_other = not any(name in offer.covers for name in requested)
        return "" if is_other else f"`{pods}` asks for a topology, and flavor `{offer.flavor}` has none"
    if asks.level and asks.level not in offer.levels:
        return f"`{pods}` asks for a level {asks.level}, which the topology of flavor `{offer.flavor}` does not have"
    return ""
