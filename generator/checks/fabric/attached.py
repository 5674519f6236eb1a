"""fabric/not-attached, fabric/*claim, fabric/tcp-fallback: networks and devices that pods do not get."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from generator.checks.fabric.fabrics import Fabrics, flavors_of, likely_namespaces, namespaces_of
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects, on_runtimes
from generator.checks.quota.queues import Queues
from generator.checks.registry import ERROR, WARNING, check
from generator.documents.load import Path
from generator.facts import env
from generator.facts.defects import known
from generator.facts.names import FABRIC
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.networks import Attachment, NetworkRequest
from generator.objects.pods import NODE, PodTemplate, pod_templates, whole
from generator.objects.training import AMOUNTS, FIELD, OnRuntime, resized_containers

_CHECK = "fabric/not-attached"
_WHY_NOT_ATTACHED = "Multus attaches no network, and the pods stay in ContainerCreating"
_SHARED_NAMESPACES = frozenset({"default", "openshift-cnv", "openshift-multus", "openshift-sriov-network-operator"})
"""Namespaces whose networks OpenShift allows everywhere (cluster-network-operator 2a6a57f bindata/network/multus)."""
_MANY = 5


@check("fabric/not-attached", severity=ERROR, needs=Objects)
def not_attached(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a network that Multus does not find.

    The pods stay in ContainerCreating. Their annotation `k8s.v1.cni.cncf.io/networks` requests a network that does not
    exist in the namespace that it names, or else in the namespace of the pods. Multus may also reject the annotation
    itself. On OpenShift, Multus allows networks of other namespaces only from `default` and a few system namespaces.

    Pods of a ClusterTrainingRuntime run in each namespace whose annotation `mpigen.dev/runtimes` lists the runtime, and
    in the namespaces of its TrainJobs. In namespaces whose queue has quota for such a job, the finding is a warning.
    It is also a warning if no namespace of the release has the network. A release without networks is not checked.

    Source: multus-cni 95a0932 pkg/k8sclient/k8sclient.go parsePodNetworkAnnotation, GetNetworkDelegates
    """
    fabrics = gathered.view(Fabrics.read)
    for pods in fabrics.pods:
        if pods.networks.error:
            message = f"Multus cannot parse the annotation: {pods.networks.error}"
            yield pods.manifest, Breach(pods.networks_path, _CHECK, message, _WHY_NOT_ATTACHED, pods.networks.fix)
        elif pods.networks.requests and fabrics.attachments:
            spaces = namespaces_of(pods, gathered)
            for request in dict.fromkeys(pods.networks.requests):
                certain = list(_missing(fabrics, pods, request, spaces))
                likely = likely_namespaces(pods, gathered) if not certain and _may_lack(request, gathered) else ()
                maybe = _missing(fabrics, pods, request, frozenset(likely)) if likely else ()
                for breach in (*certain, *(replace(breach, severity=Severity.WARNING) for breach in maybe)):
                    yield pods.manifest, breach


def _may_lack(request: NetworkRequest, gathered: Objects) -> bool:
    """Return True if any namespace with a queue lacks the network. It is a fast test before the exact one."""
    queued = gathered.view(Queues.read)
    queues = queued.of_namespaces if queued else {}
    return not queues.keys() <= gathered.view(Fabrics.read).by_name.get(request.name, {}).keys()


def _missing(
    fabrics: Fabrics, pods: PodTemplate, request: NetworkRequest, spaces: AbstractSet[str]
) -> Iterator[Breach]:
    defined = fabrics.by_name.get(request.name, {})
    if request.namespace:
        outside = sorted(spaces - {request.namespace}) if request.namespace not in _SHARED_NAMESPACES else []
        if request.namespace not in defined and "" not in defined:
            yield _dangling_request(pods, request, defined, [request.namespace], fabrics)
        elif outside and fabrics.is_openshift:
            yield _isolated(pods, request, defined.get(request.namespace), outside)
    elif spaces and "" not in defined and (lacking := sorted(spaces - defined.keys())):
        yield _dangling_request(pods, request, defined, lacking, fabrics)
    elif not defined:
        yield _dangling_request(pods, request, defined, [], fabrics)


def _dangling_request(
    pods: PodTemplate, request: NetworkRequest, defined: Mapping[str, Attachment], lacking: list[str], fabrics: Fabrics
) -> Breach:
    where = f" in {format_names(lacking)}" if lacking else ""
    candidates = [network.manifest.resource + _target_namespace(network) for network in defined.values()]
    near = difflib.get_close_matches(request.name, fabrics.by_name, n=1)
    if candidates:
        message, fix = f": it has {_first(candidates)}", "create the network in each of these namespaces"
    else:
        message = f": it has {_first([network.manifest.resource for network in fabrics.attachments])}"
        fix = f"create the network, or did you mean `{near[0]}`?" if near else "create it, or name an existing network"
    return Breach(
        pods.networks_path,
        _CHECK,
        f"its pods request the network `{request}`, which the release does not define{where}{message}",
        _WHY_NOT_ATTACHED,
        fix,
        Severity.ERROR if candidates and lacking else Severity.WARNING,
        value=str(request),
    )


def _target_namespace(network: Attachment) -> str:
    """Return the namespace in which an operator creates the network, if it is not the namespace of its object."""
    differs = network.namespace and network.namespace != network.manifest.namespace
    return f" for `{network.namespace}`" if differs else ""


def _isolated(pods: PodTemplate, request: NetworkRequest, network: Attachment | None, outside: list[str]) -> Breach:
    network_name = network.manifest.resource if network else f"`{request}`"
    return Breach(
        pods.networks_path,
        _CHECK,
        f"its pods run in {format_names(outside)} but request {network_name}, which is in `{request.namespace}`",
        "on OpenShift, Multus rejects networks of other namespaces, and the pods stay in ContainerCreating",
        f"create the network in {format_names(outside)}, and remove `{request.namespace}/` from the annotation",
        value=str(request),
    )


def format_names(names: list[str]) -> str:
    """Format names for a message: the first ones, and the number of the others."""
    first = ", ".join(f"`{name}`" for name in names[:_MANY])
    return f"{first} and {len(names) - _MANY} more" if len(names) > _MANY else first


def _first(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


_CLAIM = "fabric/claim"
_GROUP = "resource.k8s.io"
_TEMPLATE = "resourceClaimTemplateName"


@check("fabric/claim", severity=ERROR, needs=Objects)
def claim(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a claim of devices that does not exist.

    Pods with a dangling claim of devices (DRA) stay Pending, because their ResourceClaimTemplate is not in their
    namespace. It is a warning if no namespace of the release has the template. A release without templates is not
    checked. The check also reports a container whose claim is missing in `resourceClaims` of its pods: the API server
    rejects these pods.
    """
    templates = gathered.names(_GROUP, "ResourceClaimTemplate")
    for pods in gathered.view(Fabrics.read).pods:
        claims = indexed_mappings(pods.spec.get("resourceClaims"))
        for number, entry in claims if templates else ():
            name, path = entry.get(_TEMPLATE), (*pods.path, "spec", "resourceClaims", number, _TEMPLATE)
            if isinstance(name, str):
                defined = {namespace for namespace, names in templates.items() if name in names}
                for breach in _missing_claim(pods, path, name, defined, gathered):
                    yield pods.manifest, breach
        known = [entry["name"] for _, entry in claims if isinstance(entry.get("name"), str)]
        for breach in _undeclared_claims(pods, known) if not pods.is_patch else ():
            yield pods.manifest, breach


@check("fabric/skipped-claim", severity=WARNING, needs=Objects)
def skipped_claim(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a claim that the kubelet skips after a shared claim.

    The containers never start. Pods use a ResourceClaim that other pods can share (`resourceClaimName`), and list other
    claims after it. If another pod on the node already uses the shared claim, the kubelet before Kubernetes 1.34.4
    skips the claims after it. List the shared claim last.

    Source: kubernetes v1.34.2 and v1.33.4 pkg/kubelet/cm/dra/manager.go: the loop over the pod's claims returns at
    one that is prepared
    """
    for pods in gathered.view(Fabrics.read).pods:
        listed = indexed_mappings(pods.spec.get("resourceClaims"))
        for number, entry in listed[:-1]:
            if isinstance(shared := entry.get("resourceClaimName"), str):
                defect = known("kubelet-skips-claims-after-a-shared-one")
                later = ", ".join(f"`{other.get('name')}`" for place, other in listed if place > number)
                breach = Breach(
                    (*pods.path, "spec", "resourceClaims", number, "resourceClaimName"),
                    "fabric/skipped-claim",
                    f"pods list the shared claim `{shared}` before {later}",
                    "when another pod on the node already uses the shared claim, the kubelet skips the claims after "
                    f"it, and the containers never start: unable to get claim info ({defect.note})",
                    f"list `{entry.get('name')}` last, or update to {defect.update}",
                    Severity.WARNING,
                    value=shared,
                )
                yield pods.manifest, breach
                break


def _missing_claim(pods: PodTemplate, path: Path, name: str, defined: set[str], gathered: Objects) -> Iterator[Breach]:
    certain, likely = (
        sorted(spaces - defined) for spaces in (namespaces_of(pods, gathered), likely_namespaces(pods, gathered))
    )
    lacking = certain or likely
    if "" in defined or (defined and not lacking):
        return
    where = f" in {format_names(lacking)}" if lacking else ""
    existing = f": it exists in {format_names(sorted(defined))}" if defined else ""
    yield Breach(
        path,
        _CLAIM,
        f"its pods use the ResourceClaimTemplate `{name}`, which the release does not define{where}{existing}",
        "Kubernetes creates no claim without a template in the namespace of the pods, and the pods stay Pending",
        "create the template in each of these namespaces" if defined else "create it, or name an existing template",
        Severity.ERROR if defined and certain else Severity.WARNING,
        value=name,
    )


def _undeclared_claims(pods: PodTemplate, known: Sequence[str]) -> Iterator[Breach]:
    """Yield claims of containers that the pods lack. Containers need no claim for network interfaces, as of dranet."""
    first = indexed_mappings(pods.spec.get("initContainers"))
    init_containers = [((*pods.path, "spec", "initContainers", number), entry) for number, entry in first]
    for path, container in (*init_containers, *pods.containers):
        for number, entry in indexed_mappings(mapping(container, "resources").get("claims")):
            name = entry.get("name")
            if isinstance(name, str) and name not in known:
                has = f"its pods have {format_names(list(known))}" if known else "its pods have none"
                yield Breach(
                    (*path, "resources", "claims", number, "name"),
                    _CLAIM,
                    f"the container uses the claim `{name}`, which `resourceClaims` of its pods lacks: {has}",
                    "the API server rejects the pods",
                    "name one of these claims, or add it to `resourceClaims`"
                    if known
                    else "add it to `resourceClaims`",
                    value=name,
                )


_FALLBACK = "fabric/tcp-fallback"
_FABRIC_PROVIDERS = ("mlx", "verbs", "efa")
_FABRIC_TRANSPORTS = ("rc", "dc", "ud", "ib")
_SOFTWARE_PLUGINS = ("macvlan", "ipvlan", "ipoib", "bridge", "vlan")


class _FabricVariable(NamedTuple):
    """A variable that names a device of a fabric.

    Attributes:
        path: its path in the manifest.
        text: its name and value, for messages.
        is_strict: True if ranks fail without the device instead of falling back to TCP.
    """

    path: Path
    text: str
    is_strict: bool


@check("fabric/tcp-fallback", severity=ERROR, needs=Objects)
def tcp_fallback(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report ranks that fall back to TCP silently.

    Training becomes many times slower, without an error. The check reports:

    - A variable such as `NCCL_IB_HCA` that selects a fabric, while no container requests a device of a fabric.
    - A TrainJob that changes the number of devices of its runtime. If a TrainJob on Trainer 2.2 drops them, see
      `trainjob/lost-devices`.
    - As a warning, hosts of a runtime that run on nodes with a fabric but request no device. The annotation
      `mpigen.dev/allocatable` of the ResourceFlavor lists the devices. To use TCP on purpose, annotate the pods with
      `mpigen.dev/fabric: none`.

    Pods in the host network, privileged pods, and pods with device claims reach the devices without a request.
    """
    for manifest in gathered.manifests:
        pods = list(pod_templates(manifest))
        if pods and not any(template.is_patch for template in pods):
            for breach in _without_device(gathered.view(Fabrics.read), pods, gathered):
                yield manifest, breach
    for pair in on_runtimes(gathered):
        for breach in _changed_amounts(gathered.view(Fabrics.read), pair):
            yield pair.job, breach


def _without_device(fabrics: Fabrics, pods: Sequence[PodTemplate], gathered: Objects) -> Iterator[Breach]:
    if any(_has_device(fabrics, template) for template in pods):
        return
    variable = next(filter(None, map(_fallback_of, pods)), None)
    if variable:
        yield Breach(
            variable.path,
            _FALLBACK,
            f"{variable.text}, but no container requests a device of a fabric",
            "the ranks find no such device and fail"
            if variable.is_strict
            else "the ranks find no such device and fall back to TCP silently",
            "request the device in `limits`, and attach its network; or remove the variable",
            value=variable.text,
        )
        return
    for template in pods:
        uses_tcp = mapping(template.body, "metadata", "annotations").get(FABRIC) == "none"
        is_host = template.is_of_runtime and template.role == NODE
        if is_host and not uses_tcp and (nodes := _flavor(fabrics, template, gathered)):
            yield _unused_fabric(template, *nodes)


def _has_device(fabrics: Fabrics, pods: PodTemplate) -> bool:
    """Return True if pods get a device, or request a network, which `fabric/device-count` checks.

    An interface on top of a NIC, such as macvlan, is not a device.
    """
    if pods.reaches_devices or any(map(fabrics.is_device, pods.devices)):
        return True
    definitions = [fabrics.by_name.get(request.name, {}).values() for request in pods.networks.requests]
    return any(not networks or any(n.type not in _SOFTWARE_PLUGINS for n in networks) for networks in definitions)


def _fallback_of(pods: PodTemplate) -> _FabricVariable | None:
    """Return the first variable that requires a device of a fabric.

    Source: nccl 5067397 docs/userguide/source/env.rst; ucx 9466d10 src/uct/ib; the provider names of libfabric
    """
    variables = pods.environment
    values = {name: value.lower() for name, (_, value) in variables.items()}
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
                is_meant = value.startswith(_FABRIC_PROVIDERS)
        if is_meant:
            path, written_value = variables[name]
            return _FabricVariable(path, f"`{name}` is `{written_value}`", is_strict)
    return None


def _names_transport(value: str) -> bool:
    return not value.startswith("^") and any(name.startswith(_FABRIC_TRANSPORTS) for name in value.split(","))


def _flavor(fabrics: Fabrics, pods: PodTemplate, gathered: Objects) -> tuple[Manifest, str] | None:
    """Return the flavor whose nodes the pods select, and its first device of a fabric."""
    matches = ((flavor, name) for flavor, has in flavors_of(pods, gathered) for name in has if fabrics.is_device(name))
    return next(matches, None)


def _unused_fabric(pods: PodTemplate, flavor: Manifest, device: str) -> Breach:
    return Breach(
        pods.device_path(device),
        _FALLBACK,
        f"the hosts of its jobs request no fabric device, but the nodes of {flavor.resource} have `{device}`",
        "ranks on several hosts fall back to TCP silently, and the fabric stays unused",
        f"request `{device}` in `{NODE}`, and attach its network if it has one",
        Severity.WARNING,
        at_key=True,
    )


def _changed_amounts(fabrics: Fabrics, pair: OnRuntime) -> Iterator[Breach]:
    """Yield amounts of devices that a TrainJob changes. `trainjob/lost-devices` reports devices that it drops."""
    amounts: dict[str, int] = {}
    for container in resized_containers(pair.runtime.body):
        resources = mapping(container, "resources")
        for name, amount in {**mapping(resources, "requests"), **mapping(resources, "limits")}.items():
            if isinstance(name, str) and fabrics.is_device(name) and (number := whole(amount)):
                amounts[name] = number
    for name, number in amounts.items():
        for field in AMOUNTS:
            overrides: Mapping[str, object] = mapping(pair.amounts, field)
            if name in overrides and (amount := whole(overrides[name])) is not None and amount != number:
                yield _other_amount(pair, (*FIELD, field, name), name, amount, number)
                break


def _other_amount(pair: OnRuntime, path: Path, name: str, amount: int, number: int) -> Breach:
    none = "its ranks have no device, so they fall back to TCP or fail"
    less = "each network that the runtime attaches takes one device: the pods never start, or ranks use fewer rails"
    return Breach(
        path,
        _FALLBACK,
        f"requests {amount} of `{name}`, but {pair.runtime.resource} requests {number}",
        none if not amount else less,
        f"write `{name}: {number}`",
        at_key=True,
        value=amount,
    )
