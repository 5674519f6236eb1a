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
_NEVER = ("ib-sriov", "host-device", "ipoib")
_OF_PARTITIONS = ("pkey", "ibKubernetesEnabled", "rdmaIsolation")
_OPEN = "the policy then holds for nobody, and whoever is on the network reaches the pods"


@check("fabric/isolation", severity=ERROR, needs=Objects)
def isolation(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a network policy or partition without effect.

    A MultiNetworkPolicy does nothing: it does not say for which networks it is (`k8s.v1.cni.cncf.io/policy-for`),
    or it selects pods as its implementation does not know. A warning where it is for a network that is in no file,
    or for one of ib-sriov, host-device or ipoib, which no implementation looks at; an info where the network has
    RDMA, which passes by its rules. And a SriovIBNetwork with `pkey`, a field that it does not have: its pods are
    in the partition of everybody.
    """
    for policy in gathered.of(CNI, "MultiNetworkPolicy"):
        yield from ((policy, breach) for breach in _of_selector(policy))
        yield from ((policy, breach) for breach in _of_networks(policy, gathered))
    for network in gathered.view(Fabrics.read).of("SriovIBNetwork"):
        yield from ((network, breach) for breach in _of_partition(network))


def _of_selector(policy: Manifest) -> Iterator[Breach]:
    """LabelSelectorAsMap knows a map, and an `In` of one value; with others the policy is passed over."""
    said = mapping(policy.body, "spec", "podSelector").get("matchExpressions")
    for number, each in indexed_mappings(said):
        if each.get("operator") != "In" or len(strings(each.get("values"))) != 1:
            path: Path = ("spec", "podSelector", "matchExpressions", number)
            what = f"`podSelector` of `{policy.name}` uses {_expression(each)}"
            why = f"the iptables implementation knows `In` with one value, and passes over the policy: {_OPEN}"
            yield Breach(path, _CHECK, what, why, "select by `matchLabels`")


def _expression(said: Mapping[str, Any]) -> str:
    count = len(strings(said.get("values")))
    return f"`{said.get('operator')}`" + (f" with {count} values" if count > 1 else "")


def _of_networks(policy: Manifest, gathered: Objects) -> Iterator[Breach]:
    said = mapping(policy.body, "metadata", "annotations").get(_FOR)
    names = [each.strip() for each in said.split(",") if each.strip()] if isinstance(said, str) else []
    if not names:
        what = f"`{policy.name}` does not say for which networks it is (`{_FOR}`)"
        fix = f"add the annotation `{_FOR}`, with the names of the networks, separated by commas"
        yield Breach(("metadata",), _CHECK, what, f"without the annotation it is ignored: {_OPEN}", fix)
    for each in names:
        place, _, name = each.rpartition("/")
        home = place.strip() or policy.namespace
        there = gathered.view(Fabrics.read).by_name.get(name, {})
        network = there.get(home) or there.get("")
        if network:
            yield from _of_network(policy, network)
        elif any(known.namespace == home for known in gathered.view(Fabrics.read).attachments):
            what = f"`{policy.name}` is for the network `{home}/{name}`, and no file holds it"
            fix = "name networks as the pods do, with the namespace in front where it is another"
            yield Breach(_FIELD, _CHECK, what, _OPEN, fix, Severity.WARNING, value=said)


def _of_network(policy: Manifest, network: Attachment) -> Iterator[Breach]:
    where = segment(network)
    fix = where.fix if where else "separate teams by a VLAN or a partition"
    who = f"`{policy.name}` is for `{network.name}`, a network of {network.type}"
    if network.type in _NEVER:
        why = f"no implementation looks at such networks (macvlan, with OpenShift also ipvlan, sriov and bond): {_OPEN}"
        yield Breach(_FIELD, _CHECK, who, why, fix, Severity.WARNING)
    elif network.chains("rdma"):
        why = "its rules are for TCP and IP in the pod; RDMA passes them by, and so do ranks of other teams"
        yield Breach(_FIELD, _CHECK, f"{who} with RDMA", why, fix, Severity.INFO)


def _of_partition(network: Manifest) -> Iterator[Breach]:
    """sriov-network-operator 249e200 api/v1/sriovibnetwork_types.go."""
    for field in _OF_PARTITIONS:
        if field in mapping(network.body, "spec"):
            what = f"`{field}` in a SriovIBNetwork, which has no such field"
            why = f"the operator makes `{network.name}` without it: its pods are in the partition of everybody"
            fix = f"write the NetworkAttachmentDefinition `{network.name}` yourself, of type ib-sriov, with `{field}`"
            yield Breach(("spec", field), _CHECK, what, why, fix)


_Meeting = list[tuple[Attachment, Segment]]
"""The networks that lead to one segment."""
_WHY = "RDMA passes by NetworkPolicy and MultiNetworkPolicy: ranks of one team reach the devices of the others"


@check("fabric/shared", severity=INFO, needs=Objects)
def shared(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report teams that reach each other on a fabric.

    Two teams are in the same partition of InfiniBand, the same VLAN, or on the same interface of the nodes; or jobs
    of both ask for a device of the shared plugin, which opens the NICs of a node to all its pods. Neither
    NetworkPolicy nor MultiNetworkPolicy parts RDMA. A team is the `mpigen.dev/tenant` of a namespace, or else the
    namespace.
    """
    teams = {each.name: _team(each) for each in gathered.of("", "Namespace")}
    yield from _shared_networks(gathered, teams)
    yield from _of_devices(gathered, teams)


def _shared_networks(gathered: Objects, teams: Mapping[str, str]) -> Iterator[tuple[Manifest, Breach]]:
    """Once for the same teams in several segments of a kind, as rails are."""
    users = Users(gathered)
    told: dict[tuple[str, ...], list[_Meeting]] = {}
    for networks in _by_segment(gathered).values():
        met = sorted({teams.get(home, home) for network, _ in networks for home in _homes(network, users)})
        if len(met) > 1:
            told.setdefault((networks[0][1].key[0], *met), []).append(networks)
    for (_, *met), meetings in told.items():
        network, where = meetings[0][-1]
        others = listed(list(dict.fromkeys(each.manifest.resource for each, _ in meetings[0][:-1])))
        device_note = f" ({others} leads there too)" if others else ""
        more = f", and {len(meetings) - 1} more like it" if len(meetings) > 1 else ""
        yield network.manifest, _breach(("spec",), f"{listed(met)} share {where.text}{device_note}{more}", where)


def _of_devices(gathered: Objects, teams: Mapping[str, str]) -> Iterator[tuple[Manifest, Breach]]:
    for provider in gathered.view(Fabrics.read).offered_by(Source.SHARED):
        met = sorted({teams.get(home, home) for home in _homes_of_device(str(provider.resource), gathered)})
        if len(met) > 1:
            where = shared_device(str(provider.resource))
            yield provider.manifest, _breach(provider.path, f"{listed(met)} share {where.text}", where)


def _by_segment(gathered: Objects) -> dict[tuple[str, ...], _Meeting]:
    found: dict[tuple[str, ...], _Meeting] = {}
    for network in gathered.view(Fabrics.read).attachments:
        where = segment(network)
        if where:
            found.setdefault(where.key, []).append((network, where))
    return found


def _homes(network: Attachment, users: Users) -> set[str]:
    """Whose pods get it: those of its namespace, and of others where pods name it with its namespace."""
    found = {network.namespace} if network.namespace else set()
    outside = [use for use in users.of(network) if use.names_namespace]
    others = {home for use in outside for home in namespaces_of(use.pods, users.gathered)}
    return others or found


def _homes_of_device(name: str, gathered: Objects) -> set[str]:
    wanted = resource(name)
    return {
        home
        for pods in gathered.view(Fabrics.read).pods
        if any(resource(each).may_be(wanted) for each in pods.devices)
        for home in namespaces_of(pods, gathered)
    }


def _team(namespace: Manifest) -> str:
    said = mapping(namespace.body, "metadata", "labels").get(TENANT_LABEL)
    return said if isinstance(said, str) else namespace.name


def _breach(path: Path, what: str, where: Segment) -> Breach:
    return Breach(path, "fabric/shared", what, _WHY, where.fix, Severity.INFO)
