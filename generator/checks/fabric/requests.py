"""Checks of the devices that pods request: fabric/resource-name, fabric/device-count, fabric/not-covered."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from generator.checks.fabric.fabrics import Fabrics, FlavorNodes, namespaces_of
from generator.checks.objects import Objects
from generator.checks.quota.queues import TRAINER, Queues
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.facts.names import EFA, NETWORKS
from generator.objects.devices import SHARED_PREFIX, Provider, Resource, Source, is_accelerator, resource
from generator.objects.fields import mapping
from generator.objects.networks import SRIOV_PLUGINS, Attachment
from generator.objects.pods import JOB_SET, NODE, PodTemplate, requested_devices, whole

_OPERATORS = (Source.POLICY, Source.PLUGIN, Source.SHARED)
_SIMILAR = 0.75  # a ratio of difflib: `mlnxics` and `mlnxnics` have 0.93
_MOST = 3  # providers that a message lists
_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")


@check("fabric/resource-name", severity=ERROR, needs=Objects)
def resource_name(objects: Objects) -> Iterator[Breach]:
    """Report a device whose name differs between the objects that use it.

    The network, the operator that offers the device, and the pods must use the same resource name. Otherwise the pods
    stay Pending or in ContainerCreating. Often the prefix differs, because no object of the operator contains it:
    `openshift.io` for the SR-IOV operator, `nvidia.com` if NVIDIA's network operator installed it, `rdma` for the
    RDMA shared device plugin.

    mpigen derives the prefix from the namespace of a SriovNetworkNodePolicy, from the configuration of a device plugin,
    and from the devices that the annotation `mpigen.dev/allocatable` of a ResourceFlavor lists. A release in which no
    object offers devices is not checked. It is a warning if the name in the pods is only similar to an offered one.

    Source: multus-cni 95a0932 pkg/k8sclient/k8sclient.go getKubernetesDelegate compares the whole names
    """
    fabrics = objects.view(Fabrics.read)
    for network in fabrics.attachments:
        device, offered = network.resource, _possible_providers(fabrics, network)
        if not device or not offered or _is_offered(device, offered):
            continue
        nodes = [provider for provider in fabrics.offered_by(Source.FLAVOR) if provider.resource.may_be(device)]
        if nodes and not any(
            provider.resource.prefix == device.prefix or not (provider.resource.prefix and device.prefix)
            for provider in offered
        ):
            continue
        similar = [provider for provider in offered if provider.resource.name == device.name] or offered
        more = f", and {len(similar) - _MOST} more" if len(similar) > _MOST else ""
        names = {provider.resource.name: provider.resource for provider in reversed(offered)}
        closest = names[difflib.get_close_matches(device.name, names, n=1, cutoff=0)[0]]
        yield Breach(
            network.path,
            f"the network uses `{device}`, but {', '.join(dict.fromkeys(map(str, similar[:_MOST])))}{more}"
            + (f"; the nodes of {nodes[0].manifest.resource} have `{device}`" if nodes else ""),
            "Multus requires exactly this resource name, so the pods get no device and stay in ContainerCreating",
            f"write `{closest.name if network.path[0] == 'spec' else closest}`, or configure an operator to offer "
            f"`{device}`",
            network.manifest,
            WARNING if nodes else ERROR,
            value=str(device),
        )
    for pods in fabrics.pods:
        for name, right in _misnamed_devices(fabrics, pods).items():
            yield Breach(
                pods.device_path(name),
                f"no operator or device plugin offers `{name}`, which the pods request; {right.origin}",
                "no node has this resource, so the pods stay Pending",
                f"write `{right.resource}`",
                pods.manifest,
                ERROR if right.is_certain else WARNING,
                at_key=True,
                value=name,
            )


def _possible_providers(fabrics: Fabrics, network: Attachment) -> Sequence[Provider]:
    """Return the objects of the release that could offer the device of a network.

    The kind of the network decides: a SriovNetwork needs a SriovNetworkNodePolicy, a HostDeviceNetwork a device plugin.
    Without such objects, return the ResourceFlavors whose nodes have devices with the same prefix.
    """
    prefix = network.resource.prefix if network.resource else ""
    sources: tuple[Source, ...] = (Source.POLICY, Source.PLUGIN)
    if network.manifest.kind in SRIOV_PLUGINS:
        sources = (Source.POLICY,)
    elif network.manifest.kind == "HostDeviceNetwork":
        sources = (Source.PLUGIN,)
    elif prefix == SHARED_PREFIX:
        sources = (Source.SHARED, Source.PLUGIN)
    return fabrics.offered_by(*sources) or [
        provider
        for provider in fabrics.offered_by(Source.FLAVOR)
        if provider.resource.prefix == prefix and not is_accelerator(str(provider.resource))
    ]


class _RightName(NamedTuple):
    """The right name of a device that pods request by a wrong name.

    Attributes:
        resource: the name.
        origin: the object with the name, as a clause of a message.
        is_certain: True if only the prefix is wrong, or if the pods attach a network with this device.
    """

    resource: Resource
    origin: str
    is_certain: bool


def _misnamed_devices(fabrics: Fabrics, pods: PodTemplate) -> dict[str, _RightName]:
    """Map each wrong device name in the requests of the pods → the right name."""
    misnamed: dict[str, _RightName] = {}
    for name in pods.devices:
        device = resource(name)
        has_operator = any(item.resource.prefix == device.prefix for item in fabrics.offered_by(*_OPERATORS))
        is_on_nodes = not has_operator and _is_offered(device, fabrics.offered_by(Source.FLAVOR))
        if is_on_nodes or is_accelerator(name) or any(map(device.may_be, fabrics.devices)):
            continue
        for right in _right_names(fabrics, pods):
            if _is_similar(device, right.resource):
                misnamed[name] = right._replace(is_certain=right.is_certain or right.resource.name == device.name)
                break
    return misnamed


def _right_names(fabrics: Fabrics, pods: PodTemplate) -> Iterator[_RightName]:
    """Yield the names of devices, starting with the networks that the pods attach."""
    for request in pods.networks.requests:
        for network in fabrics.by_name.get(request.name, {}).values():
            if network.resource and network.resource.prefix:
                origin = f"the attached {network.manifest.resource} uses `{network.resource}`"
                yield _RightName(network.resource, origin, is_certain=True)
    for provider in fabrics.offered_by(*_OPERATORS):
        if provider.resource.prefix:
            yield _RightName(provider.resource, str(provider), is_certain=False)


def _is_similar(device: Resource, right: Resource) -> bool:
    """Return True for equal names with different prefixes, and for equal prefixes.

    For the prefix `nvidia.com`, which GPUs have too, the names must also be similar.
    """
    if device.prefix != right.prefix:
        return device.name == right.name
    has_own_prefix = device.prefix != "nvidia.com"
    return has_own_prefix or difflib.SequenceMatcher(None, device.name, right.name).ratio() >= _SIMILAR


def _is_offered(device: Resource, offered: Sequence[Provider]) -> bool:
    return any(provider.resource.may_be(device) for provider in offered)


@check("fabric/device-count", severity=ERROR, needs=Objects)
def device_count(objects: Objects) -> Iterator[Breach]:
    """Report pods with more or fewer devices than networks.

    Multus gives each attached network one of the devices that the pods request, in order. With too few devices the pods
    stay in ContainerCreating. Other pods cannot use surplus devices. The check also reports:

    - A device whose request differs from its limit: the API server rejects the pods.
    - A device that another container than the one with the ranks requests: the ranks do not see it.
    - More than one share of the RDMA shared device plugin: one share gives access to all of its NICs.
    - Devices without a network, if a network of the release uses them. It is an error in a runtime, else a warning.
    - As a warning, hosts that take all GPUs of a node, but only some of its EFA devices. The annotation
      `mpigen.dev/allocatable` of the ResourceFlavor lists both.

    Source: k8s-rdma-shared-dev-plugin 410b0f3 pkg/resources/server.go Allocate; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidateContainerResourceRequirements
    """
    fabrics = objects.view(Fabrics.read)
    for pods in fabrics.pods:
        if not pods.is_patch:
            yield from _unequal_counts(fabrics, pods, objects)
            yield from _surplus_shares(fabrics, pods)
            yield from _misplaced_requests(fabrics, pods)
            yield from _partly_used_nodes(pods, objects)


def _unequal_counts(fabrics: Fabrics, pods: PodTemplate, objects: Objects) -> Iterator[Breach]:
    """Yield devices whose number differs from the number of their networks.

    Source: network-resources-injector 61d01b9 README.md; SriovOperatorConfig `enableInjector`
    """
    requested = _requested_networks(fabrics, pods, objects)
    needed: dict[Resource, list[Attachment]] = {}
    for request in pods.networks.requests:
        network = requested.get((request.namespace, request.name))
        if network and network.resource:
            needed.setdefault(network.resource, []).append(network)
    misnamed = _misnamed_devices(fabrics, pods).values()
    for device, networks in needed.items() if not pods.spec.get("resourceClaims") else ():
        amounts = {name: amount for name, amount in pods.devices.items() if resource(name).may_be(device)}
        count, amount, name = len(networks), sum(amounts.values()), next(iter(amounts), str(device))
        if amount == count or any(right.resource.may_be(device) for right in misnamed):
            continue
        names = " and ".join(dict.fromkeys(f"`{network.name}`" for network in networks))
        why = "the surplus devices use up quota and devices of the node, but no network moves them into the pods"
        if amount < count:
            why = "Multus finds no device for one of the networks, so the pods stay in ContainerCreating"
        if amount == 0:
            why += ", unless network-resources-injector adds a device, which Kueue does not count"
        yield Breach(
            pods.device_path(name),
            f"the pods attach {names} {_times(count)}, and each attachment takes one `{device}` "
            f"({networks[0].manifest.resource}), but the pods request {amount or 'none'}",
            why,
            f"write `{name}: {count}` below `limits`, or attach the network {_times(amount)}"
            if amount
            else f"add `{name}: {count}` below `limits`",
            pods.manifest,
            WARNING if amount == 0 and not pods.is_of_runtime else ERROR,
            at_key=True,
            value=amount,
        )
    is_complete = len(requested) == len({(request.namespace, request.name) for request in pods.networks.requests})
    if is_complete and not pods.networks.error and not pods.reaches_devices:
        yield from _unattached_devices(fabrics, pods, needed, objects)


def _requested_networks(fabrics: Fabrics, pods: PodTemplate, objects: Objects) -> Mapping[tuple[str, str], Attachment]:
    """Map (namespace, name) of each network request → network.

    For a ClusterTrainingRuntime, take the network of its first namespace by name.
    """
    networks: dict[tuple[str, str], Attachment] = {}
    namespaces = sorted(namespaces_of(pods, objects))
    for request in pods.networks.requests:
        defined = fabrics.by_name.get(request.name, {})
        candidates = [request.namespace, ""] if request.namespace else [*namespaces, ""]
        network = next((defined[name] for name in candidates if name in defined), None)
        if network is None and not namespaces and not request.namespace:
            network = next(iter(defined.values()), None)
        if network:
            networks[request.namespace, request.name] = network
    return networks


def _unattached_devices(
    fabrics: Fabrics, pods: PodTemplate, needed: Mapping[Resource, object], objects: Objects
) -> Iterator[Breach]:
    namespaces = namespaces_of(pods, objects)
    for name, amount in pods.devices.items():
        device = resource(name)
        networks = (item for item in fabrics.attachments if item.resource and item.resource.may_be(device))
        network = next((item for item in networks if not namespaces or item.namespace in namespaces), None)
        if network and not any(map(device.may_be, needed)):
            yield Breach(
                pods.device_path(name),
                f"the pods request {amount} `{name}`, but do not attach {network.manifest.resource}, which uses it",
                "the devices stay in the network of the node: the pods get no interface and no address, and RDMA over "
                "Ethernet fails",
                f"list `{network.name}` {_times(amount)} in the annotation `{NETWORKS}` of the pods",
                pods.manifest,
                ERROR if pods.is_of_runtime else WARNING,
                at_key=True,
                value=amount,
            )


def _surplus_shares(fabrics: Fabrics, pods: PodTemplate) -> Iterator[Breach]:
    for name, amount in pods.devices.items():
        shared = (item for item in fabrics.offered_by(Source.SHARED) if item.resource.may_be(resource(name)))
        if amount > 1 and (provider := next(shared, None)):
            yield Breach(
                pods.device_path(name),
                f"the pods request {amount} `{name}`, which {provider.manifest.resource} shares among pods",
                "one share gives access to all NICs of the resource; more shares only keep other pods off the node "
                "(`rdmaHcaMax`)",
                f"write `{name}: 1`",
                pods.manifest,
                at_key=True,
                value=amount,
            )


def _misplaced_requests(fabrics: Fabrics, pods: PodTemplate) -> Iterator[Breach]:
    """Yield requests that differ from their limits, and requests of containers without ranks."""
    has_node = any(container.body.get("name") == NODE for container in pods.containers)
    for path, container in ((container.path, container.body) for container in pods.containers):
        limits, requests = (mapping(container, "resources", field) for field in ("limits", "requests"))
        for name, request in requests.items():
            if not isinstance(name, str) or not fabrics.is_device(name):
                continue
            if whole(request) != whole(limits.get(name, "none")):
                limit = f"the limit `{limits[name]}`" if name in limits else "no limit"
                yield Breach(
                    (*path, "resources", "requests", name),
                    f"`{name}` has the request `{request}` and {limit}",
                    "the API server rejects pods whose request for a device differs from the limit",
                    f"write `{name}: {request}` below `limits`, which also sets the request",
                    pods.manifest,
                    at_key=True,
                    value=request,
                )
        if pods.is_of_runtime and container.get("name") != NODE and has_node:
            for name in filter(fabrics.is_device, requested_devices(container)):
                yield Breach(
                    (*path, "resources"),
                    f"the container `{container.get('name')}` requests `{name}`, but the ranks run in `{NODE}`",
                    f"only the container that requests a device gets the device, so the ranks in `{NODE}` have none",
                    f"request `{name}` in the container `{NODE}`",
                    pods.manifest,
                    value=container.get("name"),
                )


def _partly_used_nodes(pods: PodTemplate, objects: Objects) -> Iterator[Breach]:
    """Yield hosts that take all GPUs of a node, but only some of its EFA devices.

    Other fabric devices are not counted: pods may leave virtual functions to other jobs on purpose, and one share of a
    shared device gives access to all NICs.
    """
    requested = pods.devices.get(EFA, 0)
    if not (requested and pods.is_of_runtime and pods.role == NODE):
        return
    for nodes in objects.view(FlavorNodes.read):
        gpus = next((name for name in _GPUS if 0 < nodes.devices.get(name, 0) == pods.devices.get(name)), None)
        if gpus and requested < nodes.devices.get(EFA, 0) and nodes.are_selected_by(pods):
            yield Breach(
                pods.device_path(EFA),
                f"the hosts take all {nodes.devices[gpus]} `{gpus}` of a node of {nodes.flavor.resource}, but only "
                f"{requested} of the node's {nodes.devices[EFA]} `{EFA}`",
                "the ranks get only this part of the bandwidth, and no other job with GPUs can use the other devices",
                f"write `{EFA}: {nodes.devices[EFA]}`",
                pods.manifest,
                WARNING,
                at_key=True,
                value=requested,
            )
            break


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


@check("fabric/not-covered", severity=ERROR, needs=Objects)
def not_covered(objects: Objects) -> Iterator[Breach]:
    """Report a device of a fabric that no queue covers.

    A runtime requests a device of a fabric that no ClusterQueue covers, so Kueue never admits its jobs. If a queue
    covers other devices of the same pods, `quota/uncovered` reports it instead. If no queue covers its GPUs either,
    neither check reports the runtime, because other queues may exist for it.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go assignFlavors
    """
    queues, fabrics = objects.view(Queues.read), objects.view(Fabrics.read)
    if queues is None or not queues.settings.is_modelled:
        return
    covered = {name for queue in queues.tree.queues.values() for group in queue.groups for name in group.resources}
    uncovered: dict[tuple[str, str, str, str], str] = {}
    for queue_name, jobs in sorted(queues.jobs.items()):
        for job in jobs:
            missing = [name for name in job.total if "/" in name and name not in covered]
            if all(map(fabrics.is_device, missing)) and not job.uncovered_by(queues.tree.queues[queue_name]):
                for name in missing:
                    key = (job.runtime.kind, job.runtime.name, job.runtime.namespace, name)
                    uncovered.setdefault(key, queue_name)
    for (kind, runtime_name, namespace, name), queue_name in uncovered.items():
        if runtime := objects.one(TRAINER, kind, runtime_name, namespace):
            yield Breach(
                JOB_SET,
                f"the pods request `{name}`, but neither ClusterQueue `{queue_name}` nor any other queue covers it",
                "Kueue never admits a job that requests a resource that its ClusterQueue does not cover",
                f"add `{name}` to `coveredResources` of `{queue_name}`, with a quota in each of its flavors",
                runtime,
                at_key=True,
                value=name,
            )
