"""fabric/device-count: do pods ask for as many devices as they attach networks that need one, and can they have them?

multus-cni 95a0932 pkg/k8sclient/k8sclient.go getKubernetesDelegate: one device for each network, in order; the devices
of all containers of the pod are one list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from generator.checks.fabric.attachments import Attachment
from generator.checks.fabric.homes import homes
from generator.checks.fabric.names import misnamed
from generator.checks.fabric.pods import PodTemplate, asked, whole
from generator.checks.fabric.providers import Source
from generator.checks.fabric.read import Fabrics
from generator.checks.fabric.resource import Resource, resource
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import NODE
from generator.facts.names import NETWORKS
from generator.manifests import Manifest
from generator.objects.fields import mapping

_CHECK = "fabric/device-count"
_INJECTED = ", unless network-resources-injector adds one, which no queue counts"


def device_count(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Of each kind of pods; what a TrainJob changes of them is not judged alone."""
    fabrics = gathered.view(Fabrics.read)
    for pods in fabrics.pods:
        if not pods.is_patch:
            for breach in (*_joined(fabrics, pods, gathered), *_shared(fabrics, pods), *_written(fabrics, pods)):
                yield pods.manifest, breach


def _joined(fabrics: Fabrics, pods: PodTemplate, gathered: Gathered) -> Iterator[Breach]:
    """Networks and devices, one by one."""
    there = _networks(fabrics, pods, gathered)
    needed: dict[Resource, list[Attachment]] = {}
    for wanted in pods.networks.wanted:
        network = there.get((wanted.namespace, wanted.name))
        if network and network.resource:
            needed.setdefault(network.resource, []).append(network)
    wrong = misnamed(fabrics, pods)
    for named, networks in needed.items() if not pods.spec.get("resourceClaims") else ():
        has = {name: amount for name, amount in pods.devices.items() if resource(name).may_be(named)}
        if sum(has.values()) != len(networks) and not any(right.resource.may_be(named) for right in wrong.values()):
            yield _unequal(pods, named, networks, has)
    is_all_known = len(there) == len({(each.namespace, each.name) for each in pods.networks.wanted})
    if is_all_known and not pods.networks.error and not pods.reaches_devices:
        yield from _idle(fabrics, pods, needed, homes(pods, gathered))


def _networks(fabrics: Fabrics, pods: PodTemplate, gathered: Gathered) -> Mapping[tuple[str, str], Attachment]:
    """What pods mean by a namespace, be it none, and a name; of a runtime for all in the first of its namespaces."""
    found: dict[tuple[str, str], Attachment] = {}
    spaces = sorted(homes(pods, gathered))
    for wanted in pods.networks.wanted:
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


def _unequal(pods: PodTemplate, named: Resource, networks: list[Attachment], has: Mapping[str, int]) -> Breach:
    count, amount = len(networks), sum(has.values())
    name = next(iter(has), str(named))
    names = " and ".join(dict.fromkeys(f"`{each.name}`" for each in networks))
    each = f"each takes a `{named}` ({networks[0].manifest.resource})"
    too_few = "a network gets no device, and the pods stay in ContainerCreating"
    too_many = "devices are taken from the node, and from the quota, that no network brings into the pods"
    return Breach(
        pods.device_path(name),
        _CHECK,
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
                _CHECK,
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
                _CHECK,
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
            for name in (each for each in asked(container) if fabrics.is_device(each)):
                yield _elsewhere(path, container, name)


def _contradiction(path: Any, name: str, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> Breach:
    says = f"the limit `{limits[name]}`" if name in limits else "no limit"
    return Breach(
        path,
        _CHECK,
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
        _CHECK,
        f"the container `{container.get('name')}` asks for `{name}`, and ranks run in `{NODE}`",
        f"a device is given to the container that asks for it: `{NODE}` sees none",
        f"ask for it in `{NODE}`",
        value=container.get("name"),
    )
