"""Cohorts that do not form one tree."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.mistakes import Mistake
from generator.config.model.cohorts import outermost_cohorts, workers_cohort
from generator.config.rules.partial import PartialPlatform
from generator.config.rules.quotas import shares_unknown
from generator.documents.messages import shorten
from generator.errors import suggest

_LONGEST = 200  # letters of a circle in a message


def cohort_contradictions(index: int, draft: PartialPlatform, *, is_here: bool) -> Iterator[Mistake]:
    """What is wrong with the place of a group among the others, or with what it owns, borrows and lends.

    `is_here`: its teams' jobs run on this cluster.
    """
    cohort, path = draft.cohorts[index], ("cohorts", index)
    declared = draft.declared["cohorts"]
    if cohort.name == draft.platform:
        fix = "leave it out: it is there, and all others belong to it"
        yield Mistake((*path, "name"), f"`{cohort.name}` is the platform's own cohort", fix)
    elif cohort.parent == draft.platform:
        fix = "leave it out: that is where every group without a parent belongs"
        yield Mistake((*path, "parent"), f"`{cohort.parent}` is the platform's own cohort", fix)
    elif cohort.parent and all(declared) and cohort.parent not in declared:
        fix = suggest(cohort.parent, declared)
        yield Mistake((*path, "parent"), f"there is no cohort `{cohort.parent}`", fix)
    elif circle := _circle(cohort.name, draft):
        # kueue v0.19.2 pkg/cache/hierarchy/cycle.go: no queue below a cycle admits anything
        yield Mistake((*path, "parent"), f"a circle: {circle}", "remove one of these parents")
    fields = [("quota", cohort.quota), ("borrow", cohort.borrow or {}), ("lend", cohort.lend or {})]
    yield from shares_unknown(path, fields, draft, is_here=is_here)


def _circle(name: str, draft: PartialPlatform) -> str:
    """The way from a group by its parents back to itself; empty where there is none."""
    parents = {cohort.name: cohort.parent for cohort in draft.cohorts.values()}
    way, at = {name: None}, parents.get(name)
    while at and at not in way:
        way[at] = None
        at = parents.get(at)
    if at != name:
        return ""
    return shorten(" → ".join((*way, name)), _LONGEST)


def apart(draft: PartialPlatform) -> Iterator[Mistake]:
    """Cohorts with tenants of both kinds, and those that bear the name of the one that is for tenants elsewhere."""
    away = {index: each for index, each in draft.tenants.items() if each.multi_kueue}
    if not away:
        return
    tops = outermost_cohorts(draft.cohorts.values())
    here = {
        tops.get(each.cohort, each.cohort): each.name
        for each in draft.tenants.values()
        if each.cohort and not each.multi_kueue
    }
    for index, tenant in away.items():
        top = tops.get(tenant.cohort or "", tenant.cohort or "")
        if top in here:
            what = f"jobs of `{here[top]}` in cohort `{top}` run here: the nodes of the one are of no use to the other"
            yield Mistake(("tenants", index, "cohort"), what, "name a cohort for tenants with `multiKueue` alone")
    root = workers_cohort(draft.platform)
    named = [(("cohorts", index, "name"), each.name) for index, each in draft.cohorts.items()]
    named += [(("tenants", index, "cohort"), each.cohort or "") for index, each in draft.tenants.items()]
    for path, name in named:
        if name == root:
            what = f"`{name}` is the cohort of all tenants with `multiKueue`"
            yield Mistake(path, what, "leave it out, or choose another name")
