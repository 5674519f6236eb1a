"""Change network policies and labels of two examples: a plan names exactly the changes that open or close connections.

The expected effects follow from the verdicts on all pairs of peers before and after each change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from generator.checks.objects import Change
from generator.effects.effect import Risk
from generator.effects.reach import find_reach_effects
from generator.manifests import Manifest
from generator.questions.peers import Cluster
from generator.upstream.kubernetes.network_policy import Peer, is_evaluated, is_network_policy
from tests.unit.test_network_mutations import Mutation, mutations, release

EXAMPLES = ("openshift-h100", "roce-h200")
PORTS = (
    ("TCP", 22),
    ("TCP", 53),
    ("UDP", 5353),
    ("TCP", 443),
    ("TCP", 28080),
    ("TCP", 33333),
    ("TCP", 33334),
    ("UDP", 33333),
)
Connection = tuple[str, str, str, int]


def outside(cluster: Cluster, other: Cluster) -> Iterator[Peer]:
    """Yield the peers that are no pods of teams: of namespaces and networks that policies of one side mention."""
    networks = {
        one for side in (cluster, other) for team in side.teams for one in side.policies.mentioned_networks(team)
    }
    names = {name for side in (cluster, other) for team in side.teams for name in side.named_peers(team)}
    dns, _ = cluster.dns_pods[cluster.is_openshift or other.is_openshift]
    yield from (dns, cluster.stranger, Peer("the Internet", is_internet=True))
    yield from (Peer(str(network), address=network) for network in sorted(networks, key=str))
    yield from (
        cluster.pods_of(name, f"pods of {name}") for name in sorted(names - cluster.teams.keys() - {dns.namespace})
    )


def connections(cluster: Cluster, other: Cluster) -> set[Connection]:
    """Return the connections that the policies certainly allow, with at least one end in a namespace of a team."""
    teams: list[tuple[str, Sequence[Peer]]] = []
    for name in cluster.teams:
        teams += [(f"ranks of {name}", cluster.ranks(name)), (f"pods of {name}", [cluster.bare_pods(name)])]
    others = [(peer.name, [peer]) for peer in outside(cluster, other)]
    pairs = [(one, two) for one in teams for two in (*teams, *others)] + [(one, two) for one in others for two in teams]
    return {
        (source, to, *port)
        for (source, some), (to, more) in pairs
        if _is_compared(source, to)
        for port in PORTS
        if any(cluster.policies.decide(one, two, *port).allowed is True for one in some for two in more)
    }


def _is_compared(source: str, to: str) -> bool:
    """Return True unless both ends are pods of one namespace and not both ranks, which a plan does not compare."""
    names = {source.rpartition(" ")[2], to.rpartition(" ")[2]}
    return len(names) > 1 or (source.startswith("ranks") and to.startswith("ranks"))


CASES = [(example, mutation) for example in EXAMPLES for mutation in mutations(example)]


@pytest.mark.parametrize(("example", "mutation"), CASES, ids=[f"{example}: {one.name}" for example, one in CASES])
def test_a_plan_names_opened_and_closed_connections(example: str, mutation: Mutation) -> None:
    old, new = release(example), list(mutation.manifests)
    effects = list(find_reach_effects(Change(old, new, {})))
    before, after = Cluster.read(old), Cluster.read(new)
    was, now = connections(before, after), connections(after, before)
    closing = [effect for effect in effects if "can no longer" in effect.text]
    opening = [effect for effect in effects if " can " in effect.text and effect not in closing]
    assert bool(opening) == bool(now - was), sorted(now - was)[:5]
    assert bool(closing) == bool(was - now), sorted(was - now)[:5]
    assert all(effect.risk is not Risk.LOW for effect in (*opening, *closing))
    assert effects or not touched(old, new)


def touched(old: Sequence[Manifest], new: Sequence[Manifest]) -> bool:
    """Return True if the change affects a policy that mpigen evaluates."""
    was, now = ([item.body for item in side if is_network_policy(item) and is_evaluated(item)] for side in (old, new))
    return was != now
