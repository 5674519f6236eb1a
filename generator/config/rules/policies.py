"""The rules about settings that `policies` forbids or requires, and about pools that are dedicated to one tenant."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pydantic.alias_generators import to_snake

from generator.config.mistakes import Mistake
from generator.config.model.fields import Steps
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.quotas import Shares, pools_offering
from generator.config.model.tenants import POD_SECURITY, Relaxation, Tenant, remote_cohorts
from generator.config.rules.rule import PartialPlatform, rule
from generator.documents.messages import format_value
from generator.quantities import Quantity

_DAY = 24 * 3600
_LEVELS_WITH_IPC_LOCK = ("memlock", "privileged")
_WEAKER_LEVELS = {
    "restricted": (*_LEVELS_WITH_IPC_LOCK, "baseline"),
    "baseline": _LEVELS_WITH_IPC_LOCK,
    "privileged": (),
}
"""Pod Security level → the levels that allow more. `memlock` is `restricted` with the capability IPC_LOCK."""


@rule
def audit_log_of_openshift(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a retention of the audit log on OpenShift, which limits the log by size only."""
    if platform.is_openshift and platform.policies.retention.audit:
        message = "OpenShift limits its audit logs by size, not by days"
        fix = "remove this field, and forward the log with a ClusterLogForwarder to a store that keeps it long enough"
        yield Mistake(("policies", "retention", "audit"), message, fix)


@rule
def regulated_profile(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report requirements of the profile `regulated` that the platform does not meet."""
    if platform.policies.profile == "standard":
        return
    for path, message, fix in _unmet_requirements(platform.policies, platform.is_openshift):
        if platform.knows(f"policies.{path[0]}"):
            yield Mistake(("policies", *path), f"`policies.profile: regulated` requires {message}", fix)
    for index, tenant in platform.tenants.items():
        for relaxation in tenant.relax:
            if relaxation.to != "memlock":
                relaxed = f"`pod-security` to `{relaxation.to}`" if relaxation.to else f"the rule `{relaxation.rule}`"
                allowed = ", only to `memlock`" if relaxation.to else ""
                message = f"`policies.profile: regulated` does not allow a tenant to relax {relaxed}{allowed}"
                yield Mistake(("tenants", index, "relax"), message, "remove this entry of `relax`")


def _unmet_requirements(policies: Policies, is_openshift: bool | None) -> Iterator[tuple[Steps, str, str]]:
    """Yield the path, the requirement and the fix of each weak or missing setting of `policies`.

    The requirement completes the sentence "`policies.profile: regulated` requires …".
    """
    if policies.pod_security != "restricted":
        message = f"the Pod Security level `restricted`, but the level is `{policies.pod_security}`"
        yield ("podSecurity",), message, "write `restricted`"
    if policies.admission.default != "deny":
        message = f"the action `deny`, but the default action is `{policies.admission.default}`"
        yield ("admission",), message, "write `deny`"
    for name, action in policies.admission.rules.items():
        if action != "deny":
            fix = "write `deny`, or remove this rule"
            yield ("admission", "rules", name), f"the action `deny`, but `{action}` does not reject requests", fix
    for storage_class in policies.storage_classes:
        if not storage_class.encrypted:
            plain = storage_class.name
            fix = f"remove `{plain}`, or set `encrypted: true` if the volumes of `{plain}` are encrypted"
            yield ("storageClasses",), f"encryption, but StorageClass `{plain}` is not declared as encrypted", fix
    for path, consequence, fix in _REQUIRED:
        setting: Any = policies
        for step in path:
            setting = getattr(setting, to_snake(step))
        if not setting and (path != ("retention", "audit") or is_openshift is False):
            place = path[:1] if path[0] == "images" else path
            yield place, f"`{'.'.join(path)}`, because without it {consequence}", fix


_REQUIRED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("images", "registries"), "images can come from any registry", "write `registries: [quay.io/acme/]`"),
    (("images", "digests"), "the image behind a tag can change", "write `digests: true`"),
    (("labels",), "jobs do not name an owner", "write labels such as `[example.com/owner]`"),
    (
        ("residency",),
        "nodes can be in any place",
        "write `residency: {label: topology.kubernetes.io/region, values: [eu-central-1]}`",
    ),
    (
        ("storageClasses",),
        "data can be written to any StorageClass",
        "write `storageClasses: [{name: encrypted-ssd, encrypted: true}]`",
    ),
    (
        ("retention", "jobs"),
        "records of finished jobs can be deleted at any time",
        "write a number of days, such as 90",
    ),
    (("retention", "audit"), "audit logs can be deleted at any time", "write a number of days, such as 365"),
)
"""The required settings of `policies`: path, consequence if it is missing, and fix."""


@rule
def cost_labels_of_tenants(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report tenants without a label of `policies.costLabels`: their jobs would belong to no cost centre."""
    keys = platform.policies.cost_labels if platform.knows("policies.costLabels", "tenants.labels") else ()
    for index, tenant in platform.tenants.items():
        for key in keys:
            if not tenant.labels.get(key):
                message = f"tenant `{tenant.name}` has no label `{key}`, which `policies.costLabels` puts on all pods"
                fix = f"add `{key}` with a value to `labels` of this tenant, or remove `{key}` from `costLabels`"
                yield Mistake(("tenants", index), message, fix)


@rule
def residency_of_nodes(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report pools that are not in the places of `policies.residency`, and tenants with `multiKueue`."""
    residency = platform.policies.residency if platform.knows("policies.residency") else None
    if residency is None:
        return
    for index, pool in platform.all_pools.items():
        value = pool.labels.get(residency.label)
        if index in platform.unclear_pools or value in residency.values:
            continue
        has = f"has `{residency.label}: {value}`" if value else f"has no label {residency.label}"
        allowed = " or ".join(residency.values)
        fix = f"set this label to {allowed} if the nodes carry that value, else remove the pool"
        path = ("pools", index, "labels", residency.label) if value else ("pools", index)
        yield Mistake(path, f"pool `{pool.name}` {has}, but `policies.residency` allows only {allowed}", fix)
    for index, tenant in platform.tenants.items():
        if tenant.multi_kueue:
            message = f"`policies.residency` cannot check the worker clusters on which jobs of `{tenant.name}` run"
            fix = "remove `multiKueue`, or declare this tenant in a platform without `policies.residency`"
            yield Mistake(("tenants", index, "multiKueue"), message, fix)


@rule
def residency_of_tenants(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report tenants whose `residency` is not in `policies.residency`, or whose jobs could run in other places."""
    if not platform.knows("policies.residency"):
        return
    allowed = platform.policies.residency
    for index, tenant in platform.tenants.items():
        path: Steps = ("tenants", index, "residency")
        if not tenant.residency:
            continue
        if allowed is None:
            message = f"`residency` of tenant `{tenant.name}` has no effect without `policies.residency`"
            fix = "write `residency: {label: topology.kubernetes.io/region, values: [eu-central-1]}` in `policies`"
            yield Mistake(path, message, fix)
            continue
        for place in (place for place in tenant.residency if place not in allowed.values):
            message = f"`policies.residency` does not allow {format_value(place)}"
            yield Mistake(path, message, f"write some of: {', '.join(allowed.values)}")
        places = {pool.name: pool.labels.get(allowed.label, "") for pool in platform.pools.values()}
        far = {name: place for name, place in places.items() if place in {*allowed.values} - {*tenant.residency}}
        for pool in (pool for pool in platform.pools.values() if pool.name in far):
            if _has_share(pool, (*tenant.quotas, tenant.borrow), platform):
                message = f"tenant `{tenant.name}` has quota or a borrowing limit in pool `{pool.name}`, which is in "
                fix = f"remove the amounts for this pool, or add {far[pool.name]} to `residency`"
                yield Mistake(path, f"{message}{far[pool.name]}", fix)
        for number, runtime in platform.runtimes.items():
            if tenant.name in runtime.tenants and runtime.pool in far:
                message = f"tenant `{tenant.name}` cannot use runtime `{runtime.name}`, which is in {far[runtime.pool]}"
                fix = f"remove the tenant from `tenants`, or add {far[runtime.pool]} to `residency` of the tenant"
                yield Mistake(("runtimes", number, "tenants"), message, fix)


@rule
def images_of_copies(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report entries of `runtimes[].images` that the admission rule `own-images` allows to no tenant."""
    if not platform.knows("policies.images"):
        return
    images = platform.policies.images
    registries = {
        *images.registries,
        *(registry for tenant in platform.tenants.values() for registry in tenant.registries),
    }
    for index, runtime in platform.runtimes.items():
        for number, pattern in enumerate(runtime.images):
            begin, path = pattern.removesuffix("*"), ("runtimes", index, "images", number)
            is_allowed = any(begin.startswith(registry) or registry.startswith(begin) for registry in registries)
            if images.registries and not is_allowed:
                message = f"`policies.images.registries` allows no image of {format_value(pattern)}"
                yield Mistake(path, message, f"name images from {' or '.join(images.registries)}")
            if images.digests and "*" not in pattern and "@sha256:" not in pattern:
                message = f"{format_value(pattern)} has no digest, which `policies.images.digests` requires"
                yield Mistake(path, message, "write NAME@sha256:DIGEST, or NAME@sha256:* for all its digests")


@rule
def retention_of_jobs(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report runtimes that delete pods and logs of a finished job earlier than `policies.retention.jobs` allows."""
    days = platform.policies.retention.jobs or 0
    for index, runtime in platform.runtimes.items():
        kept = runtime.ttl_seconds_after_finished
        if kept is not None and kept < days * _DAY:
            message = f"`{kept}` seconds is less than the {days} days of `policies.retention.jobs`"
            yield Mistake(("runtimes", index, "ttlSecondsAfterFinished"), message, "remove this field")


@rule
def useless_relaxations(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report entries of `relax` without effect, and relaxations with which users of a team can control the nodes."""
    for index, tenant in (
        platform.tenants.items() if platform.knows("policies.podSecurity", "policies.admission") else ()
    ):
        for relaxation in tenant.relax:
            if explanation := _explain_relaxation(relaxation, tenant, platform.policies):
                yield Mistake(("tenants", index, "relax"), *explanation)


def _explain_relaxation(relaxation: Relaxation, tenant: Tenant, policies: Policies) -> tuple[str, str] | None:
    if relaxation.rule == POD_SECURITY:
        if relaxation.to in _WEAKER_LEVELS[policies.pod_security]:
            return None
        level = f"`policies.podSecurity: {policies.pod_security}`"
        message = f"this entry of `relax` has no effect: {level} already allows all that `{relaxation.to}` allows"
        return message, "remove this entry, or set `policies.podSecurity` to a stricter level"
    if policies.admission.action(relaxation.rule) == "off":
        message = f"this entry of `relax` has no effect: `policies.admission` turns the rule `{relaxation.rule}` off"
        return message, "remove this entry"
    rule = relaxation.rule
    if rule in ("patches", "job-volumes") and (tenant.pod_security or policies.pod_security) == "privileged":
        message = f"without the rule `{rule}` and with the Pod Security level `privileged`, users can control the nodes"
        return message, f"relax either `{rule}` or `pod-security`, not both"
    return None


@rule
def forbidden_memlock(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report runtimes whose pods have the capability IPC_LOCK, which the Pod Security level of a tenant forbids."""
    for index, runtime in platform.runtimes.items() if platform.knows("policies.podSecurity") else ():
        rejecting = [
            tenant.name
            for tenant in platform.tenants.values()
            if (not runtime.tenants or tenant.name in runtime.tenants)
            and (tenant.pod_security or platform.policies.pod_security) not in _LEVELS_WITH_IPC_LOCK
        ]
        if runtime.locks_memory and rejecting:
            names = ", ".join(f"`{name}`" for name in rejecting)
            only = "" if runtime.tenants else ", or list only other tenants in `tenants` of this runtime"
            yield Mistake(
                ("runtimes", index, "memlock"),
                f"`capability` adds IPC_LOCK to pods, and the Pod Security level of tenants {names} rejects these pods",
                "raise the limit of locked memory on the nodes and remove this field, or relax `pod-security` to "
                f"`memlock` for these tenants{only}",
            )


@rule
def volumes_beyond_limits(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report volumes of a tenant that its own ResourceQuota rejects, so that the sync fails."""
    for index, tenant in platform.tenants.items():
        limits, path = tenant.limits, ("tenants", index, "limits")
        if limits.volumes is not None and len(tenant.volumes) > limits.volumes:
            message = f"`{limits.volumes}` is less than the {len(tenant.volumes)} `volumes` of the team"
            yield Mistake((*path, "volumes"), message, "raise this limit, or remove a volume")
        if limits.storage is not None:
            requested = sum((volume.size.value for volume in tenant.volumes), Fraction(0))
            if requested > limits.storage.value:
                requests = Quantity(requested, limits.storage.is_binary)
                message = f"`{limits.storage}` is less than the {requests} that the `volumes` of the team request"
                yield Mistake((*path, "storage"), message, "raise this limit, or make a volume smaller")


@rule
def storage_classes_of_volumes(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report volumes whose StorageClass `policies.storageClasses` does not list, and volumes without a class.

    Without `policies.storageClasses`, every volume is allowed.
    """
    allowed = [storage_class.name for storage_class in platform.policies.storage_classes]
    for index, tenant in platform.tenants.items() if allowed and platform.knows("policies.storageClasses") else ():
        for volume in tenant.volumes:
            if volume.class_name not in allowed:
                has = f"has `class: {volume.class_name}`" if volume.class_name else "has no `class`"
                message = f"volume `{volume.name}` {has}, but `policies.storageClasses` requires a class of its list"
                fix = f"set `class` of this volume to one of: {', '.join(allowed)}"
                yield Mistake(("tenants", index, "volumes"), message, fix)


@rule
def dedicated_pools(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a pool in `dedicated` of a tenant whose nodes other pods can use, or in which others have quota.

    Also report `dedicated` of a tenant with `multiKueue`, whose jobs run on other clusters.
    """
    for index, tenant in platform.tenants.items():
        path: Steps = ("tenants", index, "dedicated")
        if tenant.dedicated and tenant.multi_kueue:
            message = (
                f"jobs of tenant `{tenant.name}` run on worker clusters (`multiKueue`), not on pools of this cluster"
            )
            yield Mistake(path, message, "remove `dedicated`")
            continue
        for pool in (platform.pool_by_name[name] for name in tenant.dedicated if name in platform.pool_by_name):
            for message, fix in _other_ways_in(pool, platform):
                yield Mistake(path, message, fix)
            for other in _other_owners(pool, tenant, platform):
                fix = f"remove the amounts of {other} for this pool, or remove the pool from `dedicated`"
                message = f"pool `{pool.name}` is dedicated to tenant `{tenant.name}`, but {other} has quota or a "
                yield Mistake(path, f"{message}borrowing limit in this pool", fix)


def _other_ways_in(pool: Pool, platform: PartialPlatform) -> Iterator[tuple[str, str]]:
    """Yield a message and a fix for each way in which other pods can use the nodes of a pool.

    Jobs for another pool stay away if that pool has a label that the nodes of this pool lack. A taint alone is not
    enough, because a pod can tolerate any taint.
    """
    if not any(taint.effect != "PreferNoSchedule" for taint in pool.taints):
        message = f"any pod can run on the nodes of pool `{pool.name}`, because the pool has no taint that rejects pods"
        yield message, "add a taint with the effect `NoSchedule` to the nodes, and list it in `taints` of the pool"
    for other in platform.pools.values():
        if other.name != pool.name and other.labels.items() <= pool.labels.items():
            message = f"jobs for pool `{other.name}` can run on nodes of pool `{pool.name}` if they tolerate its taints"
            yield message, f"add a label to pool `{other.name}` that nodes of pool `{pool.name}` do not carry"


def _other_owners(pool: Pool, owner: Tenant, platform: PartialPlatform) -> Iterator[str]:
    """Yield other tenants with quota or a borrowing limit in the pool, and cohorts with quota, such as "tenant `a`".

    Tenants with `multiKueue` and the cohorts in their trees have no quota in pools of this cluster.
    """
    remote = remote_cohorts(platform.tenants.values(), platform.cohorts.values())
    for tenant in platform.tenants.values():
        shares = (*tenant.quotas, tenant.borrow)
        if tenant.name != owner.name and not tenant.multi_kueue and _has_share(pool, shares, platform):
            yield f"tenant `{tenant.name}`"
    for cohort in platform.cohorts.values():
        if cohort.name not in remote and _has_share(pool, (cohort.quota,), platform):
            yield f"cohort `{cohort.name}`"


def _has_share(pool: Pool, shares: tuple[Shares, ...], platform: PartialPlatform) -> bool:
    """Return True if a quota or borrowing limit names the pool, or a resource that the pool offers."""
    supplies = list(platform.supplies.values())
    keys = {key for share in shares for key in share}
    offering = {supply.name for key in keys - {*platform.names["pools"]} for supply in pools_offering(key, supplies)}
    return pool.name in keys or pool.name in offering
