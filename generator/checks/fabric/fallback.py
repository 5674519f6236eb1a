"""fabric/tcp-fallback: would ranks that are to use a fabric run over TCP in silence?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from generator.checks.fabric.nodes import flavors_of
from generator.checks.fabric.pods import PodTemplate, pod_templates, whole
from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import NODE, resized_containers
from generator.checks.trainjob_runtime import AMOUNTS, FIELD, OnRuntime, on_runtimes
from generator.documents.load import Path
from generator.facts import env
from generator.facts.names import FABRIC
from generator.manifests import Manifest
from generator.objects.fields import mapping

_CHECK = "fabric/tcp-fallback"
_VERBS = ("mlx", "verbs", "efa")
_TRANSPORTS = ("rc", "dc", "ud", "ib")
_ON_TOP = ("macvlan", "ipvlan", "ipoib", "bridge", "vlan")


class _Told(NamedTuple):
    """A variable that names a device of a fabric."""

    path: Path
    words: str
    is_strict: bool
    """Whether ranks fail without it, rather than use TCP."""


def tcp_fallback(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Of runtimes and jobs, and of TrainJobs that change what their runtime asks for."""
    for manifest in gathered.manifests:
        pods = list(pod_templates(manifest))
        if pods and not any(each.is_patch for each in pods):
            for breach in _without_device(gathered.view(Fabrics.read), pods, gathered):
                yield manifest, breach
    for pair in on_runtimes(gathered):
        for breach in _changed(gathered.view(Fabrics.read), pair):
            yield pair.job, breach


def _without_device(fabrics: Fabrics, pods: Sequence[PodTemplate], gathered: Gathered) -> Iterator[Breach]:
    if any(_has_device(fabrics, each) for each in pods):
        return
    said = next((found for each in pods if (found := _told(each))), None)
    if said:
        yield Breach(
            said.path,
            _CHECK,
            f"{said.words}, and no container asks for a device of a fabric",
            "the ranks find no such device and fail"
            if said.is_strict
            else "the ranks find none and use TCP, in silence",
            "ask for the device in `limits`, and attach its network; or remove the variable",
            value=said.words,
        )
        return
    for each in (each for each in pods if each.is_of_runtime and each.role == NODE):
        is_meant = mapping(each.body, "metadata", "annotations").get(FABRIC) == "none"
        if not is_meant and (nodes := _flavor(fabrics, each, gathered)):
            yield _passed_over(each, *nodes)


def _has_device(fabrics: Fabrics, pods: PodTemplate) -> bool:
    """Whether pods get a device, or may: whoever attaches networks is judged by `fabric/device-count`.

    An interface on top of a NIC is none.
    """
    if pods.reaches_devices or any(map(fabrics.is_device, pods.devices)):
        return True
    attached = [fabrics.by_name.get(each.name, {}) for each in pods.networks.wanted]
    return any(not there or any(each.type not in _ON_TOP for each in there.values()) for there in attached)


def _told(pods: PodTemplate) -> _Told | None:
    """The first variable that only makes sense with a device of a fabric.

    nccl 5067397 docs/userguide/source/env.rst; ucx 9466d10 src/uct/ib; libfabric names its providers so
    """
    said = pods.environment
    values = {name: value.lower() for name, (_, value) in said.items()}
    by_tcp = values.get(env.NCCL_NET) == "socket" or values.get(env.NCCL_IB_DISABLE) == "1"
    for name, value in values.items():
        is_meant, is_strict = False, True
        match name:
            case env.NCCL_NET:
                is_meant = value == "ib"
            case "NCCL_IB_HCA":
                is_meant, is_strict = not by_tcp and bool(value), values.get(env.NCCL_NET) == "ib"
            case env.UCX_NET_DEVICES:
                is_meant = "mlx" in value
            case env.UCX_TLS:
                is_meant, is_strict = _names_transport(value), "tcp" not in value
            case env.FI_PROVIDER | env.I_MPI_OFI_PROVIDER:
                is_meant = value.startswith(_VERBS)
        if is_meant:
            return _Told(said[name][0], f"`{name}` is `{said[name][1]}`", is_strict)
    return None


def _names_transport(value: str) -> bool:
    return not value.startswith("^") and any(each.startswith(_TRANSPORTS) for each in value.split(","))


def _flavor(fabrics: Fabrics, pods: PodTemplate, gathered: Gathered) -> tuple[Manifest, str] | None:
    """Nodes that these pods select, and a device of a fabric that they have."""
    found = ((flavor, name) for flavor, has in flavors_of(pods, gathered) for name in has if fabrics.is_device(name))
    return next(found, None)


def _passed_over(pods: PodTemplate, flavor: Manifest, device: str) -> Breach:
    return Breach(
        pods.device_path(device),
        _CHECK,
        f"the hosts of its jobs ask for no device of a fabric, and the nodes of {flavor.resource} have `{device}`",
        "ranks on several hosts use TCP there, in silence, and the fabric idles",
        f"ask for `{device}` in `{NODE}`, and attach its network, if it has one",
        Severity.WARNING,
        at_key=True,
    )


def _changed(fabrics: Fabrics, pair: OnRuntime) -> Iterator[Breach]:
    """What a TrainJob leaves out on Trainer 2.2 is told by `trainjob/lost-devices`; here another amount, on both."""
    wanted: dict[str, int] = {}
    for container in resized_containers(pair.runtime.body):
        resources = mapping(container, "resources")
        for name, amount in {**mapping(resources, "requests"), **mapping(resources, "limits")}.items():
            if isinstance(name, str) and fabrics.is_device(name) and (number := whole(amount)):
                wanted[name] = number
    for name, number in wanted.items():
        for field in AMOUNTS:
            said: Mapping[str, object] = mapping(pair.said, field)
            if name in said and (amount := whole(said[name])) is not None and amount != number:
                yield _other_amount(pair, (*FIELD, field, name), name, amount, number)
                break


def _other_amount(pair: OnRuntime, path: Path, name: str, amount: int, number: int) -> Breach:
    none = "its ranks have no device, and use TCP, or fail"
    less = "each network that the runtime attaches takes one: the pods never start, or ranks use a part of the fabric"
    return Breach(
        path,
        _CHECK,
        f"asks for {amount or 'none'} of `{name}`, of which {pair.runtime.resource} asks for {number}",
        none if not amount else less,
        f"write `{name}: {number}`",
        at_key=True,
        value=amount,
    )
