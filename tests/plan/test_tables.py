"""Test that the tables of effects match their schemas."""

from __future__ import annotations

import json

import jsonschema
import pytest

from generator.documents.messages import parse_path
from generator.effects.words import find_risk, name_field
from generator.facts.table import read_table
from tests.conftest import ROOT


@pytest.mark.parametrize("name", ["gitops_settings", "projects", "words"])
def test_a_table_matches_its_schema(name: str) -> None:
    schema = json.loads((ROOT / f"generator/effects/{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(read_table(name, "generator.effects"), schema)


@pytest.mark.parametrize(
    ("kind", "field", "words", "risk"),
    [
        ("AppProject", "spec.description", "its description", "low"),
        ("PriorityClass", "description", "its description", "low"),
        (
            "CustomResourceDefinition",
            "spec.versions[0].schema.properties.a.description",
            "descriptions of fields",
            "low",
        ),
        ("ConfigMap", 'metadata.annotations["example.com/a"]', "the annotation `example.com/a`", ""),
        ("ConfigMap", 'data["a.yaml"]', "the text of `a.yaml`", ""),
        ("Widget", "spec.size", "the field `size`", ""),
        ("runtime", "volumes.shared.emptyDir.sizeLimit", "the size of volume `shared`", ""),
    ],
)
def test_a_field_has_words_and_a_risk(kind: str, field: str, words: str, risk: str) -> None:
    path = parse_path(field)
    assert (name_field(kind, path), find_risk(kind, path)) == (words, risk)
