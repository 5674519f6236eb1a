"""The peers of network policies in files: ranks and other pods of namespaces, and the DNS pods of the cluster."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from generator.errors import SimulationError, suggest
from generator.facts.names import DNS_PODS, DNS_PORT, METADATA_NAME, OPENSHIFT_DNS_PORTS, PARAMETER, TENANT_LABEL
from generator.manifests import Body, Manifest
from generator.objects.devices import SRIOV
from generator.objects.fields import integer, mapping, mappings, string, string_map, strings
from generator.objects.namespace import is_namespace
from generator.objects.pods import KINDS, RUNTIMES, PodTemplate, pod_templates
from generator.upstream.kubernetes.network_policy import EGRESS, INGRESS, PROTOCOLS, Peer, Policies, Port, Rule, Span
from generator.upstream.kubernetes.selectors import Labels, selector_requirements

_CONTROLLED = (
    *("jobset.sigs.k8s.io/", "batch.kubernetes.io/", "job-name", "controller-uid"),
    *("kueue.x-k8s.io/", "trainer.kubeflow.org/"),
)
"""Prefixes of labels that controllers set on the pods of a job, with values that differ by job."""


def _with_placeholders(node: object, names: Mapping[str, str], *, is_selector: bool = False) -> object:
    """Return the spec of a policy in which placeholders replace strings of namespace selectors.

    Args:
        node: the spec, or a part of it.
        names: string, such as the name of a namespace → its placeholder.
        is_selector: True if `node` is a part of a namespace selector.
    """
    if isinstance(node, dict):
        return {
            key: _with_placeholders(value, names, is_selector=is_selector or key in ("namespaces", "namespaceSelector"))
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [_with_placeholders(value, names, is_selector=is_selector) for value in node]
    return names.get(node, node) if is_selector and isinstance(node, str) else node


def _known_labels(namespace: str, manifest: Manifest | None) -> Labels:
    """Return the labels of a namespace. The API server sets the label with the name.

    Without a `manifest`, all other labels are unknown, except that the namespace has no label of mpigen.
    """
    name = {METADATA_NAME: namespace}
    return Labels({**string_map(manifest.labels), **name}) if manifest else Labels(name, ("",), (PARAMETER,))


class NamedPods(NamedTuple):
    """Pods of one namespace that a policy names.

    Attributes:
        namespace: the namespace.
        labels: the labels in `matchLabels` of the pod selector; empty if the policy selects all pods of the namespace,
            or if the selector has other requirements.
    """

    namespace: str
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the name in messages."""
        labels = ",".join(f"{key}={value}" for key, value in self.labels)
        return f"pods `{labels}` of `{self.namespace}`" if labels else f"pods of `{self.namespace}`"


def _labels_of_selector(selector: Body) -> tuple[tuple[str, str], ...]:
    """Return the labels that all selected pods have; empty if the selector has other requirements."""
    if mappings(selector.get("matchExpressions")):
        return ()
    return tuple(sorted(string_map(selector.get("matchLabels")).items()))


@dataclass(frozen=True)
class Cluster:
    """The policies, namespaces and pods of the files.

    Attributes:
        policies: the policies.
        namespaces: name → Namespace.
        runtimes: the runtimes.
        workloads: TrainJobs, Pods, and other objects with pods.
        queued: the namespaces with a LocalQueue.
        has_openshift_kinds: True if an object has an API of OpenShift. The SR-IOV operator also runs elsewhere.
    """

    policies: Policies
    namespaces: Mapping[str, Manifest]
    runtimes: Sequence[Manifest]
    workloads: Sequence[Manifest]
    queued: frozenset[str]
    has_openshift_kinds: bool = False

    @classmethod
    def read(cls, manifests: Iterable[Manifest]) -> Cluster:
        """Read the network policies, namespaces, LocalQueues, and objects with pods in manifests.

        Raises:
            SimulationError: two policies of the same name differ.
        """
        objects = list(manifests)
        return cls(
            Policies.read(objects),
            {manifest.name: manifest for manifest in objects if is_namespace(manifest)},
            [manifest for manifest in objects if manifest.kind in RUNTIMES],
            [manifest for manifest in objects if manifest.kind in KINDS - set(RUNTIMES)],
            frozenset(manifest.namespace for manifest in objects if manifest.kind == "LocalQueue"),
            any(manifest.group.endswith("openshift.io") and manifest.group != SRIOV for manifest in objects),
        )

    @cached_property
    def tenants(self) -> Mapping[str, Sequence[str]]:
        """Tenant → its namespaces."""
        tenants: dict[str, list[str]] = {}
        for name, manifest in self.namespaces.items():
            if tenant := string(manifest.labels.get(TENANT_LABEL)):
                tenants.setdefault(tenant, []).append(name)
        return tenants

    def labels_of(self, namespace: str) -> Labels:
        """Return the labels of a namespace. For a namespace outside the files, only the name is known."""
        if namespace not in self._labels:
            self._labels[namespace] = _known_labels(namespace, self.namespaces.get(namespace))
        return self._labels[namespace]

    @cached_property
    def _labels(self) -> dict[str, Labels]:
        return {}

    def pods_of(self, namespace: str, name: str = "") -> Peer:
        """Return a peer for any pod of a namespace. Its labels and named ports are unknown.

        Args:
            namespace: the namespace.
            name: the name of the peer in messages; by default the text names the namespace.
        """
        text = name or f"pods of `{namespace}`"
        return Peer(text, namespace, Labels({}, ("",)), self.labels_of(namespace), ports=None)

    def bare_pods(self, namespace: str) -> Peer:
        """Return a peer for the pods of a namespace that have no labels."""
        return Peer("pods without labels", namespace, Labels({}), self.labels_of(namespace))

    def runtimes_of(self, namespace: str) -> list[Manifest]:
        """Return the runtimes that jobs in a namespace can use."""
        return [
            manifest
            for manifest in self.runtimes
            if manifest.kind == "ClusterTrainingRuntime" or manifest.namespace == namespace
        ]

    def ranks(self, namespace: str, runtime: str = "") -> list[Peer]:
        """Return peers for the launcher and worker pods of jobs in a namespace; empty if it can use no runtime.

        Pods that no policy distinguishes are one peer.

        Args:
            namespace: the namespace.
            runtime: the name of a runtime, for its pods alone; empty for all runtimes that the namespace can use.
        """
        if (namespace, runtime) in self._ranks:
            return self._ranks[namespace, runtime]
        named: dict[object, tuple[list[str], PodTemplate]] = {}
        for manifest in self.runtimes_of(namespace):
            for pods in pod_templates(manifest) if runtime in ("", manifest.name) else ():
                if pods.role not in _INITIALIZERS:
                    names, _ = named.setdefault(self._signature(pods), ([], pods))
                    names += [manifest.name] if manifest.name not in names else []
        text = f"ranks of `{namespace}`"
        self._ranks[namespace, runtime] = [
            self._peer(pods, namespace, f"{text} ({', '.join(names)})" if len(named) > 1 else text)
            for names, pods in named.values()
        ]
        return self._ranks[namespace, runtime]

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], list[Peer]]:
        return {}

    def _peer(self, pods: PodTemplate, namespace: str, name: str) -> Peer:
        labels = Labels(string_map(mapping(pods.body, "metadata", "labels")), _CONTROLLED)
        return Peer(name, namespace, labels, self.labels_of(namespace), *_network_of(pods))

    def _signature(self, pods: PodTemplate) -> object:
        """Return a key that is equal for pods that no policy distinguishes."""
        key = id(pods.body)
        if key not in self._signatures:
            labels = Labels(string_map(mapping(pods.body, "metadata", "labels")), _CONTROLLED)
            matches = tuple(labels.match(selector) for selector in self._selectors)
            self._signatures[key] = (matches, *_network_of(pods))
        return self._signatures[key]

    @cached_property
    def _signatures(self) -> dict[int, object]:
        return {}

    @cached_property
    def _selectors(self) -> Sequence[Body]:
        """The pod selectors of all policies and rules, each once. Empty ones, which match every pod, are left out."""
        policies = self.policies.all()
        entries = [entry.pods for policy in policies for entry in policy.entries()]
        selectors = [selector for selector in (*(policy.pods for policy in policies), *entries) if selector]
        return list({json.dumps(selector, sort_keys=True, default=str): selector for selector in selectors}.values())

    @cached_property
    def is_openshift(self) -> bool:
        """True if an object is of OpenShift, a namespace has its labels, or a policy names the namespace of its DNS."""
        if self.has_openshift_kinds:
            return True
        keys = [str(key) for manifest in self.namespaces.values() for key in manifest.labels]
        named = (name for namespace in self.policies.standard for name in self.named_peers(namespace))
        return any(key.partition("/")[0].endswith("openshift.io") for key in keys) or DNS_PODS[1][0] in named

    def dns(self) -> tuple[Peer, int]:
        """Return the DNS pods of the cluster, and their port."""
        return self.dns_pods[self.is_openshift]

    @cached_property
    def dns_pods(self) -> Sequence[tuple[Peer, int]]:
        """The DNS pods of Kubernetes and of OpenShift, with their ports."""
        return [
            (
                Peer(
                    f"DNS (`{namespace}`)",
                    namespace,
                    Labels(labels, ("",)),
                    self.labels_of(namespace),
                    ports=None if port == DNS_PORT else tuple(Port(*one) for one in OPENSHIFT_DNS_PORTS),
                    mapped_port=None if port == DNS_PORT else (DNS_PORT, port),
                ),
                port,
            )
            for namespace, labels, port in DNS_PODS
        ]

    @cached_property
    def stranger(self) -> Peer:
        """A pod without labels, in a namespace without labels that is not in the files."""
        name = "pods of other namespaces"
        return Peer(name, "-", Labels({}), Labels({METADATA_NAME: "-"}))

    def named_peers(self, namespace: str, *directions: str) -> list[str]:
        """Return the other namespaces that the rules of the NetworkPolicies in a namespace name.

        Args:
            namespace: the namespace of the NetworkPolicies.
            directions: `ingress` or `egress`; by default the rules of both directions count.
        """
        return sorted({pods.namespace for pods in self.named_pods(namespace, *directions)})

    def named_pods(self, namespace: str, *directions: str) -> list[NamedPods]:
        """Return the pods of other namespaces that the rules of the NetworkPolicies in a namespace name.

        Args:
            namespace: the namespace of the NetworkPolicies.
            directions: `ingress` or `egress`; by default the rules of both directions count.
        """
        entries = [
            entry
            for policy in self.policies.standard.get(namespace, ())
            for direction in directions or (INGRESS, EGRESS)
            for rule in policy.rules.get(direction, ())
            for entry in rule.peers
        ]
        pods = {
            NamedPods(name, _labels_of_selector(entry.pods or {}))
            for entry in entries
            for requirement in selector_requirements(entry.namespaces or {})
            if requirement.get("key") == METADATA_NAME and requirement.get("operator") == "In"
            for name in strings(requirement.get("values"))
        }
        return sorted(one for one in pods if one.namespace != namespace)

    def peer_of(self, pods: NamedPods) -> Peer:
        """Return a peer for pods with these labels alone; without labels, for any pod of the namespace."""
        if not pods.labels:
            return self.pods_of(pods.namespace)
        return Peer(str(pods), pods.namespace, Labels(dict(pods.labels)), self.labels_of(pods.namespace), ports=None)

    def _rules(self, namespace: str, direction: str) -> Iterator[Rule]:
        for policy in self.policies.standard.get(namespace, ()):
            yield from policy.rules.get(direction, ())
        for policy in self.policies.of_admins(self.labels_of(namespace)):
            yield from (rule for rule in policy.rules.get(direction, ()) if rule.action != "Deny")

    @cached_property
    def teams(self) -> Mapping[str, str]:
        """Namespace → its team: its tenant, or without a tenant label the namespace itself if it has a LocalQueue."""
        teams = {name: tenant for tenant, names in self.tenants.items() for name in names}
        return {name: teams.get(name, name) for name in self.namespaces if name in teams or name in self.queued}

    def reached_teams(self) -> dict[str, list[tuple[str, list[Span]]]]:
        """Return the connections between teams: namespace → (namespace of another team, TCP and UDP ports).

        The ranks of the first namespace reach, or may reach, these ports of the ranks of the second. Namespaces with
        equal policies and labels are evaluated once.
        """
        reached: dict[str, list[tuple[str, list[Span]]]] = {name: [] for name in self.teams}
        decided: dict[object, list[Span]] = {}
        for to in self.teams:
            for source in self.sources(to):
                key = (self.shape(source), self.shape(to))
                if key not in decided:
                    pairs = [(one, other) for one in self.ends(source) for other in self.ends(to)]
                    spans = [span for pair in pairs for span in self.policies.spans(*pair, PROTOCOLS[:2])]
                    decided[key] = [span for span in spans if span.verdict.allowed is not False]
                if decided[key]:
                    reached[source].append((to, decided[key]))
        return reached

    @cached_property
    def known_namespaces(self) -> frozenset[str]:
        """The namespaces that the files define, and the namespaces of their policies, LocalQueues and pods."""
        named = {manifest.namespace for manifest in self.workloads} | {*self.policies.standard, *self.queued}
        return frozenset(named | self.namespaces.keys()) - {""}

    def ends(self, namespace: str) -> list[Peer]:
        """Return peers for the ranks of a namespace; if it can use no runtime, a peer for any pod of the namespace."""
        return self.ranks(namespace) or [self.pods_of(namespace)]

    def sources(self, to: str, *, is_certain: bool = False) -> Iterator[str]:
        """Yield the namespaces of other teams whose connections the ingress policies of namespace `to` may allow.

        Args:
            to: the namespace.
            is_certain: True to leave out rules with CIDRs, as no file has the addresses of pods.
        """
        return self._candidates(to, INGRESS, is_certain=is_certain)

    def targets(self, source: str) -> Iterator[str]:
        """Yield the namespaces of other teams to which the egress policies of a namespace may allow connections.

        Rules with CIDRs are left out, as no file has the addresses of pods.
        """
        return self._candidates(source, EGRESS, is_certain=True)

    def _candidates(self, namespace: str, direction: str, *, is_certain: bool) -> Iterator[str]:
        others = [name for name, team in self.teams.items() if team != self.teams.get(namespace)]
        if not all(self.policies.isolating(pods, direction) for pods in self.ends(namespace)):
            yield from others
            return
        rules = list(self._rules(namespace, direction))
        entries = [entry for rule in rules for entry in rule.peers]
        if any(not rule.peers for rule in rules) or (not is_certain and any(entry.network for entry in entries)):
            yield from others
            return
        matched = [self._matched(one.namespaces) for one in entries if not one.namespace and not one.network]
        names = frozenset[str]().union(*matched)
        yield from (name for name in others if name in names)

    def _matched(self, selector: Body | None) -> frozenset[str]:
        """Return the namespaces of teams that a selector matches, or may match."""
        key = json.dumps(selector, sort_keys=True, default=str)
        if key not in self._matches:
            labels = {name: self.labels_of(name) for name in self.teams}
            self._matches[key] = frozenset(name for name in labels if labels[name].match(selector or {}) is not False)
        return self._matches[key]

    @cached_property
    def _matches(self) -> dict[str, frozenset[str]]:
        return {}

    def shape(self, namespace: str) -> object:
        """Return a key that is equal for namespaces of teams whose policies differ only by the names of the teams.

        A namespace has its own key if it has runtimes of its own, if another team's policy names it, or if a policy
        that mpigen does not evaluate may apply.
        """
        if namespace not in self._shapes:
            names = self._own_names(namespace)
            others = any(manifest.namespace in ("", namespace) for manifest in self.policies.others)
            is_special = others or any(manifest.namespace == namespace for manifest in self.runtimes)
            labels = self.labels_of(namespace)
            policies = [*self.policies.standard.get(namespace, ()), *self.policies.of_admins(labels)]
            texts = [_with_placeholders(policy.manifest.body.get("spec"), names) for policy in policies]
            key = (
                namespace if is_special or names.keys() & self._named_by_others else "",
                *sorted(json.dumps(text, sort_keys=True, default=str) for text in texts),
                *sorted((key, names.get(value, value)) for key, value in labels.values.items() if key in self._keys),
            )
            self._shapes[namespace] = self._numbers.setdefault(key, len(self._numbers))
        return self._shapes[namespace]

    def _own_names(self, namespace: str) -> dict[str, str]:
        """Return a mapping of the names of a namespace and of its tenant to placeholders."""
        tenant = self.labels_of(namespace).values.get(TENANT_LABEL, namespace)
        return {tenant: "<tenant>", namespace: "<namespace>"}

    @cached_property
    def _named_by_others(self) -> frozenset[str]:
        """The strings in namespace selectors, except strings with which a team's policy selects the team itself."""
        named: set[str] = set()
        for policy in self.policies.all():
            selectors = [entry.namespaces for entry in policy.entries() if entry.namespaces]
            subject = mapping(policy.namespaces, "matchLabels").get(TENANT_LABEL)
            own = self._own_names(policy.manifest.namespace).keys() if policy.manifest.namespace else {subject}
            for requirement in (one for selector in selectors for one in selector_requirements(selector)):
                named.update(value for value in strings(requirement.get("values")) if value not in own)
        return frozenset(named)

    @cached_property
    def _keys(self) -> frozenset[object]:
        """The label keys in the namespace selectors of all policies."""
        policies = self.policies.all()
        selectors = [entry.namespaces for policy in policies for entry in policy.entries() if entry.namespaces]
        selectors += [policy.namespaces for policy in policies if policy.namespaces]
        return frozenset(
            requirement.get("key") for selector in selectors for requirement in selector_requirements(selector)
        )

    @cached_property
    def _shapes(self) -> dict[str, int]:
        return {}

    @cached_property
    def _numbers(self) -> dict[object, int]:
        return {}

    def workload(self, namespace: str, name: str, targets: Mapping[str, str]) -> list[Peer]:
        """Return peers for the pods of an object in a namespace; empty if no object with pods has the name.

        Args:
            namespace: the namespace.
            name: the name of a runtime, a TrainJob, a Pod, or another object with pods.
            targets: component → minor version, for the pods of a TrainJob.

        Raises:
            SimulationError: the runtime of the TrainJob is not among the manifests, or the API server or a controller
                rejects the TrainJob.
            NotModelledError: the pods of the TrainJob are unknown.
        """
        peers: list[Peer] = []
        for manifest in self.workloads:
            if (manifest.namespace, manifest.name) == (namespace, name):
                for pods in self._pods(manifest, targets):
                    text = f"`{namespace}/{name}`" if len(peers) == 0 else f"`{namespace}/{name}` ({pods.role})"
                    peers.append(self._peer(pods, namespace, text))
        return peers or self.ranks(namespace, name)

    def _pods(self, manifest: Manifest, targets: Mapping[str, str]) -> Iterator[PodTemplate]:
        """Yield the pod templates of a workload. Pods of a TrainJob that no policy distinguishes have one template.

        Raises:
            SimulationError: the runtime of a TrainJob is not among the manifests, or the API server or a controller
                rejects the TrainJob.
            NotModelledError: the pods of the TrainJob are unknown.
        """
        if manifest.kind != "TrainJob":
            yield from pod_templates(manifest)
            return
        from generator.upstream.compile import Fault, compile_job, find_runtime

        runtime = find_runtime(manifest, self.runtimes)
        if isinstance(runtime, Fault):
            raise SimulationError((runtime.problem,))
        seen = set()
        for number, body in compile_job(manifest, runtime, targets).pods:
            pods = PodTemplate(manifest, f"job {number}", (), body)
            if (signature := self._signature(pods)) not in seen:
                seen.add(signature)
                yield pods


_INITIALIZERS = ("dataset-initializer", "model-initializer")


def _network_of(pods: PodTemplate) -> tuple[tuple[Port, ...], None, bool]:
    """Return the named ports of pods, no address, and True if the pods use the host network."""
    containers = (*pods.containers, *pods.init_containers)
    ports = [port for container in containers for port in mappings(container.body.get("ports"))]
    named = sorted(
        Port(name, string(port.get("protocol"), "TCP"), integer(port.get("containerPort"), 0))
        for port in ports
        if (name := string(port.get("name")))
    )
    return tuple(named), None, pods.spec.get("hostNetwork") is True


INTERNET = Peer("the Internet", is_internet=True)
API_SERVER = Peer("the API server")
FORMS = "tenant:NAME, NAMESPACE, NAMESPACE/NAME, pods:NAMESPACE, dns, api-server, internet or ip:ADDRESS"
"""The names of peers that `find_peers` reads."""


def find_peers(cluster: Cluster, text: str, targets: Mapping[str, str]) -> list[Peer]:
    """Return the peers with a name of one of the `FORMS`.

    Args:
        cluster: the objects of the files.
        text: the name.
        targets: component → minor version, for the pods of TrainJobs.

    Raises:
        ValueError: the files have no peer of this name.
    """
    kind, colon, name = text.partition(":")
    match kind:
        case "dns":
            return [cluster.dns()[0]]
        case "api-server":
            return [API_SERVER]
        case "internet":
            return [INTERNET]
        case "ip" if colon:
            try:
                return [Peer(name, address=ipaddress.ip_network(name))]
            except ValueError:
                fix = "write an address such as ip:10.20.0.7, or a CIDR whose host bits are 0, such as ip:10.20.0.0/16"
                raise ValueError(f"`{name}` is no address; {fix}") from None
        case "pods" if colon:
            return [cluster.pods_of(name)]
        case "tenant" if colon:
            peers = [peer for namespace in cluster.tenants.get(name, ()) for peer in cluster.ends(namespace)]
            known: Iterable[str] = cluster.tenants
        case _:
            namespace, slash, name = text.partition("/")
            peers = cluster.workload(namespace, name, targets) if slash else []
            if not slash and namespace in cluster.known_namespaces:
                peers = cluster.ends(namespace)
            known = cluster.known_namespaces
            name = namespace
    if not peers:
        raise ValueError(f"the files have no peer `{text}`, and a peer is {FORMS}; {suggest(name, known)}")
    return peers


class Connection(NamedTuple):
    """The verdicts on connections from one peer to the ports of another."""

    source: Peer
    to: Peer
    spans: Sequence[Span]


def decide_all(
    policies: Policies, pairs: Iterable[tuple[Peer, Peer]], port: tuple[str, int] | None
) -> list[Connection]:
    """Return the verdicts for pairs of peers, on one port or on all ports."""
    return [
        Connection(
            source,
            to,
            [Span(port[0], port[1], port[1], policies.decide(source, to, *port))]
            if port
            else policies.spans(source, to, PROTOCOLS),
        )
        for source, to in pairs
    ]
