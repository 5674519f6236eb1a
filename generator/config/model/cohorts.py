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
    """The name of the Cohort. `tenants[].cohort` and `parent` refer to it."""
    parent: Name | None = None
    """The Cohort above it. Default: the platform's own Cohort, which is above all others."""
    quota: Shares = Field(default={})
    """Quota of the group as a whole, which any of its teams can borrow; written like a team's quota."""
    borrow: Shares | None = None
    """The borrowing limit of the group, written like a quota; resources left out are 0. Default: no limit."""
    lend: Shares | None = None
    """The lending limit of the group, written like a quota; resources left out are 0. Default: all of its quota."""
    weight: Count = 1
    """The fair-share weight in its parent. Needs `queues.fairSharing`."""


def workers_cohort(platform: str) -> str:
    """Return the cohort of all tenants whose jobs run on other clusters."""
    return f"{platform}-{MULTI_KUEUE_CHECK}"


def remote_cohorts(tenants: Iterable[Tenant], cohorts: Iterable[Cohort]) -> AbstractSet[str]:
    """Return the cohorts of tenants whose jobs run on other clusters, with their ancestors and descendants.

    Kueue counts the quota of such tenants on this cluster and lends it like any other (v0.19.2 pkg/cache/scheduler
    ignores admission checks of lenders). It stands for nodes of other clusters, so these tenants have a cohort tree of
    their own.
    """
    tops = outermost_cohorts(cohorts)
    roots = {tops.get(tenant.cohort, tenant.cohort) for tenant in tenants if tenant.multi_kueue and tenant.cohort}
    return roots | {name for name, top in tops.items() if top in roots}


def outermost_cohorts(cohorts: Iterable[Cohort]) -> Mapping[str, str]:
    """Return cohort → its root. For a cycle, the root is always the same member."""
    parents = {cohort.name: cohort.parent for cohort in cohorts}
    tops: dict[str, str] = {}
    for name in parents:
        way = [name]
        while (parent := parents.get(way[-1])) and parent not in way and way[-1] not in tops:
            way.append(parent)
        top = tops.get(way[-1], way[-1])
        tops.update(dict.fromkeys(way, top))
    return tops
