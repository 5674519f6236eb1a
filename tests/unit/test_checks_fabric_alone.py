"""Objects of fabrics that are wrong on their own: each case in the right words, nothing of what only looks alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from generator.checks.fabric import cni
from generator.checks.fabric.operators import every_node
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


def found(manifest: Manifest) -> list[Breach]:
    of_pool = every_node(manifest)
    return [*(cni.breaches(manifest) if manifest.kind in cni.KINDS else ()), *of_pool]


def definition(config: str) -> Manifest:
    metadata = {"name": "a", "namespace": "b"}
    body = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": metadata}
    return Manifest({**body, "spec": {"config": config}}, "x.yaml")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(child, (*path, key))


def test_objects_that_the_api_server_takes_for_sound_are_sound() -> None:
    seeds = [body for body in read_seeds().values() if body["kind"] in KINDS]
    manifests = [Manifest(body, "x.yaml") for body in seeds]
    breaches = [breach for manifest in manifests for breach in found(manifest)]
    assert {breach.check for breach in breaches if breach.severity is Severity.ERROR} == set()
    assert {manifest.kind for manifest in manifests} == KINDS


@pytest.mark.parametrize("place", list(places(CHAIN)), ids=format_path)
def test_whatever_stands_anywhere_the_rules_do_not_fail(place: tuple[Any, ...]) -> None:
    for odd in ODD:
        holder: dict[str, Any] = {"": deepcopy(CHAIN)}
        node: Any = holder
        for step in ("", *place)[:-1]:
            node = node[step]
        node[("", *place)[-1]] = odd
        for breach in found(definition(json.dumps(holder[""]))):
            assert breach.check in CHECKS


def test_a_kind_of_another_group_is_left_alone() -> None:
    body = {**definition("{,}").body, "apiVersion": "example.com/v1"}
    assert list(found(Manifest(body, "x.yaml"))) == []
    pool = {"apiVersion": "example.com/v1", "kind": "SriovNetworkPoolConfig", "spec": {}}
    assert list(found(Manifest(pool, "x.yaml"))) == []


def test_keys_are_read_as_go_reads_them() -> None:
    said = {
        "TYPE": "whereabouts",
        "Range": "10.0.0.0/8",
        "routes": [{"DST": "10.1.0.0/16", "gw": None}],
        "gateway": None,
    }
    assert find_violations("ipam", "whereabouts", said) == []
    assert find_violations("ipam", "whereabouts", {"type": "whereabouts", "rangestart": "10.0.0.1"}) != []
    assert find_violations("plugin", "../ipam/dhcp", {}) is None
