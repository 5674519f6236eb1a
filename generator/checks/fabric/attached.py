"""Checks of networks and devices that pods do not get: fabric/not-attached, fabric/*claim, fabric/tcp-fallback."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from generator.checks.fabric.fabrics import Fabrics, FlavorNodes, likely_namespaces, namespaces_of
from generator.checks.finding import Severity, listed
from generator.checks.objects import Objects, on_runtimes
from generator.checks.quota.queues import Queues
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.facts import env
from generator.facts.defects import known
from generator.facts.names import FABRIC
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.networks import Attachment
from generator.objects.pods import NODE, NetworkRequest, PodTemplate, Variable, pod_templates, requested_devices, whole
from generator.objects.training import AMOUNTS, FIELD, OnRuntime, resized_containers

_NOT_ATTACHED = "Multus attaches no network, and the pods stay in ContainerCreating"
_SHARED_NAMESPACES = frozenset({"default", "openshift-cnv", "openshift-multus", "openshift-sriov-network-operator"})
"""Namespaces whose networks OpenShift allows to all pods (cluster-network-operator 2a6a57f bindata/network/multus)."""
_MOST = 5  # names that a message lists


@check("fabric/not-attached", severity=ERROR, needs=Objects)
def not_attached(objects: Objects) -> Iterator[Breach]:
    """Report a network that Multus does not find.

    The pods stay in ContainerCreating. The check reads their annotation `k8s.v1.cni.cncf.io/networks`, and reports:

    - An annotation that Multus cannot parse.
    - A network that is not in the namespace that the annotation names. If the annotation names no namespace, the
      network must be in the namespace of the pods.
    - On OpenShift, a network of another namespace, unless this is `default` or one of a few system namespaces.

    Pods of a ClusterTrainingRuntime run in the namespaces of its TrainJobs, and in Namespaces whose annotation
    `mpigen.dev/runtimes` lists the runtime. The finding is a warning for a Namespace without this annotation whose
    queue has quota for a job on the runtime. The finding is also a warning if no namespace has a network of this name.
    If the files define no network at all, the check reports only annotations that Multus cannot parse.

    Source: multus-cni 95a0932 pkg/k8sclient/k8sclient.go parsePodNetworkAnnotation; multus-cni 95a0932
    pkg/k8sclient/k8sclient.go GetNetworkDelegates
    """
    fabrics, queues = objects.view(Fabrics.read), objects.view(Queues.read)
    namespaces_with_queue = queues.of_namespaces.keys() if queues else frozenset()
    for pods in fabrics.pods:
        if pods.networks.error:
            message = f"Multus cannot parse the annotation: {pods.networks.error}"
            yield Breach(pods.networks_path, message, _NOT_ATTACHED, pods.networks.fix, pods.manifest)
        elif pods.networks.requests and fabrics.attachments:
            namespaces = namespaces_of(pods, objects)
            for request in dict.fromkeys(pods.networks.requests):
                breach = _missing_network(fabrics, pods, request, namespaces)
                if not breach and not namespaces_with_queue <= fabrics.by_name.get(request.name, {}).keys():
                    likely = likely_namespaces(pods, objects)
                    breach = _missing_network(fabrics, pods, request, likely, most=WARNING) if likely else None
                if breach:
                    yield breach


def _missing_network(
    fabrics: Fabrics,
    pods: PodTemplate,
    request: NetworkRequest,
    namespaces: AbstractSet[str],
    most: Severity = ERROR,
) -> Breach | None:
    """Return the breach if Multus does not find the requested network for pods in `namespaces`; else None.

    `most` is the highest severity of the breach.
    """
    defined = fabrics.by_name.get(request.name, {})
    if request.namespace and (request.namespace in defined or "" in defined):
        outside = sorted(namespaces - {request.namespace})
        is_rejected = outside and fabrics.is_openshift and request.namespace not in _SHARED_NAMESPACES
        return _foreign_network(pods, request, defined, outside, most) if is_rejected else None
    lacking = [request.namespace] if request.namespace else sorted(namespaces - defined.keys())
    if defined and ("" in defined or not lacking):
        return None
    return _undefined_network(fabrics, pods, request, lacking, most)


def _foreign_network(
    pods: PodTemplate,
    request: NetworkRequest,
    defined: Mapping[str, Attachment],
    outside: Sequence[str],
    severity: Severity,
) -> Breach:
    """Return the breach of pods in the namespaces `outside`, which request a network of another namespace."""
    network = defined.get(request.namespace)
    names, subject = listed(outside, _MOST), network.manifest.resource if network else f"`{request}`"
    return Breach(
        pods.networks_path,
        f"the pods run in {names}, but request {subject}, which is in `{request.namespace}`",
        "on OpenShift, Multus rejects networks of other namespaces, and the pods stay in ContainerCreating",
        f"create the network in {names}, and remove `{request.namespace}/` from the annotation",
        pods.manifest,
        severity,
        value=str(request),
    )


def _undefined_network(
    fabrics: Fabrics, pods: PodTemplate, request: NetworkRequest, lacking: Sequence[str], most: Severity
) -> Breach:
    """Return the breach of a network that the namespaces `lacking` do not have; `lacking` is empty if unknown."""
    existing = [
        network.manifest.resource + _target(network) for network in fabrics.by_name.get(request.name, {}).values()
    ]
    near = difflib.get_close_matches(request.name, fabrics.by_name, n=1)
    fix = f"create the network, or write {f'`{near[0]}`' if near else 'the name of an existing network'}"
    first, *others = existing or [network.manifest.resource for network in fabrics.attachments]
    return Breach(
        pods.networks_path,
        f"the pods request the network `{request}`, which no file defines"
        + (f" in {listed(lacking, _MOST)}" if lacking else "")
        + f"; the files define {first}"
        + (f" and {len(others)} more" if others else ""),
        _NOT_ATTACHED,
        f"create the network in {listed(lacking, _MOST)}" if existing else fix,
        pods.manifest,
        most if existing else WARNING,
        value=str(request),
    )


def _target(network: Attachment) -> str:
    """Return ` for NAMESPACE` if an operator creates the network in another namespace than its object; else empty."""
    differs = network.namespace and network.namespace != network.manifest.namespace
    return f" for `{network.namespace}`" if differs else ""


@check("fabric/claim", severity=ERROR, needs=Objects)
def claim(objects: Objects) -> Iterator[Breach]:
    """Report pods with a device claim (DRA) whose ResourceClaimTemplate does not exist.

    Pods stay Pending while their ResourceClaimTemplate is not in their namespace. The finding is a warning if no file
    defines the template, or if it is not certain that pods run in the namespace. If the files define no
    ResourceClaimTemplate at all, the check does not look for templates.

    [pod/claim](../pod/claim.md) reports a container whose claim is missing in `resourceClaims` of its pods.

    Source: kubernetes v1.34.2 pkg/controller/resourceclaim/controller.go Controller.handleClaim
    """
    templates = objects.names("resource.k8s.io", "ResourceClaimTemplate")
    for pods in objects.view(Fabrics.read).pods:
        claims = indexed_mappings(pods.spec.get("resourceClaims"))
        for number, entry in claims if templates else ():
            name = entry.get("resourceClaimTemplateName")
            if isinstance(name, str):
                path = (*pods.path, "spec", "resourceClaims", number, "resourceClaimTemplateName")
                namespaces = {namespace for namespace, names in templates.items() if name in names}
                yield from _dangling_templates(pods, path, name, namespaces, objects)


def _dangling_templates(
    pods: PodTemplate, path: Path, name: str, defined: AbstractSet[str], objects: Objects
) -> Iterator[Breach]:
    certain = sorted(namespaces_of(pods, objects) - defined)
    lacking = certain or sorted(likely_namespaces(pods, objects) - defined)
    if "" in defined or (defined and not lacking):
        return
    where = f" in {listed(lacking, _MOST)}" if lacking else ""
    existing = f"; the template exists in {listed(sorted(defined), _MOST)}" if defined else ""
    yield Breach(
        path,
        f"the pods use the ResourceClaimTemplate `{name}`, which no file defines{where}{existing}",
        "Kubernetes creates no claim without a template in the namespace of the pods, so the pods stay Pending",
        f"create the template{where}" if defined else "create the template, or write the name of an existing template",
        pods.manifest,
        ERROR if defined and certain else WARNING,
        value=name,
    )


@check("fabric/skipped-claim", severity=WARNING, needs=Fabrics)
def skipped_claim(fabrics: Fabrics) -> Iterator[Breach]:
    """Report a shared device claim (DRA) that pods list before other claims.

    Several pods can use one ResourceClaim (`resourceClaimName`). If another pod on the node already uses this claim,
    the kubelet of Kubernetes 1.34 before 1.34.4, and of 1.35 before 1.35.1, skips all claims that the new pod lists
    after it, and the containers of the new pod never start. List the shared claim last.

    Source: kubernetes v1.34.2 pkg/kubelet/cm/dra/manager.go Manager.prepareResources: the loop over the claims of a pod
    returns at the first claim that is prepared
    """
    for pods in fabrics.pods:
        claims = indexed_mappings(pods.spec.get("resourceClaims"))
        for place, (number, entry) in enumerate(claims[:-1], 1):
            if isinstance(shared := entry.get("resourceClaimName"), str):
                defect = known("kubelet-skips-claims-after-a-shared-one")
                later = ", ".join(f"`{other.get('name')}`" for _, other in claims[place:])
                yield Breach(
                    (*pods.path, "spec", "resourceClaims", number, "resourceClaimName"),
                    f"the pods list the claim `{entry.get('name')}`, whose ResourceClaim `{shared}` other pods can "
                    f"use, before {later}",
                    f"if another pod on the node already uses `{shared}`, the kubelet skips the claims that are listed "
                    f"later, and the containers fail with `unable to get claim info` ({defect.note})",
                    f"list `{entry.get('name')}` last, or update to {defect.update}",
                    pods.manifest,
                    value=shared,
                )
                break


_SOFTWARE_PLUGINS = ("macvlan", "ipvlan", "ipoib", "bridge", "vlan")


@check("fabric/tcp-fallback", severity=ERROR, needs=Objects)
def tcp_fallback(objects: Objects) -> Iterator[Breach]:
    """Report ranks that fall back to TCP silently.

    Without an RDMA device (InfiniBand, RoCE or EFA), training is many times slower and reports no error. The check
    reports:

    - A variable such as `NCCL_IB_HCA` that selects RDMA devices, while no container requests an RDMA device.
    - A TrainJob that requests more or fewer RDMA devices than its runtime. `trainjob/lost-devices` reports a
      TrainJob on Trainer 2.2 that omits the devices of its runtime.
    - As a warning, worker pods of a runtime that request no RDMA device, although their nodes have RDMA devices. The
      annotation `mpigen.dev/allocatable` of the ResourceFlavor lists the devices of a node. To use TCP on purpose, set
      the annotation `mpigen.dev/fabric: none` on the pods.

    Pods in the host network, privileged pods, and pods with device claims reach the devices without a request, so the
    check skips them. The check also skips an object whose pods request an SR-IOV network, a host-device network, or a
    network in no file, because network-resources-injector may add the device.

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html (`NCCL_IB_HCA`, `NCCL_NET`)
    """
    fabrics = objects.view(Fabrics.read)
    for manifest in objects.manifests:
        pods = list(pod_templates(manifest))
        if not any(template.is_patch or _has_device(fabrics, template) for template in pods):
            yield from _without_device(fabrics, pods, objects)
    for pair in on_runtimes(objects):
        yield from _changed_amounts(fabrics, pair)


def _has_device(fabrics: Fabrics, pods: PodTemplate) -> bool:
    """Return True if pods reach or request an RDMA device, or request a network that may need one.

    A network of a software plugin, such as macvlan, needs no device.
    """
    if pods.reaches_devices or any(map(fabrics.is_device, pods.devices)):
        return True
    definitions = [fabrics.by_name.get(request.name, {}).values() for request in pods.networks.requests]
    return any(not networks or any(n.type not in _SOFTWARE_PLUGINS for n in networks) for networks in definitions)


def _without_device(fabrics: Fabrics, pods: Sequence[PodTemplate], objects: Objects) -> Iterator[Breach]:
    """Yield a breach for the first variable that needs an RDMA device.

    Without such a variable, yield a breach for the worker pods of a runtime whose nodes have RDMA devices.
    """
    for template in pods:
        for variable, is_strict in _fabric_variables(template):
            yield Breach(
                variable.path,
                f"`{variable.name}` is `{variable.value}`, but no container requests an RDMA device",
                f"the ranks find no RDMA device and {'fail' if is_strict else 'fall back to TCP silently'}",
                "request an RDMA device in `limits` and attach the network of the device, or remove the variable",
                template.manifest,
                value=f"`{variable.name}` is `{variable.value}`",
            )
            return
    for template in pods:
        if not template.is_of_runtime or template.role != NODE or template.annotations.get(FABRIC) == "none":
            continue
        selected = (nodes for nodes in objects.view(FlavorNodes.read) if nodes.are_selected_by(template))
        devices = (
            (nodes.flavor, name)
            for nodes in selected
            for name, amount in nodes.devices.items()
            if amount and fabrics.is_device(name)
        )
        for flavor, device in devices:
            yield Breach(
                template.device_path(device),
                f"the pods `{NODE}` request no RDMA device, but the nodes of {flavor.resource} have `{device}`",
                "ranks on different nodes fall back to TCP silently, and the devices stay unused",
                f"request `{device}` in the container `{NODE}`, and attach the network of the device if it has one",
                template.manifest,
                WARNING,
                at_key=True,
            )
            break


def _fabric_variables(pods: PodTemplate) -> Iterator[tuple[Variable, bool]]:
    """Yield (variable that needs an RDMA device, True if ranks without the device fail instead of using TCP).

    Source: nccl 5067397 docs/userguide/source/env.rst; ucx 9466d10 src/uct/ib; the provider names of libfabric
    """
    values = {name: variable.value.lower() for name, variable in pods.environment.items()}
    uses_tcp = values.get(env.NCCL_NET) == "socket" or values.get(env.NCCL_IB_DISABLE) == "1"
    for name, value in values.items():
        is_needed, is_strict = False, True
        match name:
            case env.NCCL_NET:
                is_needed = value == "ib"
            case "NCCL_IB_HCA":
                is_needed, is_strict = not uses_tcp and bool(value), values.get(env.NCCL_NET) == "ib"
            case env.UCX_NET_DEVICES:
                is_needed = "mlx" in value
            case env.UCX_TLS:
                transports = () if value.startswith("^") else value.split(",")
                is_needed = any(transport.startswith(("rc", "dc", "ud", "ib")) for transport in transports)
                is_strict = "tcp" not in value
            case env.FI_PROVIDER | env.I_MPI_OFI_PROVIDER:
                is_needed = value.startswith(("mlx", "verbs", "efa"))
        if is_needed:
            yield pods.environment[name], is_strict


def _changed_amounts(fabrics: Fabrics, pair: OnRuntime) -> Iterator[Breach]:
    """Yield amounts of RDMA devices that a TrainJob changes. `trainjob/lost-devices` reports amounts that it omits."""
    amounts: dict[str, int] = {}
    for container in resized_containers(pair.runtime.body):
        devices = requested_devices(container).items()
        amounts.update({name: amount for name, amount in devices if amount and fabrics.is_device(name)})
    for name, number in amounts.items():
        for field in AMOUNTS:
            overrides: Mapping[str, object] = mapping(pair.amounts, field)
            if name in overrides and (amount := whole(overrides[name])) is not None and amount != number:
                why = "each network takes one device: with another number, pods never start or devices stay unused"
                yield Breach(
                    (*FIELD, field, name),
                    f"the TrainJob requests {amount} of `{name}`, but {pair.runtime.resource} requests {number}",
                    why if amount else "ranks without a device fall back to TCP or fail",
                    f"write `{name}: {number}`",
                    pair.job,
                    at_key=True,
                    value=amount,
                )
                break
