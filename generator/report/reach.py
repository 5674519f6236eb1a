"""Connections between pods, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from generator.checks.finding import listed
from generator.documents.messages import escape_control, format_path
from generator.questions.peers import API_SERVER, INTERNET, Cluster, Connection
from generator.questions.ports import format_ports, list_ports
from generator.report import table
from generator.upstream.kubernetes.network_policy import EGRESS, INGRESS, Cause, Peer, Span, Verdict

Locate = Callable[[Cause], str]
"""Returns `file:line` of the policy of a cause; empty if unknown."""
_WORDS = {True: "yes", False: "no", None: "unknown"}
_MATRIX = ("FROM", "TO", "PORTS", "BY")
_CONNECTED = ("TCP", "UDP")


def text(connections: Iterable[Connection], locate: Locate) -> Iterator[str]:
    """Yield the verdicts for each pair of peers: a line with the ports of each verdict, and its causes below."""
    for source, to, spans in connections:
        yield escape_control(f"{source.name} → {to.name}")
        groups = sorted(_by_verdict(spans), key=lambda group: (_ORDER.index(group[0].allowed), _count(group[1])))
        for number, (verdict, ports) in enumerate(groups, start=1):
            is_rest = verdict.allowed is False and 1 < len(groups) == number and len(list_ports(ports)) > 1
            yield escape_control(
                f"  {_WORDS[verdict.allowed]}: {'all other ports' if is_rest else format_ports(ports)}"
            )
            for cause in dict.fromkeys(_describe(cause, locate) for cause in verdict.causes):
                yield escape_control(f"    {cause}")


_ORDER = (True, None, False)


def _count(spans: Iterable[Span]) -> int:
    return sum(span.last - span.first + 1 for span in spans)


def _describe(cause: Cause, locate: Locate) -> str:
    place = locate(cause)
    policy = f"{cause.manifest.resource}: " if cause.manifest else ""
    return f"{f'{place}: ' if place else ''}{policy}{cause.text}"


def _by_verdict(spans: Iterable[Span]) -> list[tuple[Verdict, list[Span]]]:
    groups: list[tuple[Verdict, list[Span]]] = []
    for span in spans:
        same = next((ports for verdict, ports in groups if verdict == span.verdict), None)
        if same is None:
            groups.append((span.verdict, [span]))
        else:
            same.append(span)
    return groups


def facts(connections: Iterable[Connection], locate: Locate) -> list[dict[str, Any]]:
    """Return the verdicts on connections as JSON data. `reached` is null if the verdict is unknown."""
    return [
        {
            "from": connection.source.name,
            "to": connection.to.name,
            "ports": [
                {
                    "protocol": span.protocol,
                    "first": span.first,
                    "last": span.last,
                    "reached": span.verdict.allowed,
                    "because": [_cause_facts(cause, locate) for cause in span.verdict.causes],
                }
                for span in connection.spans
            ],
        }
        for connection in connections
    ]


def _cause_facts(cause: Cause, locate: Locate) -> Mapping[str, str]:
    return {
        "text": cause.text,
        "object": cause.manifest.resource if cause.manifest else "",
        "path": format_path(cause.path, root="$") if cause.manifest else "",
        "place": locate(cause),
    }


class Row(NamedTuple):
    """A row of `mpigen reach --matrix`: the ports on which one kind of peer reaches another.

    Attributes:
        source: the peer that connects.
        to: the peer that it reaches.
        ports: the ports that it reaches.
        by: the names of the policies that allow or deny these ports.
    """

    source: str
    to: str
    ports: str
    by: str


def matrix(cluster: Cluster) -> list[tuple[list[str], list[Row]]]:
    """Return the rows of each team's namespace. Namespaces with the same rows are one entry."""
    groups: dict[tuple[Row, ...], list[str]] = {}
    decided: dict[object, tuple[Row, ...]] = {}
    for namespace, reached in cluster.reached_teams().items():
        key = namespace if reached else cluster.shape(namespace)
        if key not in decided:
            decided[key] = tuple(_rows(cluster, namespace, reached))
        rows = decided[key]
        groups.setdefault(rows, []).append(namespace)
    return [(names, list(rows)) for rows, names in groups.items()]


def _rows(cluster: Cluster, namespace: str, reached: Sequence[tuple[str, Sequence[Span]]]) -> Iterator[Row]:
    ranks = cluster.ranks(namespace) or [cluster.pods_of(namespace)]
    yield _row(cluster, "ranks", "ranks", [(one, other) for one in ranks for other in ranks])
    other = next((name for name, team in cluster.teams.items() if team != cluster.teams[namespace]), "")
    if other and not reached:
        yield _row(cluster, "ranks", "other teams", [(one, pods) for one in ranks for pods in cluster.ends(other)])
    for spans in dict.fromkeys(_summary(spans) for _, spans in reached):
        names = [name for name, others in reached if _summary(others) == spans]
        yield Row("ranks", listed(names).replace("`", ""), *spans)
    yield _row(cluster, "ranks", "DNS", [(one, cluster.dns()[0]) for one in ranks])
    yield _row(cluster, "ranks", "Internet", [(one, INTERNET) for one in ranks])
    for network in cluster.policies.networks(ranks):
        yield _row(cluster, "ranks", str(network), [(one, Peer(str(network), address=network)) for one in ranks])
    dns = cluster.dns()[0]
    for pods in cluster.named_pods(namespace, EGRESS):
        if pods.namespace not in cluster.teams and dict(pods.labels) != dns.labels.values:
            yield _row(cluster, "ranks", str(pods).replace("`", ""), [(one, cluster.peer_of(pods)) for one in ranks])
    yield _row(cluster, "ranks", "API server", [(one, API_SERVER) for one in ranks])
    for source in cluster.named_peers(namespace, INGRESS):
        yield _row(cluster, source, "ranks", [(cluster.pods_of(source), one) for one in ranks])
    yield _row(cluster, "other namespaces", "ranks", [(cluster.stranger, one) for one in ranks])


def _row(cluster: Cluster, source: str, to: str, pairs: Iterable[tuple[Peer, Peer]]) -> Row:
    spans = [span for pair in pairs for span in cluster.policies.spans(*pair, _CONNECTED)]
    return Row(source, to, *_summary(spans))


def _summary(spans: Sequence[Span]) -> tuple[str, str]:
    """Return the ports that are reached, and the names of the policies that allow or deny them.

    If no port is certainly reached, the ports are `unknown: …` or `none`.
    """
    for allowed, word in ((True, ""), (None, "unknown: ")):
        reached = [span for span in spans if span.verdict.allowed is allowed]
        if reached:
            doubts = any(span.verdict.allowed is None for span in spans) and allowed
            unique = list({span[:3]: span for span in reached}.values())
            return f"{word}{format_ports(unique)}{', others unknown' if doubts else ''}", _names(reached)
    return "none", _names(spans)


def _names(spans: Iterable[Span]) -> str:
    names = dict.fromkeys(_name(cause) for span in spans for cause in span.verdict.causes)
    return ", ".join(name for name in names if name) or "no policy"


def _name(cause: Cause) -> str:
    if cause.manifest is None:
        return ""
    return cause.manifest.name if cause.manifest.namespace else cause.manifest.kind


def matrix_text(groups: Iterable[tuple[Sequence[str], Sequence[Row]]], width: int | None) -> Iterator[str]:
    """Yield a table of the connections for each group of namespaces."""
    for number, (names, rows) in enumerate(groups):
        if number:
            yield ""
        yield escape_control(f"{'namespace' if len(names) == 1 else 'namespaces'} {listed(names, 5)}:")
        yield from table.table(_MATRIX, rows, width)


def matrix_facts(groups: Iterable[tuple[Sequence[str], Sequence[Row]]]) -> list[dict[str, Any]]:
    """Return the matrix as JSON data."""
    return [
        {
            "namespaces": [*names],
            "connections": [{"from": row.source, "to": row.to, "ports": row.ports, "by": row.by} for row in rows],
        }
        for names, rows in groups
    ]
