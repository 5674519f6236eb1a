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
from generator.objects.networks import SRIOV_PLUGINS, Attachment
from generator.objects.pods import JOB_SET, NODE, PodTemplate, requested_devices

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
    and from the devices that the annotation `mpigen.dev/allocatable` of a ResourceFlavor lists. Without such objects,
    the check compares only the pods with the networks that they attach.

    The finding about a network is a warning if a ResourceFlavor lists the device that the network uses. The finding
    about pods is a warning if the requested name differs after the prefix, and no attached network uses the name that
    the check proposes. If a ResourceFlavor lists the device and no operator offers devices with its prefix, the check
    reports nothing.

    Source: multus-cni 95a0932 pkg/k8sclient/k8sclient.go getKubernetesDelegate compares the whole names
    """
    fabrics = objects.view(Fabrics.read)
    for network in fabrics.attachments:
        device, offered = network.resource, _possible_providers(fabrics, network)
        if device and offered and not _is_offered(device, offered):
            nodes = [provider for provider in fabrics.offered_by(Source.FLAVOR) if provider.resource.may_be(device)]
            if not nodes or any(provider.resource.may_have_prefix_of(device) for provider in offered):
                yield _misnamed_device_of_network(network, device, offered, nodes)
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


def _misnamed_device_of_network(
    network: Attachment, device: Resource, offered: Sequence[Provider], nodes: Sequence[Provider]
) -> Breach:
    """Return the breach of a network whose device no operator offers; `nodes` are ResourceFlavors with the device."""
    similar = [provider for provider in offered if provider.resource.name == device.name] or offered
    more = f", and {len(similar) - _MOST} more" if len(similar) > _MOST else ""
    names = {provider.resource.name: provider.resource for provider in reversed(offered)}
    closest = names[difflib.get_close_matches(device.name, names, n=1, cutoff=0)[0]]
    return Breach(
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


def _possible_providers(fabrics: Fabrics, network: Attachment) -> Sequence[Provider]:
    """Return the objects that could offer the device of a network.

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
    """Return wrong device name in the requests of the pods → its right name."""
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
    """Yield the names that could replace a wrong device name in the requests of pods.

    The devices of networks that the pods attach come first, then the devices of operators and device plugins.
    """
    for request in pods.networks.requests:
        for network in fabrics.by_name.get(request.name, {}).values():
            if network.resource and network.resource.prefix:
                origin = f"the attached {network.manifest.resource} uses `{network.resource}`"
                yield _RightName(network.resource, origin, is_certain=True)
    for provider in fabrics.offered_by(*_OPERATORS):
        if provider.resource.prefix:
            yield _RightName(provider.resource, str(provider), is_certain=False)


def _is_similar(device: Resource, right: Resource) -> bool:
    """Return True if two resources have equal names with different prefixes, or have equal prefixes.

    With the prefix `nvidia.com`, which GPUs have, the names must be similar.
    """
    if device.prefix != right.prefix:
        return device.name == right.name
    has_own_prefix = device.prefix != "nvidia.com"
    return has_own_prefix or difflib.SequenceMatcher(None, device.name, right.name).ratio() >= _SIMILAR


def _is_offered(device: Resource, offered: Sequence[Provider]) -> bool:
    return any(provider.resource.may_be(device) for provider in offered)


@check("fabric/device-count", severity=ERROR, needs=Objects)
def device_count(objects: Objects) -> Iterator[Breach]:
    """Report pods that request more or fewer network devices than they need.

    Multus gives each attached network one of the devices that the pods request, in order. With too few devices the pods
    stay in ContainerCreating. Other pods cannot use surplus devices. The check also reports:

    - A device that a container without ranks requests: the ranks in the other container do not get the device.
    - More than one device of the RDMA shared device plugin: one device gives access to all NICs of the resource.
    - A device of a network that the pods do not attach. In a runtime this is an error, else a warning.
    - As a warning outside of runtimes, a network whose device the pods do not request at all: in some clusters,
      network-resources-injector adds the device.
    - As a warning, worker pods that take all GPUs of a node, but only some of its EFA devices. The annotation
      `mpigen.dev/allocatable` of the ResourceFlavor lists both.

    [pod/resources](../pod/resources.md) reports a device whose request differs from its limit.

    Source: k8s-rdma-shared-dev-plugin 410b0f3 pkg/resources/server.go Allocate
    """
    fabrics = objects.view(Fabrics.read)
    for pods in fabrics.pods:
        if not pods.is_patch:
            yield from _unequal_counts(fabrics, pods, objects)
            yield from _surplus_shares(fabrics, pods)
            yield from _misplaced_requests(fabrics, pods)
            yield from _partly_used_nodes(pods, objects)


def _unequal_counts(fabrics: Fabrics, pods: PodTemplate, objects: Objects) -> Iterator[Breach]:
    """Yield devices whose requested number differs from the number of attached networks that use them.

    Also yield devices of networks that the pods do not attach, if all requested networks are in the files.

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
        if sum(amounts.values()) != len(networks) and not any(right.resource.may_be(device) for right in misnamed):
            yield _unequal_count(pods, device, networks, amounts)
    is_complete = len(requested) == len({(request.namespace, request.name) for request in pods.networks.requests})
    if is_complete and not pods.networks.error and not pods.reaches_devices:
        yield from _unattached_devices(fabrics, pods, needed, objects)


def _unequal_count(
    pods: PodTemplate, device: Resource, networks: Sequence[Attachment], amounts: Mapping[str, int]
) -> Breach:
    """Return the breach of pods whose `amounts` of a device differ from the number of networks that use it."""
    count, amount, name = len(networks), sum(amounts.values()), next(iter(amounts), str(device))
    names = list(dict.fromkeys(f"`{network.name}`" for network in networks))
    attached = f"network {names[0]} {_times(count)}" if len(names) == 1 else f"{count} networks ({', '.join(names)})"
    why = "the surplus devices use up quota and devices of the node, but no network moves them into the pods"
    if amount < count:
        why = "Multus finds no device for one of the networks, so the pods stay in ContainerCreating"
    if amount == 0:
        why += ", unless network-resources-injector adds a device, which Kueue does not count"
    return Breach(
        pods.device_path(name),
        f"the pods attach {attached}, and each attachment takes one `{device}` "
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


def _requested_networks(fabrics: Fabrics, pods: PodTemplate, objects: Objects) -> Mapping[tuple[str, str], Attachment]:
    """Return (namespace, name) of a network request → the network. Requests of undefined networks are left out.

    For a ClusterTrainingRuntime, take the network of the first of its namespaces, by name, that has the network.
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
                f"the pods request {amount} `{name}`, but do not attach the network of this device "
                f"({network.manifest.resource})",
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
                f"one `{name}` gives access to all NICs of the resource; more of them only keep other pods off the "
                "node, which offers `rdmaHcaMax` of them",
                f"write `{name}: 1`",
                pods.manifest,
                at_key=True,
                value=amount,
            )


def _misplaced_requests(fabrics: Fabrics, pods: PodTemplate) -> Iterator[Breach]:
    """Yield requests for RDMA devices in containers of a runtime that run no ranks."""
    has_node = any(container.body.get("name") == NODE for container in pods.containers)
    for path, container in ((container.path, container.body) for container in pods.containers):
        if pods.is_of_runtime and container.get("name") != NODE and has_node:
            for name in filter(fabrics.is_device, requested_devices(container)):
                yield Breach(
                    (*path, "resources"),
                    f"container `{container.get('name')}` requests `{name}`, but the ranks run in container `{NODE}`",
                    f"only the container that requests a device gets the device: the ranks in `{NODE}` cannot use it",
                    f"request `{name}` in the container `{NODE}`",
                    pods.manifest,
                    value=container.get("name"),
                )


def _partly_used_nodes(pods: PodTemplate, objects: Objects) -> Iterator[Breach]:
    """Yield worker pods that take all GPUs of a node, but only some of its EFA devices.

    Other devices are not counted: pods may leave virtual functions to other jobs on purpose, and one device of the RDMA
    shared device plugin gives access to all NICs.
    """
    requested = pods.devices.get(EFA, 0)
    if not (requested and pods.is_of_runtime and pods.role == NODE):
        return
    for nodes in objects.view(FlavorNodes.read):
        gpus = next((name for name in _GPUS if 0 < nodes.devices.get(name, 0) == pods.devices.get(name)), None)
        if gpus and requested < nodes.devices.get(EFA, 0) and nodes.are_selected_by(pods):
            yield Breach(
                pods.device_path(EFA),
                f"a pod takes all {nodes.devices[gpus]} `{gpus}` of a node of {nodes.flavor.resource}, but only "
                f"{requested} of the {nodes.devices[EFA]} `{EFA}` of the node",
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
    """Report an RDMA device of a runtime that no ClusterQueue covers.

    Kueue never admits jobs on such a runtime. If a ClusterQueue covers other devices of the runtime, such as GPUs,
    `quota/uncovered` reports the runtime instead. If no ClusterQueue covers the GPUs of the runtime, neither check
    reports it, because other ClusterQueues may exist in the cluster.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.assignFlavors
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
                f"the pods request `{name}`, but neither ClusterQueue `{queue_name}` nor any other covers this device",
                "Kueue never admits a job that requests a resource that its ClusterQueue does not cover",
                f"add `{name}` to `coveredResources` of ClusterQueue `{queue_name}`, and its quota to each flavor",
                runtime,
                at_key=True,
                value=name,
            )
