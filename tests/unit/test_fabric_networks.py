"""The annotation by which pods ask for networks is read as Multus reads it.

tests/fixtures/multus-networks.jsonl holds texts, and what parsePodNetworkAnnotation of multus-cni 95a0932 made of each
for a pod in the namespace `own`: `namespace/name@interface` of each network, or nothing where it failed.
"""

from __future__ import annotations

import json

import pytest

from generator.objects.pods import NetworkRequest, NetworkRequests, parse_networks
from tests.conftest import ROOT

ANSWERS = [json.loads(line) for line in (ROOT / "tests/fixtures/multus-networks.jsonl").read_text("utf-8").splitlines()]


def told(found: NetworkRequests) -> list[str] | None:
    return (
        None if found.error else [f"{each.namespace or 'own'}/{each.name}@{each.interface}" for each in found.requests]
    )


def test_multus_gave_answers_of_both_kinds() -> None:
    assert sum(answer is None for _, answer in ANSWERS) > 50
    assert sum(answer is not None for _, answer in ANSWERS) > 50


@pytest.mark.parametrize(("text", "answer"), ANSWERS, ids=range(len(ANSWERS)))
def test_each_text_is_read_as_multus_reads_it(text: str, answer: list[str] | None) -> None:
    assert told(parse_networks(text)) == answer


def test_an_empty_annotation_asks_for_nothing() -> None:
    """Multus does not even parse it (GetPodNetwork)."""
    assert parse_networks("") == NetworkRequests()


@pytest.mark.parametrize("text", ["roce,", "@net1", "team-cv/", '[{"name": ""}]'])
def test_a_network_without_a_name_is_none(text: str) -> None:
    """Multus looks for it all the same, and never finds it."""
    assert parse_networks(text).error


def test_a_key_that_stands_there_twice_is_refused() -> None:
    """Multus takes the last one."""
    assert parse_networks('[{"name": "a", "name": "b"}]').error


def test_what_is_wanted_is_shown_as_it_is_written() -> None:
    assert [str(each) for each in parse_networks("team-cv/roce@net1,ib").requests] == ["team-cv/roce", "ib"]
    assert parse_networks("team-cv/roce@net1").requests == (NetworkRequest("roce", "team-cv", "net1"),)
