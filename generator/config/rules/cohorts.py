"""Cohorts: they form one tree below the cohort of the platform, and remote tenants have a tree of their own."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.mistakes import Mistake
from generator.config.model.cohorts import outermost_cohorts, workers_cohort
from generator.config.rules.partial import PartialPlatform
from generator.config.rules.rule import rule
from generator.documents.messages import shorten

_LONGEST = 200  # characters of a cycle in a message


@rule
def cohort_of_the_platform(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a reference to the platform's own cohort, which every other cohort belongs to anyway."""
    message = f"`{platform.platform}` is the cohort of the whole platform"
    for index, cohort in platform.cohorts.items():
        if cohort.name == platform.platform:
            fix = "remove this cohort: mpigen creates it, and every cohort without a parent belongs to it"
            yield Mistake(("cohorts", index, "name"), message, fix)
        elif cohort.parent == platform.platform:
            fix = "remove this field: every cohort without a parent belongs to it"
            yield Mistake(("cohorts", index, "parent"), message, fix)
    for index, tenant in platform.tenants.items():
        if tenant.cohort == platform.platform:
            yield Mistake(("tenants", index, "cohort"), message, "remove this field, or name a group of teams")


@rule
def cohort_cycles(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report cohorts that are their own ancestors. Kueue admits nothing in them.

    Source: kueue v0.19.2 pkg/cache/hierarchy/cycle.go.
    """
    parents = {cohort.name: cohort.parent for cohort in platform.cohorts.values()}
    for index, cohort in platform.cohorts.items():
        path, parent = {cohort.name: None}, cohort.parent
        while parent and parent not in path:
            path[parent] = None
            parent = parents.get(parent)
        if parent == cohort.name and platform.platform not in (cohort.name, cohort.parent):
            cycle = shorten(" → ".join((*path, cohort.name)), _LONGEST)
            yield Mistake(("cohorts", index, "parent"), f"these parents form a cycle: {cycle}", "remove one of them")


@rule
def mixed_cohorts(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a cohort with tenants whose jobs run here and tenants whose jobs run on other clusters.

    Kueue lends quota between them (v0.19.2 pkg/cache/scheduler ignores the admission checks of the lender), but the
    nodes of one cluster are of no use to jobs on the other.
    """
    remote = {index: tenant for index, tenant in platform.tenants.items() if tenant.multi_kueue}
    roots = outermost_cohorts(platform.cohorts.values())
    local = {
        roots.get(tenant.cohort, tenant.cohort): tenant.name
        for tenant in platform.tenants.values()
        if tenant.cohort and not tenant.multi_kueue
    }
    for index, tenant in remote.items():
        root = roots.get(tenant.cohort or "", tenant.cohort or "")
        if root in local:
            message = (
                f"cohort `{root}` also has `{local[root]}`, whose jobs run on this cluster and cannot use its nodes"
            )
            yield Mistake(
                ("tenants", index, "cohort"), message, "name a cohort that has only tenants with `multiKueue`"
            )


@rule
def cohort_of_remote_tenants(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report the name of the cohort that mpigen creates for tenants whose jobs run on other clusters."""
    if not any(tenant.multi_kueue for tenant in platform.tenants.values()):
        return
    taken = workers_cohort(platform.platform)
    message = f"`{taken}` is the cohort of all tenants with `multiKueue`"
    for index, cohort in platform.cohorts.items():
        if cohort.name == taken:
            yield Mistake(("cohorts", index, "name"), message, "choose another name")
    for index, tenant in platform.tenants.items():
        if tenant.cohort == taken:
            yield Mistake(("tenants", index, "cohort"), message, "remove this field, or choose another name")
