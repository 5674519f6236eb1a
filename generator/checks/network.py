"""network/*: the connections of ranks that network policies block, or allow to other teams.

The checks read complete releases alone, because another NetworkPolicy can allow what the policies in a few files deny,
and another AdminNetworkPolicy can deny what they allow. An unknown verdict is no finding.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from generator.checks.finding import listed
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.errors import SimulationError
from generator.facts.names import DNS_PODS, EVERYWHERE, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, strings
from generator.questions.peers import Cluster
from generator.upstream.kubernetes.network_policy import EGRESS, INGRESS, Cause, Peer, Span, is_network_policy
from generator.upstream.kubernetes.selectors import Labels

_TCP = ("TCP",)
_UNKNOWN = Labels({}, ("",))
_EVERYWHERE = [
    Peer("other pods", "-", _UNKNOWN, _UNKNOWN, ports=None),
    *(Peer(network, address=ipaddress.ip_network(network)) for network in (EVERYWHERE, "::/0")),
]
_POLICIES_OF_USERS = "ValidatingAdmissionPolicy"


def is_isolation_object(manifest: Manifest) -> bool:
    """Return True if the checks of this module read an object, apart from namespaces, runtimes and LocalQueues."""
    return is_network_policy(manifest) or _restricts_users(manifest)


def _restricts_users(manifest: Manifest) -> bool:
    """Return True for an admission policy on NetworkPolicies alone: users then create a NetworkPolicy for each job."""
    if manifest.kind != _POLICIES_OF_USERS:
        return False
    rules = mappings(mapping(manifest.body, "spec", "matchConstraints").get("resourceRules"))
    return bool(rules) and all(strings(rule.get("resources")) == ("networkpolicies",) for rule in rules)


@dataclass(frozen=True)
class Isolation:
    """The network policies of a complete release.

    Attributes:
        cluster: the policies and the pods.
        jobs_have_policies: True if each job brings a NetworkPolicy, which allows its ranks to connect.
    """

    cluster: Cluster
    jobs_have_policies: bool

    @classmethod
    def read(cls, objects: Objects) -> Isolation | None:
        """Return the policies; None for files that are no complete release, or that contradict each other."""
        if not objects.is_complete:
            return None
        try:
            return cls(Cluster.read(objects.manifests), any(map(_restricts_users, objects.manifests)))
        except SimulationError:
            return None

    def namespaces(self) -> Iterator[tuple[str, Manifest]]:
        """Yield (name, Namespace) of each namespace of a tenant."""
        for names in self.cluster.tenants.values():
            for name in names:
                yield name, self.cluster.namespaces[name]

    def own_place(self, cause: Cause, namespace: str) -> tuple[Manifest, Path]:
        """Return the object and the path to report: the policy that decides, or the Namespace if no policy decides.

        `cause` may name a policy of another namespace with equal policies. The result is the equal policy of
        `namespace`.
        """
        if cause.manifest is None:
            return self.cluster.namespaces[namespace], ("metadata", "name")
        spec = cause.manifest.body.get("spec")
        own = (policy.manifest for policy in self.cluster.policies.standard.get(namespace, ()))
        return next((one for one in own if one.body.get("spec") == spec), cause.manifest), cause.path


@check("network/ranks-blocked", severity=ERROR, needs=Isolation)
def ranks_blocked(isolation: Isolation) -> Iterator[Breach]:
    """Report network policies that block TCP connections between the ranks of a job.

    `mpirun` starts the ranks by ssh, and MPI, NCCL and Gloo listen on random TCP ports. If a policy blocks a port, the
    job hangs at its start until a timeout. The check reads complete releases, and compiles the pods of all runtimes
    that a tenant's namespace can use. It ignores releases whose users create a NetworkPolicy for each job. The finding
    is a warning if the policies allow a range of other ports, or if mpigen cannot decide if they do: variables such as
    `I_MPI_PORT_RANGE` can restrict the ranks to this range.

    Source: kube-network-policies v1.1.0 pkg/networkpolicy; tests/cluster/network/test_mpi.py runs Open MPI and MPICH
    behind such policies
    """
    if isolation.jobs_have_policies:
        return
    decided: dict[object, _Blocked | None] = {}
    for namespace, _ in isolation.namespaces():
        runtimes: dict[str, _Blocked] = {}
        for runtime in isolation.cluster.runtimes_of(namespace):
            key = (isolation.cluster.shape(namespace), runtime.name, runtime.kind)
            if key not in decided:
                decided[key] = _blocked_ports(isolation.cluster, namespace, runtime.name)
            if blocked := decided[key]:
                runtimes[runtime.name] = blocked
        if runtimes:
            yield _blocked_ranks(isolation, namespace, runtimes)


class _Blocked(NamedTuple):
    """The TCP ports that policies block between two ranks.

    Attributes:
        spans: the blocked ports.
        has_range: True if the policies allow a range of other ports, or if mpigen cannot decide if they do. Variables
            of the ranks can restrict MPI to this range, so the finding is then a warning.
    """

    spans: Sequence[Span]
    has_range: bool


def _blocked_ports(cluster: Cluster, namespace: str, runtime: str) -> _Blocked | None:
    """Return the blocked TCP ports between two ranks of a job on a runtime; None if no ports are blocked.

    If ports are blocked between several pairs of ranks, the result is for a pair with `has_range=False` if possible.
    """
    ranks = cluster.ranks(namespace, runtime)
    worst: _Blocked | None = None
    for spans in (cluster.policies.spans(one, other, _TCP) for one in ranks for other in ranks):
        closed = [span for span in spans if span.verdict.allowed is False]
        has_range = any(span.last > span.first and span.verdict.allowed is not False for span in spans)
        if closed and (worst is None or (worst.has_range and not has_range)):
            worst = _Blocked(closed, has_range)
    return worst


def _blocked_ranks(isolation: Isolation, namespace: str, runtimes: Mapping[str, _Blocked]) -> Breach:
    blocked = min(runtimes.values(), key=lambda ports: ports.has_range)
    spans = blocked.spans
    manifest, path = isolation.own_place(spans[0].verdict.causes[0], namespace)
    return Breach(
        path,
        f"the ranks of runtime {listed([*runtimes])} in namespace `{namespace}` cannot connect to each other on "
        f"{_format_ports(spans)}",
        "a job on several nodes hangs at its start until a timeout, because `mpirun`, MPI or NCCL gets no connection"
        f"{', unless the variables of the ranks restrict them to the open ports' if blocked.has_range else ''}",
        "add a NetworkPolicy that selects the pods of the ranks, and allows all ports between them in `ingress` and "
        "`egress`; compare its `podSelector` with the labels of the pods",
        manifest,
        severity=WARNING if blocked.has_range else ERROR,
    )


def _format_ports(spans: Sequence[Span]) -> str:
    if any((span.first, span.last) == (1, 65_535) for span in spans):
        return "any TCP port"
    ports = dict.fromkeys(f"{span.first}-{span.last}" if span.last > span.first else str(span.first) for span in spans)
    return f"the TCP ports {listed([*ports]).replace('`', '')}"


@check("network/dns-blocked", severity=ERROR, needs=Isolation)
def dns_blocked(isolation: Isolation) -> Iterator[Breach]:
    """Report network policies that block DNS requests of ranks.

    The hostfile of Trainer has host names, and PyTorch gets the name of the first rank. Without DNS, the job hangs or
    fails at its start. Policies match the port of the DNS pods: 53 on Kubernetes, and 5353 on OpenShift. The check
    reads complete releases. The finding is a warning if the policies allow DNS requests to other pods or addresses,
    or if mpigen cannot decide if they do, because the DNS service of the cluster may run there.

    Source: kube-network-policies v1.1.0 pkg/networkpolicy; trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go
    """
    decided: dict[object, Cause | None] = {}
    for namespace, _ in isolation.namespaces():
        key = isolation.cluster.shape(namespace)
        if key not in decided:
            decided[key] = _dns_cause(isolation, namespace)
        cause = decided[key]
        if cause is None:
            continue
        is_certain = not _has_other_dns(isolation, namespace)
        manifest, path = isolation.own_place(cause, namespace)
        names = " or ".join(f"`{name}` (port {port})" for name, _, port in DNS_PODS)
        yield Breach(
            path,
            f"the ranks in namespace `{namespace}` cannot send DNS requests to the DNS pods of {names}",
            "ranks cannot resolve the host names in the hostfile, so jobs hang or fail at their start"
            f"{'' if is_certain else ', unless the DNS service of the cluster has other pods or addresses'}",
            f"allow UDP and TCP to the DNS pods in `egress` of a NetworkPolicy; `mpigen reach {namespace} dns "
            "PATH` names the policy that decides",
            manifest,
            severity=ERROR if is_certain else WARNING,
        )


def _dns_cause(isolation: Isolation, namespace: str) -> Cause | None:
    """Return the reason why ranks cannot send requests to the DNS pods of Kubernetes or of OpenShift.

    Return None if they can, or may, send requests to the DNS pods of one of the two.
    """
    for ranks in isolation.cluster.ranks(namespace):
        verdicts = [
            isolation.cluster.policies.decide(ranks, pods, "UDP", port) for pods, port in isolation.cluster.dns_pods
        ]
        if all(verdict.allowed is False for verdict in verdicts):
            return verdicts[0].causes[0]
    return None


def _has_other_dns(isolation: Isolation, namespace: str) -> bool:
    """Return True if ranks can send DNS requests to other pods, or to an address such as NodeLocal DNSCache."""
    return any(
        isolation.cluster.policies.decide_direction(EGRESS, ranks, peer, ("UDP", port))[0] is not False
        for ranks in isolation.cluster.ranks(namespace)
        for peer in _EVERYWHERE
        for port in dict.fromkeys(port for _, _, port in DNS_PODS)
    )


@check("network/teams-connect", severity=ERROR, needs=Isolation)
def teams_connect(isolation: Isolation) -> Iterator[Breach]:
    """Report ranks that the ranks of another team reach.

    sshd, the daemons of `mpirun` and the ranks listen on TCP ports of each pod, so the other team can connect to them.
    The check reads complete releases with the label `mpigen.dev/tenant` on namespaces. The finding is a warning if only
    the egress policies of the other team prevent the connection. RDMA bypasses network policies: see `fabric/isolation`
    and `fabric/shared`.

    Source: kube-network-policies v1.1.0 pkg/networkpolicy, plugins/npa-v1alpha1
    """
    cluster, tenants = isolation.cluster, {name for name, _ in isolation.namespaces()}
    decided: dict[object, tuple[bool, Cause] | None] = {}
    for to in sorted(tenants):
        reaching: dict[bool, list[str]] = {}
        causes: dict[bool, Cause] = {}
        for source in cluster.sources(to):
            key = (cluster.shape(source), cluster.shape(to))
            if key not in decided:
                decided[key] = _opening(cluster, source, to)
            opening = decided[key]
            if opening and source in tenants:
                reaching.setdefault(opening[0], []).append(source)
                causes.setdefault(*opening)
        for is_reached, names in reaching.items():
            yield _opened(isolation, to, names, causes[is_reached], is_reached=is_reached)


def _opening(cluster: Cluster, source: str, to: str) -> tuple[bool, Cause] | None:
    """Find out if ranks in namespace `source` can connect to ranks in namespace `to`.

    Returns:
        (True, cause) if they can; (False, cause) if only the ingress of `to` allows the connection; None if the ingress
        of `to` does not allow the connection. The cause is the reason why the ingress is allowed.
    """
    one_sided: tuple[bool, Cause] | None = None
    for ranks in cluster.ranks(to):
        for other in cluster.ranks(source):
            for span in cluster.policies.spans(other, ranks, ("TCP", "UDP")):
                ingress, cause = cluster.policies.decide_direction(INGRESS, ranks, other, (span.protocol, span.first))
                if span.verdict.allowed:
                    return True, cause
                if ingress and one_sided is None:
                    one_sided = False, cause
    return one_sided


def _reason(cause: Cause) -> str:
    return cause.text if cause.manifest else "no NetworkPolicy restricts the ingress of these pods"


def _opened(isolation: Isolation, to: str, names: Sequence[str], cause: Cause, *, is_reached: bool) -> Breach:
    manifest, path = isolation.own_place(cause, to)
    others = f"the ranks in namespace {listed(names)}"
    message = (
        f"{others} reach the ranks in namespace `{to}`"
        if is_reached
        else f"the ingress of the ranks in namespace `{to}` is open to {others}"
    )
    return Breach(
        path,
        f"{message}: {_reason(cause)}",
        "another team can connect to sshd and to the MPI processes of the job"
        if is_reached
        else "only the egress policies of the other teams prevent connections to the MPI processes of the job",
        "narrow the selectors of this rule to the pods of the namespace, or remove the rule"
        if cause.manifest
        else "add a NetworkPolicy with `podSelector: {}` and `policyTypes: [Ingress]`, and allow ingress only from the "
        "pods of the namespace",
        manifest,
        severity=ERROR if is_reached else WARNING,
    )


@check("network/not-isolated", severity=WARNING, needs=Isolation)
def not_isolated(isolation: Isolation) -> Iterator[Breach]:
    """Report a tenant's namespace whose pods accept connections from every namespace.

    Each pod that no NetworkPolicy selects for ingress accepts all connections. A namespace needs a NetworkPolicy with
    an empty `podSelector` that allows nothing. The check tests two kinds of pods: pods without labels, and pods of
    ranks. It runs only on complete releases, and covers only namespaces with the label `mpigen.dev/tenant`.

    Source: api v0.34.2 networking/v1/types.go NetworkPolicySpec
    """
    cluster, decided = isolation.cluster, dict[object, tuple[str, Cause] | None]()
    for namespace, _ in isolation.namespaces():
        key = cluster.shape(namespace)
        if key not in decided:
            decided[key] = _open_pods(cluster, namespace)
        if opening := decided[key]:
            pods, cause = opening
            manifest, path = isolation.own_place(cause, namespace)
            yield Breach(
                path,
                f"{pods} in namespace `{namespace}` accept connections from every namespace: {_reason(cause)}",
                "each pod of the cluster, also of another team, can connect to these pods",
                "name the allowed sources in this ingress rule"
                if cause.manifest
                else "add a NetworkPolicy to the namespace: `podSelector: {}`, `policyTypes: [Ingress]`, no rules",
                manifest,
            )


def _open_pods(cluster: Cluster, namespace: str) -> tuple[str, Cause] | None:
    bare = cluster.bare_pods(namespace)
    for pods in (bare, *cluster.ranks(namespace)):
        for span in cluster.policies.spans(cluster.stranger, pods, ("TCP", "UDP")):
            if span.verdict.allowed:
                _, cause = cluster.policies.decide_direction(
                    INGRESS, pods, cluster.stranger, (span.protocol, span.first)
                )
                return "pods without labels" if pods is bare else "ranks", cause
    return None


@check("network/open-egress", severity=WARNING, needs=Objects)
def open_egress(objects: Objects) -> Iterator[Breach]:
    """Report a NetworkPolicy that allows all egress in a namespace that denies egress by default.

    NetworkPolicies only add: one rule without `to` and `ports` allows every connection, whatever other policies list.
    The check reads namespaces with the label `mpigen.dev/tenant`, and namespaces with a NetworkPolicy that selects all
    pods and allows no egress. It reports egress to every address, also in parts such as `0.0.0.0/1` and `128.0.0.0/1`,
    and to every namespace, on all ports or on all TCP ports.

    Source: api v0.34.2 networking/v1/types.go NetworkPolicyEgressRule
    """
    policies = [*objects.of("networking.k8s.io", "NetworkPolicy")]
    closed = {policy.namespace for policy in policies if _denies_egress(mapping(policy.body, "spec"))}
    closed |= {
        item.name for item in objects.of("", "Namespace") if TENANT_LABEL in mapping(item.body, "metadata", "labels")
    }
    for policy in policies:
        for number, rule in indexed_mappings(mapping(policy.body, "spec").get("egress")):
            ports = _describe_all_ports(rule)
            if policy.namespace in closed and ports and (reach := _reach(rule)):
                yield Breach(
                    ("spec", "egress", number),
                    f"this rule allows connections to {reach}, on {ports}",
                    f"the pods can send data there, although namespace `{policy.namespace}` denies egress by default",
                    "list the networks and ports that the pods need",
                    policy,
                )


def _denies_egress(spec: Mapping[str, Any]) -> bool:
    """Return True for a NetworkPolicy that selects all pods, and allows no egress."""
    return spec.get("podSelector") == {} and "Egress" in strings(spec.get("policyTypes")) and not spec.get("egress")


def _describe_all_ports(rule: Mapping[str, Any]) -> str:
    """Return `all ports` or `all TCP ports` if an egress rule allows them; else an empty string."""
    if not rule.get("ports"):
        return "all ports"
    for port in mappings(rule.get("ports")):
        is_whole = port.get("port") in (None, 0, 1) and ("port" not in port or port.get("endPort") == _LAST_PORT)
        if port.get("protocol", "TCP") == "TCP" and is_whole:
            return "all TCP ports"
    return ""


_LAST_PORT = 65535


def _reach(rule: Mapping[str, Any]) -> str:
    """Return the destinations of an egress rule if it has no limit; else an empty string."""
    if not rule.get("to"):
        return "every address"
    networks = []
    for peer in mappings(rule.get("to")):
        block = mapping(peer, "ipBlock")
        if peer.get("namespaceSelector") == {} and not peer.get("podSelector"):
            return "the pods of every namespace"
        if not block.get("except"):
            with suppress(ValueError):  # a schema rejects the text
                networks.append(ipaddress.ip_network(str(block.get("cidr")), strict=False))
    whole: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = [
        *ipaddress.collapse_addresses(item for item in networks if isinstance(item, ipaddress.IPv4Network)),
        *ipaddress.collapse_addresses(item for item in networks if isinstance(item, ipaddress.IPv6Network)),
    ]
    return next((f"every address (`{network}`)" for network in whole if not network.prefixlen), "")
