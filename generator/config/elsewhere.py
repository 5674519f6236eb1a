"""Tenants whose jobs run on other clusters, and with whom they share.

Kueue counts their quota here, and lends it like any other (v0.19.2 pkg/cache/scheduler does not look at the checks of
who lends). But it stands for nodes over there: with it a job of this cluster would be admitted and find no node, and
what such a tenant borrows here lies idle. So they have a tree of cohorts of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from generator.config.cohorts import Cohort
from generator.config.draft import Contradiction, Draft
from generator.config.multi_kueue import WORKERS
from generator.config.tenants import Tenant


def root_of_workers(platform: str) -> str:
    """The cohort of all tenants whose jobs run elsewhere."""
    return f"{platform}-{WORKERS}"


def cohorts_elsewhere(tenants: Iterable[Tenant], cohorts: Iterable[Cohort]) -> AbstractSet[str]:
    """The cohorts with tenants whose jobs run elsewhere, declared or only named; with those around and in them."""
    tops = _tops(cohorts)
    found = {tops.get(each.cohort, each.cohort) for each in tenants if each.multi_kueue and each.cohort}
    return found | {name for name, top in tops.items() if top in found}


def _tops(cohorts: Iterable[Cohort]) -> Mapping[str, str]:
    """Cohort → the outermost that it is in; of a circle any, but always the same."""
    parents = {cohort.name: cohort.parent for cohort in cohorts}
    tops: dict[str, str] = {}
    for name in parents:
        way = [name]
        while (parent := parents.get(way[-1])) and parent not in way and way[-1] not in tops:
            way.append(parent)
        top = tops.get(way[-1], way[-1])
        tops.update(dict.fromkeys(way, top))
    return tops


def apart(draft: Draft) -> Iterator[Contradiction]:
    """Cohorts with tenants of both kinds, and those that bear the name of the one that is for tenants elsewhere."""
    away = {index: each for index, each in draft.tenants.items() if each.multi_kueue}
    if not away:
        return
    tops = _tops(draft.cohorts.values())
    here = {
        tops.get(each.cohort, each.cohort): each.name
        for each in draft.tenants.values()
        if each.cohort and not each.multi_kueue
    }
    for index, tenant in away.items():
        top = tops.get(tenant.cohort or "", tenant.cohort or "")
        if top in here:
            what = f"jobs of `{here[top]}` in cohort `{top}` run here: the nodes of the one are of no use to the other"
            yield Contradiction(("tenants", index, "cohort"), what, "name a cohort for tenants with `multiKueue` alone")
    root = root_of_workers(draft.platform)
    named = [(("cohorts", index, "name"), each.name) for index, each in draft.cohorts.items()]
    named += [(("tenants", index, "cohort"), each.cohort or "") for index, each in draft.tenants.items()]
    for path, name in named:
        if name == root:
            what = f"`{name}` is the cohort of all tenants with `multiKueue`"
            yield Contradiction(path, what, "leave it out, or choose another name")
