"""Names that another section must declare."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.mistakes import Mistake
from generator.config.model.cohorts import remote_cohorts
from generator.config.model.queues import MULTI_KUEUE_CHECK
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.config.rules.cluster import section_contradictions
from generator.config.rules.cohorts import apart, cohort_contradictions
from generator.config.rules.fabrics import fabric_contradictions
from generator.config.rules.partial import PartialPlatform
from generator.config.rules.policies import (
    demanded,
    excepted,
    locks_in_vain,
    relaxed_in_vain,
    shared,
    volumes_beyond,
    volumes_elsewhere,
)
from generator.config.rules.pools import impossible_slices, misspelt
from generator.config.rules.quotas import (
    labels_of_one,
    lends_more,
    limits_less,
    overcommitted,
    pools_alike,
    shares_unknown,
)
from generator.config.rules.runtimes import runtime_contradictions
from generator.errors import suggest

_Path = tuple[str | int, ...]


def contradictions(draft: PartialPlatform) -> Iterator[Mistake]:
    """Every contradiction in the draft, in the order of the file's sections."""
    for section in ("fabrics", "pools", "runtimes", "tenants", "cohorts"):
        yield from _declared_twice(section, draft.declared[section])
    yield from section_contradictions(draft)
    yield from fabric_contradictions(draft)
    yield from misspelt(draft)
    yield from impossible_slices(draft)
    yield from labels_of_one(draft)
    yield from pools_alike(draft)
    for index, pool in draft.pools.items():
        if pool.name == MULTI_KUEUE_CHECK and pool.provisioning and draft.has_workers:
            what = f"`{MULTI_KUEUE_CHECK}` is the check of jobs that go to other clusters, and a pool's bears its name"
            yield Mistake(("pools", index, "name"), what, "choose another name")
    for index, runtime in draft.runtimes.items():
        yield from _runtime(("runtimes", index), runtime, draft)
        yield from locks_in_vain(("runtimes", index), runtime, draft)
    yield from demanded(draft)
    away = remote_cohorts(draft.tenants.values(), draft.cohorts.values())
    found = {
        ("cohorts", index): list(cohort_contradictions(index, draft, is_here=each.name not in away))
        for index, each in draft.cohorts.items()
    }
    found |= {
        ("tenants", index): list(_tenant(("tenants", index), each, draft)) for index, each in draft.tenants.items()
    }
    for contradictory in found.values():
        yield from contradictory
    yield from _idle_weights(draft)
    yield from apart(draft)
    sound = {key for key, contradictory in found.items() if not contradictory}
    yield from overcommitted(
        draft,
        [each for index, each in draft.tenants.items() if ("tenants", index) in sound and not each.multi_kueue],
        [each for index, each in draft.cohorts.items() if ("cohorts", index) in sound and each.name not in away],
    )


def _idle_weights(draft: PartialPlatform) -> Iterator[Mistake]:
    """Weights that share nothing out; the one that everybody has says nothing."""
    entries = [(("tenants", index), tenant.weight) for index, tenant in draft.tenants.items()]
    entries += [(("cohorts", index), cohort.weight) for index, cohort in draft.cohorts.items()]
    for path, weight in entries:
        if weight != 1 and not draft.is_fair:
            what = f"`{weight}` has no effect: without fair sharing, whoever comes first borrows"
            yield Mistake((*path, "weight"), what, "write `fairSharing: true` in `queues`, or remove the weight")


def _declared_twice(section: str, names: tuple[str, ...]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Mistake((section, index, "name"), f"`{name}` is there twice", "give each its own name")
        elif name:
            seen.add(name)


def _runtime(path: _Path, runtime: Runtime, draft: PartialPlatform) -> Iterator[Mistake]:
    if all(draft.declared["tenants"]):
        for tenant in runtime.tenants:
            if tenant not in draft.declared["tenants"]:
                fix = suggest(tenant, draft.declared["tenants"])
                yield Mistake((*path, "tenants"), f"there is no tenant `{tenant}`", fix)
    if runtime.pool not in draft.declared["pools"]:
        if draft.has_all_names:
            fix = suggest(runtime.pool, draft.declared["pools"])
            yield Mistake((*path, "pool"), f"there is no pool `{runtime.pool}`", fix)
        return
    pool = draft.pool_named.get(runtime.pool)
    if pool is None:
        return
    yield from runtime_contradictions(runtime, pool, path)


def _tenant(path: _Path, tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    if tenant.name == "slack" and draft.has_slack:
        what = "`slack` is the queue of what no quota owns"
        yield Mistake((*path, "name"), what, "choose another name, or write `queues: {slack: false}`")
    for namespace in tenant.namespaces:
        if namespace in draft.declared["tenants"] or any(
            namespace in other.namespaces for index, other in draft.tenants.items() if index != path[1]
        ):
            fix = "give each namespace to one team"
            yield Mistake((*path, "namespaces"), f"`{namespace}` is a namespace of several teams", fix)
    yield from _what_it_names(path, tenant, draft)
    yield from _shares(path, tenant, draft)


def _what_it_names(path: _Path, tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    if tenant.cohort == draft.platform:
        yield Mistake(
            (*path, "cohort"), f"`{tenant.cohort}` is the platform's own cohort", "leave it out, or name a group"
        )
    elif tenant.cohort and _is_missing(tenant.cohort, draft.declared["cohorts"]):
        fix = suggest(tenant.cohort, draft.declared["cohorts"])
        yield Mistake((*path, "cohort"), f"there is no cohort `{tenant.cohort}`", fix)
    for priority in tenant.priorities or ():
        if _is_missing(priority, draft.declared["priorities"]):
            fix = suggest(priority, draft.declared["priorities"])
            yield Mistake((*path, "priorities"), f"there is no priority `{priority}`", fix)
    if tenant.multi_kueue and not draft.has_workers:
        what = "there are no other clusters"
        yield Mistake((*path, "multiKueue"), what, "name them in `queues.multiKueue.clusters`, or remove it")
    yield from relaxed_in_vain(path, tenant, draft)
    yield from excepted(path, tenant, draft)
    yield from volumes_beyond(path, tenant)
    yield from volumes_elsewhere(path, tenant, draft)


def _shares(path: _Path, tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    shares = [("quota", tenant.quota), ("borrow", tenant.borrow), ("lend", tenant.lend or {})]
    unknown = [*shares_unknown(path, shares, draft, is_here=not tenant.multi_kueue)]
    for reservation in tenant.reservations:
        for found in shares_unknown(path, [("quota", reservation.quota)], draft, is_here=not tenant.multi_kueue):
            message = f"`{reservation.name}`: {found.message}"
            unknown.append(Mistake((*path, "reservations"), message, found.fix))
    yield from unknown
    yield from shared(path, tenant, draft)
    if not unknown and draft.has_all_pools:
        yield from lends_more(path, tenant.lend, tenant.quota, draft)
        yield from limits_less(path, tenant, draft) if not tenant.multi_kueue else ()


def _is_missing(name: str, declared: tuple[str, ...]) -> bool:
    """Whether some are declared, all by name, and this is none of them. Where no cohort is, tenants make their own."""
    return bool(declared) and all(declared) and name not in declared
