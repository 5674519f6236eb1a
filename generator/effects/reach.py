"""The topic `reach`: connections over the pod network that an update allows or denies.

The topic compares verdicts on connections before and after the update, and not the policies. It evaluates only the
namespaces whose policies, labels or runtimes change. A connection with an unknown verdict counts as not allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, reduce
from itertools import zip_longest
from typing import NamedTuple

from generator.checks.objects import Change, ChangedObject
from generator.effects.effect import Effect, Risk
from generator.effects.places import Places, join
from generator.effects.subjects import conjugate, name_subjects
from generator.errors import SimulationError
from generator.facts.addressing import Network, denied_metadata
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings
from generator.objects.pods import RUNTIMES, pod_templates
from generator.questions.peers import Cluster, NamedPods
from generator.questions.ports import Range, allowed_ranges, format_ports, intersect, subtract, union
from generator.upstream.kubernetes.network_policy import (
    EGRESS,
    INGRESS,
    NETWORK_POLICIES,
    PROTOCOLS,
    Peer,
    is_evaluated,
    is_network_policy,
    subject_namespaces,
)
from generator.upstream.kubernetes.selectors import Labels

_TOPIC = "reach"
_LISTED = 3
_PART = 10
"""The largest number of affected namespaces for which a plan reads only a part of the policies."""
_TCP_AND_UDP = PROTOCOLS[:2]
_INTERNET = Peer("the Internet", is_internet=True)


class _Pods(StrEnum):
    """The pods of a namespace at one end of a connection."""

    RANKS = "ranks"
    SOME = "some ranks"
    OTHERS = "pods that run no ranks"
    ALL = "pods"


class _Way(StrEnum):
    """The direction of a connection, from the view of the namespace."""

    OUT = "out"
    IN = "in"
    INSIDE = "inside"


class _End(NamedTuple):
    """The other end of a connection.

    Attributes:
        kind: `teams`, `team`, `namespace`, `strangers`, `internet`, `metadata`, `network`, `dns` or `ranks`.
        name: the name in a sentence.
    """

    kind: str
    name: str


_Flow = tuple[_Pods, _Way, _End]
_Flows = Mapping[_Flow, tuple[Range, ...]]
_OTHER_TEAMS = _End("teams", "all other teams")
_STRANGERS = _End("strangers", "namespaces without a team")
_RANKS = _End("ranks", "each other")
_OPEN = ("teams", "team", "strangers", "internet", "metadata")
"""Ends whose connections open the network of a team to others, or lead out of the cluster."""
_VITAL = ("ranks", "dns")
"""Ends without which running jobs fail."""


def find_reach_effects(change: Change) -> Iterator[Effect]:
    """Yield the connections that an update allows or denies, with one effect for the namespaces with the same change.

    Further effects name the policies that change no connection of a team, unless the update adds or removes their
    namespace, and changed policies of kinds that mpigen does not evaluate. If two policies of one name differ, the only
    effect gives the reason.
    """
    touched = _touched(change)
    if not touched:
        return
    try:
        comparison = _Comparison(change, touched)
        effects = list(comparison.effects())
    except SimulationError as error:
        text = f"mpigen cannot compare the connections: {error.problems[0].message}"
        yield Effect(_TOPIC, Risk.MEDIUM, "connections", text, causes=tuple(touched))
        return
    yield from effects
    explained = {cause.identity for effect in effects for cause in effect.causes}
    places = Places.of(change)
    yield from _without_effect(
        [
            item
            for item in touched
            if item.identity not in explained
            and is_network_policy(item)
            and not (item.namespace and (item.namespace in places.added or item.namespace not in places.after))
            and comparison.selects_namespaces(item)
        ],
        {item.identity for item in change.all_removed},
    )


def _touched(change: Change) -> list[Manifest]:
    """Return the network policies that the update touches, and the objects whose changed labels policies select."""
    pairs = ChangedObject.between(change)
    policies = [
        pair.new
        for pair in pairs
        if is_network_policy(pair.new) and pair.old.body.get("spec") != pair.new.body.get("spec")
    ]
    policies += [item for item in (*change.all_added, *change.all_removed) if is_network_policy(item)]
    labels = {pair.new.identity: _changed_labels(pair) for pair in pairs}
    keys = {key for changed in labels.values() for key in changed}
    selecting = keys and {
        str(key)
        for side in (change.of_old, change.of_new)
        for group, kind in NETWORK_POLICIES
        for policy in side(group, kind)
        for key in _mentioned(policy.body.get("spec"), keys)
    }
    return [*policies, *(pair.new for pair in pairs if labels[pair.new.identity] & (selecting or set()))]


def _changed_labels(pair: ChangedObject) -> set[str]:
    """Return the keys of changed labels of a Namespace, or of the pods of a runtime; empty for other objects."""
    if _is_namespace(pair.new):
        sides: list[list[Mapping[str, object]]] = [[item.labels] for item in (pair.old, pair.new)]
    elif pair.new.kind in RUNTIMES:
        sides = [
            [mapping(pods.body, "metadata", "labels") for pods in pod_templates(item)] for item in (pair.old, pair.new)
        ]
    else:
        return set()
    was, now = sides
    if was == now:
        return set()
    both: Iterable[tuple[Mapping[str, object], Mapping[str, object]]] = zip_longest(was, now, fillvalue={})
    return {str(key) for one, other in both for key in {**one, **other} if one.get(key) != other.get(key)}


def _mentioned(node: object, names: AbstractSet[str]) -> Iterator[str]:
    """Yield the names that a part of a policy contains as a string or a key."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _mentioned(key, names)
            yield from _mentioned(value, names)
    elif isinstance(node, list):
        for item in node:
            yield from _mentioned(item, names)
    elif isinstance(node, str) and node in names:
        yield node


def _is_namespace(manifest: Manifest) -> bool:
    return (manifest.group, manifest.kind) == ("", "Namespace")


def _without_effect(policies: Sequence[Manifest], removed: AbstractSet[tuple[str, str, str, str]]) -> Iterator[Effect]:
    """Yield effects for policies that change no connection: MEDIUM for removed admin policies that deny, else LOW."""
    denying = [item for item in policies if item.identity in removed and _denies(item)]
    if denying:
        text = (
            f"{_names(denying)} {conjugate('is', len(denying))} removed, so only other policies deny these connections"
        )
        yield Effect(_TOPIC, Risk.MEDIUM, "connections", text, causes=tuple(denying))
    others = [item for item in policies if item not in denying]
    if others:
        text = f"{_names(others)} {conjugate('changes', len(others))} no connection of a team"
        yield Effect(_TOPIC, Risk.LOW, "connections", text, causes=tuple(others))


def _names(policies: Sequence[Manifest]) -> str:
    names = sorted(item.resource for item in policies)
    return join(f"`{name}`" for name in names) if len(names) <= _LISTED else f"{len(names)} network policies"


def _denies(policy: Manifest) -> bool:
    spec = mapping(policy.body, "spec")
    rules = (*mappings(spec.get(INGRESS)), *mappings(spec.get(EGRESS)))
    return not policy.namespace and any(rule.get("action") == "Deny" for rule in rules)


@dataclass(frozen=True)
class _Tree:
    """The network policies before or after an update.

    Attributes:
        of_kinds: returns the objects of an API group and some kinds.
        affected: the namespaces whose connections may change.
    """

    of_kinds: Callable[..., list[Manifest]]
    affected: AbstractSet[str]

    @cached_property
    def whole(self) -> Cluster:
        """The cluster with all policies."""
        return Cluster.read([*self._others, *self._policies])

    @cached_property
    def part(self) -> Cluster:
        """The cluster with the policies that may select pods of the affected namespaces; with all if these are many."""
        if len(self.affected) > _PART:
            return self.whole
        spaces = Cluster.read(self.of_kinds("", "Namespace"))
        labels = [spaces.labels_of(name) for name in self.affected]
        policies = (
            item
            for item in self._policies
            if (item.namespace in self.affected if item.namespace else _may_select(item, labels))
        )
        return Cluster.read([*self._others, *policies])

    @cached_property
    def _others(self) -> list[Manifest]:
        kinds = (("", ["Namespace"]), ("kueue.x-k8s.io", ["LocalQueue"]), ("trainer.kubeflow.org", RUNTIMES))
        return [item for group, names in kinds for item in self.of_kinds(group, *names)]

    @cached_property
    def _policies(self) -> list[Manifest]:
        return [item for group, kind in sorted(NETWORK_POLICIES) for item in self.of_kinds(group, kind)]


def _may_select(policy: Manifest, namespaces: Iterable[Labels]) -> bool:
    """Return True if a policy without a namespace may select pods of some namespaces, or if this is unknown."""
    if not is_evaluated(policy):
        return True
    selector = subject_namespaces(policy)
    return any(labels.match(selector) is not False for labels in namespaces)


@dataclass(frozen=True)
class _Sides:
    """The connections of one namespace, on one side of the update.

    Attributes:
        tree: the network policies of this side.
        namespace: the namespace.
        networks: the CIDRs to evaluate.
        named: direction → the pods of other namespaces to evaluate.
        dns: the DNS pods of the cluster.
    """

    tree: _Tree
    namespace: str
    networks: Sequence[Network]
    named: Mapping[str, Sequence[NamedPods]]
    dns: Peer

    @property
    def cluster(self) -> Cluster:
        return self.tree.part

    @cached_property
    def pods(self) -> Mapping[_Pods, Sequence[Peer]]:
        ranks = self.cluster.ranks(self.namespace)
        if not ranks:
            return {_Pods.ALL: [self.cluster.pods_of(self.namespace)]}
        return {_Pods.RANKS: ranks, _Pods.OTHERS: [self.cluster.bare_pods(self.namespace)]}

    def flows(self) -> _Flows:
        """Return the connections that are certainly allowed, with their ports."""
        flows: dict[_Flow, tuple[Range, ...]] = {}
        for kind, peers in self.pods.items():
            for end, others in self._ends_out():
                flows[kind, _Way.OUT, end] = self._ports((one, other) for one in peers for other in others)
            for end, others in self._ends_in():
                flows[kind, _Way.IN, end] = self._ports((other, one) for one in peers for other in others)
            flows.update(self._teams(kind, peers))
            if kind is _Pods.RANKS:
                pairs = [self._ports([(one, other)]) for one in peers for other in peers]
                flows[kind, _Way.INSIDE, _RANKS] = union(ports for ranges in pairs for ports in ranges)
                flows[_Pods.SOME, _Way.INSIDE, _RANKS] = reduce(intersect, pairs)
        return {flow: ports for flow, ports in flows.items() if ports}

    def _ports(self, pairs: Iterable[tuple[Peer, Peer]]) -> tuple[Range, ...]:
        policies = self.cluster.policies
        return allowed_ranges(span for pair in pairs for span in policies.spans(*pair, _TCP_AND_UDP))

    def _ends_out(self) -> Iterator[tuple[_End, list[Peer]]]:
        cluster = self.cluster
        yield _End("dns", "DNS"), [self.dns]
        yield _End("internet", "the Internet"), [_INTERNET]
        for network in denied_metadata():
            yield _End("metadata", f"the metadata service {network}"), [Peer(str(network), address=network)]
        for network in self.networks:
            yield _End("network", str(network)), [Peer(str(network), address=network)]
        for pods in self.named[EGRESS]:
            yield _end_of(pods), [cluster.peer_of(pods)]
        yield _STRANGERS, [cluster.stranger]

    def _ends_in(self) -> Iterator[tuple[_End, list[Peer]]]:
        for pods in self.named[INGRESS]:
            yield _end_of(pods), [self.cluster.peer_of(pods)]
        yield _STRANGERS, [self.cluster.stranger]
        yield _End("internet", "addresses outside the cluster"), [_INTERNET]

    def _teams(self, kind: _Pods, peers: Sequence[Peer]) -> Iterator[tuple[_Flow, tuple[Range, ...]]]:
        """Yield the connections to and from other teams.

        If there are many, teams that policies do not distinguish are evaluated once.
        """
        cluster, namespace = self.cluster, self.namespace
        others = {name for name, team in cluster.teams.items() if team != cluster.teams.get(namespace)}
        for way, names in (
            (_Way.OUT, list(cluster.targets(namespace))),
            (_Way.IN, list(cluster.sources(namespace, is_certain=True))),
        ):
            decided: dict[object, tuple[Range, ...]] = {}
            by_ports: dict[tuple[Range, ...], list[str]] = {}
            for name in names:
                whole = self.tree.whole
                key = name if len(names) <= _LISTED else whole.shape(name)
                if key not in decided:
                    pairs = [(one, other) for one in peers for other in whole.ends(name)]
                    pairs = pairs if way is _Way.OUT else [(other, one) for one, other in pairs]
                    spans = (span for pair in pairs for span in whole.policies.spans(*pair, _TCP_AND_UDP))
                    decided[key] = allowed_ranges(spans)
                if decided[key]:
                    by_ports.setdefault(decided[key], []).append(name)
            for ports, reached in by_ports.items():
                if len(reached) > 1 and others == set(reached):
                    yield (kind, way, _OTHER_TEAMS), ports
                else:
                    for name in reached:
                        yield (kind, way, _End("team", name)), ports


def _end_of(pods: NamedPods) -> _End:
    return _End("namespace", str(pods) if pods.labels else f"namespace `{pods.namespace}`")


def _are_dns(pods: NamedPods, dns: Peer) -> bool:
    return (pods.namespace, dict(pods.labels)) == (dns.namespace, dns.labels.values)


class _Delta(NamedTuple):
    """The connections of a namespace that open or close: (pods, direction, other end) → ports."""

    opened: tuple[tuple[_Flow, tuple[Range, ...]], ...]
    closed: tuple[tuple[_Flow, tuple[Range, ...]], ...]


class _Comparison:
    """The connections before and after an update."""

    def __init__(self, change: Change, touched: Sequence[Manifest]) -> None:
        """Find the namespaces whose connections may change."""
        self._change, self._touched = change, touched
        self._places = Places.of(change)
        affected = frozenset(self._affected)
        self._before, self._after = _Tree(change.of_old, affected), _Tree(change.of_new, affected)
        self._kinds = {item.identity: "added" for item in change.all_added}
        self._kinds |= {item.identity: "removed" for item in change.all_removed}

    def effects(self) -> Iterator[Effect]:
        """Yield the effects.

        Raises:
            SimulationError: two policies of the same kind and name differ.
        """
        groups: dict[tuple[tuple[_Line, ...], tuple[_Line, ...]], list[str]] = {}
        decided: dict[object, _Delta] = {}
        for namespace in self._affected:
            key = self._shape(namespace)
            delta = decided[key] if key in decided else self._compare(namespace)
            if not any(end.kind == "team" for flows in delta for (_, _, end), _ in flows):
                decided[key] = delta  # equal namespaces reach different teams
            lines = tuple(_lines(delta.opened, is_open=True)), tuple(_lines(delta.closed, is_open=False))
            groups.setdefault(lines, []).append(namespace)
        for (opened, closed), namespaces in groups.items():
            causes = self._causes([*namespaces, *self._repeating(opened, closed)])
            reasons = self._reasons(causes, namespaces)
            for line in opened:
                yield _effect(line, namespaces, self._places, causes, reasons, is_open=True)
            for line in closed:
                yield _effect(line, namespaces, self._places, causes, reasons, is_open=False)
        yield from self._not_evaluated()

    def selects_namespaces(self, policy: Manifest) -> bool:
        """Return True if a policy may select pods of a namespace that exists before and after the update."""
        both = self._places.before.keys() & self._places.after.keys()
        if policy.namespace:
            return policy.namespace in both
        return _may_select(policy, (self._before.part.labels_of(name) for name in both))

    def _shape(self, namespace: str) -> object:
        """Return a key of a namespace.

        The update opens and closes the same connections for namespaces with equal keys, except that connections with
        single teams can name other teams.
        """
        if len(self._affected) <= _LISTED or not {namespace} <= self._places.before.keys() & self._places.after.keys():
            return namespace
        return self._before.whole.shape(namespace), self._after.whole.shape(namespace)

    @cached_property
    def _affected(self) -> list[str]:
        """The namespaces after the update whose policies, labels or runtimes the update touches."""
        own = {item.namespace for item in self._touched if item.namespace}
        own |= {item.name for item in self._touched if _is_namespace(item)}
        if any(item.kind == "ClusterTrainingRuntime" for item in self._touched):
            own |= set(Cluster.read(self._change.of_new("", "Namespace")).teams)
        wide = [item for item in self._touched if not item.namespace and is_evaluated(item)]
        if wide:
            identities = {item.identity for item in wide}
            olds = [pair.old for pair in ChangedObject.between(self._change) if pair.old.identity in identities]
            spaces = Cluster.read(self._change.of_new("", "Namespace"))
            own |= {
                name
                for name in spaces.namespaces
                if any(_may_select(item, [spaces.labels_of(name)]) for item in (*wide, *olds))
            }
        return sorted(name for name in own if name in self._places.after)

    def _compare(self, namespace: str) -> _Delta:
        is_new = namespace in self._places.added
        sides = [self._after] if is_new else [self._before, self._after]
        dns, _ = self._before.part.dns_pods[self._before.part.is_openshift or self._after.part.is_openshift]
        networks = sorted(
            {network for side in sides for network in side.part.policies.mentioned_networks(namespace)},
            key=lambda network: (network.version, network),
        )
        named = {
            direction: sorted(
                {
                    pods
                    for side in sides
                    for pods in side.part.named_pods(namespace, direction)
                    if pods.namespace not in side.part.teams and not _are_dns(pods, dns)
                }
            )
            for direction in (INGRESS, EGRESS)
        }
        after = _Sides(self._after, namespace, networks, named, dns).flows()
        if is_new:
            return _Delta(tuple((flow, ports) for flow, ports in after.items() if _is_exposed(flow)), ())
        before = _Sides(self._before, namespace, networks, named, dns).flows()
        opened, closed = (
            tuple(row for row in rows if not self._is_repeated(*row[0][1:], namespace))
            for rows in (_more(before, after), _more(after, before))
        )
        return _Delta(opened, closed)

    def _repeating(self, *lines: Sequence[_Line]) -> list[str]:
        """Return the affected namespaces whose connections the lines name."""
        ends = [end for side in lines for line in side for end, _ in line.ends if line.way is _Way.IN]
        names = {end.name for end in ends if end.kind == "team"}
        return [one for one in self._affected if one in names or _OTHER_TEAMS in ends]

    def _is_repeated(self, way: _Way, end: _End, namespace: str) -> bool:
        """Return True if the effect of the other team names the connection from this namespace."""
        if way is not _Way.OUT or end.kind not in ("team", "teams"):
            return False
        teams = self._after.part.teams
        others = [end.name] if end.kind == "team" else [name for name in teams if teams[name] != teams.get(namespace)]
        return set(others) <= set(self._affected)

    def _causes(self, namespaces: Sequence[str]) -> tuple[Manifest, ...]:
        """Return the touched objects of these namespaces, and all touched policies and runtimes without a namespace."""
        known = set(namespaces)
        return tuple(
            item
            for item in self._touched
            if item.namespace in known
            or (_is_namespace(item) and item.name in known)
            or (not item.namespace and not _is_namespace(item))
        )

    def _reasons(self, causes: Sequence[Manifest], namespaces: Sequence[str]) -> tuple[str, ...]:
        if len(namespaces) > 1:
            texts = dict.fromkeys(f"{item.kind} {item.name} {self._verb(item)}" for item in causes)
            return tuple(texts) if len(texts) <= _LISTED else (f"{len(causes)} objects change",)
        texts = dict.fromkeys(f"{item.resource} {self._verb(item)}" for item in causes)
        return tuple(texts) if len(texts) <= _LISTED else (f"{len(texts)} objects change",)

    def _verb(self, item: Manifest) -> str:
        kind = self._kinds.get(item.identity)
        return f"is {kind}" if kind else "changes"

    def _not_evaluated(self) -> Iterator[Effect]:
        for item in self._touched:
            if is_network_policy(item) and not is_evaluated(item):
                text = f"{item.resource} {self._verb(item)}, and mpigen does not evaluate this kind"
                yield Effect(_TOPIC, Risk.MEDIUM, item.resource, text, causes=(item,))


def _is_exposed(flow: _Flow) -> bool:
    """Return True for connections from teams, strangers and the Internet, and for connections to other teams."""
    _, way, end = flow
    return end.kind in _OPEN and (way is _Way.IN or end.kind in ("teams", "team"))


def _more(before: _Flows, after: _Flows) -> Iterator[tuple[_Flow, tuple[Range, ...]]]:
    """Yield the ports that `after` certainly allows, and `before` does not."""
    for flow, ports in after.items():
        pods, way, end = flow
        known = before.get(flow, ())
        if end.kind == "team" and not known:
            known = before.get((pods, way, _OTHER_TEAMS), ())
        if more := subtract(ports, known):
            yield flow, more


class _Line(NamedTuple):
    """A sentence about connections: the risk, the pods with their direction, and the other ends with the ports."""

    risk: Risk
    way: _Way
    pods: _Pods
    ends: tuple[tuple[_End, tuple[Range, ...]], ...]


def _lines(flows: Iterable[tuple[_Flow, tuple[Range, ...]]], *, is_open: bool) -> Iterator[_Line]:
    """Yield a line for each direction and kind of pods. Ranks and other pods with the same change are one line."""
    grouped: dict[tuple[_Way, _Pods], list[tuple[_End, tuple[Range, ...]]]] = {}
    for (pods, way, end), ports in flows:
        grouped.setdefault((way, pods), []).append((end, ports))
    lines = {key: tuple(_summarized(ends)) for key, ends in grouped.items()}
    for way in _Way:
        ranks, others = (lines.get((way, pods)) for pods in (_Pods.RANKS, _Pods.OTHERS))
        if ranks and ranks == others:
            lines[way, _Pods.ALL] = ranks
            del lines[way, _Pods.RANKS], lines[way, _Pods.OTHERS]
    if (_Way.INSIDE, _Pods.RANKS) in lines:
        lines.pop((_Way.INSIDE, _Pods.SOME), None)
    for (way, pods), summary in lines.items():
        kinds = {end.kind for end, _ in summary}
        is_high = kinds & set(_OPEN) if is_open else (kinds & set(_VITAL) and pods is not _Pods.OTHERS)
        yield _Line(Risk.HIGH if is_high else Risk.MEDIUM, way, pods, summary)


def _summarized(ends: Sequence[tuple[_End, tuple[Range, ...]]]) -> Iterator[tuple[_End, tuple[Range, ...]]]:
    """Yield the ends, without each end that a wider end, such as the Internet, includes with all its ports."""
    wider = {end.kind: ports for end, ports in ends if end.kind in ("internet", "strangers")}
    for end, ports in ends:
        wide = wider.get(_WIDER.get(end.kind, ""))
        if wide is None or subtract(ports, wide):
            yield end, ports


_WIDER = {"network": "internet", "metadata": "internet", "namespace": "strangers", "dns": "strangers"}


def _effect(
    line: _Line,
    namespaces: Sequence[str],
    places: Places,
    causes: tuple[Manifest, ...],
    reasons: tuple[str, ...],
    *,
    is_open: bool,
) -> Effect:
    place = places.describe(namespaces)
    text, lines = _sentence(line, place, places, is_open=is_open)
    data = [f"{end.name}: {format_ports(ports)}" for end, ports in line.ends]
    before, after = ([], data) if is_open else (data, [])
    return Effect(_TOPIC, line.risk, place.replace("`", ""), text, (*lines, *reasons), causes, before, after)


def _sentence(line: _Line, place: str, places: Places, *, is_open: bool) -> tuple[str, tuple[str, ...]]:
    can = "can" if is_open else "can no longer"
    pods = f"{line.pods if line.pods in (_Pods.RANKS, _Pods.SOME) else _Pods.ALL} of {place}"
    pods += " that run no ranks" if line.pods is _Pods.OTHERS else ""
    if line.way is _Way.INSIDE:
        ports = format_ports(line.ends[0][1])
        return f"{pods} {can} connect to each other on {ports}", ()
    by_ports: dict[str, list[_End]] = {}
    for end, ranges in line.ends:
        by_ports.setdefault(format_ports(ranges), []).append(end)
    parts = [(_name_ends(ends, places), ports) for ports, ends in by_ports.items()]
    if line.way is _Way.OUT:
        texts = [f"{name} on {ports}" for name, ports in parts]
        if len(line.ends) > _LISTED + 1:
            return f"{pods} {can} connect to {len(line.ends)} more destinations", tuple(texts)
        return f"{pods} {can} connect to {', and '.join(texts)}", ()
    texts = [f"{name} {can} connect to {pods} on {ports}" for name, ports in parts]
    if len(texts) == 1:
        return texts[0], ()
    return f"{len(line.ends)} peers {can} connect to {pods}", tuple(texts)


def _name_ends(ends: Sequence[_End], places: Places) -> str:
    teams = [end.name for end in ends if end.kind == "team"]
    nouns: dict[str, list[str]] = {}
    for noun, name in map(places.name, teams):
        nouns.setdefault(noun, []).append(name)
    others = [end.name for end in ends if end.kind != "team"]
    return join([*(name_subjects(noun, names) for noun, names in nouns.items()), *others])
