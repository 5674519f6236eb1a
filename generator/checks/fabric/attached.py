"""fabric/not-attached: is there each network that pods ask for, where Multus looks for it?"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from generator.checks.fabric.attachments import Attachment
from generator.checks.fabric.homes import homes, likely_homes
from generator.checks.fabric.networks import Wanted
from generator.checks.fabric.pods import PodTemplate
from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.queued import Queued
from generator.manifests import Manifest

_CHECK = "fabric/not-attached"
_STUCK = "Multus then attaches nothing, and the pods stay in ContainerCreating"
_FOR_ALL = frozenset({"default", "openshift-cnv", "openshift-multus", "openshift-sriov-network-operator"})
"""From where OpenShift lends networks to other namespaces (cluster-network-operator 2a6a57f bindata/network/multus)."""
_MANY = 5


def not_attached(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Judged where the files hold any network; one that is in none of them is a warning, unless it is elsewhere.

    multus-cni 95a0932 pkg/k8sclient/k8sclient.go parsePodNetworkAnnotation, GetNetworkDelegates
    """
    fabrics = gathered.view(Fabrics.read)
    for pods in fabrics.pods:
        if pods.networks.error:
            told = f"Multus cannot read it: {pods.networks.error}"
            yield pods.manifest, Breach(pods.networks_path, _CHECK, told, _STUCK, pods.networks.fix)
        elif pods.networks.wanted and fabrics.attachments:
            spaces = homes(pods, gathered)
            for wanted in dict.fromkeys(pods.networks.wanted):
                certain = list(_missing(fabrics, pods, wanted, spaces))
                likely = likely_homes(pods, gathered) if not certain and _may_lack(wanted, gathered) else ()
                maybe = _missing(fabrics, pods, wanted, frozenset(likely)) if likely else ()
                for breach in (*certain, *(replace(each, severity=Severity.WARNING) for each in maybe)):
                    yield pods.manifest, breach


def _may_lack(wanted: Wanted, gathered: Gathered) -> bool:
    """Whether any namespace with a queue has no such network: mostly none, and nothing else need be computed."""
    queued = gathered.view(Queued.read)
    queues = queued.queues if queued else {}
    return not queues.keys() <= gathered.view(Fabrics.read).by_name.get(wanted.name, {}).keys()


def _missing(fabrics: Fabrics, pods: PodTemplate, wanted: Wanted, spaces: AbstractSet[str]) -> Iterator[Breach]:
    there = fabrics.by_name.get(wanted.name, {})
    if wanted.namespace:
        outside = sorted(spaces - {wanted.namespace}) if wanted.namespace not in _FOR_ALL else []
        if wanted.namespace not in there and "" not in there:
            yield _told(pods, wanted, there, [wanted.namespace], fabrics)
        elif outside and fabrics.is_openshift:
            yield _isolated(pods, wanted, there.get(wanted.namespace), outside)
    elif spaces and "" not in there and (lacking := sorted(spaces - there.keys())):
        yield _told(pods, wanted, there, lacking, fabrics)
    elif not there:
        yield _told(pods, wanted, there, [], fabrics)


def _told(
    pods: PodTemplate, wanted: Wanted, there: Mapping[str, Attachment], lacking: list[str], fabrics: Fabrics
) -> Breach:
    where = f" in {named(lacking)}" if lacking else ""
    elsewhere = [each.manifest.resource + _made_in(each) for each in there.values()]
    near = difflib.get_close_matches(wanted.name, fabrics.by_name, n=1)
    if elsewhere:
        message, fix = f": there is {_first(elsewhere)}", "make one in each of these namespaces"
    else:
        message = f": there is {_first([each.manifest.resource for each in fabrics.attachments])}"
        fix = f"add it, or name `{near[0]}`, if that is meant" if near else "add it, or name one that is there"
    return Breach(
        pods.networks_path,
        _CHECK,
        f"its pods ask for the network `{wanted}`, which no file holds{where}{message}",
        _STUCK,
        fix,
        Severity.ERROR if elsewhere and lacking else Severity.WARNING,
        value=str(wanted),
    )


def _made_in(network: Attachment) -> str:
    """Where an operator makes it, if that is not where its object is."""
    is_elsewhere = network.namespace and network.namespace != network.manifest.namespace
    return f" for `{network.namespace}`" if is_elsewhere else ""


def _isolated(pods: PodTemplate, wanted: Wanted, network: Attachment | None, outside: list[str]) -> Breach:
    what = network.manifest.resource if network else f"`{wanted}`"
    return Breach(
        pods.networks_path,
        _CHECK,
        f"its pods run in {named(outside)} and ask for {what}, which is in `{wanted.namespace}`",
        "on OpenShift Multus lends no networks to other namespaces, and the pods stay in ContainerCreating",
        f"make the network in {named(outside)}, and leave `{wanted.namespace}/` out",
        value=str(wanted),
    )


def named(names: list[str]) -> str:
    """Names in a message: the first ones, and how many more."""
    shown = ", ".join(f"`{name}`" for name in names[:_MANY])
    return f"{shown} and {len(names) - _MANY} more" if len(names) > _MANY else shown


def _first(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
