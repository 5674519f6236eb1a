"""`cohorts`: groups of teams that share quota with each other first, and the cohorts of tenants on other clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from pydantic import Field

from generator.config.model.fields import Count, Name, Section
from generator.config.model.queues import MULTI_KUEUE_CHECK
from generator.config.model.quotas import Shares
from generator.config.model.tenants import Tenant


class Cohort(Section):
    """A group of teams, or of groups."""

    name: Name
    """The Cohort's name, which `tenants[].cohort` and `parent` refer to."""
    parent: Name | None = None
    """The group that it belongs to. Default: the platform's own cohort, which all others lead to."""
    quota: Shares = Field(default={})
    """What belongs to the group as a whole, for any of its teams to borrow; in the forms of a team's quota."""
    borrow: Shares | None = None
    """What the group may use of others beyond its own, in the same forms; of what is left out, nothing. Default: no
    limit."""
    lend: Shares | None = None
    """What others may use of the group's while it is idle, in the same forms; of what is left out, nothing. Default:
    all of it."""
    weight: Count = 1
    """Its share of what is borrowed from its parent. Needs `queues.fairSharing`."""


def workers_cohort(platform: str) -> str:
    """The cohort of all tenants whose jobs run elsewhere."""
    return f"{platform}-{MULTI_KUEUE_CHECK}"


def remote_cohorts(tenants: Iterable[Tenant], cohorts: Iterable[Cohort]) -> AbstractSet[str]:
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
