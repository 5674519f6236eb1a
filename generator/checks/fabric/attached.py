"""fabric/not-attached, fabric/*claim, fabric/tcp-fallback: networks and devices that pods do not get."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from generator.checks.fabric.fabrics import Fabrics
from generator.checks.fabric.networks import Attachment, NetworkRequest
from generator.checks.fabric.placement import flavors_of, likely_namespaces, namespaces_of
from generator.checks.fabric.pods import PodTemplate, pod_templates, whole
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import Queues
from generator.checks.registry import ERROR, WARNING, check
from generator.checks.trainer import AMOUNTS, FIELD, NODE, OnRuntime, on_runtimes, resized_containers
from generator.documents.load import Path
from generator.facts import env
from generator.facts.defects import known
from generator.facts.names import FABRIC
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping

_CHECK = "fabric/not-attached"
_STUCK = "Multus then attaches nothing, and the pods stay in ContainerCreating"
_FOR_ALL = frozenset({"default", "openshift-cnv", "openshift-multus", "openshift-sriov-network-operator"})
"""From where OpenShift lends networks to other namespaces (cluster-network-operator 2a6a57f bindata/network/multus)."""
_MANY = 5


@check("fabric/not-attached", severity=ERROR, needs=Objects)
def not_attached(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a network that Multus does not find.

    The annotation `k8s.v1.cni.cncf.io/networks` of pods asks for a network that is not where Multus looks: in the
    namespace that it names, or else in that of the pods. Those of a ClusterTrainingRuntime run in each namespace
    whose annotation `mpigen.dev/runtimes` names it, and wherever a TrainJob on it is; as a warning also where a
    queue has quota for a job on it. On OpenShift Multus takes networks of other namespaces only from `default` and
    a few of its own. Or Multus cannot read the annotation at all. A network that is in no file is a warning, and
    where the files hold none, nothing is said.

    Source: multus-cni 95a0932 pkg/k8sclient/k8sclient.go parsePodNetworkAnnotation, GetNetworkDelegates
    """
    fabrics = gathered.view(Fabrics.read)
    for pods in fabrics.pods:
        if pods.networks.error:
            told = f"Multus cannot read it: {pods.networks.error}"
            yield pods.manifest, Breach(pods.networks_path, _CHECK, told, _STUCK, pods.networks.fix)
        elif pods.networks.requests and fabrics.attachments:
            spaces = namespaces_of(pods, gathered)
            for wanted in dict.fromkeys(pods.networks.requests):
                certain = list(_missing(fabrics, pods, wanted, spaces))
                likely = likely_namespaces(pods, gathered) if not certain and _may_lack(wanted, gathered) else ()
                maybe = _missing(fabrics, pods, wanted, frozenset(likely)) if likely else ()
                for breach in (*certain, *(replace(each, severity=Severity.WARNING) for each in maybe)):
                    yield pods.manifest, breach


def _may_lack(wanted: NetworkRequest, gathered: Objects) -> bool:
    """Whether any namespace with a queue has no such network: mostly none, and nothing else need be computed."""
    queued = gathered.view(Queues.read)
    queues = queued.queues if queued else {}
    return not queues.keys() <= gathered.view(Fabrics.read).by_name.get(wanted.name, {}).keys()


def _missing(fabrics: Fabrics, pods: PodTemplate, wanted: NetworkRequest, spaces: AbstractSet[str]) -> Iterator[Breach]:
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
    pods: PodTemplate, wanted: NetworkRequest, there: Mapping[str, Attachment], lacking: list[str], fabrics: Fabrics
) -> Breach:
    where = f" in {format_names(lacking)}" if lacking else ""
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


def _isolated(pods: PodTemplate, wanted: NetworkRequest, network: Attachment | None, outside: list[str]) -> Breach:
    what = network.manifest.resource if network else f"`{wanted}`"
    return Breach(
        pods.networks_path,
        _CHECK,
        f"its pods run in {format_names(outside)} and ask for {what}, which is in `{wanted.namespace}`",
        "on OpenShift Multus lends no networks to other namespaces, and the pods stay in ContainerCreating",
        f"make the network in {format_names(outside)}, and leave `{wanted.namespace}/` out",
        value=str(wanted),
    )


def format_names(names: list[str]) -> str:
    """Names in a message: the first ones, and how many more."""
    shown = ", ".join(f"`{name}`" for name in names[:_MANY])
    return f"{shown} and {len(names) - _MANY} more" if len(names) > _MANY else shown


def _first(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


_CLAIM = "fabric/claim"
_GROUP = "resource.k8s.io"
_TEMPLATE = "resourceClaimTemplateName"


@check("fabric/claim", severity=ERROR, needs=Objects)
def claim(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a claim of devices that does not exist.

    Pods claim devices of a driver (DRA) by a ResourceClaimTemplate that is not in their namespace, so that no claim
    is made and they stay Pending. Where the files hold no template, nothing is said, and of one that they hold
    nowhere it is a warning. Or a container claims what its pods do not.
    """
    templates = gathered.names(_GROUP, "ResourceClaimTemplate")
    for pods in gathered.view(Fabrics.read).pods:
        claims = indexed_mappings(pods.spec.get("resourceClaims"))
        for number, said in claims if templates else ():
            name, path = said.get(_TEMPLATE), (*pods.path, "spec", "resourceClaims", number, _TEMPLATE)
            if isinstance(name, str):
                there = {namespace for namespace, names in templates.items() if name in names}
                for breach in _missing_claim(pods, path, name, there, gathered):
                    yield pods.manifest, breach
        known = [each["name"] for _, each in claims if isinstance(each.get("name"), str)]
        for breach in _unknown(pods, known) if not pods.is_patch else ():
            yield pods.manifest, breach


@check("fabric/skipped-claim", severity=WARNING, needs=Objects)
def skipped_claim(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a claim that the kubelet skips after a shared claim.

    Pods use a ResourceClaim that other pods may use too (`resourceClaimName`), and list other claims after it. The
    kubelet of Kubernetes before 1.34.4 skips those once another pod on the node uses the shared one, and the
    containers never start. List it last.

    Source: kubernetes v1.34.2 and v1.33.4 pkg/kubelet/cm/dra/manager.go: the loop over the pod's claims returns at
    one that is prepared
    """
    for pods in gathered.view(Fabrics.read).pods:
        listed = indexed_mappings(pods.spec.get("resourceClaims"))
        for number, each in listed[:-1]:
            if isinstance(shared := each.get("resourceClaimName"), str):
                defect = known("kubelet-skips-claims-after-a-shared-one")
                later = ", ".join(f"`{other.get('name')}`" for place, other in listed if place > number)
                breach = Breach(
                    (*pods.path, "spec", "resourceClaims", number, "resourceClaimName"),
                    "fabric/skipped-claim",
                    f"pods share the claim `{shared}`, and {later} come after it",
                    "when another pod on the node already uses the shared claim, the kubelet skips those after it, "
                    f"and the containers never start: unable to get claim info ({defect.note})",
                    f"list `{each.get('name')}` last, or update to {defect.update}",
                    Severity.WARNING,
                    value=shared,
                )
                yield pods.manifest, breach
                break


def _missing_claim(pods: PodTemplate, path: Path, name: str, there: set[str], gathered: Objects) -> Iterator[Breach]:
    certain, likely = (
        sorted(spaces - there) for spaces in (namespaces_of(pods, gathered), likely_namespaces(pods, gathered))
    )
    lacking = certain or likely
    if "" in there or (there and not lacking):
        return
    where = f" in {format_names(lacking)}" if lacking else ""
    other = f": there is one in {format_names(sorted(there))}" if there else ""
    yield Breach(
        path,
        _CLAIM,
        f"its pods claim by the ResourceClaimTemplate `{name}`, which no file holds{where}{other}",
        "no claim is made of a template that is not in the namespace of the pods, and they stay Pending",
        "make one in each of these namespaces" if there else "add it, or name one that is there",
        Severity.ERROR if there and certain else Severity.WARNING,
        value=name,
    )


def _unknown(pods: PodTemplate, known: Sequence[str]) -> Iterator[Breach]:
    """What containers claim. They need not claim what is in the pod's network, such as an interface of dranet."""
    first = indexed_mappings(pods.spec.get("initContainers"))
    containers = [((*pods.path, "spec", "initContainers", number), each) for number, each in first]
    for path, container in (*containers, *pods.containers):
        for number, each in indexed_mappings(mapping(container, "resources").get("claims")):
            name = each.get("name")
            if isinstance(name, str) and name not in known:
                has = (
                    f"`resourceClaims` of its pods has {format_names(list(known))}"
                    if known
                    else "its pods claim nothing"
                )
                yield Breach(
                    (*path, "resources", "claims", number, "name"),
                    _CLAIM,
                    f"the container claims `{name}`, and {has}",
                    "the API server refuses such pods",
                    "write one of these, or add it there" if known else "add it to `resourceClaims` of the pods",
                    value=name,
                )


_FALLBACK = "fabric/tcp-fallback"
_VERBS = ("mlx", "verbs", "efa")
_TRANSPORTS = ("rc", "dc", "ud", "ib")
_ON_TOP = ("macvlan", "ipvlan", "ipoib", "bridge", "vlan")


class _Told(NamedTuple):
    """A variable that names a device of a fabric."""

    path: Path
    words: str
    is_strict: bool
    """Whether ranks fail without it, rather than use TCP."""


@check("fabric/tcp-fallback", severity=ERROR, needs=Objects)
def tcp_fallback(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report ranks that fall back to TCP silently.

    Ranks would run over TCP, mostly in silence: a variable such as `NCCL_IB_HCA` speaks of a fabric and no
    container asks for a device of it; or a TrainJob changes how many its runtime asks for (one that leaves them out
    on Trainer 2.2 is `trainjob/lost-devices`). A warning: the hosts of a runtime select nodes of a ResourceFlavor
    that have a fabric, as its annotation `mpigen.dev/allocatable` says, and ask for nothing of it, and no
    `mpigen.dev/fabric: none` of the pods says that TCP is meant. Pods in the network of the node, privileged ones,
    and those with claims of a driver have devices all the same.
    """
    for manifest in gathered.manifests:
        pods = list(pod_templates(manifest))
        if pods and not any(each.is_patch for each in pods):
            for breach in _without_device(gathered.view(Fabrics.read), pods, gathered):
                yield manifest, breach
    for pair in on_runtimes(gathered):
        for breach in _changed(gathered.view(Fabrics.read), pair):
            yield pair.job, breach


def _without_device(fabrics: Fabrics, pods: Sequence[PodTemplate], gathered: Objects) -> Iterator[Breach]:
    if any(_has_device(fabrics, each) for each in pods):
        return
    said = next((found for each in pods if (found := _fallback_of(each))), None)
    if said:
        yield Breach(
            said.path,
            _FALLBACK,
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
    attached = [fabrics.by_name.get(each.name, {}) for each in pods.networks.requests]
    return any(not there or any(each.type not in _ON_TOP for each in there.values()) for there in attached)


def _fallback_of(pods: PodTemplate) -> _Told | None:
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


def _flavor(fabrics: Fabrics, pods: PodTemplate, gathered: Objects) -> tuple[Manifest, str] | None:
    """Nodes that these pods select, and a device of a fabric that they have."""
    found = ((flavor, name) for flavor, has in flavors_of(pods, gathered) for name in has if fabrics.is_device(name))
    return next(found, None)


def _passed_over(pods: PodTemplate, flavor: Manifest, device: str) -> Breach:
    return Breach(
        pods.device_path(device),
        _FALLBACK,
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
        _FALLBACK,
        f"asks for {amount or 'none'} of `{name}`, of which {pair.runtime.resource} asks for {number}",
        none if not amount else less,
        f"write `{name}: {number}`",
        at_key=True,
        value=amount,
    )
