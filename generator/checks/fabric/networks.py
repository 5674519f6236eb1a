"""Checks of networks: fabric/addresses, fabric/egress, fabric/isolation, fabric/shared."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from generator.checks.fabric.fabrics import Demand, Fabrics, NetworkUsers, namespaces_of
from generator.checks.finding import listed
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, INFO, WARNING, Breach, check
from generator.documents.load import Path
from generator.facts.addressing import Network, overlap
from generator.facts.names import EVERYWHERE, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.devices import Source, resource
from generator.objects.fields import indexed_mappings, mapping, strings
from generator.objects.networks import CNI, NV_IPAM, Attachment, Range, exclusions, ranges, segment, shared_device

_ACROSS_NODES = ("sriov", "ib-sriov", "host-device", "macvlan", "ipvlan", "ipoib")


@check("fabric/addresses", severity=WARNING, needs=Objects)
def addresses(objects: Objects) -> Iterator[Breach]:
    """Report a network that gives pods too few, duplicate or overlapping addresses, or a second default route.

    The last pods stay in ContainerCreating, two pods get the same address, or packets leave through the wrong
    interface. The check reads the IPAM plugins whereabouts, nv-ipam, host-local and static, and reports:

    - Too few addresses. The annotation `mpigen.dev/nodes` of a ResourceFlavor sets the number of nodes. Each interface
      of the pods on these nodes needs an address. Excluded addresses and the gateway do not count.
    - Too few blocks. nv-ipam needs a block for each node, with an address for each interface of the pods on the node.
      It skips a block only if the whole block is excluded.
    - `exclusions` of a pool that overlap. The webhook of nv-ipam accepts the pool, but its agent rejects the pool.
    - `host-local` or `static` on a network that connects several nodes. `host-local` assigns addresses on each node
      separately, and `static` gives all pods the same address.
    - Overlapping addresses of two networks that a pod attaches.
    - Overlapping addresses of two networks in one layer 2 segment, if their IPAM plugins record them separately.
    - A second default route. The pods already have a default route to the pod network.
    - A pool of nv-ipam that no file defines with this name and kind (`poolType`), if the files define other pools.

    Source: multus-cni issue 1400; containernetworking/plugins plugins/ipam/host-local; nvidia-k8s-ipam 3ce4a34
    pkg/ipam-node/allocator/range_set.go RangeSet.Canonicalize; nvidia-k8s-ipam 3ce4a34
    api/v1alpha1/validate_exclusions.go
    """
    fabrics = objects.view(Fabrics.read)
    for network in fabrics.attachments:
        yield from _lone_network_breaches(network, fabrics)
    for pool in fabrics.pools.values():
        yield from _pool_breaches(pool)
    yield from _small_ranges(objects)
    yield from _overlapping_networks(objects)


def _lone_network_breaches(network: Attachment, fabrics: Fabrics) -> Iterator[Breach]:
    """Yield the breaches that a network has on its own: default route, `host-local`, `static`, undefined pool."""
    kind, path = network.ipam.get("type"), network.ipam_path
    if _has_default_route(network.ipam):
        yield _second_default_route(network.manifest, path, f"the network `{network.name}`")
    if network.type in _ACROSS_NODES and kind == "host-local":
        yield Breach(
            path,
            f"the network `{network.name}` ({network.type}) connects several nodes, but uses `host-local`",
            "`host-local` assigns addresses on each node separately, so pods on two nodes get the same address",
            "set `ipam.type` to `whereabouts` with the same `range`, or to `nv-ipam` with a pool",
            network.manifest,
        )
    if network.type in _ACROSS_NODES and kind == "static" and network.ipam.get("addresses"):
        yield Breach(
            path,
            f"the network `{network.name}` gives all pods the same address (`static`)",
            "two pods on this network have the same address, so their connections fail or reach the wrong pod",
            "set `ipam.type` to `whereabouts` with a `range`, or to `nv-ipam` with a pool",
            network.manifest,
        )
    pools = fabrics.pools
    for name in network.pool_names if pools else ():
        if (network.pool_kind, name) not in pools:
            existing = ", ".join(sorted(f"{kind} `{name}`" for kind, name in pools))
            other = next((kind for kind, pool in pools if pool == name), "")
            yield Breach(
                path,
                f"the network `{network.name}` takes addresses from the {network.pool_kind} `{name}`, which no "
                f"file defines; the files define {existing}",
                "the pods stay in ContainerCreating until the pool exists",
                f'write `"poolType": "{other.lower()}"`'
                if other
                else f"write the name of an existing pool, or create the pool ({NV_IPAM})",
                network.manifest,
            )


def _pool_breaches(pool: Manifest) -> Iterator[Breach]:
    """Yield the breaches of one pool of nv-ipam."""
    spec = mapping(pool.body, "spec")
    if spec.get("defaultGateway") is True or _has_default_route(spec):
        field = "defaultGateway" if spec.get("defaultGateway") is True else "routes"
        yield _second_default_route(pool, ("spec", field), f"the {pool.kind} `{pool.name}`")
    if index := _overlapping_exclusion(pool):
        yield Breach(
            ("spec", "exclusions", index),
            f"`exclusions` of the {pool.kind} `{pool.name}` overlap each other",
            "the agent of nv-ipam rejects the pool, so pods with addresses of the pool stay in ContainerCreating",
            "merge the exclusions that overlap",
            pool,
        )


def _has_default_route(config: Mapping[str, Any]) -> bool:
    return any(route.get("dst") in (EVERYWHERE, "::/0") for _, route in indexed_mappings(config.get("routes")))


def _second_default_route(manifest: Manifest, path: Path, owner: str) -> Breach:
    return Breach(
        path,
        f"{owner} adds a default route to the pods",
        "the pods then have two default routes, and may send traffic to the API server, DNS and other ranks over this "
        "network",
        "route only the subnets behind the gateway, such as the subnets of other NICs, or remove the route",
        manifest,
    )


def _overlapping_exclusion(pool: Manifest) -> int | None:
    """Return the index of the first exclusion of a pool that overlaps an earlier exclusion; None if none does."""
    spans = exclusions(pool) or []
    return next((index for index in range(len(spans)) if overlap(spans[: index + 1])), None)


def _small_ranges(objects: Objects) -> Iterator[Breach]:
    """Yield a breach for each range with too few addresses for the pods on all nodes of a ResourceFlavor."""
    fabrics, reported = objects.view(Fabrics.read), set()
    for network in fabrics.attachments:
        demand = objects.view(NetworkUsers).demand(network)
        for addresses in ranges(network, fabrics.pools) if demand else ():
            place = (addresses.manifest.resource, addresses.path)
            if not demand or place in reported or _overlapping_exclusion(addresses.manifest):
                continue
            if shortage := _shortage(addresses, demand):
                reported.add(place)
                message, fix = shortage
                yield Breach(
                    addresses.path,
                    message,
                    f"the pods on each of the {demand.nodes} nodes of flavor `{demand.flavor}` need {demand.per_node} "
                    f"address{'es' * (demand.per_node > 1)} of network `{network.name}`, so the last pods stay in "
                    "ContainerCreating",
                    fix,
                    addresses.manifest,
                )


def _shortage(addresses: Range, demand: Demand) -> tuple[str, str] | None:
    """Return the message and the fix for a range with too few addresses; None if it has enough."""
    supply, network = addresses.supply, addresses.network
    if supply.per_node is not None and supply.per_node < demand.per_node:
        message = (
            f"{network} gives each node {supply.per_node} addresses, but the pods of a node need {demand.per_node}"
        )
        return message, f"give each node at least {demand.per_node} addresses"
    if supply.nodes is not None and supply.nodes < demand.nodes:
        message = f"{network} has blocks for {supply.nodes} nodes, but flavor `{demand.flavor}` has {demand.nodes}"
        return message, f"write a larger subnet, with blocks for at least {demand.nodes} nodes"
    for number, count in supply.short:
        if number < demand.nodes and count < demand.per_node:
            message = (
                f"after exclusions and the gateway, {network} gives one node {count} addresses, but the pods of a node "
                f"need {demand.per_node}"
            )
            return message, "give each node a larger block of addresses, or exclude whole blocks instead of parts"
    if supply.per_node is None and supply.count < demand.interfaces:
        message = f"{network} has {supply.count} addresses for pods, but the pods need {demand.interfaces}"
        return message, f"write a larger range, with at least {demand.interfaces} addresses for pods"
    return None


def _overlapping_networks(objects: Objects) -> Iterator[Breach]:
    """Yield networks whose addresses overlap: in one pod, or in one segment with separate records of addresses."""
    users = objects.view(NetworkUsers)

    def share_pods(network: Attachment, other: Attachment) -> bool:
        """Return True if some pods use both networks."""
        return not {id(use.pods) for use in users.of(network)}.isdisjoint(id(use.pods) for use in users.of(other))

    fix = "give each network its own subnet"
    for network, other, own, others in _overlaps(objects, lambda item: item.namespace, lambda *_: True):
        if other.name != network.name and share_pods(network, other):
            why = "a pod attaches both networks, so packets to one network leave through the interface of the other"
            yield _overlap_breach(network, other, own, others, why, fix)
    for network, other, own, others in _overlaps(
        objects, segment, lambda *pair: pair[0].allocator != pair[1].allocator
    ):
        if not (other.namespace == network.namespace and share_pods(network, other)):
            why = f"{others.allocator} and {own.allocator} keep separate records, so two pods can get the same address"
            yield _overlap_breach(
                network,
                other,
                own,
                others,
                why,
                f"use the same IPAM plugin with the same `network_name` in both networks, or {fix}",
            )


def _overlap_breach(network: Attachment, other: Attachment, own: Range, others: Range, why: str, fix: str) -> Breach:
    message = (
        f"the addresses of networks `{other.name}` ({others.network}) and `{network.name}` ({own.network}) overlap"
    )
    return Breach(network.ipam_path, message, why, fix, network.manifest)


def _overlaps(
    objects: Objects, key: Callable[[Attachment], object], matters: Callable[[Range, Range], bool]
) -> Iterator[tuple[Attachment, Attachment, Range, Range]]:
    """Yield (network, earlier network, range, earlier range) for overlapping ranges of networks with an equal `key`.

    Skip pairs of ranges that `matters` rejects. Networks with equal ranges (one per team) are compared only once.
    """
    fabrics = objects.view(Fabrics.read)
    by_key: dict[object, dict[object, list[tuple[Attachment, list[Range]]]]] = {}
    for network in fabrics.attachments:
        own, group = ranges(network, fabrics.pools), key(network)
        if not (own and group):
            continue
        equal_networks = by_key.setdefault(group, {})
        for earlier in equal_networks.values():
            pairs = ((i, j) for i in range(len(own)) for j in range(len(earlier[0][1])))
            pair = next(((i, j) for i, j in pairs if own[i].network.overlaps(earlier[0][1][j].network)), None)
            if pair and matters(own[pair[0]], earlier[0][1][pair[1]]):
                yield from ((network, other, own[pair[0]], others[pair[1]]) for other, others in earlier)
        identity = tuple((addresses.network, addresses.allocator) for addresses in own)
        equal_networks.setdefault(identity, []).append((network, own))


_POLICY_FOR = "k8s.v1.cni.cncf.io/policy-for"
_NO_EFFECT = "the policy has no effect, so every pod on the network can reach the selected pods"
_LOST_FIELDS = {
    "pkey": "its pods are in the default partition",
    "ibKubernetesEnabled": "its pods are in the default partition",
    "rdmaIsolation": "the RDMA devices of its pods stay in the network of the node",
}
"""Field that a SriovIBNetwork lacks → the effect of its absence."""


@check("fabric/isolation", severity=ERROR, needs=Objects)
def isolation(objects: Objects) -> Iterator[Breach]:
    """Report a MultiNetworkPolicy or an InfiniBand partition without effect.

    Pods of other teams can reach the pods that the policy or partition seems to isolate. The check reports:

    - A MultiNetworkPolicy without the annotation `k8s.v1.cni.cncf.io/policy-for`, or with a pod selector that the
      iptables implementation does not support.
    - As a warning, a MultiNetworkPolicy for a network that no file defines in a namespace with other networks.
    - As a warning, a MultiNetworkPolicy for a network of type ib-sriov, host-device or ipoib. No implementation
      supports these types.
    - As an info, a MultiNetworkPolicy for a network with the chained plugin `rdma`, because RDMA bypasses the rules of
      the policy.
    - A SriovIBNetwork with `pkey`, `ibKubernetesEnabled` or `rdmaIsolation`. The kind has none of these fields, so pods
      on its network are in the default partition, or keep their RDMA devices in the network of the node.

    Source: multi-networkpolicy-iptables cbf2b11 pkg/server/server.go generateRules; multi-networkpolicy-iptables
    cbf2b11 pkg/server/policyrules.go; multi-networkpolicy-iptables cbf2b11 pkg/server/options.go
    `--network-plugins`; sriov-network-operator 249e200 api/v1/sriovibnetwork_types.go
    """
    fabrics = objects.view(Fabrics.read)
    for policy in objects.of(CNI, "MultiNetworkPolicy"):
        yield from _unsupported_selectors(policy)
        yield from _ineffective_policies(policy, fabrics)
    for manifest in fabrics.of("SriovIBNetwork"):
        for field, effect in _LOST_FIELDS.items():
            if field in mapping(manifest.body, "spec"):
                yield Breach(
                    ("spec", field),
                    f"`{field}` is not a field of a SriovIBNetwork",
                    f"the operator creates the network without `{field}`, so {effect}",
                    f"write a NetworkAttachmentDefinition `{manifest.name}` of type ib-sriov with `{field}` instead",
                    manifest,
                )


def _unsupported_selectors(policy: Manifest) -> Iterator[Breach]:
    """Yield the selector expressions that the Go function LabelSelectorAsMap rejects: all but `In` with one value."""
    expressions = mapping(policy.body, "spec", "podSelector").get("matchExpressions")
    for number, expression in indexed_mappings(expressions):
        operator, count = expression.get("operator"), len(strings(expression.get("values")))
        if operator != "In" or count != 1:
            values = f" with {count} values" if count > 1 else ""
            yield Breach(
                ("spec", "podSelector", "matchExpressions", number),
                f"`podSelector` of the policy uses `{operator}`{values}",
                f"the iptables implementation supports only `In` with one value, and ignores the policy: {_NO_EFFECT}",
                "select the pods with `matchLabels`",
                policy,
            )


def _ineffective_policies(policy: Manifest, fabrics: Fabrics) -> Iterator[Breach]:
    """Yield the faults of a policy: no network, an undefined network, or a network that the policy cannot filter."""
    value = mapping(policy.body, "metadata", "annotations").get(_POLICY_FOR)
    names = [name for part in value.split(",") if (name := part.strip())] if isinstance(value, str) else []
    path: Path = ("metadata", "annotations", _POLICY_FOR)
    if not names:
        yield Breach(
            ("metadata",),
            f"the policy lacks the annotation `{_POLICY_FOR}`",
            f"without the annotation {_NO_EFFECT}",
            f"add the annotation `{_POLICY_FOR}` with the names of the networks, separated by commas",
            policy,
        )
    for reference in names:
        prefix, _, name = reference.rpartition("/")
        namespace = prefix.strip() or policy.namespace
        defined = fabrics.by_name.get(name, {})
        network = defined.get(namespace) or defined.get("")
        if network is None:
            if any(other.namespace == namespace for other in fabrics.attachments):
                yield Breach(
                    path,
                    f"the policy is for the network `{namespace}/{name}`, which no file defines",
                    _NO_EFFECT,
                    "write the name of a network in this namespace, or `namespace/name` of any other network",
                    policy,
                    WARNING,
                    value=value,
                )
            continue
        connected = segment(network)
        fix = connected.fix if connected else "separate teams by a VLAN or a partition"
        message = f"the policy is for the network `{network.name}` of type {network.type}"
        if network.type in ("ib-sriov", "host-device", "ipoib"):
            why = "implementations of MultiNetworkPolicy support only macvlan, and on OpenShift also ipvlan, sriov and "
            why += f"bond: {_NO_EFFECT}"
            yield Breach(path, message, why, fix, policy, WARNING)
        elif network.chains("rdma"):
            why = "the policy filters IP traffic, but RDMA bypasses IP, so ranks of other teams can reach the pods"
            yield Breach(path, f"{message} with RDMA", why, fix, policy, INFO)


_SHARED = "RDMA bypasses NetworkPolicy and MultiNetworkPolicy, so ranks of one team can reach the devices of the others"


@check("fabric/shared", severity=INFO, needs=Objects)
def shared(objects: Objects) -> Iterator[Breach]:
    """Report teams whose ranks can reach each other by RDMA.

    RDMA bypasses NetworkPolicy and MultiNetworkPolicy. So ranks of one team can reach the devices of another team if
    both teams use:

    - The same InfiniBand partition, VLAN, or network interface of the nodes.
    - The same device of the RDMA shared device plugin, which gives all pods of a node access to its NICs.

    The label `mpigen.dev/tenant` of a Namespace names its team. A namespace without the label is a team of its own.

    Source: k8s-rdma-shared-dev-plugin 410b0f3 pkg/resources/server.go Allocate; multi-networkpolicy-iptables cbf2b11
    pkg/server/policyrules.go writes iptables rules, which RDMA bypasses
    """
    teams = {namespace.name: _team(namespace) for namespace in objects.of("", "Namespace")}
    yield from _shared_segments(objects, teams)
    fabrics = objects.view(Fabrics.read)
    for provider in fabrics.offered_by(Source.SHARED):
        namespaces = {
            namespace
            for pods in fabrics.pods
            if any(resource(name).may_be(provider.resource) for name in pods.devices)
            for namespace in namespaces_of(pods, objects)
        }
        users = sorted({teams.get(namespace, namespace) for namespace in namespaces})
        if len(users) > 1:
            device = shared_device(str(provider.resource))
            message = f"teams {listed(users)} share {device.text}"
            yield Breach(provider.path, message, _SHARED, device.fix, provider.manifest)


def _shared_segments(objects: Objects, teams: Mapping[str, str]) -> Iterator[Breach]:
    """Yield one breach per set of teams and kind of segment, such as VLAN, even if they share several segments."""
    by_segment: dict[tuple[str, ...], list[Attachment]] = {}
    for network in objects.view(Fabrics.read).attachments:
        if connected := segment(network):
            by_segment.setdefault(connected.key, []).append(network)
    by_teams: dict[tuple[str, ...], list[list[Attachment]]] = {}
    for key, networks in by_segment.items():
        namespaces = {namespace for network in networks for namespace in _user_namespaces(network, objects)}
        users = sorted({teams.get(namespace, namespace) for namespace in namespaces})
        if len(users) > 1:
            by_teams.setdefault((key[0], *users), []).append(networks)
    for (_, *users), segments in by_teams.items():
        *others, network = segments[0]
        connected = segment(network)
        if connected is None:
            continue
        names = listed(list(dict.fromkeys(other.manifest.resource for other in others)))
        other_networks = f"; this network and {names} use it" if names else ""
        more = f"; the teams share {len(segments)} segments of this kind" if len(segments) > 1 else ""
        message = f"teams {listed(users)} share {connected.text}{other_networks}{more}"
        yield Breach(("spec",), message, _SHARED, connected.fix, network.manifest)


def _user_namespaces(network: Attachment, objects: Objects) -> set[str]:
    """Return the namespaces whose pods request a network as `namespace/name`; the network's namespace if none do."""
    uses = [use for use in objects.view(NetworkUsers).of(network) if use.names_namespace]
    others = {namespace for use in uses for namespace in namespaces_of(use.pods, objects)}
    return others or {network.namespace} - {""}


def _team(namespace: Manifest) -> str:
    tenant = mapping(namespace.body, "metadata", "labels").get(TENANT_LABEL)
    return tenant if isinstance(tenant, str) else namespace.name


@check("fabric/egress", severity=WARNING, needs=Objects)
def egress(objects: Objects) -> Iterator[Breach]:
    """Report egress of a NetworkPolicy to addresses of a fabric network.

    A NetworkPolicy restricts the pod network only. Traffic to an address of a secondary network leaves the pod by the
    interface of that network, so the rule allows nothing there. If a host of the pod network has such an address, the
    rule opens this host instead. The check reads the ranges of whereabouts, host-local and nv-ipam, and reports a
    network of a rule that is inside such a range.

    Source: openshift/api bfa868a22401 operator/v1/types_network.go: the default network's policies; multi-networkpolicy
    README.md
    """
    fabrics = objects.view(Fabrics.read)
    spans = [(network, addresses) for network in fabrics.attachments for addresses in ranges(network, fabrics.pools)]
    for policy in objects.of("networking.k8s.io", "NetworkPolicy") if spans else ():
        for number, rule in indexed_mappings(mapping(policy.body, "spec").get("egress")):
            for index, peer in indexed_mappings(rule.get("to")):
                text = mapping(peer, "ipBlock").get("cidr")
                overlapping = next((row for row in spans if _is_inside(text, row[1].network)), None)
                if overlapping:
                    network, addresses = overlapping
                    yield Breach(
                        ("spec", "egress", number, "to", index, "ipBlock", "cidr"),
                        f"`{text}` is inside `{addresses.network}`, the addresses of fabric network `{network.name}`",
                        "a NetworkPolicy restricts the pod network only, so the rule does not apply to this fabric",
                        "write a network outside of the fabric, or remove the rule: pods on the fabric network reach "
                        "each other without it",
                        policy,
                        value=text,
                    )


def _is_inside(text: object, network: Network) -> bool:
    try:
        inner = ipaddress.ip_network(str(text), strict=False)
    except ValueError:
        return False
    if isinstance(inner, ipaddress.IPv4Network):
        return isinstance(network, ipaddress.IPv4Network) and inner.subnet_of(network)
    return isinstance(network, ipaddress.IPv6Network) and inner.subnet_of(network)
