"""Test how upstream definitions become strict JSON Schemas, one behaviour of the API server per test."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from generator.errors import EngineError
from generator.facts.versions import SUPPORTED
from generator.schemas import go_tool
from generator.schemas.crd import node, share_repeats
from generator.schemas.json_schema import observed_shape, write_schema
from generator.schemas.openapi import read_enums
from generator.schemas.patterns import BASE64, DURATION, QUANTITY, TIME, UUID, format_keywords

STRING = {"type": "string"}
CHOICE = {"type": "object", "properties": {"a": STRING, "b": STRING}}
ONE_EACH = [{"properties": {name: {}}, "required": [name]} for name in ("a", "b")]


def accepts(upstream: dict[str, Any], value: object) -> bool:
    return bool(jsonschema.Draft7Validator(node(upstream)).is_valid(value))


@pytest.mark.parametrize(
    ("upstream", "accepted", "refused"),
    [
        pytest.param({"type": "object", "properties": {"a": STRING}}, {"a": "x"}, {"b": "x"}, id="unknown field"),
        pytest.param({"type": "object"}, {}, {"a": 1}, id="an object without fields has none"),
        pytest.param({"type": "object", "additionalProperties": STRING}, {"a": "x"}, {"a": 1}, id="a map"),
        pytest.param({"type": "object", "additionalProperties": STRING}, {"a": None}, [], id="null in a map vanishes"),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": STRING}},
            {"b": {"c": 1}},
            {"a": 1},
            id="what preserves unknown fields still judges the known ones",
        ),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, [1, {"a": None}], ..., id="anything"),
        pytest.param({"type": "object", "properties": {"a": STRING}}, {"a": None}, None, id="null vanishes"),
        pytest.param(
            {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
            {"a": ""},
            {"a": None},
            id="null of a required field",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {**STRING, "default": "x"}}, "required": ["a"]},
            {"a": None},
            {"a": 1},
            id="a default makes up for null",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {**STRING, "default": "x"}}, "required": ["a"]},
            {},
            {"b": 1},
            id="a default makes up for absence",
        ),
        pytest.param({"type": "array", "items": STRING}, ["x"], [None], id="null in a list stays"),
        pytest.param({"type": "array", "items": {**STRING, "nullable": True}}, [None], [1], id="a nullable item"),
        pytest.param({**STRING, "enum": ["a"], "nullable": True}, None, "b", id="a nullable enum"),
        pytest.param(
            {"anyOf": [{"type": "integer"}, STRING], "pattern": "^[0-9]+$", "x-kubernetes-int-or-string": True},
            5,
            "a",
            id="int or string",
        ),
        pytest.param({"x-kubernetes-int-or-string": True}, "5", 0.5, id="a fraction is neither"),
        pytest.param({"type": "integer", "format": "int32"}, 2**31 - 1, 2**31, id="int32"),
        pytest.param({"type": "integer"}, -(2**63), -(2**63) - 1, id="an integer is int64"),
        pytest.param({"type": "integer", "format": "int32", "minimum": 1}, 1, 0, id="own minimum"),
        pytest.param({**STRING, "format": "date-time"}, "2026-01-31T12:00:00Z", "2026-01-31", id="date-time"),
        pytest.param({**STRING, "pattern": "^(?i)[a-z]+$"}, "aB", "1", id="(?i) in mid-pattern"),
        pytest.param({**STRING, "pattern": r"^\PC*$"}, "a é", "a\tb", id="no control characters"),
        pytest.param({**STRING, "format": "cidr"}, "10.20.0.0/16", "10.20.0.0", id="cidr"),
        pytest.param({**STRING, "format": "idn-hostname"}, "-", ..., id="a format that the server ignores"),
        pytest.param({**CHOICE, "oneOf": ONE_EACH}, {"a": "x"}, {"a": "x", "b": "y"}, id="exactly one of two fields"),
        pytest.param({**CHOICE, "anyOf": ONE_EACH}, {"a": "x", "b": "y"}, {}, id="at least one of two fields"),
        pytest.param(
            {**CHOICE, "oneOf": [{"properties": {"a": {"minLength": 2}}, "required": ["a"]}, {"required": ["b"]}]},
            {"a": "xx"},
            {"a": "x"},
            id="a field with a restriction, or another field",
        ),
        pytest.param({**STRING, "allOf": [{"maxLength": 3}, {"pattern": "^a"}]}, "ab", "abcd", id="all restrictions"),
        pytest.param({**CHOICE, "not": {"required": ["a", "b"]}}, {"a": "x"}, {"a": "x", "b": "y"}, id="not both"),
        pytest.param(
            {"type": "object", "properties": {"a": {**STRING, "default": "x"}}, "anyOf": [{"required": ["a"]}]},
            {},
            {"a": 1},
            id="a default makes up for absence in a choice",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}},
            {"spec": {}},
            id="an object inside an object",
        ),
        pytest.param({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, 1, 0, id="more than the minimum"),
        pytest.param({"type": "integer", "multipleOf": 8}, 16, 12, id="a multiple"),
        pytest.param({**STRING, "pattern": "^(?i)(abort|warn)?$"}, "Abort", "stop", id="(?i) before letters"),
    ],
)
def test_custom_resource_schemas_are_strict(upstream: dict[str, Any], accepted: object, refused: object) -> None:
    assert accepts(upstream, accepted)
    assert refused is ... or not accepts(upstream, refused)


@pytest.mark.parametrize(
    "upstream",
    [
        {"$ref": "#/definitions/a"},
        {**CHOICE, "anyOf": [{"dependencies": {}}]},
        {**STRING, "format": "email"},
        {**STRING, "pattern": "^(?i)[xy]$"},
    ],
)
def test_unsupported_schema_features_are_rejected(upstream: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match=r"support (it|them) in generator/schemas/\w+\.py"):
        node(upstream)


def test_descriptions_and_reasons_are_dropped_and_defaults_and_cel_rules_kept() -> None:
    rule = {"rule": "r", "message": "m", "fieldPath": ".f", "messageExpression": "e", "optionalOldSelf": True}
    upstream = {**STRING, "description": "d", "title": "t", "default": "x"}
    compiled = node({**upstream, "x-kubernetes-validations": [{**rule, "reason": "FieldValueInvalid"}]})
    assert compiled == {"type": "string", "default": "x", "x-kubernetes-validations": [rule]}


def test_only_the_structure_of_a_status_is_validated() -> None:
    upstream = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {**STRING, "enum": ["x"]}, "l": {"type": "array", "items": STRING, "minItems": 1}},
    }
    status = jsonschema.Draft7Validator(observed_shape(node(upstream)))
    accepted: list[Any] = [{}, None, {"a": "y"}, {"l": [None]}]
    refused: list[Any] = [{"b": 1}, {"a": 1}, {"l": {}}]
    assert all(status.is_valid(value) for value in accepted)
    assert not any(status.is_valid(value) for value in refused)


def test_a_reference_in_a_status_uses_the_observed_definition() -> None:
    assert observed_shape({"type": "object", "allOf": [{"$ref": "#/definitions/A"}]}) == {
        "$ref": "#/definitions/A.observed"
    }


def test_repeated_schemas_are_shared_from_the_outermost() -> None:
    inner = {"type": "object", "properties": {f"field{number}": STRING for number in range(9)}}
    outer = {"type": "object", "properties": {"inner": inner, "more": {"type": "array", "items": STRING}}}
    properties, definitions = share_repeats({"a": outer, "b": {"type": "array", "items": outer}, "c": STRING})
    assert properties == {
        "a": {"$ref": "#/definitions/a"},
        "b": {"type": "array", "items": {"$ref": "#/definitions/a"}},
        "c": STRING,
    }
    assert definitions == {"a": outer}


@pytest.mark.parametrize(
    ("pattern", "accepted", "refused"),
    [
        (QUANTITY, "1,-1,+.5,1.,500m,2Gi,1E,1e3,1E-3, 1 ", ",1 Gi,1K,1gi,m,1e,0x1,1e1.5"),
        (
            TIME,
            "2026-01-31T12:00:00Z,2026-01-31T12:00:00.5+01:00",
            ",2026-01-31,2026-13-01T12:00:00Z,2026-01-31 12:00:00Z",
        ),
        (DURATION, "5m,-1.5h,0,2 days,1Week,3 HR,10\u00b5s,.5s,about 2 min", ",5,m,5x,2 dd,h5,5 mb"),
        (
            UUID,
            "0d0f3a3e-6c3c-4b8e-8d7e-2f0d1c1f5b11,0D0F3A3E6C3C4B8E8D7E2F0D1C1F5B11",
            ",0d0f3a3e-6c3c-4b8e-8d7e-2f0d1c1f5b1",
        ),
        (BASE64, ",aGk=,aG\nk=\n,QQ==,aGVs", "a,aGk,hello world,====,QQ=,_-_-"),
    ],
)
def test_scalar_patterns_match_valid_values(pattern: str, accepted: str, refused: str) -> None:
    schema = jsonschema.Draft7Validator({"pattern": pattern})
    assert [text for text in accepted.split(",") if not schema.is_valid(text)] == []
    assert [text for text in refused.split(",") if schema.is_valid(text)] == []


def test_a_format_without_a_pattern_is_rejected() -> None:
    with pytest.raises(EngineError, match="does not know the format `email`"):
        format_keywords("string", "email")


@pytest.mark.parametrize(("kind", "name"), [("string", "color"), ("number", "float"), ("boolean", "flag")])
def test_a_format_that_the_api_server_ignores_adds_no_rule(kind: str, name: str) -> None:
    assert format_keywords(kind, name) == {}
    assert format_keywords("integer", "uint32") == format_keywords("integer", "")


def test_enums_come_from_the_generated_go_source(tmp_path: Path) -> None:
    source = tmp_path / "pkg/generated/openapi/zz_generated.openapi.go"
    source.parent.mkdir(parents=True)
    source.write_text(
        '\t\t"k8s.io/api/core/v1.A":   schema_A(ref),\n'
        "func schema_A(ref common.ReferenceCallback) common.OpenAPIDefinition {\n"
        '\t\t\t\t\t"one": {\n\t\t\t\t\t\t\tEnum:        []interface{}{"X", "Y"},\n'
        '\t\t\t\t\t"many": {\n\t\t\t\t\t\t\t\t\t\tEnum:    []interface{}{"Z"},\n'
    )
    name = "io.k8s.api.core.v1.A"
    assert read_enums(tmp_path) == {(name, "one"): ["X", "Y"], (name, "many"): ["Z"]}


def test_a_schema_is_written_with_one_line_per_definition() -> None:
    schema = {"type": "object", "definitions": {"b": STRING, "a": {"type": ["null", "string"]}}}
    text = write_schema(schema)
    assert text == '{"type":"object",\n"definitions":{\n"a":{"type":["null","string"]},\n"b":{"type":"string"}\n}}\n'
    assert json.loads(text) == schema


def test_a_module_with_another_checksum_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kueue = next(component for component in SUPPORTED if component.name == "kueue")
    module = {"Path": kueue.module, "Version": kueue.version, "Dir": "anywhere", "Sum": "h1:other"}
    go = tmp_path / "go"
    go.write_text(f"#!/bin/sh\necho '{json.dumps(module)}'\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(EngineError, match=r"sigs\.k8s\.io/kueue@v0\.19\.2 has the hash h1:other, not h1:mPNz"):
        go_tool.fetch_modules([kueue])
