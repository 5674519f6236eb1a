"""Test the schemas of CNI plugins: each has its source, and all patterns have a description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from generator.schemas import cni
from generator.schemas.cni import DEFINITIONS, MEANINGS, OF_PLUGINS

SOURCE = re.compile(r"github\.com/[\w-]+/[\w-]+ (v\d+\.\d+\.\d+|[0-9a-f]{7} \(after v\d+\.\d+\.\d+\)) \S")
FILES = sorted(cni.FOLDER.glob("*/*.json"))
FORMS = {
    "address": (",192.168.0.1,fd00::1", "192.168.0,192.168.0.256,x"),
    "network": ("192.168.0.0/24,fd00::/64", "192.168.0.0,192.168.0.0/33,x/8"),
    "excluded": ("192.168.0.0/30,192.168.0.4,fd00::4", "192.168.0,"),
    "range": ("10.0.0.0/8,10.0.0.4-10.0.0.9/24,fd00::/64", "10.0.0.0,10.0.0.4-10.0.0.9,"),
    "mac": ("02:00:5e:10:00:01,02-00-5E-10-00-01", "02005e100001,02:00:5e:10:00"),
    "name": ("ib-tenant.a_1,A", "-a,a b"),
    "version": ("0.3.1,1.0.0", "1.0,v1.0.0"),
    "partition": ("0x6,0X7FFF", "6,0x,0x12345"),
    "vlan-protocol": ("802.1q,802.1Q,802.1ad,802.1AD", "802.1,8021q"),
    "pool-type": (",ippool,CIDRPool", "pool"),
    "resource-name": ("hca_shared-a.b,a", "-a,a/b"),
    "resource-name-without-hyphen": ("hca_shared.b,a", "a-b,_a"),
}


def keywords(node: Any, wanted: str) -> Iterator[Any]:
    if isinstance(node, dict):
        if isinstance(node.get(wanted), str):
            yield node[wanted]
        for child in node.values():
            yield from keywords(child, wanted)
    elif isinstance(node, list):
        for child in node:
            yield from keywords(child, wanted)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_schema_has_a_source_and_a_version_and_is_strict(file: Path) -> None:
    schema = json.loads(file.read_text("utf-8"))
    assert re.match(
        r"github\.com/[\w-]+/[\w-]+ (v\d+\.\d+\.\d+|[0-9a-f]{7} \(after v\d+\.\d+\.\d+\)) \S", schema["$comment"]
    )
    assert schema["additionalProperties"] is False or file.stem == "capabilities"
    assert {reference.removeprefix("#/definitions/") for reference in keywords(schema, "$ref")} <= DEFINITIONS.keys()
    jsonschema.Draft7Validator.check_schema({**schema, "definitions": DEFINITIONS})
    assert "pattern" not in schema.get("properties", {})
    assert list(keywords(schema, "pattern")) == []  # those have a name, and words, in cni_shapes


def test_every_plugin_of_a_fabric_has_a_schema() -> None:
    names = {(file.parent.name, file.stem) for file in FILES}
    plugins = "sriov ib-sriov rdma host-device macvlan ipvlan ipoib tuning sbr"
    assert {name for sort, name in names if sort == "plugin"} == set(plugins.split())
    addresses = "whereabouts nv-ipam host-local static dhcp"
    assert {name for sort, name in names if sort == "ipam"} == set(addresses.split())


def test_fields_of_all_plugins_are_defined_once() -> None:
    for file in (cni.FOLDER / "plugin").glob("*.json"):
        assert not OF_PLUGINS.keys() & json.loads(file.read_text("utf-8"))["properties"].keys()


def test_every_pattern_has_a_description() -> None:
    patterns = set(keywords({"definitions": DEFINITIONS, "properties": OF_PLUGINS}, "pattern"))
    assert patterns == MEANINGS.keys()


@pytest.mark.parametrize("name", FORMS)
def test_a_pattern_accepts_exactly_the_values_that_go_parses(name: str) -> None:
    judge = jsonschema.Draft7Validator(DEFINITIONS[name])
    accepted, refused = FORMS[name]
    assert [text for text in accepted.split(",") if not judge.is_valid(text)] == []
    assert [text for text in refused.split(",") if judge.is_valid(text)] == []
