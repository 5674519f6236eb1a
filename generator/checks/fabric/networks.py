"""Checks of networks: addresses, isolation, and teams that share a fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.fabric.fabrics import Demand, Fabrics, Users, namespaces_of
from generator.checks.finding import Breach, Severity, listed
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, INFO, WARNING, check
from generator.documents.load import Path
from generator.documents.scalars import int64
from generator.facts import addressing
from generator.facts.addressing import Network, Span, Supply, overlap, parse_address, parse_network
from generator.facts.names import EVERYWHERE, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.devices import Source, resource
from generator.objects.fields import indexed_mappings, mapping, strings
from generator.objects.networks import CNI, Attachment, Segment, segment, shared_device

NV_IPAM = "nv-ipam.nvidia.com"
_POOLS = {"ippool": "IPPool", "cidrpool": "CIDRPool"}


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses that one network or pool gives to pods.

    Attributes:
        manifest: the object that declares them.
        path: where it does.
        network: the network that they are in.
        supply: how many of them pods get.
        counted_by: what records which are taken. Two ranges with the same record never give one address twice.
    """

    manifest: Manifest
    path: Path
    network: Network
    supply: Supply
    counted_by: str


def ipam_path(network: Attachment) -> Path:
    """Where a network says how it gives addresses."""
    return ("spec", "config") if network.manifest.group == CNI else ("spec", "ipam")


def pool_names(network: Attachment) -> list[str]:
    """The pools of nv-ipam that a network takes addresses from."""
    said = network.ipam.get("poolName") if network.ipam.get("type") == "nv-ipam" else None
    return [name.strip() for name in said.split(",") if name.strip()] if isinstance(said, str) else []


def pool_kind(network: Attachment) -> str:
    """The kind of these pools."""
    return _POOLS.get(str(network.ipam.get("poolType", "ippool")).lower(), "IPPool")


def pools(fabrics: Fabrics) -> Mapping[tuple[str, str], Manifest]:
    """Kind and name → the pool of nv-ipam."""
    found = (each for kind in _POOLS.values() for each in fabrics.of(kind) if each.group == NV_IPAM)
    return {(each.kind, each.name): each for each in found}


def ranges(network: Attachment, fabrics: Fabrics) -> list[Range]:
    """The addresses of a network, as far as they can be read."""
    ipam, path = network.ipam, ipam_path(network)
    match ipam.get("type"):
        case "whereabouts":
            return list(_of_whereabouts(network.manifest, path, ipam))
        case "host-local":
            return list(_of_host_local(network.manifest, path, ipam))
        case "nv-ipam":
            known = pools(fabrics)
            found = (known.get((pool_kind(network), name)) for name in pool_names(network))
            return [each for pool in found if pool for each in _of_pool(pool)]
    return []


def exclusions(pool: Manifest) -> list[Span] | None:
    """Return `exclusions` of a pool of nv-ipam; None if its webhook rejects one of them."""
    return _spans(mapping(pool.body, "spec").get("exclusions"), "startIP", "endIP", _number)


def _of_whereabouts(manifest: Manifest, path: Path, ipam: Mapping[str, Any]) -> Iterator[Range]:
    """All networks of a cluster count together by the address alone, unless they say otherwise (types.go)."""
    name = ipam.get("network_name")
    counter = f"whereabouts with `network_name: {name}`" if name else "whereabouts"
    if ipam.get("enable_overlapping_ranges") is False:
        counter += f" for {ipam.get('range')} alone"
    for said in (ipam, *(each for _, each in indexed_mappings(ipam.get("ipRanges")))):
        # whereabouts 3a262bd pkg/config/config.go: `192.168.2.225-192.168.2.230/28` too
        start, dash, text = str(said.get("range", "")).rpartition("-")
        network = parse_network(text)
        if network is None:
            continue
        first = parse_address(start if dash else said.get("range_start"))
        last = parse_address(text.partition("/")[0] if dash else said.get("range_end"))
        supply = addressing.whereabouts_supply(network, _excluded(said), first, last)
        if dash and (first is None or first not in network):
            supply = Supply(0)  # whereabouts rejects the configuration
        if "node_slice_size" in ipam:
            sliced = _slices(network, ipam["node_slice_size"])
            if sliced is None:
                continue
            supply = sliced
        yield Range(manifest, path, network, supply, counter)


def _slices(network: Network, size: object) -> Supply | None:
    prefix = size.removeprefix("/") if isinstance(size, str) else ""
    length = int64(prefix)
    return None if length is None else addressing.whereabouts_slices(network, length)


def _excluded(said: Mapping[str, Any]) -> Iterator[Network]:
    """Return the networks of `exclude`, which may name single addresses (pkg/allocate/allocate.go)."""
    for text in strings(said.get("exclude")):
        found = parse_network(text if "/" in text else addressing.alone(text))
        if found:
            yield found


def _of_host_local(manifest: Manifest, path: Path, ipam: Mapping[str, Any]) -> Iterator[Range]:
    """A pod gets one address of each set, from any range of it."""
    for said in _sets(ipam):
        known = [(each, network) for each in said if (network := parse_network(each.get("subnet")))]
        counts = [addressing.host_local_supply(network, *_bounds(each)).count for each, network in known]
        for _, network in known:
            yield Range(manifest, path, network, Supply(sum(counts), sum(counts)), f"host-local of {manifest.resource}")


def _bounds(said: Mapping[str, Any]) -> Iterator[addressing.Address | None]:
    return (parse_address(said.get(key)) for key in ("rangeStart", "rangeEnd", "gateway"))


def _sets(ipam: Mapping[str, Any]) -> Iterator[list[Mapping[str, Any]]]:
    yield [ipam]
    sets = ipam.get("ranges")
    for each in sets if isinstance(sets, list) else ():
        yield [said for _, said in indexed_mappings(each)]


def _of_pool(pool: Manifest) -> Iterator[Range]:
    spec = mapping(pool.body, "spec")
    is_blocks = pool.kind == "IPPool"
    field = "subnet" if is_blocks else "cidr"
    network = parse_network(spec.get(field))
    size = _whole(spec.get("perNodeBlockSize" if is_blocks else "perNodeNetworkPrefix"))
    excluded = exclusions(pool)
    per_node = _spans(spec.get("perNodeExclusions"), "startIndex", "endIndex", _whole)
    if network is None or not size or excluded is None or per_node is None:
        return
    supply = (
        addressing.ip_pool_supply(network, size, excluded, per_node, parse_address(spec.get("gateway")))
        if is_blocks
        else addressing.cidr_pool_supply(network, size, excluded, per_node, _whole(spec.get("gatewayIndex")))
    )
    if supply:
        yield Range(pool, ("spec", field), network, supply, f"the {pool.kind} {pool.name}")


def _spans(said: object, first: str, last: str, read: Callable[[object], int | None]) -> list[Span] | None:
    """Return first and last of each exclusion; None if one of them cannot be read, and the pool is rejected for it."""
    found = [(read(each.get(first)), read(each.get(last))) for _, each in indexed_mappings(said)]
    spans = [(begin, end) for begin, end in found if begin is not None and end is not None and begin <= end]
    return spans if len(spans) == len(found) else None


def _number(text: object) -> int | None:
    address = parse_address(text)
    return None if address is None else int(address)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_ADDRESSES = "fabric/addresses"
_ACROSS_NODES = ("sriov", "ib-sriov", "host-device", "macvlan", "ipvlan", "ipoib")
_EVERYWHERE = (EVERYWHERE, "::/0")
_TWO_ROUTES = (
    "pods then have two default routes, and their way to the API server, DNS and the other ranks may be this one"
)


@check("fabric/addresses", severity=WARNING, needs=Objects)
def addresses(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report addresses of a network that overlap, or that are too few.

    About the addresses of a network (whereabouts, nv-ipam, host-local, static):

    - There are too few of them for the nodes of a flavor (`mpigen.dev/nodes`), times the pods of a node, times
      the interfaces of a pod. With nv-ipam each node has a block, which is to be enough for its pods, and there
      are to be as many blocks as nodes. Excluded addresses and the gateway do not count: nv-ipam skips a block
      that is excluded as a whole, and gives a node the rest of any other.
    - `exclusions` of a pool of nv-ipam overlap each other: its webhook accepts that, and its agent then gives
      no address.
    - `host-local` counts on each node for itself, and `static` gives all pods the same, so on a network over
      several nodes two pods have one.
    - Two networks overlap that a pod has both, or whose pods meet and whose addresses two give that do not know
      of each other.
    - A route to everywhere, which pods already have.
    - A pool that is in no file, while others are, or is of the other kind (`poolType`).
    """
    for rule in _RULES:
        yield from rule(gathered)


def _default_routes(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """multus-cni issue 1400."""
    fix = "route only what is on the other side of the gateway, such as the other rails, or leave it out"
    for network in gathered.view(Fabrics.read).attachments:
        if _leads_everywhere(network.ipam):
            what = f"the network `{network.name}` has a route to everywhere"
            yield network.manifest, _address_breach(ipam_path(network), what, _TWO_ROUTES, fix)
    for pool in pools(gathered.view(Fabrics.read)).values():
        spec = mapping(pool.body, "spec")
        field = "defaultGateway" if spec.get("defaultGateway") is True else "routes"
        if field == "defaultGateway" or _leads_everywhere(spec):
            what = f"addresses of the {pool.kind} `{pool.name}` come with a route to everywhere"
            yield pool, _address_breach(("spec", field), what, _TWO_ROUTES, fix)


def _leads_everywhere(said: Mapping[str, Any]) -> bool:
    return any(route.get("dst") in _EVERYWHERE for _, route in indexed_mappings(said.get("routes")))


def _of_one_node(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """host-local keeps its counts on a disk (plugins/ipam/host-local), and static gives what it says to everybody."""
    for network in gathered.view(Fabrics.read).attachments:
        kind = network.ipam.get("type")
        if network.type in _ACROSS_NODES and kind == "host-local":
            what = f"`host-local` in the network `{network.name}`, which reaches over nodes by {network.type}"
            why = "each node counts for itself, so that pods of two nodes get the same address"
            fix = "write `whereabouts` with the same range, or `nv-ipam` with a pool"
            yield network.manifest, _address_breach(ipam_path(network), what, why, fix)
        if network.type in _ACROSS_NODES and kind == "static" and network.ipam.get("addresses"):
            what = f"the network `{network.name}` gives each of its pods the same address (`static`)"
            why = "there can be one pod at a time"
            fix = "write `whereabouts` with a range, or `nv-ipam` with a pool"
            yield network.manifest, _address_breach(ipam_path(network), what, why, fix)


def _missing_pools(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """nvidia-k8s-ipam reads pools of one namespace, and of it only their names."""
    known = pools(gathered.view(Fabrics.read))
    for network in gathered.view(Fabrics.read).attachments if known else ():
        kind = pool_kind(network)
        for name in pool_names(network):
            if (kind, name) not in known:
                names = ", ".join(sorted(f"{kind} `{name}`" for kind, name in known))
                what = f"the network `{network.name}` takes addresses from the {kind} `{name}`, and there are: {names}"
                why = "its pods stay in ContainerCreating until there is such a pool"
                other = next((each for each, found in known if found == name), "")
                fix = f'write `"poolType": "{other.lower()}"`' if other else f"name one of these, or add it ({NV_IPAM})"
                yield network.manifest, _address_breach(ipam_path(network), what, why, fix)


def _overlapping_exclusions(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report exclusions of a pool that overlap: the agent of each node refuses them all.

    nvidia-k8s-ipam 3ce4a34 pkg/ipam-node/allocator/range_set.go Canonicalize; its webhook accepts them
    (api/v1alpha1/validate_exclusions.go).
    """
    for pool in pools(gathered.view(Fabrics.read)).values():
        index = _second_of_overlapping(pool)
        if index is not None:
            what = f"`exclusions` of the {pool.kind} `{pool.name}` overlap each other"
            why = "the agent of nv-ipam rejects such exclusions, so pods of these nodes stay in ContainerCreating"
            yield pool, _address_breach(("spec", "exclusions", index), what, why, "merge the exclusions that overlap")


def _second_of_overlapping(pool: Manifest) -> int | None:
    """Return the index of the first exclusion that overlaps one before it."""
    spans = exclusions(pool) or []
    return next((index for index in range(len(spans)) if overlap(spans[: index + 1])), None)


def _too_few(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Nodes times pods times interfaces, where a ResourceFlavor says how many nodes there are."""
    told: set[tuple[str, Path]] = set()
    users = Users(gathered)
    for network in gathered.view(Fabrics.read).attachments:
        most = users.demand(network)
        for each in ranges(network, gathered.view(Fabrics.read)) if most else ():
            place = (each.manifest.resource, each.path)
            if most and place not in told and (lack := _lack(each, most)) and not _second_of_overlapping(each.manifest):
                told.add(place)
                who = f"`{most.flavor}` has {most.nodes} nodes with {most.per_node} interfaces of `{network.name}`"
                why = f"{who}: the last pods stay in ContainerCreating"
                yield each.manifest, _address_breach(each.path, lack[0], why, lack[1])


def _lack(each: Range, most: Demand) -> tuple[str, str] | None:
    """Return what is missing and the fix; None if the range has enough addresses."""
    supply = each.supply
    wanted = f"and {most.per_node} are wanted"
    if supply.per_node is not None and supply.per_node < most.per_node:
        what = f"{each.network} gives each node {supply.per_node} addresses, {wanted}"
        return what, f"give each node {most.per_node} addresses or more"
    if supply.nodes is not None and supply.nodes < most.nodes:
        what = f"{each.network} is enough for {supply.nodes} nodes, and there are {most.nodes}"
        return what, f"write a network with addresses for {most.nodes} nodes or more"
    for number, count in supply.short:
        if number < most.nodes and count < most.per_node:
            what = (
                f"{each.network} gives one node {count} addresses, without the excluded ones and the gateway, {wanted}"
            )
            return what, "exclude all addresses of a node or none, and give each node one more if there is a gateway"
    if supply.per_node is None and supply.count < most.interfaces:
        what = f"{each.network} has {supply.count} addresses for pods, and {most.interfaces} are wanted"
        return what, f"write a range for {most.interfaces} addresses or more"
    return None


def _given_twice(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """A pod with two interfaces in one subnet, or two in one network who both give addresses."""
    users = Users(gathered)
    for network, other, own, its in _overlapping(gathered, lambda each: each.namespace, lambda *_: True):
        if other.name != network.name and _pods(network, users) & _pods(other, users):
            why = "a pod has both, so that what is sent to one of them leaves by the other"
            yield _overlap(network, other, own, its, why, "give each network a subnet of its own")
    for network, other, own, its in _overlapping(gathered, segment, _count_apart):
        if not (other.namespace == network.namespace and _pods(network, users) & _pods(other, users)):
            why = f"{its.counted_by} and {own.counted_by} do not know of each other, and give two pods one address"
            fix = "let one of them give all addresses, or give each network a subnet of its own"
            yield _overlap(network, other, own, its, why, fix)


def _count_apart(own: Range, its: Range) -> bool:
    return own.counted_by != its.counted_by


_Pair = tuple[Attachment, Attachment, Range, Range]
_Matters = Callable[[Range, Range], bool]


def _overlapping(gathered: Objects, place: Callable[[Attachment], object], matters: _Matters) -> Iterator[_Pair]:
    """Two networks of one place, and what of them overlaps; each pair once, the later one first.

    Those of many teams say the same, and are compared with others once.
    """
    found: dict[object, dict[object, list[tuple[Attachment, list[Range]]]]] = {}
    for network in gathered.view(Fabrics.read).attachments:
        own, key = ranges(network, gathered.view(Fabrics.read)), place(network)
        if not (own and key):
            continue
        alike = found.setdefault(key, {})
        for before in alike.values():
            pair = _first_overlap(own, before[0][1])
            if pair and matters(own[pair[0]], before[0][1][pair[1]]):
                yield from ((network, other, own[pair[0]], others[pair[1]]) for other, others in before)
        alike.setdefault(tuple((each.network, each.counted_by) for each in own), []).append((network, own))


def _first_overlap(own: list[Range], others: list[Range]) -> tuple[int, int] | None:
    pairs = ((a, b) for a in range(len(own)) for b in range(len(others)))
    return next((pair for pair in pairs if own[pair[0]].network.overlaps(others[pair[1]].network)), None)


def _pods(network: Attachment, users: Users) -> set[int]:
    return {id(use.pods) for use in users.of(network)}


def _overlap(
    network: Attachment, other: Attachment, own: Range, its: Range, why: str, fix: str
) -> tuple[Manifest, Breach]:
    what = f"`{other.name}` ({its.network}) and `{network.name}` ({own.network}) overlap"
    return network.manifest, _address_breach(ipam_path(network), what, why, fix)


_RULES: tuple[Callable[[Objects], Iterator[tuple[Manifest, Breach]]], ...] = (
    _default_routes,
    _of_one_node,
    _missing_pools,
    _overlapping_exclusions,
    _too_few,
    _given_twice,
)


def _address_breach(path: Path, what: str, why: str, fix: str) -> Breach:
    return Breach(path, _ADDRESSES, what, why, fix, Severity.WARNING)


_ISOLATION = "fabric/isolation"
_FOR = "k8s.v1.cni.cncf.io/policy-for"
_FIELD: Path = ("metadata", "annotations", _FOR)
_IGNORED_TYPES = ("ib-sriov", "host-device", "ipoib")
_PARTITION_FIELDS = ("pkey", "ibKubernetesEnabled", "rdmaIsolation")
_NO_EFFECT = "the policy has no effect, so every pod on the network can reach the selected pods"


@check("fabric/isolation", severity=ERROR, needs=Objects)
def isolation(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a network policy or partition without effect.

    Pods of other teams reach the pods although a policy seems to forbid it. The check reports:

    - A MultiNetworkPolicy without the annotation `k8s.v1.cni.cncf.io/policy-for`, or with a pod selector that its
      implementation does not support.
    - As a warning, a policy for a network that the release lacks, or of type ib-sriov, host-device or ipoib, which no
      implementation supports.
    - As an info, a policy for a network with RDMA, because RDMA bypasses its rules.
    - A SriovIBNetwork with a field for partitions, such as `pkey`. The kind has no such field, so its pods are in the
      default partition.
    """
    for policy in gathered.of(CNI, "MultiNetworkPolicy"):
        yield from ((policy, breach) for breach in _unsupported_selectors(policy))
        yield from ((policy, breach) for breach in _policy_networks(policy, gathered))
    for network in gathered.view(Fabrics.read).of("SriovIBNetwork"):
        yield from ((network, breach) for breach in _unknown_partition_fields(network))


def _unsupported_selectors(policy: Manifest) -> Iterator[Breach]:
    """Yield expressions that LabelSelectorAsMap rejects: it accepts labels, and `In` with one value."""
    expressions = mapping(policy.body, "spec", "podSelector").get("matchExpressions")
    for number, expression in indexed_mappings(expressions):
        if expression.get("operator") != "In" or len(strings(expression.get("values"))) != 1:
            path: Path = ("spec", "podSelector", "matchExpressions", number)
            message = f"`podSelector` of `{policy.name}` uses {_expression(expression)}"
            why = f"the iptables implementation supports only `In` with one value, and ignores the policy: {_NO_EFFECT}"
            yield Breach(path, _ISOLATION, message, why, "select the pods with `matchLabels`")


def _expression(expression: Mapping[str, Any]) -> str:
    count = len(strings(expression.get("values")))
    return f"`{expression.get('operator')}`" + (f" with {count} values" if count > 1 else "")


def _policy_networks(policy: Manifest, gathered: Objects) -> Iterator[Breach]:
    value = mapping(policy.body, "metadata", "annotations").get(_FOR)
    names = [reference.strip() for reference in value.split(",") if reference.strip()] if isinstance(value, str) else []
    if not names:
        message = f"`{policy.name}` lacks the annotation `{_FOR}`"
        fix = f"add the annotation `{_FOR}` with the names of the networks, separated by commas"
        yield Breach(("metadata",), _ISOLATION, message, f"without the annotation {_NO_EFFECT}", fix)
    for reference in names:
        namespace, _, name = reference.rpartition("/")
        home = namespace.strip() or policy.namespace
        defined = gathered.view(Fabrics.read).by_name.get(name, {})
        network = defined.get(home) or defined.get("")
        if network:
            yield from _ineffective_policy(policy, network)
        elif any(network.namespace == home for network in gathered.view(Fabrics.read).attachments):
            message = f"`{policy.name}` is for the network `{home}/{name}`, which the release does not define"
            fix = "write the name of the network, with its namespace in front if it is in another namespace"
            yield Breach(_FIELD, _ISOLATION, message, _NO_EFFECT, fix, Severity.WARNING, value=value)


def _ineffective_policy(policy: Manifest, network: Attachment) -> Iterator[Breach]:
    location = segment(network)
    fix = location.fix if location else "separate teams by a VLAN or a partition"
    message = f"`{policy.name}` is for `{network.name}`, a network of {network.type}"
    if network.type in _IGNORED_TYPES:
        why = f"implementations support macvlan, and on OpenShift ipvlan, sriov and bond: {_NO_EFFECT}"
        yield Breach(_FIELD, _ISOLATION, message, why, fix, Severity.WARNING)
    elif network.chains("rdma"):
        why = "its rules filter IP traffic; RDMA bypasses them, so ranks of other teams can reach the pods"
        yield Breach(_FIELD, _ISOLATION, f"{message} with RDMA", why, fix, Severity.INFO)


def _unknown_partition_fields(network: Manifest) -> Iterator[Breach]:
    """sriov-network-operator 249e200 api/v1/sriovibnetwork_types.go."""
    for field in _PARTITION_FIELDS:
        if field in mapping(network.body, "spec"):
            message = f"`{field}` is not a field of a SriovIBNetwork"
            why = f"the operator creates `{network.name}` without it, so its pods are in the default partition"
            fix = f"replace it by a NetworkAttachmentDefinition `{network.name}` of type ib-sriov, with `{field}`"
            yield Breach(("spec", field), _ISOLATION, message, why, fix)


_Members = list[tuple[Attachment, Segment]]
"""Networks of one segment."""
_WHY = "RDMA bypasses NetworkPolicy and MultiNetworkPolicy, so ranks of one team can reach the devices of the others"


@check("fabric/shared", severity=INFO, needs=Objects)
def shared(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report teams that reach each other on a fabric.

    RDMA bypasses NetworkPolicy and MultiNetworkPolicy, so ranks of one team can reach the devices of the other. Two
    teams share an InfiniBand partition, a VLAN, or an interface of the nodes. Or jobs of both teams request a device of
    the RDMA shared device plugin, which gives all pods of a node access to its NICs. A team is the label
    `mpigen.dev/tenant` of a namespace, or else the namespace.
    """
    teams = {namespace.name: _team(namespace) for namespace in gathered.of("", "Namespace")}
    yield from _shared_networks(gathered, teams)
    yield from _shared_devices(gathered, teams)


def _shared_networks(gathered: Objects, teams: Mapping[str, str]) -> Iterator[tuple[Manifest, Breach]]:
    """Yield one breach for teams that share several segments of a kind, such as rails."""
    users = Users(gathered)
    by_teams: dict[tuple[str, ...], list[_Members]] = {}
    for networks in _by_segment(gathered).values():
        meeting_teams = sorted(
            {teams.get(home, home) for network, _ in networks for home in _network_namespaces(network, users)}
        )
        if len(meeting_teams) > 1:
            by_teams.setdefault((networks[0][1].key[0], *meeting_teams), []).append(networks)
    for (_, *meeting_teams), meetings in by_teams.items():
        network, location = meetings[0][-1]
        others = listed(list(dict.fromkeys(neighbor.manifest.resource for neighbor, _ in meetings[0][:-1])))
        other_networks = f" ({others} uses it too)" if others else ""
        more = f" (in {len(meetings)} segments of this kind)" if len(meetings) > 1 else ""
        yield (
            network.manifest,
            _shared_breach(("spec",), f"{listed(meeting_teams)} share {location.text}{other_networks}{more}", location),
        )


def _shared_devices(gathered: Objects, teams: Mapping[str, str]) -> Iterator[tuple[Manifest, Breach]]:
    for provider in gathered.view(Fabrics.read).offered_by(Source.SHARED):
        meeting_teams = sorted({teams.get(home, home) for home in _device_namespaces(str(provider.resource), gathered)})
        if len(meeting_teams) > 1:
            location = shared_device(str(provider.resource))
            yield (
                provider.manifest,
                _shared_breach(provider.path, f"{listed(meeting_teams)} share {location.text}", location),
            )


def _by_segment(gathered: Objects) -> dict[tuple[str, ...], _Members]:
    networks_of: dict[tuple[str, ...], _Members] = {}
    for network in gathered.view(Fabrics.read).attachments:
        location = segment(network)
        if location:
            networks_of.setdefault(location.key, []).append((network, location))
    return networks_of


def _network_namespaces(network: Attachment, users: Users) -> set[str]:
    """Return the namespaces whose pods use a network: its own one, or those whose pods name it with its namespace."""
    own = {network.namespace} if network.namespace else set()
    outside = [use for use in users.of(network) if use.names_namespace]
    others = {home for use in outside for home in namespaces_of(use.pods, users.gathered)}
    return others or own


def _device_namespaces(name: str, gathered: Objects) -> set[str]:
    device = resource(name)
    return {
        home
        for pods in gathered.view(Fabrics.read).pods
        if any(resource(name).may_be(device) for name in pods.devices)
        for home in namespaces_of(pods, gathered)
    }


def _team(namespace: Manifest) -> str:
    tenant = mapping(namespace.body, "metadata", "labels").get(TENANT_LABEL)
    return tenant if isinstance(tenant, str) else namespace.name


def _shared_breach(path: Path, message: str, location: Segment) -> Breach:
    return Breach(path, "fabric/shared", message, _WHY, location.fix, Severity.INFO)
