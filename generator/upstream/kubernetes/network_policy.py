"""Connections of pods: the NetworkPolicies and admin network policies in files, and the verdicts that follow.

A direction of a connection passes three tiers: AdminNetworkPolicies by priority, the additive NetworkPolicies of the
namespace, and the BaselineAdminNetworkPolicy. Both directions must allow a connection. A verdict is unknown if it
depends on a label, an address or a policy that mpigen cannot evaluate. RDMA and secondary networks bypass all these
policies.

Source: kube-network-policies v1.1.0 pkg/networkpolicy, plugins/npa-v1alpha1; kubernetes v1.34.2
pkg/apis/networking/v1/defaults.go; network-policy-api v0.1.5 apis/v1alpha1. tests/fixtures/verdicts has recorded
verdicts of kube-network-policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from generator.documents.load import Path
from generator.facts.addressing import Network, contains, denied_metadata, parse_network
from generator.manifests import Body, Manifest, conflict_error
from generator.objects.fields import indexed_mappings, integer, mapping, mappings, string, string_map, strings
from generator.upstream.kubernetes.selectors import Labels, Match, all_of, any_of

INGRESS, EGRESS = "ingress", "egress"
PROTOCOLS = ("TCP", "UDP", "SCTP")
_LAST_PORT = 65535
_STANDARD, _ADMIN = "networking.k8s.io", "policy.networking.k8s.io"
_EVALUATED = {
    (_STANDARD, "NetworkPolicy"),
    (_ADMIN, "AdminNetworkPolicy"),
    (_ADMIN, "BaselineAdminNetworkPolicy"),
}
_CILIUM = {("cilium.io", "CiliumNetworkPolicy"), ("cilium.io", "CiliumClusterwideNetworkPolicy")}
_OTHERS = {
    *_CILIUM,
    *((group, kind) for group in ("crd.projectcalico.org", "projectcalico.org")
      for kind in ("NetworkPolicy", "GlobalNetworkPolicy")),
    ("crd.antrea.io", "NetworkPolicy"),
    ("crd.antrea.io", "ClusterNetworkPolicy"),
    (_ADMIN, "ClusterNetworkPolicy"),
    ("k8s.ovn.org", "EgressFirewall"),
    ("k8s.ovn.org", "UserDefinedNetwork"),
    ("k8s.ovn.org", "ClusterUserDefinedNetwork"),
    ("network.openshift.io", "EgressNetworkPolicy"),
    ("security.istio.io", "AuthorizationPolicy"),
    ("security.istio.io", "PeerAuthentication"),
}  # fmt: skip
"""Kinds that also decide connections of the pod network. mpigen does not evaluate them."""
_EGRESS_ALONE = {"EgressFirewall", "EgressNetworkPolicy"}


NETWORK_POLICIES = frozenset(_EVALUATED | _OTHERS)
"""(group, kind) of the objects that decide which pods connect over the pod network."""


def is_network_policy(manifest: Manifest) -> bool:
    """Return True if an object decides which pods connect over the pod network."""
    return (manifest.group, manifest.kind) in NETWORK_POLICIES


def is_evaluated(manifest: Manifest) -> bool:
    """Return True if mpigen evaluates the verdicts of a network policy."""
    return (manifest.group, manifest.kind) in _EVALUATED


class Port(NamedTuple):
    """A port of a container, with its name."""

    name: str
    protocol: str
    number: int


@dataclass(frozen=True, eq=False)
class Peer:
    """Pods that mpigen evaluates together, such as the ranks of a namespace, or addresses outside the pod network.

    Attributes:
        name: the peer in messages.
        namespace: the namespace of the pods; empty for addresses.
        labels: the labels of the pods.
        namespace_labels: the labels of the namespace.
        ports: the named ports of the pods; None if unknown.
        address: the addresses; None if unknown.
        is_host_network: True for pods with the address of their node.
        is_internet: True for all public addresses.
        mapped_port: (port of the Service, port on which the pods listen) if the two differ, so that no pod listens on
            the first of them; None for other peers.
    """

    name: str
    namespace: str = ""
    labels: Labels = field(default_factory=lambda: Labels({}))
    namespace_labels: Labels = field(default_factory=lambda: Labels({}))
    ports: tuple[Port, ...] | None = ()
    address: Network | None = None
    is_host_network: bool = False
    is_internet: bool = False
    mapped_port: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason of a verdict.

    Attributes:
        text: the reason, without the name of the policy.
        manifest: the policy; None if no policy decides.
        path: the field of the policy that decides.
    """

    text: str
    manifest: Manifest | None = None
    path: Path = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for a connection from one peer to another.

    Attributes:
        allowed: True if the policies allow the connection, False if they deny it; None if unknown.
        causes: the reasons, one for each direction (egress of the first peer, ingress of the second) with this result.
    """

    allowed: bool | None
    causes: tuple[Cause, ...]


class Span(NamedTuple):
    """Consecutive ports with the same verdict."""

    protocol: str
    first: int
    last: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class _PeerRule:
    """An entry of `from` or `to` in a rule of a network policy.

    Attributes:
        namespace: the only namespace of the pods; empty if `namespaces` selects them.
        namespaces: the selector of namespaces.
        pods: the selector of pods.
        network: the addresses, for an entry that selects no pods.
        excluded: the addresses in `except`.
        unknown: the reason why mpigen cannot evaluate the entry.
    """

    namespace: str = ""
    namespaces: Body | None = None
    pods: Body | None = None
    network: Network | None = None
    excluded: tuple[Network, ...] = ()
    unknown: str = ""

    def match(self, peer: Peer) -> Match:
        if self.unknown:
            return self.unknown
        if self.network:
            return _match_network(self.network, self.excluded, peer)
        if not peer.namespace or (self.namespace and self.namespace != peer.namespace):
            return False
        selected = all_of(
            [
                True if self.namespaces is None else peer.namespace_labels.match(self.namespaces),
                True if self.pods is None else peer.labels.match(self.pods),
            ]
        )
        return "CNIs differ about pods with hostNetwork" if selected and peer.is_host_network else selected


def _match_network(network: Network, excluded: Sequence[Network], peer: Peer) -> Match:
    """Return True if a network, without `excluded`, contains all addresses of a peer; False if it contains none.

    The result is a text with the reason if the answer is unknown: the network contains only a part of the addresses, or
    no file has the addresses. For the Internet, only IPv4 networks match.
    """
    if peer.is_internet:
        if network.prefixlen == 0 and network.version == 4:  # noqa: PLR2004 - IPv4
            hidden = [other for other in excluded if other.is_global]
            return f"`except` lists {hidden[0]}, so a part of the Internet is not allowed" if hidden else True
        return f"{network} is a part of the Internet" if network.is_global and network.version == 4 else False  # noqa: PLR2004
    if peer.address is None:
        if network.is_link_local or any(contains(service, network) for service in denied_metadata()):
            return False  # no pod and no API server has such an address
        return f"the address of {peer.name} is unknown, and {network} may contain it"
    if any(contains(other, peer.address) for other in excluded) or not _overlap(network, peer.address):
        return False
    if contains(network, peer.address) and not any(_overlap(other, peer.address) for other in excluded):
        return True
    return f"{network} contains a part of {peer.address}"


def _overlap(network: Network, other: Network) -> bool:
    return contains(network, other) or contains(other, network)


@dataclass(frozen=True, slots=True)
class _PortRule:
    """An entry of `ports` in a rule of a network policy: a range of ports, or the name of a port of the pods."""

    protocol: str
    first: int = 1
    last: int = _LAST_PORT
    name: str = ""
    unknown: str = ""

    def match(self, pods: Peer, protocol: str, number: int) -> Match:
        if self.unknown:
            return self.unknown
        if self.protocol != protocol:
            return False
        if not self.name:
            return self.first <= number <= self.last
        if pods.namespace and pods.ports is None:
            return f"the number of the port `{self.name}` is unknown"
        return Port(self.name, protocol, number) in (pods.ports or ())

    def edges(self, pods: Peer) -> Iterator[int]:
        """Yield the ports at which the result of `match` may change: the first port, and the port after the last."""
        numbers = [port.number for port in pods.ports or () if port.name == self.name] if self.name else []
        for first, last in [(number, number) for number in numbers] or [(self.first, self.last)]:
            yield from (first, last + 1)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a network policy. Empty `peers` match every peer, and empty `ports` every port."""

    cause: Cause
    action: str
    peers: tuple[_PeerRule, ...]
    ports: tuple[_PortRule, ...]

    def match(self, peer: Peer, pods: Peer, protocol: str, number: int) -> Match:
        """Return True if the rule matches a connection of a peer on a port, else False.

        `pods` is the destination of the connection, which defines the named ports. The result is a text with the reason
        if the answer is unknown.
        """
        return all_of(
            [
                not self.ports or any_of(port.match(pods, protocol, number) for port in self.ports),
                not self.peers or any_of(entry.match(peer) for entry in self.peers),
            ]
        )


@dataclass(frozen=True, slots=True)
class _Policy:
    """A policy, and the pods that it selects.

    Attributes:
        pods: the selector of pods; None for all.
        namespaces: the selector of namespaces; None for the namespace of a NetworkPolicy.
        priority: the priority of an AdminNetworkPolicy.
        rules: `ingress` or `egress` → the rules. A NetworkPolicy has no entry for directions that it leaves open.
    """

    manifest: Manifest
    pods: Body | None
    namespaces: Body | None
    priority: int
    rules: Mapping[str, tuple[Rule, ...]]

    def selects(self, pods: Peer) -> Match:
        """Return True if the policy selects pods, else False; if unknown, a text with the reason.

        For a NetworkPolicy, pass pods of its own namespace.
        """
        return all_of(
            [
                True if self.namespaces is None else pods.namespace_labels.match(self.namespaces),
                True if self.pods is None else pods.labels.match(self.pods),
            ]
        )

    def entries(self) -> Iterator[_PeerRule]:
        """Yield the entries of `from` and `to` in all rules."""
        for rules in self.rules.values():
            for rule in rules:
                yield from rule.peers


_HALF = "CNIs differ about a BaselineAdminNetworkPolicy for pods with NetworkPolicies for the other direction alone"
"""For such pods, kube-network-policies v1.1.0 ignores the BaselineAdminNetworkPolicy, and OVN-Kubernetes applies it."""


class _Step(NamedTuple):
    """A decision of a policy on a connection, which applies if `match` is True, and may apply if `match` is a text."""

    match: Match
    allowed: bool
    cause: Cause


@dataclass(frozen=True)
class Policies:
    """The policies that decide connections of the pod network.

    Attributes:
        standard: namespace → its NetworkPolicies.
        admin: the AdminNetworkPolicies, by priority.
        baseline: the BaselineAdminNetworkPolicy.
        others: the policies that mpigen does not evaluate.
    """

    standard: Mapping[str, Sequence[_Policy]]
    admin: Sequence[_Policy]
    baseline: Sequence[_Policy]
    others: Sequence[Manifest]

    @classmethod
    def read(cls, manifests: Iterable[Manifest]) -> Policies:
        """Read the policies in manifests.

        Raises:
            SimulationError: two objects of the same kind, namespace and name have different specs.
        """
        objects: dict[tuple[str, str, str, str], Manifest] = {}
        for manifest in filter(is_network_policy, manifests):
            first = objects.setdefault(manifest.identity, manifest)
            if first.body.get("spec") != manifest.body.get("spec"):
                raise conflict_error(manifest, first)
        standard: dict[str, list[_Policy]] = {}
        admin: list[_Policy] = []
        baseline: list[_Policy] = []
        others = []
        for manifest in objects.values():
            if (manifest.group, manifest.kind) in _OTHERS:
                others.append(manifest)
            elif manifest.kind == "NetworkPolicy":
                standard.setdefault(manifest.namespace, []).append(_read_standard(manifest))
            else:
                (admin if manifest.kind == "AdminNetworkPolicy" else baseline).append(_read_admin(manifest))
        return cls(standard, sorted(admin, key=lambda policy: policy.priority), baseline, others)

    def all(self) -> list[_Policy]:
        """Return the policies that mpigen evaluates."""
        return [*self.admin, *(policy for policies in self.standard.values() for policy in policies), *self.baseline]

    def decide(self, source: Peer, to: Peer, protocol: str, port: int) -> Verdict:
        """Return the verdict on a connection from a peer to a port of another peer."""
        egress = self.decide_direction(EGRESS, source, to, (protocol, port))
        ingress = self.decide_direction(INGRESS, to, source, (protocol, port))
        for allowed in (False, None):
            causes = tuple(cause for answer, cause in (egress, ingress) if answer is allowed)
            if causes:
                break
        else:
            allowed, causes = True, (egress[1], ingress[1])
        if allowed is not False and to.mapped_port and port == to.mapped_port[0]:
            text = f"policies match the port of the pods: {to.name} listens on {to.mapped_port[1]}, not on {port}"
            return Verdict(False, (replace(egress[1], text=text),))
        return Verdict(allowed, causes)

    def spans(self, source: Peer, to: Peer, protocols: Sequence[str] = PROTOCOLS) -> list[Span]:
        """Return the verdicts on connections from a peer to all ports of another peer, by protocol and port."""
        edges = {1, _LAST_PORT + 1}
        if to.mapped_port:
            edges |= {to.mapped_port[0], to.mapped_port[0] + 1}
        for direction, pods in ((EGRESS, source), (INGRESS, to)):
            for policy, _ in self._selecting(pods):
                for rule in policy.rules.get(direction, ()):
                    for port in rule.ports:
                        edges.update(port.edges(to))
        starts = sorted(edge for edge in edges if 1 <= edge <= _LAST_PORT)
        spans: list[Span] = []
        for protocol in protocols:
            merged: list[Span] = []
            for first, after in zip(starts, [*starts[1:], _LAST_PORT + 1], strict=True):
                verdict = self.decide(source, to, protocol, first)
                if merged and merged[-1].verdict == verdict:
                    merged[-1] = merged[-1]._replace(last=after - 1)
                else:
                    merged.append(Span(protocol, first, after - 1, verdict))
            spans += merged
        return spans

    def isolating(self, pods: Peer, direction: str) -> list[Manifest]:
        """Return the NetworkPolicies that certainly select pods and restrict a direction."""
        return [
            policy.manifest
            for policy, selected in self._selecting(pods)
            if selected is True and policy.manifest.kind == "NetworkPolicy" and direction in policy.rules
        ]

    def networks(self, pods: Iterable[Peer]) -> list[Network]:
        """Return each `cidr` in egress rules of NetworkPolicies that may select the pods, except 0.0.0.0/0 and ::/0."""
        networks = {
            entry.network
            for one in pods
            for policy, _ in self._selecting(one)
            if policy.manifest.kind == "NetworkPolicy"
            for rule in policy.rules.get(EGRESS, ())
            for entry in rule.peers
            if entry.network and entry.network.prefixlen
        }
        return sorted(networks, key=lambda network: (network.version, network))

    def mentioned_networks(self, namespace: str) -> set[Network]:
        """Return the CIDRs in rules and exceptions of the NetworkPolicies in a namespace, except 0.0.0.0/0 and ::/0."""
        entries = [entry for policy in self.standard.get(namespace, ()) for entry in policy.entries()]
        networks = {network for entry in entries for network in (entry.network, *entry.excluded) if network}
        return {network for network in networks if network.prefixlen}

    def decide_direction(
        self, direction: str, pods: Peer, peer: Peer, port: tuple[str, int]
    ) -> tuple[bool | None, Cause]:
        """Return (allowed, cause): True if the policies of `pods` allow a connection, else False; None if unknown.

        Args:
            direction: `egress` if `pods` open the connection, `ingress` if they accept it.
            pods: the pods whose policies are evaluated.
            peer: the other end of the connection.
            port: protocol and number of the destination port.
        """
        if not pods.namespace:
            return True, Cause(f"no policy applies to {pods.name}")
        doubts: list[_Step] = []
        last = _Step(True, True, Cause(f"no policy in these files selects {pods.name} for {direction}"))
        for step in self._steps(direction, pods, peer, port):
            if isinstance(step.match, str):
                doubts.append(step)
            elif step.match:
                last = step
                break
        if pods.is_host_network and (doubts or last.cause.manifest):
            return None, Cause(f"CNIs differ about policies for {pods.name}, which has hostNetwork")
        doubt = next((step for step in doubts if step.allowed is not last.allowed), None)
        if doubt:
            return None, Cause(str(doubt.match), doubt.cause.manifest, doubt.cause.path)
        return last.allowed, last.cause

    def _steps(self, direction: str, pods: Peer, peer: Peer, port: tuple[str, int]) -> Iterator[_Step]:
        """Yield the decisions in the order of the tiers. The first decision that matches counts."""
        others = [one for one in self.others if _applies(one, direction, pods, peer)]
        for other in others:
            denies = (other.group, other.kind) not in _CILIUM or _has_deny(other, direction)
            doubt = f"mpigen does not evaluate the {other.resource}"
            yield from (_Step(doubt, allowed, Cause("", other)) for allowed in (True, False) if denies)
        selecting = self._selecting(pods)
        yield from self._admin_steps(direction, selecting, (pods, peer), port)
        standard = [
            (policy, match)
            for policy, match in selecting
            if policy.manifest.kind == "NetworkPolicy" and direction in policy.rules
        ]
        to = peer if direction == EGRESS else pods
        for policy, selected in standard:
            for rule in policy.rules[direction]:
                yield _Step(all_of([selected, rule.match(peer, to, *port)]), True, rule.cause)
        for other in others:
            doubt = f"mpigen does not evaluate the {other.resource}"
            yield from (_Step(doubt, allowed, Cause("", other)) for allowed in (True, False))
        yield from _isolation(direction, pods, standard)
        half: Match = next((_HALF for policy, _ in selecting if policy.manifest.kind == "NetworkPolicy"), True)
        for policy, selected in selecting:
            if policy.manifest.kind == "BaselineAdminNetworkPolicy":
                for rule in policy.rules.get(direction, ()):
                    match = all_of([selected, rule.match(peer, to, *port), half])
                    yield _Step(match, rule.action == "Allow", rule.cause)

    def _admin_steps(
        self, direction: str, selecting: Sequence[tuple[_Policy, Match]], ends: tuple[Peer, Peer], port: tuple[str, int]
    ) -> Iterator[_Step]:
        """Yield the decisions of AdminNetworkPolicies. The order of policies with the same priority is undefined."""
        pods, peer = ends
        to = peer if direction == EGRESS else pods
        doubt: Match = True
        tiers: dict[int, list[tuple[_Policy, Match]]] = {}
        for policy, selected in selecting:
            if policy.manifest.kind == "AdminNetworkPolicy" and policy.rules.get(direction):
                tiers.setdefault(policy.priority, []).append((policy, selected))
        for tier in tiers.values():
            matching = [
                (match, rule)
                for policy, selected in tier
                for rule in policy.rules[direction]
                if (match := all_of([selected, rule.match(peer, to, *port)])) is not False
            ]
            if len(tier) > 1 and len({rule.action for _, rule in matching}) > 1:
                reason = "AdminNetworkPolicies of the same priority contradict each other"
                matching = [(reason, rule) for _, rule in matching]
            for matched, rule in matching:
                match = all_of([doubt, matched])
                if rule.action != "Pass":
                    yield _Step(match, rule.action == "Allow", rule.cause)
                elif match is True:
                    return
                else:
                    doubt = match
                if match is True:
                    return

    def _selecting(self, pods: Peer) -> Sequence[tuple[_Policy, Match]]:
        """Return (policy, True or the reason of a doubt) for each policy that selects pods, or may select them."""
        if pods not in self._selected:
            policies = [*self.standard.get(pods.namespace, ()), *self.of_admins(pods.namespace_labels)]
            matches = ((policy, policy.selects(pods)) for policy in policies if pods.namespace)
            self._selected[pods] = [(policy, match) for policy, match in matches if match is not False]
        return self._selected[pods]

    def of_admins(self, labels: Labels) -> list[_Policy]:
        """Return the admin policies, by priority, and then the baseline, for a namespace with these labels.

        Policies are left out if the first label in `matchLabels` of their `subject` excludes the namespace.
        """
        numbers = (
            {
                number
                for key, by_value in self._by_label.items()
                for value, policies in by_value.items()
                if not key or labels.may_have(key, value)
                for number in policies
            }
            if labels.unknown
            else {
                number
                for key, by_value in self._by_label.items()
                for number in by_value.get(labels.values.get(key, "") if key else "", ())
            }
        )
        policies = [*self.admin, *self.baseline]
        return [policies[number] for number in sorted(numbers)]

    @cached_property
    def _by_label(self) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """First label in `matchLabels` of the subject of admin policies: key → value → indexes of these policies.

        Policies without such a label have the key `""`.
        """
        index: dict[str, dict[str, list[int]]] = {}
        for number, policy in enumerate((*self.admin, *self.baseline)):
            required = string_map(mapping(policy.namespaces, "matchLabels"))
            key, value = next(iter(required.items()), ("", ""))
            index.setdefault(key, {}).setdefault(value, []).append(number)
        return index

    @cached_property
    def _selected(self) -> dict[Peer, Sequence[tuple[_Policy, Match]]]:
        return {}


def _isolation(direction: str, pods: Peer, standard: Sequence[tuple[_Policy, Match]]) -> Iterator[_Step]:
    """Yield the denial of all connections that no rule of the selecting NetworkPolicies allows."""
    ordered = sorted(standard, key=lambda item: (item[1] is not True, bool(item[0].rules[direction])))
    for policy, selected in ordered[:1] if ordered and ordered[0][1] is True else ordered:
        certain = [one.manifest.name for one, match in standard if match is True]
        number = f"{len(certain)} NetworkPolicies" if len(certain) > 1 else "NetworkPolicy"
        verb = "select" if len(certain) > 1 else "selects"
        text = f"no {direction} rule of the {number} that {verb} {pods.name} allows the connection"
        yield _Step(selected, False, Cause(text, policy.manifest, ("spec",)))


def _applies(other: Manifest, direction: str, pods: Peer, peer: Peer) -> bool:
    """Return True if a policy that mpigen does not evaluate may decide on a connection of pods in this direction."""
    if other.namespace not in ("", pods.namespace):
        return False
    if other.kind in _EGRESS_ALONE:
        return direction == EGRESS and not peer.namespace
    if (other.group, other.kind) in _CILIUM:
        specs = (mapping(other.body, "spec"), *mappings(other.body.get("specs")))
        return any(key in spec for spec in specs for key in (direction, f"{direction}Deny"))
    return True


def _has_deny(other: Manifest, direction: str) -> bool:
    """Return True if a policy of Cilium has deny rules for a direction.

    Without deny rules, the policy only allows further connections.

    Source: https://docs.cilium.io/en/v1.18/security/policy/language/#deny-policies
    """
    specs = (mapping(other.body, "spec"), *mappings(other.body.get("specs")))
    return any(f"{direction}Deny" in spec for spec in specs)


def _read_standard(manifest: Manifest) -> _Policy:
    """Read a NetworkPolicy. Without `policyTypes`, it restricts ingress, and egress if it has egress rules."""
    spec = mapping(manifest.body, "spec")
    types = strings(spec.get("policyTypes")) or ("Ingress", *(["Egress"] if spec.get("egress") else []))
    rules = {
        direction: tuple(_standard_rules(manifest, spec, direction))
        for direction, name in ((INGRESS, "Ingress"), (EGRESS, "Egress"))
        if name in types
    }
    return _Policy(manifest, mapping(spec, "podSelector"), None, 0, rules)


def _standard_rules(manifest: Manifest, spec: Body, direction: str) -> Iterator[Rule]:
    for number, rule in indexed_mappings(spec.get(direction)):
        peers = mappings(rule.get("from" if direction == INGRESS else "to"))
        yield Rule(
            Cause(f"{direction} rule {number + 1} allows the connection", manifest, ("spec", direction, number)),
            "Allow",
            tuple(_read_peer(peer, manifest.namespace) for peer in peers),
            tuple(map(_read_port, mappings(rule.get("ports")))),
        )


def _read_peer(peer: Body, namespace: str) -> _PeerRule:
    if isinstance(peer.get("ipBlock"), dict):
        return _network_rule(mapping(peer, "ipBlock").get("cidr"), strings(mapping(peer, "ipBlock").get("except")))
    spaces, pods = (peer.get(key) if isinstance(peer.get(key), dict) else None for key in _SELECTORS)
    if spaces is None and pods is None:
        return _PeerRule(unknown="a peer without a selector is invalid")
    return _PeerRule(namespace if spaces is None else "", spaces, pods)


_SELECTORS = ("namespaceSelector", "podSelector")


def _network_rule(cidr: object, excluded: Iterable[str] = ()) -> _PeerRule:
    network = parse_network(cidr)
    hidden = tuple(other for other in map(parse_network, excluded) if other)
    return _PeerRule(network=network, excluded=hidden) if network else _PeerRule(unknown=f"`{cidr}` is no CIDR")


def _read_port(entry: Body) -> _PortRule:
    protocol, port = string(entry.get("protocol"), "TCP"), entry.get("port")
    if isinstance(port, str):
        return _PortRule(protocol, name=port)
    first = integer(port, 0)
    return _PortRule(protocol, first, integer(entry.get("endPort"), first)) if first else _PortRule(protocol)


def _read_admin(manifest: Manifest) -> _Policy:
    """Read an AdminNetworkPolicy or a BaselineAdminNetworkPolicy."""
    spec = mapping(manifest.body, "spec")
    pods = mapping(spec, "subject", "pods")
    namespaces = subject_namespaces(manifest)
    rules = {direction: tuple(_admin_rules(manifest, spec, direction)) for direction in (INGRESS, EGRESS)}
    selected = mapping(pods, "podSelector") if pods else None
    return _Policy(manifest, selected, namespaces, integer(spec.get("priority"), 0), rules)


def subject_namespaces(policy: Manifest) -> Body:
    """Return the selector of the namespaces to which an AdminNetworkPolicy or BaselineAdminNetworkPolicy applies."""
    subject = mapping(policy.body, "spec", "subject")
    pods = mapping(subject, "pods")
    return mapping(pods, "namespaceSelector") if pods else mapping(subject, "namespaces")


def _admin_rules(manifest: Manifest, spec: Body, direction: str) -> Iterator[Rule]:
    for number, rule in indexed_mappings(spec.get(direction)):
        action = string(rule.get("action"))
        verb = {"Allow": "allows the connection", "Deny": "denies the connection"}.get(action, "passes it")
        cause = Cause(f"{direction} rule {number + 1} {verb}", manifest, ("spec", direction, number))
        peers = mappings(rule.get("from" if direction == INGRESS else "to"))
        entries = tuple(entry for peer in peers for entry in _read_admin_peer(peer))
        yield Rule(cause, action, entries, tuple(map(_read_admin_port, mappings(rule.get("ports")))))


def _read_admin_peer(peer: Body) -> Iterator[_PeerRule]:
    if isinstance(peer.get("namespaces"), dict):
        yield _PeerRule(namespaces=mapping(peer, "namespaces"))
    elif isinstance(peer.get("pods"), dict):
        spaces, pods = (mapping(peer, "pods", key) for key in _SELECTORS)
        yield _PeerRule(namespaces=spaces, pods=pods)
    elif networks := strings(peer.get("networks")):
        yield from map(_network_rule, networks)
    else:
        yield _PeerRule(unknown=f"mpigen does not evaluate the peer `{next(iter(peer), '')}`")


def _read_admin_port(entry: Body) -> _PortRule:
    if number := mapping(entry, "portNumber"):
        port = integer(number.get("port"), 0)
        return _PortRule(string(number.get("protocol"), "TCP"), port, port)
    if ports := mapping(entry, "portRange"):
        ends = integer(ports.get("start"), 0), integer(ports.get("end"), 0)
        return _PortRule(string(ports.get("protocol"), "TCP"), *ends)
    return _PortRule("", unknown=f"mpigen does not evaluate the port `{next(iter(entry), '')}`")
