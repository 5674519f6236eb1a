"""platform/unusable-runtime: a runtime whose default job no team can ever run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from generator import quantities
from generator.config.platform import Platform
from generator.config.pools import Pool
from generator.config.runtimes import Runtime
from generator.config.shares import NOTHING, amounts, total
from generator.config.tenants import Tenant
from generator.hazards.hazard import Hazard
from generator.quantities import Quantity
from generator.runtimes.sizing import NodeSize, launcher_resources, node_size
from generator.simulate.amounts import requested, shown

DEFAULT_NODES = 2
"""Hosts of a TrainJob without `numNodes`, on a runtime without `nodes`."""


def runtime_hazards(platform: Platform) -> Iterator[Hazard]:
    """Report runtimes whose default job exceeds what every team may ever use.

    What a team may use is at most its quota, its reservations and its borrowing limit, and no more than the pool has.
    Less may be true, as others may lend less: so a runtime that is not reported may be unusable all the same.
    """
    pools = {pool.name: pool for pool in platform.pools}
    may_use = {tenant.name: _possible(tenant, platform) for tenant in platform.tenants}
    for runtime in platform.runtimes:
        pool = pools[runtime.pool]
        size, hosts = node_size(runtime, pool), runtime.nodes or DEFAULT_NODES
        tenants = [each for each in platform.tenants if not runtime.tenants or each.name in runtime.tenants]
        needed = _needed(runtime, size, hosts, platform)
        lacks = [
            _lack(needed, hosts, size, tenant, pool, may_use[tenant.name].get(pool.name, {})) for tenant in tenants
        ]
        if lacks and all(lacks):
            yield _unusable(runtime, hosts, next(filter(None, lacks)), len(lacks))


def _possible(tenant: Tenant, platform: Platform) -> Mapping[str, Mapping[str, Quantity]]:
    return total(*(amounts(shares, platform.supplies) for shares in (*tenant.quotas, tenant.borrow)))


def _needed(runtime: Runtime, size: NodeSize, hosts: int, platform: Platform) -> Mapping[str, int]:
    """Return what Kueue counts of the default job: resource → amount in its own unit."""
    wanted = {resource: quantities.parse(amount) * hosts for resource, amount in size.resources.items()}
    if runtime.has_separate_launcher:
        for resource, amount in launcher_resources(runtime, size).items():
            wanted[resource] = wanted.get(resource, NOTHING) + quantities.parse(amount)
    asked = requested({resource: str(amount) for resource, amount in wanted.items()}, runtime.name)
    return platform.queues.counting.of(asked)


def _lack(
    needed: Mapping[str, int], hosts: int, size: NodeSize, tenant: Tenant, pool: Pool, may_use: Mapping[str, Quantity]
) -> str:
    """Return why the default job never runs for a team; '' if it may."""
    most = tenant.limits.hosts_per_job
    if most is not None and hosts > most:
        return f"`{tenant.name}` may use {most} hosts per job (`limits.hostsPerJob`)"
    has = requested({resource: str(amount) for resource, amount in may_use.items()}, tenant.name)
    for resource in sorted(needed, key=lambda name: "/" not in name):
        if needed[resource] > has.get(resource, 0):
            takes, there = (shown(resource, each.get(resource, 0)) for each in (needed, has))
            return f"it takes {takes} {resource}, and `{tenant.name}` never gets more than {there}"
    room = pool.nodes * _hosts_on_a_node(size, pool)
    if not tenant.multi_kueue and hosts > room:
        return f"pool `{pool.name}` has room for {room} hosts"
    return ""


def _hosts_on_a_node(size: NodeSize, pool: Pool) -> int:
    parts = [
        Fraction(quantities.parse(pool.offered[resource]).value) / quantities.parse(amount).value
        for resource, amount in size.resources.items()
        if resource in pool.offered
    ]
    return int(min(parts, default=Fraction(1)))


def _unusable(runtime: Runtime, hosts: int, lack: str, teams: int) -> Hazard:
    path = ("runtimes", runtime.name, *(("nodes",) if runtime.nodes else ()))
    others = "; no other team can run it either" if teams > 1 else ""
    return Hazard(
        "platform/unusable-runtime",
        path,
        f"the default job on `{runtime.name}` ({hosts} hosts) never runs: {lack}{others}",
        "a TrainJob without `numNodes` stays suspended for ever, and only the status of its Workload says why",
        "lower `nodes` of the runtime, or raise `quota` or `borrow` of a team",
    )
