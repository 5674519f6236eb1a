"""Who may use which fabric."""

from __future__ import annotations

from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.kueue.queues import holding


def pools_with(fabric: Fabric, platform: Platform) -> list[Pool]:
    """The pools whose nodes have a fabric."""
    return [pool for pool in platform.pools if pool.fabric == fabric.name]


def fabrics_of(tenant: Tenant, platform: Platform) -> list[Fabric]:
    """The fabrics of the pools of which a team has or may borrow something; of jobs that run elsewhere none."""
    if tenant.multi_kueue:
        return []
    held = holding(tenant, platform.supplies)
    named = {*held.quota, *(held.borrow or {})}
    return [fabric for fabric in platform.fabrics if any(pool.name in named for pool in pools_with(fabric, platform))]
