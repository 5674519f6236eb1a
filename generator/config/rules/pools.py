"""The rules about pools: labels that select the nodes of one pool only, and resources that these nodes can offer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from generator.config.mistakes import Mistake
from generator.config.model.fields import Steps
from generator.config.model.pools import Pool
from generator.config.rules.rule import PartialPlatform, rule
from generator.errors import suggest
from generator.facts.devices import (
    MIG_PREFIX,
    NVIDIA_GPU,
    PRODUCT_LABEL,
    Gpu,
    gpus_of_product,
    gpus_of_server,
    is_profile,
    known_profiles,
    likely_meant,
    misspelt_prefix,
    profile_of_product,
)
from generator.facts.nodes import SERVERS, labels_of_one_node
from generator.quantities import Quantity

_INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
_STRATEGY_LABEL = "nvidia.com/mig.strategy"
_SHARED_SUFFIX = ".shared"


@rule
def labels_of_single_nodes(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report labels that select one node, such as `kubernetes.io/hostname`, on a pool with several nodes."""
    for index, pool in platform.all_pools.items():
        has_many = pool.nodes > 1 and pool.name not in platform.pools_without_nodes
        for key in labels_of_one_node() & pool.labels.keys() if has_many else ():
            yield Mistake(
                ("pools", index, "labels", key),
                f"the label `{key}` selects one node, but pool `{pool.name}` has {pool.nodes} nodes",
                "replace it by a label that all nodes of the pool carry, and no other nodes",
            )


@rule
def indistinct_pools(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a pool whose jobs can run on the nodes of a different pool.

    Jobs stay away from nodes that lack a label of the pool, or that have a taint which the pool does not have. Taints
    with the effect PreferNoSchedule do not count.
    """
    named = platform.pool_by_name.values()
    pools = {index: pool for index, pool in platform.pools.items() if index not in platform.unclear_pools}
    pools = {index: pool for index, pool in pools.items() if pool in named}
    for index, pool in pools.items():
        tolerated = {(taint.key, taint.value, taint.effect) for taint in pool.taints}
        for other in pools.values():
            if other.name == pool.name or not pool.labels.items() <= other.labels.items():
                continue
            is_tainted = any(
                taint.effect != "PreferNoSchedule" and (taint.key, taint.value, taint.effect) not in tolerated
                for taint in other.taints
            )
            if not is_tainted:
                yield Mistake(
                    ("pools", index),
                    f"jobs for pool `{pool.name}` can also run on nodes of pool `{other.name}`, which carry the same "
                    "labels and no taint that keeps these jobs away",
                    f"add a label to pool `{pool.name}` that only its nodes carry, or a taint to pool `{other.name}`",
                )


@rule
def misspelt_resources(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report resources whose name is probably a misspelling of a known resource."""
    if not platform.knows("cluster.resources") or not all(platform.names["devices"]):
        return  # `cluster.resources` or `devices` may list the name
    own = frozenset(platform.cluster.resources) | {device.resource for device in platform.devices.values()}
    for index, fabric in platform.fabrics.items():
        if fabric.resource:
            yield from _check_spelling(("fabrics", index, "resource"), fabric.resource, own, is_of_key=False)
    requested = frozenset(name for fabric in platform.fabrics.values() for name in fabric.requests)
    offered = requested | {name for pool in platform.pools.values() for name in pool.allocatable}
    for index, pool in platform.pools.items():
        for name in pool.allocatable:
            yield from _check_spelling(("pools", index, "allocatable", name), name, own, requested)
    for transformation in platform.queues.transformations:
        yield from _check_spelling(("queues", "transformations"), transformation.input, own, offered, is_of_key=False)
    for index, tenant in platform.tenants.items():
        limits = {"devicesPerHost": tenant.limits.devices_per_host, "resources": tenant.limits.resources}
        for field, names in limits.items():
            for name in names:
                yield from _check_spelling(("tenants", index, "limits", field, name), name, own, offered)


def _check_spelling(
    path: Steps, name: str, own: frozenset[str], chosen: Collection[str] = (), *, is_of_key: bool = True
) -> Iterator[Mistake]:
    is_slice = name.startswith(MIG_PREFIX)  # `impossible_mig_slices` checks MIG profiles
    if "/" not in name or is_slice or name in own or name in chosen:
        return
    meant = likely_meant(name, own | frozenset(chosen))
    if not meant and (prefix := misspelt_prefix(name)):
        meant = f"{prefix}/{name.partition('/')[2]}"
    if meant:
        message = f"no known device plugin offers `{name}`, so pods that request it stay Pending"
        fix = f"did you mean `{meant}`? If the name is right, add it to `cluster.resources`"
        yield Mistake(path, message, fix, is_of_key)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of one node of a pool, as far as the labels and the server type of the pool show them.

    Attributes:
        gpus: the possible GPU models; empty if unknown.
        count: the number of GPUs; 0 if unknown.
        name: the label value or the server type that shows the models; empty if the pool has neither.
    """

    gpus: Sequence[Gpu] = ()
    count: int = 0
    name: str = ""


def hardware_of(pool: Pool) -> Hardware:
    """Return the GPUs of a pool's nodes by the labels of the pool, and by the server type of its fabric."""
    name = (pool.wiring.server_name if pool.wiring else "") or pool.labels.get(_INSTANCE_TYPE_LABEL, "")
    server = (pool.wiring.known_server if pool.wiring else None) or SERVERS.get(name)
    count = int(first) if server and (first := server.accelerators.split()[0]).isdecimal() else 0
    if gpus := gpus_of_product(pool.labels.get(PRODUCT_LABEL, "")):
        return Hardware(gpus, count, pool.labels[PRODUCT_LABEL])
    return Hardware(gpus_of_server(server.like or name if server else name), count, name)


def shares_devices(pool: Pool, resource: str) -> bool:
    """Return True if the resource or a label of the pool shows that several pods share one device."""
    keys = (
        f"{resource}.sharing-strategy",
        f"{resource}.replicas",
        f"{NVIDIA_GPU}.sharing-strategy",
        f"{NVIDIA_GPU}.replicas",
    )
    is_named = any(pool.labels.get(key, "none") not in ("none", "1", "0") for key in keys)
    is_product = any(value.endswith("-SHARED") for value in pool.labels.values())
    return resource.endswith(_SHARED_SUFFIX) or is_named or is_product


@rule
def impossible_mig_slices(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report MIG profiles that the GPUs of a pool lack, and more GPUs or MIG instances than one node has.

    Also report names that are no MIG profile, and MIG resources on nodes with another MIG strategy than `mixed`. The
    rule skips resources in `cluster.resources`.
    """
    own = platform.cluster.resources
    for index, pool in platform.pools.items() if platform.knows("cluster.resources") else ():
        hardware = hardware_of(pool)
        profile = profile_of_product(pool.labels.get(PRODUCT_LABEL, ""))
        if profile and hardware.gpus and not any(profile in gpu.profiles for gpu in hardware.gpus):
            message = f"{_format_gpus(hardware)} has no MIG profile `{profile}`, so no node carries this label"
            yield Mistake(("pools", index, "labels", PRODUCT_LABEL), message, _format_profiles(hardware))
        for resource, amount in pool.allocatable.items():
            path = ("pools", index, "allocatable", resource)
            if resource in own:
                continue
            if resource.startswith(MIG_PREFIX):
                yield from _check_slices(path, resource, amount, pool, hardware)
            elif resource == NVIDIA_GPU:
                yield from _check_gpus(path, amount, pool, hardware, profile)


def _check_slices(path: Steps, resource: str, amount: Quantity, pool: Pool, hardware: Hardware) -> Iterator[Mistake]:
    profile = resource.removeprefix(MIG_PREFIX).removesuffix(_SHARED_SUFFIX)
    counts = [gpu.profiles.get(profile, 0) for gpu in hardware.gpus]
    strategy = pool.labels.get(_STRATEGY_LABEL, "mixed")
    if not is_profile(profile):
        message = f"`{profile}` is not a MIG profile, so the device plugin never offers `{resource}`"
        names = {name for gpu in hardware.gpus for name in gpu.profiles} or set(known_profiles())
        yield Mistake(path, message, _suggest_profile(profile, names), is_of_key=True)
    elif hardware.gpus and not any(counts):
        message = f"{_format_gpus(hardware)} has no MIG profile `{profile}`, so no node offers `{resource}`"
        yield Mistake(path, message, _format_profiles(hardware), is_of_key=True)
    elif strategy != "mixed":
        message = f"with the label `{_STRATEGY_LABEL}: {strategy}`, nodes offer `{NVIDIA_GPU}` and never `{resource}`"
        fix = f"write `{NVIDIA_GPU}` here, or set the label to `mixed` if the nodes carry that value"
        yield Mistake(path, message, fix, is_of_key=True)
    elif hardware.count and any(counts) and not shares_devices(pool, resource):
        most = hardware.count * max(counts)
        if amount.value > most:
            message = (
                f"a node cannot have `{amount}` MIG instances: its {hardware.count} GPUs hold at most {most} of the "
                f"profile `{profile}`"
            )
            yield Mistake(path, message, f"write at most {most}, or, {_suggest_sharing(resource)}")


def _check_gpus(path: Steps, amount: Quantity, pool: Pool, hardware: Hardware, profile: str) -> Iterator[Mistake]:
    """Report more GPUs than the server has. With the MIG strategy `single`, each MIG instance counts as a GPU."""
    if not hardware.count or not hardware.gpus or shares_devices(pool, NVIDIA_GPU):
        return
    if profile:
        per_gpu = max(gpu.profiles.get(profile, 0) for gpu in hardware.gpus)
    elif pool.labels.get(_STRATEGY_LABEL) == "single":
        per_gpu = max(max(gpu.profiles.values(), default=1) for gpu in hardware.gpus)
    else:
        per_gpu = 1
    most = hardware.count * per_gpu
    if per_gpu and amount.value > most:
        message = f"`{amount}` is more than the {most} devices of a node with `{hardware.name}`"
        yield Mistake(path, message, f"write at most {most}, or, {_suggest_sharing(NVIDIA_GPU)}")


def _suggest_sharing(resource: str) -> str:
    label = f"{resource.removesuffix(_SHARED_SUFFIX)}.sharing-strategy: time-slicing"
    return f"if several pods share a device, add the nodes' label `{label}` to `labels` of the pool"


def _format_gpus(hardware: Hardware) -> str:
    names = [gpu.name for gpu in hardware.gpus if gpu.profiles]
    return " or ".join(names) or f"`{hardware.name}`"


def _format_profiles(hardware: Hardware) -> str:
    names = dict.fromkeys(name for gpu in hardware.gpus for name in gpu.profiles)
    return f"write one of its profiles: {', '.join(names)}" if names else f"write `{NVIDIA_GPU}`"


def _suggest_profile(profile: str, names: Iterable[str]) -> str:
    fix = suggest(profile, names)
    return fix if fix.startswith("did you mean") else "write a profile such as nvidia.com/mig-1g.10gb"
