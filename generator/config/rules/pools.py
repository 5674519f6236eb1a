"""Resources of pools that no device plugin offers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from generator import quantities
from generator.config.mistakes import Mistake
from generator.config.model.pools import Pool
from generator.config.rules.partial import PartialPlatform
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
from generator.facts.servers import SERVERS

Path = tuple[str | int, ...]
_ESCAPE = "if the name is right, add it to `cluster.resources`"


def misspelt(draft: PartialPlatform) -> Iterator[Mistake]:
    """Report every resource whose name is one edit away from a known one."""
    if draft.cluster is None:
        return  # it may list the name in `resources`
    own = frozenset(draft.cluster.resources)
    for index, fabric in draft.fabrics.items():
        if fabric.resource:
            yield from _resembling(("fabrics", index, "resource"), fabric.resource, own, is_of_key=False)
    requested = frozenset(name for fabric in draft.fabrics.values() for name in fabric.requests)
    offered = requested | {name for pool in draft.pools.values() for name in pool.allocatable}
    for index, pool in draft.pools.items():
        for name in pool.allocatable:
            yield from _resembling(("pools", index, "allocatable", name), name, own, requested)
    for each in draft.queues.transformations if draft.queues else ():
        yield from _resembling(("queues", "transformations"), each.input, own, offered, is_of_key=False)
    for index, tenant in draft.tenants.items():
        limits = tenant.limits
        for field, names in (("devicesPerHost", limits.devices_per_host), ("resources", limits.resources)):
            for name in names:
                yield from _resembling(("tenants", index, "limits", field, name), name, own, offered)


def _resembling(
    path: Path, name: str, own: frozenset[str], chosen: Collection[str] = (), *, is_of_key: bool = True
) -> Iterator[Mistake]:
    is_slice = name.startswith(MIG_PREFIX)  # `impossible_slices` judges MIG profiles
    if "/" not in name or is_slice or name in own or name in chosen:
        return
    if meant := likely_meant(name, own | frozenset(chosen)):
        what = f"no device plugin offers `{name}`, so pods that request it stay Pending"
        yield Mistake(path, what, f"did you mean `{meant}`? {_ESCAPE.capitalize()}", is_of_key)
    elif prefix := misspelt_prefix(name):
        what = f"no device plugin offers `{name}`, so pods that request it stay Pending"
        meant = f"{prefix}/{name.partition('/')[2]}"
        yield Mistake(path, what, f"did you mean `{meant}`? {_ESCAPE.capitalize()}", is_of_key)


_TYPE_LABEL = "node.kubernetes.io/instance-type"
_STRATEGY_LABEL = "nvidia.com/mig.strategy"
_SHARED = ".shared"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of a node, as far as a pool declares them.

    Attributes:
        gpus: models that they may be; none if unknown.
        count: how many there are; 0 if unknown.
        name: the declaration that says so, for messages.
    """

    gpus: Sequence[Gpu] = ()
    count: int = 0
    name: str = ""


def hardware_of(pool: Pool) -> Hardware:
    """Return the GPUs of a pool's nodes by their product label and the type of the server."""
    known = pool.wiring.server if pool.wiring else None
    server = known or pool.labels.get(_TYPE_LABEL, "")
    count = int(first) if server in SERVERS and (first := SERVERS[server].accelerators.split()[0]).isdigit() else 0
    if gpus := gpus_of_product(pool.labels.get(PRODUCT_LABEL, "")):
        return Hardware(gpus, count, pool.labels[PRODUCT_LABEL])
    return Hardware(gpus_of_server(server), count, server)


def impossible_slices(draft: PartialPlatform) -> Iterator[Mistake]:
    """Report MIG resources of pools that cannot exist on their GPUs."""
    own = draft.cluster.resources if draft.cluster else ()
    for index, pool in draft.pools.items() if draft.cluster else ():
        path = ("pools", index)
        hardware = hardware_of(pool)
        product = profile_of_product(pool.labels.get(PRODUCT_LABEL, ""))
        if product and hardware.gpus and not any(product in gpu.profiles for gpu in hardware.gpus):
            what = f"{_names_of(hardware)} has no MIG profile `{product}`, so no node carries this label"
            yield Mistake((*path, "labels", PRODUCT_LABEL), what, _profiles_of(hardware))
        for resource, amount in pool.allocatable.items():
            if resource in own:
                continue
            place = (*path, "allocatable", resource)
            if resource.startswith(MIG_PREFIX):
                profile = resource.removeprefix(MIG_PREFIX).removesuffix(_SHARED)
                yield from _slice(place, profile, amount, pool, hardware)
            elif resource == NVIDIA_GPU:
                yield from _more_gpus(place, amount, pool, hardware, product)


def _slice(path: tuple[str | int, ...], profile: str, amount: str, pool: Pool, hardware: Hardware) -> Iterator[Mistake]:
    resource = str(path[-1])
    counts = [gpu.profiles.get(profile, 0) for gpu in hardware.gpus]
    strategy = pool.labels.get(_STRATEGY_LABEL, "mixed")
    if not is_profile(profile):
        what = f"`{profile}` is not the name of a MIG profile, so the device plugin never offers `{resource}`"
        names = {name for gpu in hardware.gpus for name in gpu.profiles} or set(known_profiles())
        yield Mistake(path, what, _did_you_mean(profile, names), is_of_key=True)
    elif hardware.gpus and not any(counts):
        what = f"{_names_of(hardware)} has no MIG profile `{profile}`, so no node offers `{resource}`"
        yield Mistake(path, what, _profiles_of(hardware), is_of_key=True)
    elif strategy != "mixed":
        what = (
            f"the pool's label sets the MIG strategy `{strategy}`, which offers `{NVIDIA_GPU}` and never `{resource}`"
        )
        yield Mistake(path, what, f"write `{NVIDIA_GPU}`, or `{_STRATEGY_LABEL}: mixed`", is_of_key=True)
    elif hardware.count and any(counts) and not shares_devices(pool, resource):
        most = hardware.count * max(counts)
        if quantities.parse(amount).value > most:
            what = f"`{amount}` instances do not fit: {hardware.count} GPUs hold {most} of the MIG profile `{profile}`"
            yield Mistake(path, what, f"write at most {most}; {_sharing(resource)}")


def _more_gpus(
    path: tuple[str | int, ...], amount: str, pool: Pool, hardware: Hardware, profile: str
) -> Iterator[Mistake]:
    """Report more GPUs than the server has; with the MIG strategy `single` each instance counts as a GPU."""
    if not hardware.count or not hardware.gpus or shares_devices(pool, NVIDIA_GPU):
        return
    is_single = profile or pool.labels.get(_STRATEGY_LABEL) == "single"
    each = max((max(gpu.profiles.values(), default=1) for gpu in hardware.gpus), default=1) if is_single else 1
    each = max((gpu.profiles.get(profile, 0) for gpu in hardware.gpus), default=each) if profile else each
    most = hardware.count * each
    if each and quantities.parse(amount).value > most:
        what = f"`{amount}` is more than the {most} that a node of `{hardware.name}` has"
        yield Mistake(path, what, f"write at most {most}; {_sharing(NVIDIA_GPU)}")


def shares_devices(pool: Pool, resource: str) -> bool:
    """Return True if a label of the pool says that several pods share one device."""
    keys = (
        f"{resource}.sharing-strategy",
        f"{resource}.replicas",
        f"{NVIDIA_GPU}.sharing-strategy",
        f"{NVIDIA_GPU}.replicas",
    )
    is_named = any(pool.labels.get(key, "none") not in ("none", "1", "0") for key in keys)
    return resource.endswith(_SHARED) or is_named or any(value.endswith("-SHARED") for value in pool.labels.values())


def _sharing(resource: str) -> str:
    label = f"{resource.removesuffix(_SHARED)}.sharing-strategy: time-slicing"
    return f"if several pods share one, add the label `{label}` that the nodes carry"


def _names_of(hardware: Hardware) -> str:
    names = [gpu.name for gpu in hardware.gpus if gpu.profiles]
    return " or ".join(names) or f"`{hardware.name}`"


def _profiles_of(hardware: Hardware) -> str:
    names = dict.fromkeys(name for gpu in hardware.gpus for name in gpu.profiles)
    if not names:
        return f"write `{NVIDIA_GPU}`"
    return f"write one of its profiles: {', '.join(names)}"


def _did_you_mean(profile: str, names: Iterable[str]) -> str:
    found = suggest(profile, names)
    return found if found.startswith("did you mean") else "write one such as nvidia.com/mig-1g.10gb"
