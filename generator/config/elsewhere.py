"""Tenants whose jobs run on other clusters, and with whom they share.

Kueue counts their quota here, and lends it like any other (v0.19.2 pkg/cache/scheduler does not look at the checks of
who lends). But it stands for nodes over there: with it a job of this cluster would be admitted and find no node, and
what such a tenant borrows here lies idle. So they have a tree of cohorts of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from generator.config.cohorts import Cohort
from generator.config.multi_kueue import WORKERS
from generator.config.tenants import Tenant


def root_of_workers(platform: str) -> str:
    """The cohort of all tenants whose jobs run elsewhere."""
    return f"{platform}-{WORKERS}"


def cohorts_elsewhere(tenants: Iterable[Tenant], cohorts: Iterable[Cohort]) -> AbstractSet[str]:
    """The cohorts with tenants whose jobs run elsewhere, declared or only named; with those around and in them."""
    tops = outermost_cohorts(cohorts)
    found = {tops.get(each.cohort, each.cohort) for each in tenants if each.multi_kueue and each.cohort}
    return found | {name for name, top in tops.items() if top in found}


def outermost_cohorts(cohorts: Iterable[Cohort]) -> Mapping[str, str]:
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
