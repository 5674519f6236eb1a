"""What no section can see alone: names that must exist elsewhere, and what a node must offer."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.capacity import labels_of_one, limits_less, overcommitted, pools_alike
from generator.config.cohort_fit import apart, cohort_contradictions
from generator.config.complaints import Contradiction, suggestion
from generator.config.compliance_fit import demanded, excepted, shared
from generator.config.data_fit import volumes_beyond, volumes_elsewhere
from generator.config.device_names import misspelt
from generator.config.draft import Draft
from generator.config.elsewhere import cohorts_elsewhere
from generator.config.fabric_fit import fabric_contradictions
from generator.config.mig_fit import impossible_slices
from generator.config.multi_kueue import WORKERS
from generator.config.relaxation_fit import locks_in_vain, relaxed_in_vain
from generator.config.runtime_fit import runtime_contradictions
from generator.config.runtimes import Runtime
from generator.config.section_fit import section_contradictions
from generator.config.share_fit import lends_more, shares_unknown
from generator.config.tenants import Tenant

_Path = tuple[str | int, ...]


def contradictions(draft: Draft) -> Iterator[Contradiction]:
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
        if pool.name == WORKERS and pool.provisioning and draft.has_workers:
            what = f"`{WORKERS}` is the check of jobs that go to other clusters, and a pool's bears its name"
            yield Contradiction(("pools", index, "name"), what, "choose another name")
    for index, runtime in draft.runtimes.items():
        yield from _runtime(("runtimes", index), runtime, draft)
        yield from locks_in_vain(("runtimes", index), runtime, draft)
    yield from demanded(draft)
    away = cohorts_elsewhere(draft.tenants.values(), draft.cohorts.values())
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


def _idle_weights(draft: Draft) -> Iterator[Contradiction]:
    """Weights that share nothing out; the one that everybody has says nothing."""
    entries = [(("tenants", index), tenant.weight) for index, tenant in draft.tenants.items()]
    entries += [(("cohorts", index), cohort.weight) for index, cohort in draft.cohorts.items()]
    for path, weight in entries:
        if weight != 1 and not draft.is_fair:
            what = f"`{weight}` has no effect: without fair sharing, whoever comes first borrows"
            yield Contradiction((*path, "weight"), what, "write `fairSharing: true` in `queues`, or remove the weight")


def _declared_twice(section: str, names: tuple[str, ...]) -> Iterator[Contradiction]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Contradiction((section, index, "name"), f"`{name}` is there twice", "give each its own name")
        elif name:
            seen.add(name)


def _runtime(path: _Path, runtime: Runtime, draft: Draft) -> Iterator[Contradiction]:
    if all(draft.declared["tenants"]):
        for tenant in runtime.tenants:
            if tenant not in draft.declared["tenants"]:
                fix = suggestion(tenant, draft.declared["tenants"])
                yield Contradiction((*path, "tenants"), f"there is no tenant `{tenant}`", fix)
    if runtime.pool not in draft.declared["pools"]:
        if draft.has_all_names:
            fix = suggestion(runtime.pool, draft.declared["pools"])
            yield Contradiction((*path, "pool"), f"there is no pool `{runtime.pool}`", fix)
        return
    pool = draft.pool_named.get(runtime.pool)
    if pool is None:
        return
    yield from runtime_contradictions(runtime, pool, path)


def _tenant(path: _Path, tenant: Tenant, draft: Draft) -> Iterator[Contradiction]:
    if tenant.name == "slack" and draft.has_slack:
        what = "`slack` is the queue of what no quota owns"
        yield Contradiction((*path, "name"), what, "choose another name, or write `queues: {slack: false}`")
    for namespace in tenant.namespaces:
        if namespace in draft.declared["tenants"] or any(
            namespace in other.namespaces for index, other in draft.tenants.items() if index != path[1]
        ):
            fix = "give each namespace to one team"
            yield Contradiction((*path, "namespaces"), f"`{namespace}` is a namespace of several teams", fix)
    yield from _what_it_names(path, tenant, draft)
    yield from _shares(path, tenant, draft)


def _what_it_names(path: _Path, tenant: Tenant, draft: Draft) -> Iterator[Contradiction]:
    if tenant.cohort == draft.platform:
        yield Contradiction(
            (*path, "cohort"), f"`{tenant.cohort}` is the platform's own cohort", "leave it out, or name a group"
        )
    elif tenant.cohort and _is_missing(tenant.cohort, draft.declared["cohorts"]):
        fix = suggestion(tenant.cohort, draft.declared["cohorts"])
        yield Contradiction((*path, "cohort"), f"there is no cohort `{tenant.cohort}`", fix)
    for priority in tenant.priorities or ():
        if _is_missing(priority, draft.declared["priorities"]):
            fix = suggestion(priority, draft.declared["priorities"])
            yield Contradiction((*path, "priorities"), f"there is no priority `{priority}`", fix)
    if tenant.multi_kueue and not draft.has_workers:
        what = "there are no other clusters"
        yield Contradiction((*path, "multiKueue"), what, "name them in `queues.multiKueue.clusters`, or remove it")
    yield from relaxed_in_vain(path, tenant, draft)
    yield from excepted(path, tenant, draft)
    yield from volumes_beyond(path, tenant)
    yield from volumes_elsewhere(path, tenant, draft)


def _shares(path: _Path, tenant: Tenant, draft: Draft) -> Iterator[Contradiction]:
    shares = [("quota", tenant.quota), ("borrow", tenant.borrow), ("lend", tenant.lend or {})]
    unknown = [*shares_unknown(path, shares, draft, is_here=not tenant.multi_kueue)]
    for reservation in tenant.reservations:
        for found in shares_unknown(path, [("quota", reservation.quota)], draft, is_here=not tenant.multi_kueue):
            message = f"`{reservation.name}`: {found.message}"
            unknown.append(Contradiction((*path, "reservations"), message, found.fix))
    yield from unknown
    yield from shared(path, tenant, draft)
    if not unknown and draft.has_all_pools:
        yield from lends_more(path, tenant.lend, tenant.quota, draft)
        yield from limits_less(path, tenant, draft) if not tenant.multi_kueue else ()


def _is_missing(name: str, declared: tuple[str, ...]) -> bool:
    """Whether some are declared, all by name, and this is none of them. Where no cohort is, tenants make their own."""
    return bool(declared) and all(declared) and name not in declared
