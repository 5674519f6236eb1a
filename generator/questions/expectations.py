"""Expected answers of `mpigen can-i` and `mpigen reach`, and the answers of the objects of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from generator.errors import suggest
from generator.facts.table import read_table
from generator.manifests import Manifest
from generator.questions.peers import Cluster, decide_all, find_peers
from generator.questions.ports import parse_port
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import (
    Access,
    AccessRequest,
    Requester,
    find_misspellings,
    parse_request,
    parse_requester,
    read_access,
    with_default_grants,
)
from generator.upstream.kubernetes.network_policy import Cause, Span

OTHER_TENANTS = "other-tenants"
"""The name of a peer: the ranks of all other tenants."""


class Answer(StrEnum):
    """The answer to a question.

    Attributes:
        YES: the request is allowed, or all pods of `from` reach all pods of `to`.
        NO: the request is denied, or no pod of `from` reaches a pod of `to`.
        UNKNOWN: the files do not show the answer.
        PARTLY: some pods of `from` reach some pods of `to`, and other pods do not. A file cannot expect this answer.
    """

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    PARTLY = "partly"


@dataclass(frozen=True, slots=True)
class AccessRow:
    """Requests with the same expected answer: each verb on each resource in each namespace.

    Attributes:
        index: the position in the list of the file.
        subject: the subject, as `mpigen can-i` reads it.
        groups: further groups of the subject.
        verbs: the verbs.
        resources: the resources as in a rule of a Role, such as `pods/log`, or URLs.
        name: the name of an object; empty for all objects.
        namespaces: the namespaces; empty for one request for all namespaces.
        outside: the namespaces that the row leaves out. The row then asks for each other Namespace in the files.
        expected: the expected answer.
    """

    index: int
    subject: str
    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    expected: Answer
    groups: tuple[str, ...] = ()
    name: str = ""
    namespaces: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReachRow:
    """Connections with the same expected answer: one for each peer in `to`.

    Attributes:
        index: the position in the list of the file.
        source: the peer that connects, as `mpigen reach` reads it.
        to: the peers that it connects to.
        port: the port, such as `53/UDP`; empty for any port.
        expected: the expected answer.
    """

    index: int
    source: str
    to: tuple[str, ...]
    expected: Answer
    port: str = ""


Row = AccessRow | ReachRow


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one question of a row in the file of expectations.

    Attributes:
        row: the row.
        question: the question, as a part of a sentence: `group:nlp create trainjobs in team-nlp`.
        answer: the answer of the files; None if the question names a peer that the files lack.
        reason: the binding or the policies that decide, or what the files lack.
        is_doubtful: True if a name in the question looks misspelt, so that the answer `no` may have this cause.
    """

    row: Row
    question: str
    answer: Answer | None
    reason: str
    is_doubtful: bool = False

    @property
    def is_false(self) -> bool:
        """True if the answer is not the expected one."""
        return self.answer is not self.row.expected


class World:
    """The objects of a cluster that answer the questions."""

    def __init__(self, manifests: Iterable[Manifest], targets: Mapping[str, str]) -> None:
        """Read the objects.

        Args:
            manifests: the objects.
            targets: component → minor version.
        """
        self.manifests, self.targets = list(manifests), targets

    @cached_property
    def catalog(self) -> Catalog:
        """The schemas."""
        return Catalog.bundled(self.targets)

    @cached_property
    def own(self) -> Access:
        """The permissions of the bindings in the files."""
        return read_access(self.manifests, self.targets.get("kubernetes", ""))

    @cached_property
    def access(self) -> Access:
        """The permissions of the bindings in the files, and of the bindings that every API server has."""
        return with_default_grants(self.own)

    @cached_property
    def cluster(self) -> Cluster:
        """The peers and network policies."""
        return Cluster.read(self.manifests)

    @cached_property
    def reached(self) -> Mapping[str, Sequence[tuple[str, Sequence[Span]]]]:
        """Namespace of a team → the namespaces of other teams that its ranks reach or may reach, with the ports."""
        return self.cluster.reached_teams()

    def answer(self, row: Row) -> Iterator[Answered]:
        """Yield the answers to the questions of a row."""
        return self._requests(row) if isinstance(row, AccessRow) else self._connections(row)

    def _requests(self, row: AccessRow) -> Iterator[Answered]:
        requester = parse_requester(row.subject, row.groups)
        for verb in row.verbs:
            for resource in row.resources:
                kind, _, subresource = ("", "", "") if resource.startswith("/") else resource.partition("/")
                target = f"{kind}/{row.name}" if kind and row.name else kind or resource
                doubts = [*find_misspellings(self.catalog, verb, target)]
                for namespace in self._namespaces(row, requester):
                    request = parse_request(self.catalog, verb, target, namespace, subresource)
                    yield self._request(row, requester, request, [*doubts, *self._doubt(row, namespace)])

    def _namespaces(self, row: AccessRow, requester: Requester) -> Sequence[str]:
        """Return the namespaces for which a row asks.

        For a row with `outside`, return the namespaces in which a binding names the requester, and one of the others:
        all others have the same answer.
        """
        if not row.outside:
            return row.namespaces or ("",)
        known = [name for name in self.cluster.namespaces if name not in row.outside]
        granted = {grant.namespace for grant in self.access.grants if grant.applies_to(requester)}
        different = [name for name in known if name in granted]
        return [*different, *[name for name in known if name not in granted][:1]]

    def _doubt(self, row: AccessRow, namespace: str) -> Iterator[str]:
        if namespace and not row.outside and namespace not in self.cluster.namespaces:
            suggestion = suggest(namespace, self.cluster.namespaces)
            if suggestion.endswith("?"):
                yield f"the files have no Namespace `{namespace}`; {suggestion}"

    def _request(self, row: AccessRow, requester: Requester, request: AccessRequest, doubts: Sequence[str]) -> Answered:
        by = self.access.allowed(requester, request)
        gaps = () if by else self.access.gaps(requester, request.namespace)
        answer = Answer.YES if by else Answer.UNKNOWN if gaps else Answer.NO
        reason = by or "; ".join(gaps) or f"no binding in the files allows this to `{row.subject}`"
        is_doubtful = answer is Answer.NO and bool(doubts)
        return Answered(
            row, format_request(row.subject, request), answer, "; ".join(doubts) if is_doubtful else reason, is_doubtful
        )

    def _connections(self, row: ReachRow) -> Iterator[Answered]:
        port = parse_port(row.port) if row.port else None
        on = f" on port {row.port}" if row.port else ""
        for to in row.to:
            question = f"`{row.source}` to `{to}`{on}"
            try:
                answer, reason = self._connect(row.source, to, port)
            except ValueError as error:
                yield Answered(row, question, None, str(error))
                continue
            yield Answered(row, question, answer, reason)

    def _connect(self, source: str, to: str, port: tuple[str, int] | None) -> tuple[Answer, str]:
        """Return the answer to a connection, and the reason.

        Raises:
            ValueError: the files lack a peer.
        """
        if OTHER_TENANTS in (source, to):
            name = to if source == OTHER_TENANTS else source
            return self._connect_teams(self._teams(name), port, is_to=source == OTHER_TENANTS)
        pairs = [
            (one, other)
            for one in find_peers(self.cluster, source, self.targets)
            for other in find_peers(self.cluster, to, self.targets)
        ]
        connections = decide_all(self.cluster.policies, pairs, port)
        return _combine([connection.spans for connection in connections])

    def _teams(self, text: str) -> Sequence[str]:
        """Return the namespaces of a tenant, or the namespace of a team.

        Raises:
            ValueError: the text names neither.
        """
        kind, colon, tenant = text.partition(":")
        namespaces = self.cluster.tenants.get(tenant, ()) if colon and kind == "tenant" else [text]
        if not namespaces or any(name not in self.cluster.teams for name in namespaces):
            known = (*(f"tenant:{other}" for other in self.cluster.tenants), *self.cluster.teams)
            message = f"`{text}` is neither a tenant nor the namespace of a team, so it has no {OTHER_TENANTS}"
            raise ValueError(f"{message}; {suggest(text, known)}")
        return namespaces

    def _connect_teams(
        self, namespaces: Sequence[str], port: tuple[str, int] | None, *, is_to: bool
    ) -> tuple[Answer, str]:
        """Return the answer for all other teams.

        Args:
            namespaces: the namespaces of one team.
            port: the port; None for all ports of TCP and UDP.
            is_to: True for connections from the other teams to `namespaces`; False for the reverse.
        """
        team = self.cluster.teams[namespaces[0]]
        others = [name for name, owner in self.cluster.teams.items() if owner != team]
        pairs = [(other, one) if is_to else (one, other) for one in namespaces for other in others]
        spans = [
            [span for name, ports in self.reached.get(source, ()) if name == to for span in _on(ports, port)]
            for source, to in pairs
        ]
        reached = [names for names, ports in zip(pairs, spans, strict=True) if ports]
        answer, reason = _combine(spans)
        if not others:
            return Answer.NO, "the files have no other tenant"
        if not reached:
            return Answer.NO, "the network policies of the tenants allow no connection between them"
        source, to = reached[0]
        return answer, f"`{source}` to `{to}`: {reason}"


def _on(spans: Iterable[Span], port: tuple[str, int] | None) -> Iterator[Span]:
    """Yield the spans with a port; all spans if the port is None."""
    for span in spans:
        if port is None or (span.protocol == port[0] and span.first <= port[1] <= span.last):
            yield span


def _combine(connections: Sequence[Sequence[Span]]) -> tuple[Answer, str]:
    """Return the answer for all pairs of pods, and the causes of the answer."""
    answers = [_answer(spans) for spans in connections]
    distinct = {*answers}
    if len(distinct) == 1:
        answer = answers[0]
    elif distinct == {Answer.YES, Answer.NO}:
        answer = Answer.PARTLY
    else:
        answer = Answer.UNKNOWN
    verdict = {Answer.YES: True, Answer.NO: False, Answer.UNKNOWN: None, Answer.PARTLY: True}[answer]
    causes = [
        cause
        for spans in connections
        for span in spans
        if span.verdict.allowed is verdict
        for cause in span.verdict.causes
    ]
    return answer, "; ".join([*dict.fromkeys(map(_describe, causes))][:3])


def _answer(spans: Sequence[Span]) -> Answer:
    verdicts = {span.verdict.allowed for span in spans}
    return Answer.YES if True in verdicts else Answer.UNKNOWN if None in verdicts else Answer.NO


def _describe(cause: Cause) -> str:
    return f"{cause.manifest.resource}: {cause.text}" if cause.manifest else cause.text


def format_request(subject: str, request: AccessRequest) -> str:
    """Format a request as a part of a sentence: `` `group:nlp` create pods/exec in `team-nlp` ``."""
    if request.url:
        return f"`{subject}` {request.verb} {request.url}"
    resource = f"{request.resource}.{request.group}".rstrip(".")
    name = f" {request.name}" if request.name else ""
    sub = f"/{request.subresource}" if request.subresource else ""
    where = f" in `{request.namespace}`" if request.namespace else " in all namespaces"
    return f"`{subject}` {request.verb} {resource}{sub}{name}{where}"


def first_rows(world: World) -> tuple[list[AccessRow], list[ReachRow]]:
    """Return the rows of a new file of expectations, with the present answers.

    generator/facts/expectations.yaml has the requests for each subject, and the peers for each tenant. The subjects are
    the subjects of the bindings in the files. A row has the requests of a subject in a namespace that have the same
    answer. Other rows have the answers for all other Namespaces of the files.
    """
    access = [row for subject in _subjects(world.own) for row in _access_rows(world, subject)]
    reach = [row for tenant in sorted(world.cluster.tenants) for row in _reach_rows(world, tenant)]
    return access, reach


def _subjects(access: Access) -> list[str]:
    """Return the subjects of the bindings in the files, without groups and users of Kubernetes itself."""
    names = {
        f"group:{subject.name}" if subject.is_group else _user(subject.name)
        for grant in access.grants
        for subject in grant.subjects
    }
    return sorted(name for name in names if not name.partition(":")[2].startswith("system:"))


def _user(name: str) -> str:
    prefix, _, account = name.partition("system:serviceaccount:")
    return f"user:{name}" if prefix or account.count(":") != 1 else f"serviceaccount:{account.replace(':', '/')}"


def _access_rows(world: World, subject: str) -> Iterator[AccessRow]:
    requester = parse_requester(subject)
    granted = sorted({grant.namespace for grant in world.own.grants if grant.applies_to(requester)} - {""})
    places: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((), ()), *(((name,), ()) for name in granted)]
    known = world.cluster.namespaces.keys()
    if granted and known - {*granted}:
        places[0] = ((), tuple(granted))  # which a cluster-wide grant would change too
    for namespaces, outside in places:
        resources: dict[tuple[Answer, str], list[str]] = {}
        for request in read_table("expectations")["requests"]:
            resource = request["resource"]
            for verb in request["verbs"]:
                row = AccessRow(0, subject, (verb,), (resource,), Answer.NO, (), "", namespaces, outside)
                distinct = {answered.answer for answered in world.answer(row)}
                if len(distinct) == 1 and (answer := distinct.pop()):
                    resources.setdefault((answer, verb), []).append(resource)
        verbs: dict[tuple[Answer, tuple[str, ...]], list[str]] = {}
        for (answer, verb), of_verb in resources.items():
            verbs.setdefault((answer, tuple(of_verb)), []).append(verb)
        for (answer, names), same in verbs.items():
            yield AccessRow(0, subject, tuple(same), names, answer, (), "", namespaces, outside)


def _reach_rows(world: World, tenant: str) -> Iterator[ReachRow]:
    source = f"tenant:{tenant}"
    answers: dict[Answer, list[str]] = {}
    for peer in read_table("expectations")["peers"]:
        to = peer.format(tenant=tenant)
        if to == OTHER_TENANTS and len({*world.cluster.teams.values()}) == 1:
            continue
        (answered,) = world.answer(ReachRow(0, source, (to,), Answer.NO))
        if answered.answer and answered.answer is not Answer.PARTLY:
            answers.setdefault(answered.answer, []).append(to)
    for answer, peers in answers.items():
        yield ReachRow(0, source, tuple(peers), answer)


def find_unasked(world: World, rows: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Return the subjects of bindings and the tenants, as `tenant:NAME`, that no row names."""
    subjects, peers = set[str](), set[str]()
    for row in rows:
        if isinstance(row, AccessRow):
            subjects |= {row.subject, *(f"group:{group}" for group in row.groups)}
        else:
            peers |= {row.source, *row.to}
    namespaces = {name: f"tenant:{tenant}" for tenant, names in world.cluster.tenants.items() for name in names}
    named = peers | {namespaces.get(peer.partition("/")[0], "") for peer in peers}
    return (
        [subject for subject in _subjects(world.own) if subject not in subjects],
        [f"tenant:{tenant}" for tenant in sorted(world.cluster.tenants) if f"tenant:{tenant}" not in named],
    )
