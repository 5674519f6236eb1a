"""Whether the groups of teams make one tree, and share what there is."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.draft import Contradiction, Draft, suggestion
from generator.config.share_fit import shares_unknown
from generator.documents.syntax import on_one_line

_LONGEST = 200  # letters of a circle in a message


def cohort_contradictions(index: int, draft: Draft, *, is_here: bool) -> Iterator[Contradiction]:
    """What is wrong with the place of a group among the others, or with what it owns, borrows and lends.

    `is_here`: its teams' jobs run on this cluster.
    """
    cohort, path = draft.cohorts[index], ("cohorts", index)
    declared = draft.declared["cohorts"]
    if cohort.name == draft.platform:
        fix = "leave it out: it is there, and all others belong to it"
        yield Contradiction((*path, "name"), f"`{cohort.name}` is the platform's own cohort", fix)
    elif cohort.parent == draft.platform:
        fix = "leave it out: that is where every group without a parent belongs"
        yield Contradiction((*path, "parent"), f"`{cohort.parent}` is the platform's own cohort", fix)
    elif cohort.parent and all(declared) and cohort.parent not in declared:
        fix = suggestion(cohort.parent, declared)
        yield Contradiction((*path, "parent"), f"there is no cohort `{cohort.parent}`", fix)
    elif circle := _circle(cohort.name, draft):
        # kueue v0.19.2 pkg/cache/hierarchy/cycle.go: no queue below a cycle admits anything
        yield Contradiction((*path, "parent"), f"a circle: {circle}", "remove one of these parents")
    fields = [("quota", cohort.quota), ("borrow", cohort.borrow or {}), ("lend", cohort.lend or {})]
    yield from shares_unknown(path, fields, draft, is_here=is_here)


def _circle(name: str, draft: Draft) -> str:
    """The way from a group by its parents back to itself; empty where there is none."""
    parents = {cohort.name: cohort.parent for cohort in draft.cohorts.values()}
    way, at = {name: None}, parents.get(name)
    while at and at not in way:
        way[at] = None
        at = parents.get(at)
    if at != name:
        return ""
    return on_one_line(" → ".join((*way, name)), _LONGEST)
