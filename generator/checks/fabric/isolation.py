"""fabric/isolation, fabric/shared: network policies and partitions without effect, and teams that share a fabric.

multi-networkpolicy-iptables cbf2b11 pkg/server/server.go generateRules, policyrules.go, options.go `--network-plugins`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.fabric.devices import Source, resource
from generator.checks.fabric.fabrics import Fabrics
from generator.checks.fabric.networks import CNI, Attachment, Segment, segment, shared_device
from generator.checks.fabric.placement import Users, namespaces_of
from generator.checks.finding import Breach, Severity, listed
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, INFO, check
from generator.documents.load import Path
from generator.facts.names import TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, strings

_CHECK = "fabric/isolation"
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
            yield Breach(path, _CHECK, message, why, "select the pods with `matchLabels`")


def _expression(expression: Mapping[str, Any]) -> str:
    count = len(strings(expression.get("values")))
    return f"`{expression.get('operator')}`" + (f" with {count} values" if count > 1 else "")


def _policy_networks(policy: Manifest, gathered: Objects) -> Iterator[Breach]:
    value = mapping(policy.body, "metadata", "annotations").get(_FOR)
    names = [reference.strip() for reference in value.split(",") if reference.strip()] if isinstance(value, str) else []
    if not names:
        message = f"`{policy.name}` lacks the annotation `{_FOR}`"
        fix = f"add the annotation `{_FOR}` with the names of the networks, separated by commas"
        yield Breach(("metadata",), _CHECK, message, f"without the annotation {_NO_EFFECT}", fix)
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
            yield Breach(_FIELD, _CHECK, message, _NO_EFFECT, fix, Severity.WARNING, value=value)


def _ineffective_policy(policy: Manifest, network: Attachment) -> Iterator[Breach]:
    location = segment(network)
    fix = location.fix if location else "separate teams by a VLAN or a partition"
    message = f"`{policy.name}` is for `{network.name}`, a network of {network.type}"
    if network.type in _IGNORED_TYPES:
        why = f"implementations support macvlan, and on OpenShift ipvlan, sriov and bond: {_NO_EFFECT}"
        yield Breach(_FIELD, _CHECK, message, why, fix, Severity.WARNING)
    elif network.chains("rdma"):
        why = "its rules filter IP traffic; RDMA bypasses them, so ranks of other teams can reach the pods"
        yield Breach(_FIELD, _CHECK, f"{message} with RDMA", why, fix, Severity.INFO)


def _unknown_partition_fields(network: Manifest) -> Iterator[Breach]:
    """sriov-network-operator 249e200 api/v1/sriovibnetwork_types.go."""
    for field in _PARTITION_FIELDS:
        if field in mapping(network.body, "spec"):
            message = f"`{field}` is not a field of a SriovIBNetwork"
            why = f"the operator creates `{network.name}` without it, so its pods are in the default partition"
            fix = f"replace it by a NetworkAttachmentDefinition `{network.name}` of type ib-sriov, with `{field}`"
            yield Breach(("spec", field), _CHECK, message, why, fix)


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
            _breach(("spec",), f"{listed(meeting_teams)} share {location.text}{other_networks}{more}", location),
        )


def _shared_devices(gathered: Objects, teams: Mapping[str, str]) -> Iterator[tuple[Manifest, Breach]]:
    for provider in gathered.view(Fabrics.read).offered_by(Source.SHARED):
        meeting_teams = sorted({teams.get(home, home) for home in _device_namespaces(str(provider.resource), gathered)})
        if len(meeting_teams) > 1:
            location = shared_device(str(provider.resource))
            yield provider.manifest, _breach(provider.path, f"{listed(meeting_teams)} share {location.text}", location)


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


def _breach(path: Path, message: str, location: Segment) -> Breach:
    return Breach(path, "fabric/shared", message, _WHY, location.fix, Severity.INFO)
