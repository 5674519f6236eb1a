"""The rules about quotas: a pool offers every amount in them, and the pools hold the sum of all quotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from generator.config.mistakes import Mistake
from generator.config.model.fields import Steps, check_amount, to_quantity
from generator.config.model.quotas import (
    Amounts,
    Share,
    Supply,
    pools_offering,
    quota_amounts,
    sum_amounts,
)
from generator.config.model.tenants import Cohort, Tenant, remote_cohorts
from generator.config.rules.rule import PartialPlatform, lacks_fabric, rule
from generator.documents.messages import format_value
from generator.errors import suggest
from generator.quantities import ZERO, Quantity


@rule
def unavailable_shares(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report invalid entries of `quota`, `borrow`, `lend` and `reservations` of tenants and cohorts.

    The pool or resource is missing or ambiguous, Kueue does not count the resource, or the amount exceeds the pool.
    """
    remote = remote_cohorts(platform.tenants.values(), platform.cohorts.values())
    for index, cohort in platform.cohorts.items():
        yield from _check_cohort(("cohorts", index), cohort, platform, is_local=cohort.name not in remote)
    for index, tenant in platform.tenants.items():
        yield from _check_tenant(("tenants", index), tenant, platform)


def _check_cohort(path: Steps, cohort: Cohort, platform: PartialPlatform, *, is_local: bool) -> Iterator[Mistake]:
    for field, shares in (("quota", cohort.quota), ("borrow", cohort.borrow), ("lend", cohort.lend)):
        yield from _check_shares((*path, field), shares or {}, platform, is_local=is_local)


def _check_tenant(path: Steps, tenant: Tenant, platform: PartialPlatform) -> Iterator[Mistake]:
    is_local = not tenant.multi_kueue
    for field, shares in (("quota", tenant.quota), ("borrow", tenant.borrow), ("lend", tenant.lend)):
        yield from _check_shares((*path, field), shares or {}, platform, is_local=is_local)
    for reservation in tenant.reservations:
        for mistake in _check_shares(("quota",), reservation.quota, platform, is_local=is_local):
            yield Mistake((*path, "reservations"), f"reservation `{reservation.name}`: {mistake.message}", mistake.fix)


def _check_shares(
    path: Steps, shares: Mapping[str, Share], platform: PartialPlatform, *, is_local: bool
) -> Iterator[Mistake]:
    """Report the invalid amounts of one field, such as `quota`.

    Args:
        path: the path of the field.
        shares: the value of the field: pool or resource → amount.
        platform: the platform that declares the pools.
        is_local: False if the amounts are for worker clusters, whose number of nodes is unknown.
    """
    for key, share in shares.items():
        if key in platform.names["pools"]:
            yield from _check_share_of_pool((*path, key), key, share, platform, is_local=is_local)
        elif all(platform.names["pools"]) and key != platform.stand_in:  # else it may be a pool with an invalid name
            yield from _check_share_of_resource((*path, key), key, shares, platform, is_local=is_local)


def _check_share_of_pool(
    path: Steps, name: str, share: Any, platform: PartialPlatform, *, is_local: bool
) -> Iterator[Mistake]:
    if isinstance(share, Quantity):
        fix = "write an integer without quotes, or resources such as `{cpu: 32}`"
        yield Mistake(path, f"`{share}` is not a number of nodes", fix)
        return
    is_local = is_local and name not in platform.pools_without_nodes
    # `duplicate_names` reports two pools of one name. A share is certainly wrong if it is wrong for both of them.
    pools = [
        supply
        for index, supply in platform.supplies.items()
        if supply.name == name and (isinstance(share, int) or not lacks_fabric(platform.pools[index]))
    ]
    if len(pools) == platform.names["pools"].count(name):
        *others, largest = sorted(pools, key=lambda pool: pool.nodes)
        wrong = [{one.path for one in _check_share_of_supply(path, share, pool, is_local=is_local)} for pool in others]
        for mistake in _check_share_of_supply(path, share, largest, is_local=is_local):
            if all(mistake.path in paths for paths in wrong):
                yield mistake


def _check_share_of_supply(path: Steps, share: Any, pool: Supply, *, is_local: bool) -> Iterator[Mistake]:
    for resource, amount in share.items() if isinstance(share, dict) else ():
        if resource in pool.offered:
            yield from _check_capacity((*path, resource), resource, amount, pool) if is_local else ()
        elif resource in pool.uncounted:
            yield _uncounted_resource((*path, resource), resource, pool)
        else:
            fix = suggest(resource, pool.offered)
            message = f"nodes of pool `{pool.name}` have no {resource}"
            yield Mistake((*path, resource), message, fix, is_of_key=True)
    if isinstance(share, int) and share > pool.nodes and is_local:
        message = f"`{share}` is a number of nodes, and pool `{pool.name}` has only {pool.nodes}"
        yield Mistake(path, message, f"write at most {pool.nodes}{_propose_devices(share, pool)}")


def _propose_devices(share: int, pool: Supply) -> str:
    """Return the fix for a number of devices in place of a number of nodes; empty if the pool has fewer devices."""
    devices = pool.offered.get(pool.accelerator)
    per_node = int(devices.value) if devices else 0
    if not per_node or share > per_node * pool.nodes:
        return ""
    return f"; for {share} devices, write `{pool.name}: {{{pool.accelerator}: {share}}}`"


def _check_share_of_resource(
    path: Steps, key: str, shares: Mapping[str, Any], platform: PartialPlatform, *, is_local: bool
) -> Iterator[Mistake]:
    share, pools = shares[key], platform.names["pools"]
    offers = pools_offering(key, list(platform.supplies.values()))
    if isinstance(share, dict):
        yield Mistake(path, f"there is no pool {format_value(key)}", suggest(key, pools), is_of_key=True)
    elif len({pool.name for pool in offers}) > 1:
        names = " and ".join(dict.fromkeys(f"`{pool.name}`" for pool in offers))
        fix = f"name the pool, such as `{offers[0].name}: {{{key}: {share}}}`"
        yield Mistake(path, f"several pools offer {key}: {names}", fix, is_of_key=True)
    elif not platform.has_all_pools and (offers or platform.may_offer(key)):
        return  # an invalid pool or fabric may have the resource
    elif hidden := next((pool for pool in platform.supplies.values() if key in pool.uncounted), None):
        yield _uncounted_resource(path, key, hidden)
    elif not offers:
        known = {*pools, *(name for pool in platform.supplies.values() for name in pool.offered)}
        message = f"{format_value(key)} is neither a pool nor a resource of a pool"
        yield Mistake(path, message, suggest(key, known), is_of_key=True)
    elif offers[0].name in shares:
        name = offers[0].name
        message = f"`{key}` and `{name}` are both amounts of pool `{name}`, the only pool that offers {key}"
        fix = f"write one entry for this pool, such as `{name}: {{{key}: {share}}}`"
        yield Mistake(path, message, fix, is_of_key=True)
    elif implausible := check_amount(key, to_quantity(share)):
        yield Mistake(path, implausible.message, implausible.fix)
    elif is_local and offers[0].name not in platform.pools_without_nodes:
        most = max(offers, key=lambda pool: pool.offered[key].value * pool.nodes)
        yield from _check_capacity(path, key, to_quantity(share), most)


def _uncounted_resource(path: Steps, resource: str, pool: Supply) -> Mistake:
    instead = " and ".join(pool.uncounted[resource])
    if not instead:
        message = f"`queues` excludes {resource}, so Kueue has no quota for {resource}"
        return Mistake(path, message, "remove this entry", is_of_key=True)
    message = f"`queues.transformations` counts {resource} only as {instead}, so Kueue has no quota for {resource}"
    entries = " and ".join(f"`{name}: AMOUNT`" for name in pool.uncounted[resource])
    return Mistake(path, message, f"replace this entry by {entries}", is_of_key=True)


def _check_capacity(path: Steps, resource: str, amount: Quantity, pool: Supply) -> Iterator[Mistake]:
    capacity = pool.offered[resource] * pool.nodes
    if amount.value > capacity.value:
        message = f"`{amount}` is more than the {capacity} {resource} that pool `{pool.name}` offers to jobs"
        yield Mistake(path, message, f"write at most {capacity}")


@rule
def lending_beyond_quota(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a lending limit above `quota`.

    Kueue rejects a lending limit above the nominal quota (kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go), which is
    `quota` alone after the reservations end.
    """
    pools = list(platform.supplies.values())
    for path, tenant in _tenants_with_valid_shares(platform):
        owned = quota_amounts(tenant.quota, pools)
        for pool, resources in quota_amounts(tenant.lend or {}, pools).items():
            for resource, amount in resources.items():
                quota = owned.get(pool, {}).get(resource, ZERO)
                if amount.value > quota.value:
                    message = f"the team lends {amount} {resource} of pool `{pool}`, but its quota is {quota}"
                    yield Mistake((*path, "lend"), message, "lend at most the amount in `quota`")
                    break


@rule
def limits_below_quota(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a ResourceQuota (`limits.resources`) below the quota in Kueue: `quota`, `reservations` and `borrow`.

    Kueue then admits jobs whose pods the API server rejects. The rule skips tenants with `multiKueue`, because their
    pods run on other clusters.
    """
    pools = list(platform.supplies.values())
    for path, tenant in _tenants_with_valid_shares(platform):
        if tenant.multi_kueue or not tenant.limits.resources:
            continue
        admitted = sum_amounts(*(quota_amounts(shares, pools) for shares in (*tenant.quotas, tenant.borrow)))
        for resource, limit in tenant.limits.resources.items():
            most = sum((amounts.get(resource, ZERO).value for amounts in admitted.values()), Fraction(0))
            if limit.value < most:
                most_text = Quantity(most, limit.is_binary)
                message = f"`{limit}` is less than the {most_text} that Kueue admits for tenant `{tenant.name}`"
                message += ", so the API server rejects pods"
                fix = f"write at least {most_text}, or remove this limit: Kueue enforces the quota"
                yield Mistake((*path, "limits", "resources", resource), message, fix)


def _tenants_with_valid_shares(platform: PartialPlatform) -> Iterator[tuple[Steps, Tenant]]:
    for index, tenant in platform.tenants.items():
        path: Steps = ("tenants", index)
        shares = (*tenant.quotas, tenant.borrow, tenant.lend or {})
        if not any(_check_tenant(path, tenant, platform)) and all(_is_unambiguous(quota, platform) for quota in shares):
            yield path, tenant


def _is_unambiguous(shares: Mapping[str, Share], platform: PartialPlatform) -> bool:
    """Return True if each key of a quota selects exactly one pool, and no other pool has the name of this pool."""
    named = platform.supply_by_name
    pools = list(platform.supplies.values())
    offers = {key: [pool.name for pool in pools_offering(key, pools)] for key in shares.keys() - named.keys()}
    return all(platform.has_all_pools and len(names) == 1 and names[0] in named for names in offers.values())


@rule
def overcommitted_pools(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report pools with less than the sum of all quotas: Kueue admits jobs whose pods then stay Pending.

    Also report pools of which `queues` excludes all resources, so that no quota limits their jobs.
    """
    shares = _promised_shares(platform)
    promised = sum_amounts(*(amounts for _, amounts in shares))
    for index, pool in platform.supplies.items():
        if not pool.offered:
            message = f"`queues` excludes every resource of pool `{pool.name}`, so no quota limits jobs on this pool"
            fix = "remove cpu, memory or a device of the pool from the exclusions in `queues`"
            yield Mistake(("pools", index), message, fix)
            continue
        per_node = pool.offered
        needed = {
            resource: promised.get(pool.name, {}).get(resource, ZERO).value / amount.value
            for resource, amount in per_node.items()
        }
        scarcest = max(needed, key=lambda resource: (needed[resource], resource == pool.accelerator))
        nodes = needed[scarcest]
        if nodes > pool.nodes and pool.name not in platform.pools_without_nodes:
            is_whole = nodes.denominator == 1
            taken = f"{nodes} nodes" if is_whole else f"{per_node[scarcest] * nodes} {scarcest}"
            available = str(pool.nodes if is_whole else per_node[scarcest] * pool.nodes)
            parts = _format_shares(shares, pool.name, scarcest, per_node[scarcest] if is_whole else None)
            message = f"the quotas need {taken} of pool `{pool.name}`, which has {available}: {parts}"
            yield Mistake(("pools", index, "nodes"), message, "lower a quota and set `borrow` instead, or add nodes")


def _promised_shares(platform: PartialPlatform) -> list[tuple[str, Amounts]]:
    """Return (holder, amounts) of each valid quota on this cluster: of a tenant, a reservation or a cohort."""
    remote = remote_cohorts(platform.tenants.values(), platform.cohorts.values())
    pools = list(platform.supply_by_name.values())
    quotas = [
        (f"`{tenant.name}`", quota)
        for index, tenant in platform.tenants.items()
        if not tenant.multi_kueue and not any(_check_tenant(("tenants", index), tenant, platform))
        for quota in tenant.quotas
    ]
    quotas += [
        (f"cohort `{cohort.name}`", cohort.quota)
        for index, cohort in platform.cohorts.items()
        if cohort.name not in remote and not any(_check_cohort(("cohorts", index), cohort, platform, is_local=True))
    ]
    return [(holder, quota_amounts(quota, pools)) for holder, quota in quotas if _is_unambiguous(quota, platform)]


_LISTED = 5
"""The holders of quota in a message."""


def _format_shares(shares: Iterable[tuple[str, Amounts]], pool: str, resource: str, per_node: Quantity | None) -> str:
    """Return the largest holders of a resource of a pool, such as "`team-a` 8, cohort `b` 2, and 3 more".

    Args:
        shares: (holder, amounts).
        pool: the name of the pool.
        resource: the resource.
        per_node: the amount of a node, to print nodes; None to print amounts.
    """
    held: dict[str, Quantity] = {}
    for holder, amounts in shares:
        held[holder] = amounts.get(pool, {}).get(resource, ZERO) + held.get(holder, ZERO)
    largest = sorted((name for name in held if held[name].value), key=lambda name: (-held[name].value, name))
    sizes = {name: f"{float(held[name].value / per_node.value):.4g}" if per_node else held[name] for name in largest}
    parts = [f"{name} {sizes[name]}" for name in largest[:_LISTED]]
    return ", ".join([*parts, *([f"and {len(largest) - _LISTED} more"] if len(largest) > _LISTED else [])])


@rule
def unused_weights(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report fair-share weights that Kueue ignores, because fair sharing is off."""
    entries = [(("tenants", index), tenant.weight) for index, tenant in platform.tenants.items()]
    entries += [(("cohorts", index), cohort.weight) for index, cohort in platform.cohorts.items()]
    for path, weight in entries if not platform.may_be_fair else ():
        if weight != 1:
            message = f"`{weight}` has no effect: without fair sharing, the first job that requests idle quota gets it"
            yield Mistake((*path, "weight"), message, "write `fairSharing: true` in `queues`, or remove the weight")
