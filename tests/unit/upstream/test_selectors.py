"""Test the cost of selectors of devices, and the literals that the API server rejects, against recorded answers.

`tests/fixtures/selector-costs.jsonl` has the result of `CompileCELExpression` for each expression: a package of
dynamic-resource-allocation v0.34.2, with the functions of Kubernetes 1.33 for new expressions.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from generator.upstream.kubernetes.cel.checked import Checked, Node
from generator.upstream.kubernetes.cel.cost import Sizes, estimate_cost
from generator.upstream.kubernetes.cel.devices import find_selector_cost, find_selector_problem
from tests.conftest import ROOT

ANSWERS = [json.loads(line) for line in (ROOT / "tests/fixtures/selector-costs.jsonl").read_text("utf-8").splitlines()]
MINOR = 33
NO_SIZES = Sizes({}, frozenset(), {})


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["expression"][:60])
def test_a_selector_has_the_recorded_cost(answer: dict[str, Any]) -> None:
    problem = find_selector_problem(answer["expression"], MINOR)
    assert bool(problem) is ("error" in answer)
    if not problem:
        assert find_selector_cost(answer["expression"], MINOR) == answer["cost"]


def test_the_answers_have_selectors_on_both_sides_of_the_limit() -> None:
    costs = [answer.get("cost", 0) for answer in ANSWERS]
    assert min(sum(cost > 1_000_000 for cost in costs), sum(0 < cost <= 1_000_000 for cost in costs)) > 10


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[], [1]].size() == 2", ""),
        ("[1, 2].size() == 2", ""),
        ("'%s %d'.format(['a', 1]) == ''", ""),
        ("duration('1h30m1.5s') == duration('-1h') && duration('0') == duration('+5us')", ""),
        ("timestamp('2020-01-01T1:00:00Z') == timestamp('2020-01-01T00:00:00.5+01:00')", ""),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("[1, dyn('a')].size() == 2", "expected type 'int' but found 'dyn'"),
        ("[1, null].size() == 2", "expected type 'int' but found 'null'"),
        ("[1, 1u].size() == 2", "expected type 'int' but found 'uint'"),
        ("[[1], ['a']].size() == 2", "expected type 'list(int)' but found 'list(string)'"),
        ("[?optional.of(1), 'a'].size() == 2", "expected type 'int' but found 'string'"),
        (
            "[quantity('1'), semver('1.0.0')].size() == 2",
            "expected type 'kubernetes.Quantity' but found 'kubernetes.Semver'",
        ),
        ("[device.attributes['a'].l, 1].size() == 2", "expected type 'any' but found 'int'"),
        ("{'a': 1, 'b': 'x'}.size() == 2", "expected type 'int' but found 'string'"),
        ("{1: 'a', 'b': 'c'}.size() == 2", "expected type 'int' but found 'string'"),
        ("duration('1d') == duration('1h')", "invalid duration argument `1d`"),
        ("duration('inf') == duration('1h')", "invalid duration argument `inf`"),
        ("duration('3000000h') == duration('1h')", "invalid duration argument `3000000h`"),
        ("duration('') == duration('1h')", "invalid duration argument ``"),
        ("timestamp('2020') == timestamp(0)", "invalid timestamp argument `2020`"),
        ("timestamp('2020-02-30T00:00:00Z') == timestamp(0)", "invalid timestamp argument `2020-02-30T00:00:00Z`"),
        ("timestamp('2020-01-01t00:00:00z') == timestamp(0)", "invalid timestamp argument `2020-01-01t00:00:00z`"),
        ("matches('(', 'a')", "invalid regular expression `(`: missing )"),
        ("device.driver.find('(') == ''", "invalid regular expression `(`: missing )"),
        ("dyn(true)", "must evaluate to bool but got dyn"),
        ("device.attributes['a'].b", ""),
        ("device.attributes['a'].b.c", "must evaluate to bool but got dyn"),
    ],
)
def test_the_api_server_rejects_a_literal(text: str, problem: str) -> None:
    assert find_selector_problem(text, MINOR) == problem


def test_a_select_without_an_operand_costs_nothing() -> None:
    assert estimate_cost(Checked(Node(1, "select", "x"), {}, {}), NO_SIZES) == 0


def test_a_call_without_an_overload_costs_nothing() -> None:
    assert estimate_cost(Checked(Node(1, "call", "x"), {}, {}), NO_SIZES) == 0


def test_a_message_costs_its_creation() -> None:
    assert estimate_cost(Checked(Node(1, "struct", "x", children=(Node(2, "ident", "y"),)), {}, {}), NO_SIZES) == 41
