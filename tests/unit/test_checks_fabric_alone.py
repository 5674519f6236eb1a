"""Test rules over single fabric objects: valid objects pass, and odd values raise no exception."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from generator.checks.alone import judge
from generator.checks.fabric import cni
from generator.checks.finding import Breach, Severity
from generator.documents.messages import format_path
from generator.manifests import Manifest
from generator.schemas.cni import find_violations
from tests.cluster.differential.cases import read_seeds

ODD: tuple[Any, ...] = (None, True, 0, -1.5, "", "x", [], {}, [None], {"type": []}, {"type": "sriov"}, 10**30)
CHAIN = {
    "cniVersion": "1.0.0",
    "plugins": [
        {"type": "sriov", "vlan": 7, "vlanQoS": 3, "min_tx_rate": 1, "max_tx_rate": 2, "capabilities": {"mac": True}},
        {"type": "ib-sriov", "pkey": "0x6", "ipam": {"type": "whereabouts", "routes": [{"dst": "10.0.0.0/8"}]}},
    ],
}


KINDS = cni.KINDS | {"SriovNetworkPoolConfig"}
CHECKS = {"fabric/cni-json", "fabric/cni-config"}


def fabric_breaches(manifest: Manifest) -> list[Breach]:
    return [breach for _, breach in judge(manifest, {}) if breach.check.startswith("fabric/")]


def definition(config: str) -> Manifest:
    metadata = {"name": "a", "namespace": "b"}
    body = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": metadata}
    return Manifest({**body, "spec": {"config": config}}, "x.yaml")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(child, (*path, key))


def test_objects_of_the_api_server_corpus_have_no_errors() -> None:
    seeds = [body for body in read_seeds().values() if body["kind"] in KINDS]
    manifests = [Manifest(body, "x.yaml") for body in seeds]
    breaches = [breach for manifest in manifests for breach in fabric_breaches(manifest)]
    assert {breach.check for breach in breaches if breach.severity is Severity.ERROR} == set()
    assert {manifest.kind for manifest in manifests} == KINDS


@pytest.mark.parametrize("place", list(places(CHAIN)), ids=format_path)
def test_rules_accept_any_value_in_any_place(place: tuple[Any, ...]) -> None:
    for odd in ODD:
        holder: dict[str, Any] = {"": deepcopy(CHAIN)}
        node: Any = holder
        for step in ("", *place)[:-1]:
            node = node[step]
        node[("", *place)[-1]] = odd
        for breach in fabric_breaches(definition(json.dumps(holder[""]))):
            assert breach.check in CHECKS


def test_a_kind_of_another_group_is_ignored() -> None:
    body = {**definition("{,}").body, "apiVersion": "example.com/v1"}
    assert list(fabric_breaches(Manifest(body, "x.yaml"))) == []
    pool = {"apiVersion": "example.com/v1", "kind": "SriovNetworkPoolConfig", "spec": {}}
    assert list(fabric_breaches(Manifest(pool, "x.yaml"))) == []


def test_keys_match_in_any_case_as_in_go() -> None:
    config = {
        "TYPE": "whereabouts",
        "Range": "10.0.0.0/8",
        "routes": [{"DST": "10.1.0.0/16", "gw": None}],
        "gateway": None,
    }
    assert find_violations("ipam", "whereabouts", config) == []
    assert find_violations("ipam", "whereabouts", {"type": "whereabouts", "rangestart": "10.0.0.1"}) != []
    assert find_violations("plugin", "../ipam/dhcp", {}) is None
