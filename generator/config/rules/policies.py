"""Settings that `policies` forbids or requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from generator import quantities
from generator.config.mistakes import Mistake
from generator.config.model.fields import Unmet
from generator.config.model.policies import Policies, Residency
from generator.config.model.pools import Pool
from generator.config.model.quotas import Share, pools_offering
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import POD_SECURITY, Tenant
from generator.config.rules.partial import PartialPlatform
from generator.errors import suggest
from generator.quantities import Quantity

_DAY = 24 * 3600
_Path = tuple[str | int, ...]


def demanded(draft: PartialPlatform) -> Iterator[Mistake]:
    """What pools, tenants and runtimes do not keep of what `policies` says for all."""
    if draft.policies is None:
        return
    if draft.policies.residency:
        yield from _elsewhere(draft, draft.policies.residency)
    yield from _forgotten(draft, draft.policies.retention.jobs or 0)


def excepted(path: _Path, tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    """What a regulated platform relaxes for a team beyond the memory that ranks lock, even for a reason and a time."""
    if draft.policies is None or draft.policies.profile == "standard":
        return
    for each in tenant.relax:
        if each.to != "memlock":
            what = f"`{each.to or each.rule}`: the profile `regulated` relaxes `pod-security` to `memlock`, and no more"
            yield Mistake((*path, "relax"), what, "remove it")


def _elsewhere(draft: PartialPlatform, residency: Residency) -> Iterator[Mistake]:
    """Nodes of which nobody says that they are where they must be."""
    for index, pool in draft.pools.items():
        there = pool.labels.get(residency.label)
        if index in draft.unsure or there in residency.values:
            continue
        what = f"is `{residency.label}: {there}`" if there else f"has no label {residency.label}"
        allowed = " or ".join(residency.values)
        fix = f"write `{residency.label}: {allowed}` if its nodes have it, else remove the pool"
        path = ("pools", index, "labels", residency.label) if there else ("pools", index)
        yield Mistake(path, f"pool `{pool.name}` {what}, which `policies.residency` demands", fix)
    for index, tenant in draft.tenants.items():
        if tenant.multi_kueue:
            what = f"where the clusters are that jobs of `{tenant.name}` run on, `policies.residency` does not say"
            fix = "remove it, or make a platform of its own for tenants whose jobs run elsewhere"
            yield Mistake(("tenants", index, "multiKueue"), what, fix)


def _forgotten(draft: PartialPlatform, days: int) -> Iterator[Mistake]:
    """Runtimes that remove pods and logs of a job earlier than they must be kept."""
    for index, runtime in draft.runtimes.items():
        kept = runtime.ttl_seconds_after_finished
        if kept is not None and kept < days * _DAY:
            what = f"`{kept}`, and `policies.retention.jobs` keeps what is left of a job for {days} days"
            fix = "remove it"
            yield Mistake(("runtimes", index, "ttlSecondsAfterFinished"), what, fix)


def shared(path: _Path, tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    """Pools that are said to be for one tenant alone, and are not."""
    path = (*path, "dedicated")
    if tenant.dedicated and tenant.multi_kueue:
        yield Mistake(path, f"jobs of `{tenant.name}` run on no pool of this cluster", "remove it")
        return
    for name in tenant.dedicated:
        pool = draft.pool_named.get(name)
        if pool is None:
            if draft.has_all_names and name not in draft.declared["pools"]:
                fix = suggest(name, draft.declared["pools"])
                yield Mistake(path, f"there is no pool `{name}`", fix)
            continue
        yield from _open(path, pool, draft)
        for other in _users(pool, tenant, draft):
            fix = f"remove the share of {other}, or do not dedicate the pool"
            yield Mistake(path, f"{other} has a share of pool `{name}` too", fix)


def _open(path: _Path, pool: Pool, draft: PartialPlatform) -> Iterator[Mistake]:
    """Ways of other pods to the nodes: a pod may tolerate any taint, so the labels of other pools must keep theirs off.

    The rule `patches` of `policies.admission` lets jobs tolerate taints by their names.
    """
    if not any(taint.effect != "PreferNoSchedule" for taint in pool.taints):
        what = f"nothing keeps pods that come by no queue off the nodes of pool `{pool.name}`"
        yield Mistake(path, what, "give the nodes a taint, and name it in the pool's `taints`")
    for other in draft.pools.values():
        if other.name != pool.name and other.labels.items() <= pool.labels.items():
            what = f"a pod of pool `{other.name}` that tolerates the taints of pool `{pool.name}` may run there"
            fix = f"add a label to pool `{other.name}` that only its nodes carry"
            yield Mistake(path, what, fix)


def _users(pool: Pool, owner: Tenant, draft: PartialPlatform) -> Iterator[str]:
    """Whose queues admit jobs to the pool beside the owner's; those of other clusters have nodes of their own."""
    for tenant in draft.tenants.values():
        theirs = (*tenant.quotas, tenant.borrow)
        if tenant.name != owner.name and not tenant.multi_kueue and _names(pool, theirs, draft):
            yield f"tenant `{tenant.name}`"
    for cohort in draft.cohorts.values():
        if _names(pool, (cohort.quota,), draft):
            yield f"cohort `{cohort.name}`"


def _names(pool: Pool, shares: tuple[Mapping[str, Share], ...], draft: PartialPlatform) -> bool:
    """Whether shares are of the pool, by its name or by a resource that it has."""
    pools = list(draft.supplies.values())
    keys = {key for each in shares for key in each}
    resources = keys - {*draft.declared["pools"]}
    return pool.name in keys or any(
        found.name == pool.name for key in resources for found in pools_offering(key, pools)
    )


def unmet(policies: Policies, is_openshift: bool | None) -> Iterator[Unmet]:
    """Find policies that the cluster cannot enforce, and requirements of the profile `regulated` that are not met.

    `is_openshift` is None where the distribution is unknown.
    """
    if is_openshift and policies.retention.audit:
        fix = "remove it, and keep what a ClusterLogForwarder sends away for as long"
        yield ("retention", "audit"), "OpenShift has no such setting of its API servers", fix
    if policies.profile == "standard":
        return
    for path, message, fix in (*_weaker(policies), *_missing(policies, is_openshift)):
        yield path, f"{message}: the profile `regulated` demands it", fix


def _weaker(policies: Policies) -> Iterator[Unmet]:
    """What is said, and is too little."""
    if policies.pod_security != "restricted":
        yield ("podSecurity",), f"`{policies.pod_security}` is less than `restricted`", "write `restricted`"
    if policies.admission.default != "deny":
        yield ("admission",), f"rules only `{policies.admission.default}` by default, not `deny`", "write `deny`"
    for rule, action in policies.admission.rules.items():
        if action != "deny":
            yield ("admission", "rules", rule), f"`{action}` is less than `deny`", "write `deny`, or remove it"
    for each in policies.storage_classes:
        if not each.encrypted:
            fix = "remove it, or write `encrypted: true` if it is"
            yield ("storageClasses",), f"`{each.name}` is not said to be encrypted", fix


def _missing(policies: Policies, is_openshift: bool | None) -> Iterator[Unmet]:
    """What is not said."""
    if not policies.images.registries:
        yield ("images",), "images come from anywhere, not from `registries`", "write `registries: [quay.io/acme/]`"
    if not policies.images.digests:
        yield ("images",), "images may change behind their names without `digests`", "write `digests: true`"
    if not policies.labels:
        yield ("labels",), "jobs have no owner without `labels`", "write labels such as `[example.com/owner]`"
    if policies.residency is None:
        fix = "write `residency: {label: topology.kubernetes.io/region, values: [eu-central-1]}`"
        yield ("residency",), "nobody says where nodes may be without `residency`", fix
    if not policies.storage_classes:
        fix = "write `storageClasses: [{name: encrypted-ssd, encrypted: true}]`"
        yield ("storageClasses",), "data may be written anywhere without `storageClasses`", fix
    if policies.retention.jobs is None:
        yield ("retention", "jobs"), "nobody says how long jobs are known without `retention.jobs`", "write days, as 90"
    if policies.retention.audit is None and is_openshift is False:
        fix = "write days, as 365"
        yield ("retention", "audit"), "nobody says how long the log is kept without `retention.audit`", fix


_P = tuple[str | int, ...]
_LOCKING = ("memlock", "privileged")
_WEAKER = {"restricted": (*_LOCKING, "baseline"), "baseline": _LOCKING, "privileged": ()}
"""Standard of the platform → what is less, or else, than that. `memlock` is more than `baseline` but for IPC_LOCK."""


def relaxed_in_vain(path: _P, tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    """What changes nothing, and what together with something else gives the nodes away."""
    policies = draft.policies
    if policies is None:
        return
    here = (*path, "relax")
    for each in tenant.relax:
        if each.rule == POD_SECURITY:
            if each.to not in _WEAKER[policies.pod_security]:
                what = f"`{each.to}`, and nobody is held to more than `{policies.pod_security}`"
                yield Mistake(here, what, "remove it, or raise `policies.podSecurity`")
        elif policies.admission.action(each.rule) == "off":
            yield Mistake(here, f"`{each.rule}` is off for everybody", "remove it")
        elif each.rule == "patches" and (tenant.pod_security or policies.pod_security) == "privileged":
            what = "`patches`, where no Pod Security Standard holds: its people could have the nodes"
            yield Mistake(here, what, "relax one of the two")


def locks_in_vain(path: _P, runtime: Runtime, draft: PartialPlatform) -> Iterator[Mistake]:
    """A capability that the pods of some of its tenants may not have: they would never start."""
    policies = draft.policies
    if not runtime.locks_memory or policies is None:
        return
    refused = [
        tenant.name
        for tenant in draft.tenants.values()
        if (not runtime.tenants or tenant.name in runtime.tenants)
        and (tenant.pod_security or policies.pod_security) not in _LOCKING
    ]
    if refused:
        only = "" if runtime.tenants else ", or name its `tenants`"
        yield Mistake(
            (*path, "memlock"),
            f"`capability`, which the pods of {', '.join(f'`{name}`' for name in refused)} may not have",
            f"relax `pod-security` to `memlock` there{only}; better, raise the limit of the nodes, and leave it out",
        )


def volumes_beyond(path: tuple[str | int, ...], tenant: Tenant) -> Iterator[Mistake]:
    """A ResourceQuota below what the platform itself makes: the API server refuses the claims, and the sync fails."""
    limits, claims = tenant.limits, tenant.volumes
    if limits.volumes is not None and len(claims) > limits.volumes:
        what = f"`{limits.volumes}`, and the team has {len(claims)} volumes"
        yield Mistake((*path, "limits", "volumes"), what, "write at least as many, or remove a volume")
    if limits.storage is not None:
        wanted = sum((quantities.parse(claim.size).value for claim in claims), Fraction(0))
        there = quantities.parse(limits.storage)
        if wanted > there.value:
            what = f"`{limits.storage}`, and the volumes of the team take {Quantity(wanted, there.is_binary)}"
            yield Mistake((*path, "limits", "storage"), what, "write at least as much, or make a volume smaller")


def volumes_elsewhere(path: tuple[str | int, ...], tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    """Volumes of a class that the platform closes to tenants, by the rule `storage` of `policies.admission`."""
    open_to_all = [each.name for each in draft.policies.storage_classes] if draft.policies else []
    for claim in tenant.volumes:
        if open_to_all and claim.class_name not in open_to_all:
            named = f"is of class `{claim.class_name}`" if claim.class_name else "names no class"
            what = f"`{claim.name}` {named}, which is none of `policies.storageClasses`"
            yield Mistake((*path, "volumes"), what, suggest(claim.class_name or "", open_to_all))
