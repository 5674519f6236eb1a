"""mpigen and kube-network-policies have equal verdicts on connections (tests/update_network_verdicts.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from generator.upstream.kubernetes.network_policy import PROTOCOLS, Peer, Policies
from generator.upstream.kubernetes.selectors import Labels
from tests.network_scenes import Scene, drawn, recorded

RECORDED = recorded()
SCENES = [(drawn(line["seed"]), line["verdicts"]) for line in RECORDED]


def decided() -> Iterator[tuple[Scene, Peer, Peer, str, int, bool]]:
    for scene, verdicts in SCENES:
        for (source, to, protocol, port), verdict in zip(scene.packets, verdicts, strict=True):
            yield scene, scene.peers[source], scene.peers[to], protocol, port, verdict == "1"


def test_the_record_answers_the_drawn_scenes() -> None:
    """A changed drawing needs `python -m tests.update_network_verdicts`."""
    assert [line["question"] for line in RECORDED] == [scene.digest for scene, _ in SCENES]
    assert Counter(verdict for _, _, _, _, _, verdict in decided()).keys() == {True, False}
    assert sum(len(verdicts) for _, verdicts in SCENES) == 24_000


def test_mpigen_agrees_with_kube_network_policies() -> None:
    answers = Counter(
        (scene.known.decide(source, to, protocol, port).allowed, verdict)
        for scene, source, to, protocol, port, verdict in decided()
    )
    assert answers[True, False] + answers[False, True] == 0
    assert min(answers[True, True], answers[False, False]) > 6_000
    assert 0 < answers[None, True] + answers[None, False] < 500  # pods with policies for one direction, and a baseline


def test_an_answer_with_unknown_facts_never_contradicts_the_engine() -> None:
    lot, answers = Random(0), Counter[tuple[bool | None, bool]]()
    for scene, source, to, protocol, port, verdict in decided():
        known = scene.known.decide(_with_less_known(lot, source), _with_less_known(lot, to), protocol, port)
        answers[known.allowed, verdict] += 1
    assert answers[True, False] + answers[False, True] == 0
    assert min(answers.values()) > 1_000


def _with_less_known(lot: Random, peer: Peer) -> Peer:
    """Return a peer without its address, its labels, the labels of its namespace or its ports."""
    if not peer.namespace:  # an unknown address is not the address of a metadata service
        return peer if peer.address and peer.address.is_link_local else replace(peer, address=None)
    nothing = Labels({}, ("",))
    app = {key: value for key, value in peer.labels.values.items() if key == "app"}
    return lot.choice(
        (
            replace(peer, address=None),
            replace(peer, labels=nothing),
            replace(peer, labels=Labels(app, ("size", "tier", "app"))),
            replace(peer, namespace_labels=nothing),
            replace(peer, ports=None),
            replace(peer, is_host_network=True),
        )
    )


@pytest.mark.parametrize("seed", range(0, 300, 15))
def test_spans_have_the_verdict_of_their_ports(seed: int) -> None:
    scene, lot = drawn(seed), Random(seed)
    for source, to, _, _ in scene.packets[:20]:
        ends = scene.peers[source], scene.peers[to]
        spans = scene.known.spans(*ends)
        for protocol in PROTOCOLS:
            ports = [(span.first, span.last) for span in spans if span.protocol == protocol]
            assert [first for first, _ in ports] == [1, *(last + 1 for _, last in ports[:-1])]
            assert ports[-1][1] == 65_535
        for span in spans:
            for port in {span.first, span.last, lot.randint(span.first, span.last)}:
                assert scene.known.decide(*ends, span.protocol, port) == span.verdict


def test_an_empty_list_of_rules_allows_nothing() -> None:
    """The API server stores an empty list as absent."""
    scene = drawn(0)
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []}
    bodies = [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "deny", "namespace": name},
            "spec": spec,
        }
        for name in ("one", "two", "three")
    ]
    closed = Scene(scene.namespaces, scene.pods, bodies, scene.packets)
    pods = [peer for peer in closed.peers.values() if peer.namespace]
    assert not closed.known.decide(pods[0], pods[1], "TCP", 80).allowed
    assert Policies.read([]).decide(pods[0], pods[1], "TCP", 80).allowed
