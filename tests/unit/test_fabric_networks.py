"""The parser of the annotation that requests networks agrees with Multus.

tests/fixtures/multus-networks.jsonl holds annotations, and the result of parsePodNetworkAnnotation of multus-cni
95a0932 for a pod in the namespace `own`: `namespace/name@interface` of each network, or null for an error.
"""

from __future__ import annotations

import json

import pytest

from generator.objects.pods import NetworkRequest, NetworkRequests, parse_networks
from tests.conftest import ROOT

ANSWERS = [json.loads(line) for line in (ROOT / "tests/fixtures/multus-networks.jsonl").read_text("utf-8").splitlines()]


def format_requests(parsed: NetworkRequests) -> list[str] | None:
    if parsed.error:
        return None
    return [f"{request.namespace or 'own'}/{request.name}@{request.interface}" for request in parsed.requests]


def test_multus_accepts_and_rejects_many_of_the_annotations() -> None:
    assert sum(answer is None for _, answer in ANSWERS) > 50
    assert sum(answer is not None for _, answer in ANSWERS) > 50


@pytest.mark.parametrize(("text", "answer"), ANSWERS, ids=range(len(ANSWERS)))
def test_the_parser_agrees_with_multus(text: str, answer: list[str] | None) -> None:
    assert format_requests(parse_networks(text)) == answer


def test_an_empty_annotation_requests_no_networks() -> None:
    """Multus does not parse an empty annotation (GetPodNetwork)."""
    assert parse_networks("") == NetworkRequests()


@pytest.mark.parametrize("text", ["roce,", "@net1", "team-cv/", '[{"name": ""}]'])
def test_a_request_without_a_name_is_an_error(text: str) -> None:
    """Multus requests the empty name, and never finds the network."""
    assert parse_networks(text).error


def test_a_duplicate_key_is_an_error() -> None:
    """Multus uses the last value."""
    assert parse_networks('[{"name": "a", "name": "b"}]').error


def test_a_request_is_formatted_as_namespace_and_name() -> None:
    assert [str(request) for request in parse_networks("team-cv/roce@net1,ib").requests] == ["team-cv/roce", "ib"]
    assert parse_networks("team-cv/roce@net1").requests == (NetworkRequest("roce", "team-cv", "net1"),)
