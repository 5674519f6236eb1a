"""How many hosts of a runtime a tenant can have at once: what Kueue may admit, and what the nodes have room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from generator import quantities
from generator.config.platform import Platform
from generator.config.pools import Pool
from generator.config.runtimes import Runtime
from generator.config.shares import Share, amounts, of_nodes
from generator.config.tenants import Tenant
from generator.manifests import Body
from generator.quantities import Quantity
from generator.runtimes.training_runtime import training_runtimes

_NOTHING = Quantity(Fraction(0))
_Resources = dict[str, Quantity]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a tenant gets with a runtime.

    Attributes:
        always: hosts that its quota holds.
        most: hosts with all that it may borrow.
        reason: why there are never more, such as `a host takes 14 cpu, and team-sim never gets more than 48`.
    """

    always: int
    most: int
    reason: str


def reach(platform: Platform, tenant: Tenant, runtime: Runtime) -> Reach:
    """How many hosts of the runtime the tenant can have while nobody else has any.

    Kueue v0.19.2 pkg/cache/scheduler/resource_node.go `potentialAvailable`: up to nominal quota and borrowing limit,
    and never more than all queues of the cohort have together.
    """
    pools = platform.pools
    quota = _sum(pools, *tenant.quotas)
    everything = (
        {pool.name: of_nodes(pool, pool.nodes) for pool in pools}
        if platform.queues.slack
        else _sum(pools, *(quota for each in platform.tenants for quota in each.quotas))
    )
    most = {
        pool: {
            name: min(amount, everything.get(pool, {}).get(name, _NOTHING), key=_value) for name, amount in each.items()
        }
        for pool, each in _sum(pools, *tenant.quotas, tenant.borrow).items()
    }
    always, _ = _hosts(platform, runtime, quota)
    hosts, scarce = _hosts(platform, runtime, most)
    if not scarce:
        return Reach(always, hosts, f"there is no room for more on the nodes of pool `{runtime.pool}`")
    each = _requests(platform, runtime)[0][scarce]
    limit = most.get(runtime.pool, {}).get(scarce, _NOTHING)
    return Reach(always, hosts, f"a host takes {each} {scarce}, and `{tenant.name}` never gets more than {limit}")


def _sum(pools: Sequence[Pool], *shares: Mapping[str, Share]) -> dict[str, _Resources]:
    """Pool → resource → amount."""
    total: dict[str, _Resources] = {}
    for share in shares:
        for pool, resources in amounts(share, pools).items():
            there = total.setdefault(pool, {})
            there.update({name: amount + there.get(name, _NOTHING) for name, amount in resources.items()})
    return total


def _hosts(platform: Platform, runtime: Runtime, limits: Mapping[str, _Resources]) -> tuple[int, str]:
    """How many hosts fit into the limits of each pool, and what runs out first; nothing, if it is room on the nodes."""
    pool = platform.pool(runtime.pool)
    node, launcher = _requests(platform, runtime)
    there = limits.get(pool.name, {})
    if not runtime.has_separate_launcher or _is_elsewhere(platform, pool, launcher, limits):
        launcher = {}
    fit = {name: _times(there.get(name, _NOTHING), launcher.get(name, _NOTHING), each) for name, each in node.items()}
    scarce = min(fit, key=lambda name: (fit[name], name != pool.accelerator))
    room = _room(pool, node, launcher)
    return (fit[scarce], scarce) if fit[scarce] <= room else (room, "")


def _times(amount: Quantity, taken: Quantity, each: Quantity) -> int:
    return max(int((amount.value - taken.value) // each.value), 0)


def _room(pool: Pool, node: _Resources, launcher: _Resources) -> int:
    """How many hosts the nodes of a pool hold, beside a launcher: no host is on two nodes."""
    offered = {name: quantities.parse(amount) for name, amount in pool.offered.items()}
    on_each = min(_times(offered[name], _NOTHING, each) for name, each in node.items())
    is_beside = all(
        offered[name].value - on_each * node.get(name, _NOTHING).value >= each.value for name, each in launcher.items()
    )
    return pool.nodes * on_each - (0 if is_beside else 1)


def _is_elsewhere(platform: Platform, pool: Pool, launcher: _Resources, limits: Mapping[str, _Resources]) -> bool:
    """Whether a separate launcher finds its place in another pool: it selects none, and tolerates its own one's taints.

    Kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `checkFlavorForPodSets`.
    """
    tolerated = {(taint.key, taint.value, taint.effect) for taint in pool.taints}
    return any(
        all(limits.get(other.name, {}).get(name, _NOTHING).value >= each.value for name, each in launcher.items())
        for other in platform.pools
        if other.name != pool.name
        and {(taint.key, taint.value, taint.effect) for taint in other.taints if taint.effect != "PreferNoSchedule"}
        <= tolerated
    )


def _requests(platform: Platform, runtime: Runtime) -> tuple[_Resources, _Resources]:
    """What Kueue counts for a node and for the launcher."""
    (body, *_) = training_runtimes(runtime, platform.pool(runtime.pool), platform.cluster)
    jobs = body["spec"]["template"]["spec"]["replicatedJobs"]
    node, launcher = (_request(job["template"]["spec"]["template"]["spec"]) for job in jobs)
    return node, launcher


def _request(pod: Body) -> _Resources:
    """The larger of what the container and its init container ask for, as the scheduler counts."""
    (container,), (before,) = pod["containers"], pod["initContainers"]
    first, second = container["resources"]["requests"], before["resources"]["requests"]
    return {
        name: max((quantities.parse(each[name]) for each in (first, second) if name in each), key=_value)
        for name in {**first, **second}
    }


def _value(amount: Quantity) -> Fraction:
    return amount.value
