"""fabric/resource-name: do the networks, the pods and who offers the devices agree on what a device is called?"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from generator.checks.fabric.attachments import OF_SRIOV, Attachment
from generator.checks.fabric.pods import PodTemplate
from generator.checks.fabric.providers import Provider, Source
from generator.checks.fabric.read import Fabrics
from generator.checks.fabric.resource import SHARED_PREFIX, Resource, is_accelerator, resource
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.manifests import Manifest

_CHECK = "fabric/resource-name"
_NEAR = 0.75  # as difflib measures it: `mlnxics` and `mlnxnics` are 0.93
_MANY = 3


def resource_name(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Judged where the files hold what offers devices, as a network or pods alone may be for those of others.

    multus-cni 95a0932 pkg/k8sclient/k8sclient.go getKubernetesDelegate: the names must be equal, letter by letter
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
    named = network.resource or Resource("", "")
    if network.manifest.kind in OF_SRIOV:
        found = fabrics.offered_by(Source.POLICY)
    elif network.manifest.kind == "HostDeviceNetwork":
        found = fabrics.offered_by(Source.PLUGIN)
    elif named.prefix == SHARED_PREFIX:
        found = fabrics.offered_by(Source.SHARED, Source.PLUGIN)
    else:
        found = fabrics.offered_by(Source.POLICY, Source.PLUGIN)
    nodes = [each for each in fabrics.offered_by(Source.FLAVOR) if each.resource.prefix == named.prefix]
    return found or [each for each in nodes if not is_accelerator(str(each.resource))]


def _of_network(network: Attachment, named: Resource, offered: Sequence[Provider], nodes: Sequence[Provider]) -> Breach:
    """An error, unless nodes are said to have the device all the same: it may be offered by what other files hold."""
    has = f", though the nodes of {nodes[0].manifest.resource} are to have it" if nodes else ""
    return Breach(
        network.path,
        _CHECK,
        f"the network hands out `{named}`, but {_told(named, offered)}{has}",
        "Multus looks for devices of exactly that name, so that pods stay in ContainerCreating without one",
        f"write `{_meant(named, offered, bare=network.path[0] == 'spec')}`, or have that offered",
        Severity.WARNING if nodes else Severity.ERROR,
        value=str(named),
    )


def _told(named: Resource, offered: Sequence[Provider]) -> str:
    """Who offers what: those that are near, else the first ones."""
    near = [each for each in offered if each.resource.name == named.name] or offered
    rest = f", and {len(near) - _MANY} more" if len(near) > _MANY else ""
    return ", ".join(dict.fromkeys(map(str, near[:_MANY]))) + rest


def _meant(named: Resource, offered: Sequence[Provider], *, bare: bool) -> str:
    names = {each.resource.name: each.resource for each in reversed(offered)}
    close = difflib.get_close_matches(named.name, names, n=1, cutoff=0) or [named.name]
    meant = names.get(close[0], named)
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
        asked = resource(name)
        if not (is_accelerator(name) or any(map(asked.may_be, fabrics.devices)) or _only_nodes_give(fabrics, asked)):
            alike = next((each for each in _known(fabrics, pods) if _is_alike(asked, each.resource)), None)
            if alike:
                found[name] = alike._replace(is_certain=alike.is_certain or alike.resource.name == asked.name)
    return found


def _only_nodes_give(fabrics: Fabrics, asked: Resource) -> bool:
    """Whether nodes are said to have a device, and nobody here offers others with the same prefix."""
    others = fabrics.offered_by(Source.POLICY, Source.PLUGIN, Source.SHARED)
    is_theirs = any(each.resource.prefix == asked.prefix for each in others)
    return not is_theirs and _gives(fabrics.offered_by(Source.FLAVOR), asked)


def _may_be_of_same(one: Resource, other: Resource) -> bool:
    """Whether one operator may offer both."""
    return one.prefix == other.prefix or not (one.prefix and other.prefix)


def _gives(offered: Sequence[Provider], asked: Resource) -> bool:
    return any(each.resource.may_be(asked) for each in offered)


def _known(fabrics: Fabrics, pods: PodTemplate) -> Iterator[Right]:
    """The right names: those of networks that the pods attach come first."""
    for wanted in pods.networks.wanted:
        for network in fabrics.by_name.get(wanted.name, {}).values():
            if network.resource and network.resource.prefix:
                told = f"{network.manifest.resource}, which they attach, hands out `{network.resource}`"
                yield Right(network.resource, told, is_certain=True)
    for each in fabrics.offered_by(Source.POLICY, Source.PLUGIN, Source.SHARED):
        if each.resource.prefix:
            yield Right(each.resource, str(each), is_certain=False)


def _is_alike(asked: Resource, right: Resource) -> bool:
    """The same name with another prefix, or the same prefix: of NVIDIA's, which is for more, almost the same name."""
    if asked.prefix != right.prefix:
        return asked.name == right.name
    return asked.prefix != "nvidia.com" or difflib.SequenceMatcher(None, asked.name, right.name).ratio() >= _NEAR


def _of_pods(pods: PodTemplate, name: str, right: Right) -> Breach:
    return Breach(
        pods.device_path(name),
        _CHECK,
        f"its pods ask for `{name}`, which nobody offers, but {right.told}",
        "no node has such a device, so that the pods stay Pending",
        f"write `{right.resource}`",
        Severity.ERROR if right.is_certain else Severity.WARNING,
        at_key=True,
        value=name,
    )
