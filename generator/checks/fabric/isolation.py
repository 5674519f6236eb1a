"""fabric/isolation: does what is written to keep teams apart on a second network do so?

multi-networkpolicy-iptables cbf2b11 pkg/server/server.go generateRules, policyrules.go, options.go `--network-plugins`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.fabric.attachments import CNI, Attachment
from generator.checks.fabric.read import Fabrics
from generator.checks.fabric.segments import segment
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, strings

KINDS = frozenset({"MultiNetworkPolicy"})
"""What is read beside networks."""
_CHECK = "fabric/isolation"
_FOR = "k8s.v1.cni.cncf.io/policy-for"
_FIELD: Path = ("metadata", "annotations", _FOR)
_NEVER = ("ib-sriov", "host-device", "ipoib")
_OF_PARTITIONS = ("pkey", "ibKubernetesEnabled", "rdmaIsolation")
_OPEN = "the policy then holds for nobody, and whoever is on the network reaches the pods"


def isolation(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """MultiNetworkPolicies that do nothing, and partitions where there is no field for them."""
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


def _of_networks(policy: Manifest, gathered: Gathered) -> Iterator[Breach]:
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
