"""fabric/resource-name, fabric/device-count, fabric/not-covered: the devices that pods request, by name and number."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from generator.checks.fabric.fabrics import Fabrics, namespaces_of, part_of_node
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import TRAINER, Queues
from generator.checks.registry import ERROR, check
from generator.facts.names import NETWORKS
from generator.manifests import Manifest
from generator.objects.devices import SHARED_PREFIX, Provider, Resource, Source, is_accelerator, resource
from generator.objects.fields import mapping
from generator.objects.networks import SRIOV_PLUGINS, Attachment
from generator.objects.pods import JOB_SET, NODE, PodTemplate, requested_devices, whole

_NAME = "fabric/resource-name"
_NEAR = 0.75  # as difflib measures it: `mlnxics` and `mlnxnics` are 0.93
_MANY = 3


@check("fabric/resource-name", severity=ERROR, needs=Objects)
def resource_name(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a device whose name differs between the objects that use it.

    A device of a fabric has another name at one end than at the other: a network hands out what nobody offers, or
    pods ask for it. Often it is the prefix, which the operator that offers the device has, and no object says:
    `openshift.io` of the SR-IOV operator, `nvidia.com` where NVIDIA's network operator brought it, `rdma` of the
    shared device plugin. mpigen goes by the namespace of the policy, by the configuration of a device plugin, and
    by what nodes of a flavor are said to have. Nothing is said where the files hold nobody who offers devices. Of a
    name that pods only seem to have misspelt it is a warning.

    Source: multus-cni 95a0932 pkg/k8sclient/k8sclient.go getKubernetesDelegate: the names must be equal, letter by
    letter
    """
    fabrics = gathered.view(Fabrics.read)
    for each in fabrics.attachments:
        offered = _offering(fabrics, each)
        if each.resource and offered and not _gives(offered, each.resource):
            nodes = [one for one in fabrics.offered_by(Source.FLAVOR) if one.resource.may_be(each.resource)]
            if not nodes or any(_may_be_of_same(one.resource, each.resource) for one in offered):
                yield each.manifest, _of_network(each, each.resource, offered, nodes)
    for pods in fabrics.pods:
        for name, right in misnamed(fabrics, pods).items():
            yield pods.manifest, _of_pods(pods, name, right)


def _offering(fabrics: Fabrics, network: Attachment) -> Sequence[Provider]:
    """Who would offer the devices of a network, if the files hold any such."""
    device = network.resource or Resource("", "")
    if network.manifest.kind in SRIOV_PLUGINS:
        found = fabrics.offered_by(Source.POLICY)
    elif network.manifest.kind == "HostDeviceNetwork":
        found = fabrics.offered_by(Source.PLUGIN)
    elif device.prefix == SHARED_PREFIX:
        found = fabrics.offered_by(Source.SHARED, Source.PLUGIN)
    else:
        found = fabrics.offered_by(Source.POLICY, Source.PLUGIN)
    nodes = [each for each in fabrics.offered_by(Source.FLAVOR) if each.resource.prefix == device.prefix]
    return found or [each for each in nodes if not is_accelerator(str(each.resource))]


def _of_network(
    network: Attachment, device: Resource, offered: Sequence[Provider], nodes: Sequence[Provider]
) -> Breach:
    """An error, unless nodes are said to have the device all the same: it may be offered by what other files hold."""
    has = f", though the nodes of {nodes[0].manifest.resource} are to have it" if nodes else ""
    return Breach(
        network.path,
        _NAME,
        f"the network hands out `{device}`, but {_told(device, offered)}{has}",
        "Multus looks for devices of exactly that name, so that pods stay in ContainerCreating without one",
        f"write `{_meant(device, offered, bare=network.path[0] == 'spec')}`, or have that offered",
        Severity.WARNING if nodes else Severity.ERROR,
        value=str(device),
    )


def _told(device: Resource, offered: Sequence[Provider]) -> str:
    """Who offers what: those that are near, else the first ones."""
    near = [each for each in offered if each.resource.name == device.name] or offered
    rest = f", and {len(near) - _MANY} more" if len(near) > _MANY else ""
    return ", ".join(dict.fromkeys(map(str, near[:_MANY]))) + rest


def _meant(device: Resource, offered: Sequence[Provider], *, bare: bool) -> str:
    names = {each.resource.name: each.resource for each in reversed(offered)}
    close = difflib.get_close_matches(device.name, names, n=1, cutoff=0) or [device.name]
    meant = names.get(close[0], device)
    return meant.name if bare else str(meant)


class Right(NamedTuple):
    """What a device is really called.

    Attributes:
        resource: the name.
        told: who says so.
        is_certain: whether it is meant beyond doubt: another prefix, or a network that the same pods attach.
    """

    resource: Resource
    told: str
    is_certain: bool


def misnamed(fabrics: Fabrics, pods: PodTemplate) -> dict[str, Right]:
    """What pods ask for under a wrong name → the right one.

    Such is what nobody offers, where a network that they attach, or who offers devices, has almost the same name.
    """
    found: dict[str, Right] = {}
    for name in pods.devices:
        requested_devices = resource(name)
        if not (
            is_accelerator(name)
            or any(map(requested_devices.may_be, fabrics.devices))
            or _only_nodes_give(fabrics, requested_devices)
        ):
            alike = next((each for each in _known(fabrics, pods) if _is_alike(requested_devices, each.resource)), None)
            if alike:
                found[name] = alike._replace(
                    is_certain=alike.is_certain or alike.resource.name == requested_devices.name
                )
    return found


def _only_nodes_give(fabrics: Fabrics, requested_devices: Resource) -> bool:
    """Whether nodes are said to have a device, and nobody here offers others with the same prefix."""
    others = fabrics.offered_by(Source.POLICY, Source.PLUGIN, Source.SHARED)
    is_theirs = any(each.resource.prefix == requested_devices.prefix for each in others)
    return not is_theirs and _gives(fabrics.offered_by(Source.FLAVOR), requested_devices)


def _may_be_of_same(one: Resource, other: Resource) -> bool:
    """Whether one operator may offer both."""
    return one.prefix == other.prefix or not (one.prefix and other.prefix)


def _gives(offered: Sequence[Provider], requested_devices: Resource) -> bool:
    return any(each.resource.may_be(requested_devices) for each in offered)


def _known(fabrics: Fabrics, pods: PodTemplate) -> Iterator[Right]:
    """The right names: those of networks that the pods attach come first."""
    for wanted in pods.networks.requests:
        for network in fabrics.by_name.get(wanted.name, {}).values():
            if network.resource and network.resource.prefix:
                told = f"{network.manifest.resource}, which they attach, hands out `{network.resource}`"
                yield Right(network.resource, told, is_certain=True)
    for each in fabrics.offered_by(Source.POLICY, Source.PLUGIN, Source.SHARED):
        if each.resource.prefix:
            yield Right(each.resource, str(each), is_certain=False)


def _is_alike(requested_devices: Resource, right: Resource) -> bool:
    """The same name with another prefix, or the same prefix: of NVIDIA's, which is for more, almost the same name."""
    if requested_devices.prefix != right.prefix:
        return requested_devices.name == right.name
    return (
        requested_devices.prefix != "nvidia.com"
        or difflib.SequenceMatcher(None, requested_devices.name, right.name).ratio() >= _NEAR
    )


def _of_pods(pods: PodTemplate, name: str, right: Right) -> Breach:
    return Breach(
        pods.device_path(name),
        _NAME,
        f"its pods ask for `{name}`, which nobody offers, but {right.told}",
        "no node has such a device, so that the pods stay Pending",
        f"write `{right.resource}`",
        Severity.ERROR if right.is_certain else Severity.WARNING,
        at_key=True,
        value=name,
    )


_COUNT = "fabric/device-count"
_INJECTED = ", unless network-resources-injector adds one, which no queue counts"


def _device_count(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Of each kind of pods; what a TrainJob changes of them is not judged alone."""
    fabrics = gathered.view(Fabrics.read)
    for pods in fabrics.pods:
        if not pods.is_patch:
            for breach in (*_joined(fabrics, pods, gathered), *_shared(fabrics, pods), *_written(fabrics, pods)):
                yield pods.manifest, breach


def _joined(fabrics: Fabrics, pods: PodTemplate, gathered: Objects) -> Iterator[Breach]:
    """Networks and devices, one by one."""
    there = _networks(fabrics, pods, gathered)
    needed: dict[Resource, list[Attachment]] = {}
    for wanted in pods.networks.requests:
        network = there.get((wanted.namespace, wanted.name))
        if network and network.resource:
            needed.setdefault(network.resource, []).append(network)
    wrong = misnamed(fabrics, pods)
    for device, networks in needed.items() if not pods.spec.get("resourceClaims") else ():
        has = {name: amount for name, amount in pods.devices.items() if resource(name).may_be(device)}
        if sum(has.values()) != len(networks) and not any(right.resource.may_be(device) for right in wrong.values()):
            yield _unequal(pods, device, networks, has)
    is_all_known = len(there) == len({(each.namespace, each.name) for each in pods.networks.requests})
    if is_all_known and not pods.networks.error and not pods.reaches_devices:
        yield from _idle(fabrics, pods, needed, namespaces_of(pods, gathered))


def _networks(fabrics: Fabrics, pods: PodTemplate, gathered: Objects) -> Mapping[tuple[str, str], Attachment]:
    """What pods mean by a namespace, be it none, and a name; of a runtime for all in the first of its namespaces."""
    found: dict[tuple[str, str], Attachment] = {}
    spaces = sorted(namespaces_of(pods, gathered))
    for wanted in pods.networks.requests:
        there = fabrics.by_name.get(wanted.name, {})
        names = [wanted.namespace, ""] if wanted.namespace else [*spaces, ""]
        network = next((there[name] for name in names if name in there), None)
        if network is None and not spaces and not wanted.namespace:
            network = next(iter(there.values()), None)
        if network:
            found[wanted.namespace, wanted.name] = network
    return found


def _is_left_to_others(pods: PodTemplate, amount: int) -> bool:
    """Whether network-resources-injector, if there is one, may add the device, where no queue would have to count it.

    network-resources-injector 61d01b9 README.md; SriovOperatorConfig enableInjector
    """
    return amount == 0 and not pods.is_of_runtime


def _unequal(pods: PodTemplate, device: Resource, networks: list[Attachment], has: Mapping[str, int]) -> Breach:
    count, amount = len(networks), sum(has.values())
    name = next(iter(has), str(device))
    names = " and ".join(dict.fromkeys(f"`{each.name}`" for each in networks))
    each = f"each takes a `{device}` ({networks[0].manifest.resource})"
    too_few = "a network gets no device, and the pods stay in ContainerCreating"
    too_many = "devices are taken from the node, and from the quota, that no network brings into the pods"
    return Breach(
        pods.device_path(name),
        _COUNT,
        f"its pods attach {names} {_times(count)}, of which {each}, and ask for {amount or 'none'}",
        f"{too_few}{_INJECTED if amount == 0 else ''}" if amount < count else too_many,
        f"write `{name}: {count}` below `limits`, or attach {_times(amount)}" if amount else f"add `{name}: {count}`",
        Severity.WARNING if _is_left_to_others(pods, amount) else Severity.ERROR,
        at_key=True,
        value=amount,
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _idle(
    fabrics: Fabrics, pods: PodTemplate, needed: Mapping[Resource, object], spaces: AbstractSet[str]
) -> Iterator[Breach]:
    """Devices whose network stands beside the pods and is not attached: of Ethernet they have no address."""
    for name, amount in pods.devices.items():
        wanted = resource(name)
        of = (each for each in fabrics.attachments if each.resource and each.resource.may_be(wanted))
        network = next((each for each in of if not spaces or each.namespace in spaces), None)
        if network and not any(map(wanted.may_be, needed)):
            yield Breach(
                pods.device_path(name),
                _COUNT,
                f"its pods ask for {amount} of `{name}` and do not attach {network.manifest.resource}, which takes it",
                "the devices stay in the network of the node: no interface, no address, and over Ethernet no RDMA",
                f"name `{network.name}` {_times(amount)} in the annotation `{NETWORKS}` of the pods",
                Severity.ERROR if pods.is_of_runtime else Severity.WARNING,
                at_key=True,
                value=amount,
            )


def _shared(fabrics: Fabrics, pods: PodTemplate) -> Iterator[Breach]:
    """A share of the shared plugin is all of its devices, so that a second one takes the place of another pod.

    k8s-rdma-shared-dev-plugin 410b0f3 pkg/resources/server.go Allocate
    """
    for name, amount in pods.devices.items():
        of = [each for each in fabrics.offered_by(Source.SHARED) if each.resource.may_be(resource(name))]
        if of and amount > 1:
            yield Breach(
                pods.device_path(name),
                _COUNT,
                f"its pods ask for {amount} of `{name}`, which {of[0].manifest.resource} lets pods share",
                "each share is all of its NICs; more of them only keep other pods from the node (`rdmaHcaMax`)",
                f"write `{name}: 1`",
                at_key=True,
                value=amount,
            )


def _written(fabrics: Fabrics, pods: PodTemplate) -> Iterator[Breach]:
    """Limits and requests of a device are one thing, and ranks see only those of their own container.

    k8s.io/kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateContainerResourceRequirements
    """
    for path, container in pods.containers:
        limits, requests = (mapping(container, "resources", field) for field in ("limits", "requests"))
        for name in (each for each in requests if isinstance(each, str) and fabrics.is_device(each)):
            if whole(requests[name]) != whole(limits.get(name, "none")):
                yield _contradiction((*path, "resources", "requests", name), name, limits, requests)
        if pods.is_of_runtime and container.get("name") != NODE and _has_node(pods):
            for name in (each for each in requested_devices(container) if fabrics.is_device(each)):
                yield _elsewhere(path, container, name)


def _contradiction(path: Any, name: str, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> Breach:
    says = f"the limit `{limits[name]}`" if name in limits else "no limit"
    return Breach(
        path,
        _COUNT,
        f"`{name}` has the request `{requests[name]}` and {says}",
        "devices cannot be shared out beyond their number: the API server refuses such pods",
        f"write `{name}: {requests[name]}` below `limits`, which is a request too",
        at_key=True,
        value=requests[name],
    )


def _has_node(pods: PodTemplate) -> bool:
    return any(container.get("name") == NODE for _, container in pods.containers)


def _elsewhere(path: Any, container: Mapping[str, Any], name: str) -> Breach:
    return Breach(
        (*path, "resources"),
        _COUNT,
        f"the container `{container.get('name')}` asks for `{name}`, and ranks run in `{NODE}`",
        f"a device is given to the container that asks for it: `{NODE}` sees none",
        f"ask for it in `{NODE}`",
        value=container.get("name"),
    )


@check("fabric/not-covered", severity=ERROR, needs=Objects)
def not_covered(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a device of a fabric that no queue covers.

    A runtime requests a device of a fabric that no ClusterQueue covers, so Kueue never admits its jobs. If a queue
    covers other devices of the same pods, `quota/uncovered` reports it instead. If no queue covers its GPUs either,
    neither check reports the runtime: it is taken for the runtime of other queues.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go assignFlavors
    """
    queued, fabrics = gathered.view(Queues.read), gathered.view(Fabrics.read)
    if queued is None or not queued.settings.is_modelled:
        return
    covered = {name for queue in queued.tree.queues.values() for group in queue.groups for name in group.resources}
    told: dict[tuple[str, str, str, str], str] = {}
    for queue_name, jobs in sorted(queued.jobs.items()):
        for job in jobs:
            missing = [name for name in job.total if "/" in name and name not in covered]
            if all(map(fabrics.is_device, missing)) and not job.uncovered_by(queued.tree.queues[queue_name]):
                for name in missing:
                    told.setdefault((job.runtime.kind, job.runtime.name, job.runtime.namespace, name), queue_name)
    for (kind, runtime_name, namespace, name), queue_name in told.items():
        runtime = gathered.one(TRAINER, kind, runtime_name, namespace)
        if runtime:
            yield runtime, _join(name, queue_name)


def _join(name: str, queue: str) -> Breach:
    return Breach(
        JOB_SET,
        "fabric/not-covered",
        f"its pods ask for `{name}`, which no ClusterQueue covers: neither `{queue}` nor another",
        "Kueue never admits a job that asks for a resource that its queue does not cover",
        f"add `{name}` to `coveredResources` of `{queue}`, and to each flavor there with the quota that it has",
        at_key=True,
        value=name,
    )


@check("fabric/device-count", severity=ERROR, needs=Objects)
def device_count(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report pods with more or fewer devices than networks.

    Multus hands a device to each network that is attached, in order, from those that the pod asked for. So pods ask
    for as many as they attach networks of that resource: with too few they stay in ContainerCreating, and what is
    too much is taken from others. Also: a device with a request and no equal limit, which the API server refuses;
    one that another container asks for than the one with the ranks; several shares of the RDMA shared device
    plugin, each of which is all of its NICs; devices without any network, where one that takes them stands beside
    the pods (a warning, unless many jobs get such pods). Also a warning: hosts that take all GPUs of a node, as its
    ResourceFlavor tells, and a part of its EFA devices.
    """
    yield from _device_count(gathered)
    yield from part_of_node(gathered)
