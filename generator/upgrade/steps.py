"""The steps of an upgrade: an order in which all sets of versions between two steps work, if there is one."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from generator.facts.api_versions import is_reached, next_minor
from generator.facts.upgrades import STOPS
from generator.facts.versions import NAMES, SETS, Need, accepted_minors, find_conflicts

Versions = Mapping[str, str]
"""Component → minor version."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an upgrade.

    Attributes:
        changes: component → (minor version before, minor version after). With several components, all change at once.
        pairs: the rows of `sets` because of which they change at once; empty for a single component.
        broken: the rows of `sets` that the versions after the step break; empty if they work together.
    """

    changes: Mapping[str, tuple[str, str]]
    pairs: tuple[Need, ...] = ()
    broken: tuple[Need, ...] = ()

    def crosses(self, component: str, version: str) -> bool:
        """Return True if the step upgrades a component to a version or a later one, from an older one."""
        before, after = self.changes.get(component, ("", ""))
        return is_reached(after, version) and not is_reached(before, version)


def find_steps(before: Versions, after: Versions) -> list[Step]:
    """Return the steps with the fewest sets of versions that do not work, and among these the fewest steps.

    A step of several components counts more than several steps of one component. The result is empty if the versions
    after the upgrade do not work together.

    Args:
        before: the present versions.
        after: the versions after the upgrade. Each version of `before` that differs is newer here.
    """
    if _find_new_conflicts(before, after):
        return []
    names = sorted(name for name in before if before[name] != after[name])
    start, goal = (tuple(versions[name] for name in names) for versions in (before, after))
    order = count()
    heap: list[tuple[tuple[int, int, int], int, tuple[str, ...], list[Step]]] = []
    heapq.heappush(heap, ((0, 0, 0), next(order), start, []))
    seen: set[tuple[str, ...]] = set()
    while heap:
        (broken, joint, number), _, state, steps = heapq.heappop(heap)
        if state == goal:
            return steps
        if state in seen:
            continue
        seen.add(state)
        versions = {**before, **dict(zip(names, state, strict=True))}
        for step in _moves(versions, after):
            moved = {**versions, **{name: change[1] for name, change in step.changes.items()}}
            conflicts = tuple(_find_new_conflicts(before, moved))
            cost = (broken + len(conflicts), joint + (len(step.changes) > 1), number + 1)
            following = [*steps, replace(step, broken=conflicts)]
            heapq.heappush(heap, (cost, next(order), tuple(moved[name] for name in names), following))
    return []


def _moves(versions: Versions, target: Versions) -> Iterator[Step]:
    """Yield the steps from some versions towards others: of one component, and of two that need each other."""
    nexts = {name: list(_next_versions(name, versions[name], target[name])) for name in sorted(versions)}
    for name, following in nexts.items():
        yield from (Step({name: (versions[name], version)}) for version in following)
    pairs: dict[frozenset[str], list[Need]] = {}
    for need in SETS:
        pairs.setdefault(frozenset((need.component, need.needs)), []).append(need)
    for pair, needs in pairs.items():
        first, second = sorted(pair)
        for one in nexts.get(first, ()):
            for other in nexts.get(second, ()):
                changes = {first: (versions[first], one), second: (versions[second], other)}
                single = ({**versions, first: one}, {**versions, second: other})
                reasons = [need for need in needs if any(need.explain(state) for state in single)]
                yield Step(changes, tuple(reasons))


def _next_versions(name: str, before: str, after: str) -> Iterator[str]:
    """Yield the versions to which one step can upgrade a component, the newest first."""
    known = [version for version in accepted_minors(name) if _is_newer(version, before) and is_reached(after, version)]
    if _is_newer(after, before):
        known += [after]
        if any(stop.component == name and not stop.version for stop in STOPS):
            known.append(next_minor(before))
    stops = [stop for stop in STOPS if stop.component == name]
    for version in sorted({*known}, key=_numbers, reverse=True):
        if not any(stop.forbids(before, version) for stop in stops):
            yield version


def _is_newer(version: str, other: str) -> bool:
    return version != other and is_reached(version, other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _find_new_conflicts(before: Versions, after: Versions) -> list[Need]:
    """Return the needs that versions break, except of pairs of components that do not work before the upgrade."""
    broken = {(need.component, need.needs) for need, _ in find_conflicts(before)}
    return [need for need, _ in find_conflicts(after) if (need.component, need.needs) not in broken]


def find_stops(steps: Sequence[Step], before: Versions, after: Versions) -> Iterator[str]:
    """Yield a sentence for each component whose upgrade must not skip a version between `before` and `after`."""
    for stop in STOPS:
        name = stop.component
        if name in before and stop.forbids(before[name], after[name]) and before[name] != after[name]:
            through = [
                version for step in steps if (version := step.changes.get(name, ("", ""))[1]) not in ("", after[name])
            ]
            if through:
                yield f"{NAMES[name]} goes through {' and '.join(through)}, because {stop.why} ({stop.source})"
