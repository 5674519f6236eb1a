"""Test that the table of parameters describes all parameters of admission rules."""

from __future__ import annotations

import json
import re

import jsonschema

from generator.facts.table import read_table
from tests.conftest import ROOT

RULES = sorted((ROOT / "generator/policies/admission/rules").glob("*.yaml"))
READ = re.compile(r"\$(?:list|text)\(([a-z-]+)\)")


def test_the_table_matches_its_schema() -> None:
    schema = json.loads((ROOT / "generator/effects/parameters.schema.json").read_text("utf-8"))
    jsonschema.validate(read_table("parameters", "generator.effects"), schema)


def test_the_table_has_every_parameter_that_a_rule_reads() -> None:
    read = {name for file in RULES for name in READ.findall(file.read_text("utf-8"))}
    table = read_table("parameters", "generator.effects")
    assert read
    assert read <= {row["name"] for part in table.values() for row in part}
