"""Test the CEL rules of CustomResourceDefinitions: their evaluation, messages and places."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from generator.checks.finding import Breach, Severity
from generator.checks.registry import get
from generator.checks.schema import REPORTED, schema_breaches
from generator.errors import EngineError
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.schemas.crd import node
from generator.schemas.embedded import Engine
from generator.schemas.json_schema import Schema
from generator.schemas.rules import VALIDATIONS, Rule, find_rules
from generator.upstream.kubernetes.cel.rules import compile_rule, find_place, is_accepted, message_of
from tests.checks import CASES, find
from tests.cluster.rules import broken_rules, create_engine, read_answers, read_objects

NOT_EVALUATED: dict[str, str] = {}
"""Bundled rule that mpigen cannot evaluate → the reason."""


@cache
def bundled() -> dict[str, Schema]:
    """Return the rules of all compiled schemas: expression → rule."""
    catalog = Catalog.bundled()
    texts = (catalog.text(entry) for entry in catalog.everything)
    return {rule["rule"]: rule for text in texts if VALIDATIONS in text for rule in rules_in(json.loads(text))}


def rules_in(value: Any) -> Iterator[Schema]:
    if isinstance(value, dict):
        rules = value.get(VALIDATIONS)
        yield from (rules if isinstance(rules, list) else ())
        value = list(value.values())
    for child in value if isinstance(value, list) else ():
        yield from rules_in(child)


def test_every_bundled_rule_is_evaluated_except_the_named_ones() -> None:
    expressions = {
        rule: compile_rule(rule, is_optional=row.get("optionalOldSelf", False)) for rule, row in bundled().items()
    }
    assert len(expressions) > 60
    assert {rule: compiled.lacking for rule, compiled in expressions.items() if compiled.lacking} == NOT_EVALUATED


def test_every_bundled_transition_rule_accepts_an_unchanged_object() -> None:
    values: dict[str, Any] = {"spec": {}, "levels": []}
    transitions = [rule for rule in bundled() if "oldSelf" in rule]
    assert len(transitions) > 10
    assert [rule for rule in transitions if not is_accepted(Rule((), rule, values, values))] == []


def test_rules_that_another_check_reports_exist_and_that_check_has_a_case() -> None:
    messages = {rule.get("message") for rule in bundled().values()}
    assert set(REPORTED) <= messages
    for message, check in REPORTED.items():
        assert get(check)
        rules = {rule for rule, row in bundled().items() if row.get("message") == message}
        bad = [case for case in CASES.values() if case.check == check and rules & broken(case.bad)]
        assert bad, f"no case of {check} breaks the rule"
        assert all(check in {finding.check for finding in case.find(case.bad)} for case in bad)


NEIGHBOURS = ("cert-manager", "kuberay", "lws", "mpi-operator", "prometheus-operator", "sealed-secrets")


def expressions() -> set[tuple[str, str, str]]:
    """Return (apiVersion, kind, expression) of each rule of the default versions that mpigen evaluates.

    Transition rules are left out, and rules of an object about its status, which a create request drops. So are the
    kinds of neighbours, of which mpigen emits and simulates no object.
    """
    catalog = Catalog.bundled()
    schemas = {
        key: catalog.load(entry)
        for key, entry in catalog.entries.items()
        if entry.path.partition("/")[0] not in NEIGHBOURS
    }
    rules = {(*key, rule["rule"].strip()) for key, schema in schemas.items() for rule in rules_in(schema)}
    return {row for row in rules if not re.search(r"\boldSelf\b|\bself\.status\b", row[2])}


def test_every_rule_has_an_accepted_and_a_rejected_object() -> None:
    answers, objects = read_answers(), read_objects()
    assert answers.keys() == objects.keys(), "run tests/cluster/test_rules.py with `--record`"
    accepted: set[tuple[str, str, str]] = set()
    rejected: set[tuple[str, str, str]] = set()
    for name, body in objects.items():
        identity, found = (body["apiVersion"], body["kind"]), broken_rules(body)
        if answers[name]:
            rejected |= {(*identity, rule.rule) for rule in found}
        else:
            accepted |= {(*identity, rule.rule) for rule in create_engine().rules(body)}
    assert len(expressions()) > 70
    assert expressions() == rejected
    assert expressions() <= accepted


def test_mpigen_and_the_server_find_the_same_broken_rules() -> None:
    answers = read_answers()
    for name, body in read_objects().items():
        messages = {rule.message or rule.rule for rule in broken_rules(body)}
        assert bool(messages) is bool(answers[name]), name
        assert all(message in answers[name] for message in messages), name
        assert answers[name].count("Invalid value:") == len(broken_rules(body)), name


def test_mpigen_reports_exactly_the_objects_that_the_server_rejects() -> None:
    answers = read_answers()
    for name, body in read_objects().items():
        findings = find(json.dumps(body), "case.yaml")
        checks = {finding.check for finding in findings if finding.severity is Severity.ERROR}
        about_rules = {check for check in checks if check.startswith("schema/") or check in REPORTED.values()}
        assert bool(about_rules) is bool(answers[name]), (name, checks)
        assert len(about_rules) <= 1, (name, about_rules)


def broken(text: str) -> set[str]:
    """Return the rules that the objects in a text break."""
    return {rule.rule for manifest in read(text, "case.yaml") for rule in broken_rules(manifest.body)}


def compiled(**fields: Any) -> Schema:
    return {**node({"type": "object", "properties": fields}), "definitions": {}}


def places(schema: Schema, **body: Any) -> dict[tuple[str | int, ...], bool]:
    return {rule.path: is_accepted(rule) for rule in find_rules(body, schema)}


INTEGER = {"type": "integer", VALIDATIONS: [{"rule": "self > 0"}]}


@pytest.mark.parametrize(
    ("node_of_a", "value", "expected"),
    [
        (INTEGER, 0, {("a",): False}),
        ({"type": "array", "items": INTEGER}, [1, 0], {("a", 0): True, ("a", 1): False}),
        ({"type": "object", "additionalProperties": INTEGER}, {"x": 0}, {("a", "x"): False}),
        ({"type": "object", "properties": {"b": INTEGER}}, {}, {}),
        ({"type": "object", "properties": {"b": {**INTEGER, "default": 0}}}, {}, {("a", "b"): False}),
        ({"type": "object", "properties": {"b": {**INTEGER, "default": 0}}}, {"b": None}, {("a", "b"): False}),
        ({**INTEGER, "nullable": True}, None, {}),
        ({**INTEGER, VALIDATIONS: [{"rule": "self > oldSelf"}]}, 1, {}),
        ({**INTEGER, VALIDATIONS: [{"rule": "oldSelf.hasValue()", "optionalOldSelf": True}]}, 1, {}),
        ({"x-kubernetes-int-or-string": True, VALIDATIONS: [{"rule": "self != '1'"}]}, "1", {("a",): False}),
        ({"x-kubernetes-int-or-string": True, VALIDATIONS: [{"rule": "self != '1'"}]}, 1, {("a",): True}),
        ({"type": "object", "properties": {"b": INTEGER}, VALIDATIONS: [{"rule": "self.b > 0"}]}, {}, {("a",): False}),
    ],
)
def test_a_rule_is_evaluated_at_every_value_of_its_node_with_defaults(
    node_of_a: Any, value: Any, expected: Any
) -> None:
    assert places(compiled(a=node_of_a), a=value) == expected


def test_a_rule_with_an_unknown_key_stops_the_compilation() -> None:
    with pytest.raises(EngineError, match="severity"):
        node({"type": "integer", VALIDATIONS: [{"rule": "self > 0", "severity": "low"}]})


def test_a_rule_with_an_escaped_field_name_is_not_evaluated() -> None:
    assert compile_rule("self.my__dash__field == 1").lacking
    assert compile_rule("self.__namespace__ == 'x'").lacking


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule((), "false", None, 1, message="static"), "static"),
        (Rule((), "false", None, 1, message="static", message_expression="'is ' + string(self)"), "is 1"),
        (Rule((), "false", None, 1, message="static", message_expression="self.absent"), "static"),
        (Rule((), "false", None, 1, message="static", message_expression="' '"), "static"),
        (Rule((), "false", None, 1, message="static", message_expression="'a\\nb'"), "static"),
        (Rule((), "false", None, 1), "`false`"),
        (Rule((), "self.a", None, {}, message="static"), "static (no such key: a)"),
    ],
)
def test_a_message_expression_takes_precedence_unless_its_result_is_unusable(rule: Rule, expected: str) -> None:
    assert message_of(rule) == expected


BODY = {"spec": {"b": {"c": 1}, "items": [1, 0]}}


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        (Rule(("spec",), "has(self.a) || self.b.c > 1", None, BODY["spec"]), ("spec", "b", "c"), 1),
        (Rule(("spec",), "has(self.a)", None, BODY["spec"]), ("spec",), BODY["spec"]),
        (Rule(("spec",), "self.b.c > 1", None, BODY["spec"], field_path=".b"), ("spec", "b"), {"c": 1}),
        (Rule(("spec", "items"), "self.all(x, x > 0)", None, [1, 0]), ("spec", "items", 1), 0),
        (Rule(("spec", "items"), "size(self) > 2", None, [1, 0]), ("spec", "items", 0), 1),
        (Rule(("spec", "items"), "!(1 in self && 0 in self)", None, [1, 0]), ("spec", "items"), [1, 0]),
        (Rule(("spec", "defaulted"), "self.x > 1", None, {"x": 1}), ("spec",), BODY["spec"]),
    ],
)
def test_the_place_of_a_broken_rule_is_a_field_of_the_object(rule: Rule, path: Any, value: Any) -> None:
    assert find_place(rule, BODY) == (path, value)


def breaches(body: dict[str, Any]) -> list[Breach]:
    return list(schema_breaches(Manifest(body, "object.yaml"), Engine(Catalog.bundled())))


def flavor(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "h100"}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": metadata, "spec": spec}


def test_a_rule_is_not_evaluated_on_a_value_that_the_schema_rejects() -> None:
    broken_rule = {"topologyName": "racks"}
    assert [breach.check for breach in breaches(flavor(**broken_rule))] == ["schema/rule"]
    assert [breach.check for breach in breaches(flavor(**broken_rule, nodeLabel={}))] == ["schema/unknown-field"]
    elsewhere = flavor(**broken_rule) | {"metadata": {"name": "h100", "labels": {"a": 1}}}
    assert [breach.check for breach in breaches(elsewhere)] == ["schema/wrong-type", "schema/rule"]


@pytest.mark.parametrize(("metadata", "count"), [({"name": "7b"}, 1), ({"generateName": "7b"}, 0), ({}, 0)])
def test_a_rule_about_the_name_needs_a_name(metadata: dict[str, str], count: int) -> None:
    text = json.dumps(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {**metadata, "namespace": "team-cv"},
            "spec": {"runtimeRef": {"name": "torch"}},
        }
    )
    assert [finding.check for finding in find(text, "job.yaml")].count("schema/rule") == count
