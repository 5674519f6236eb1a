"""Evaluate the CEL rules of CustomResourceDefinitions, and find the fields that break them.

Source: apiextensions-apiserver v0.34.2 pkg/apiserver/schema/cel/validation.go Validator.validateExpressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from generator.documents.load import Path
from generator.documents.messages import parse_path
from generator.errors import NotModelledError
from generator.schemas.rules import Rule
from generator.upstream.kubernetes.cel.expression import Expression, Failed, add_program
from generator.upstream.kubernetes.cel.syntax import (
    OPTIONAL_READING,
    apply_changes,
    find_readings,
    rewrite_for_evaluation,
    tokenize,
)

_ESCAPED = re.compile(r"\b__[a-z]+__\b|__(?:dot|dash|slash|underscores)__")
"""A field name that a CustomResourceDefinition escapes: apiserver v0.34.2 pkg/cel/escaping.go."""


def is_accepted(rule: Rule) -> bool:
    """Return True if a CEL rule evaluates to true for its value; False if the result is false, or an error.

    Raises:
        NotModelledError: mpigen cannot evaluate the rule.
    """
    return _evaluate(rule, rule.rule) is True


def message_of(rule: Rule) -> str:
    """Return the message of a broken rule: the result of `messageExpression`, else `message`, else the expression.

    A `messageExpression` whose result is blank or has several lines is ignored. If the evaluation of the rule fails,
    its error follows in parentheses.

    Raises:
        NotModelledError: mpigen cannot evaluate the rule.
    """
    text = ""
    if rule.message_expression:
        with suppress(NotModelledError):
            result = _evaluate(rule, rule.message_expression)
            text = result.strip() if isinstance(result, str) else ""
    text = text if text and "\n" not in text else rule.message or f"`{' '.join(rule.rule.split())}`"
    outcome = _evaluate(rule, rule.rule)
    return f"{text} ({outcome.message})" if isinstance(outcome, Failed) else text


def _evaluate(rule: Rule, text: str) -> Any:
    """Return the result of an expression for `self` and `oldSelf` of a rule.

    An `oldSelf` of an optional type is a list of 0 or 1 values, because cel-expr-python accepts no optionals.
    """
    old = rule.old
    if rule.is_optional:
        old = [] if old is None else [old]
    return compile_rule(text, is_optional=rule.is_optional).evaluate({"self": rule.new, "oldSelf": old})


@cache
def compile_rule(text: str, *, is_optional: bool = False) -> Expression:
    """Compile the expression of a rule or of its message, whose types the API server has checked."""
    if _ESCAPED.search(text):
        return Expression(text, "", lacking="mpigen does not read escaped names of fields")
    rewritten = text
    if is_optional:
        reading = OPTIONAL_READING.replace("$", "oldSelf")
        olds = [(token.start, token.end, reading) for token in tokenize(text) if token.text == "oldSelf"]
        rewritten = apply_changes(text, olds)
    rewritten = rewrite_for_evaluation(rewritten, list(find_readings(rewritten)), {}, ())
    return add_program(Expression(text, "dyn"), rewritten, None)


def find_place(rule: Rule, body: object) -> tuple[Path, Any]:
    """Return the path and the value of the field that breaks a rule.

    The field is the first of these that `body` sets: the rule's `fieldPath`, an item that breaks the rule in a list
    without other items, a field that the rule reads, the value to which the rule applies, its nearest parent.
    """
    paths = [(*rule.path, *path) for path in (*_candidates(rule), ())]
    paths += [rule.path[:length] for length in range(len(rule.path), -1, -1)]  # defaults are not in the object
    return next((path, value) for path in paths for value in _values_at(body, path))


def _candidates(rule: Rule) -> Iterator[Path]:
    if rule.field_path:
        yield parse_path(rule.field_path)
    for index, item in enumerate(rule.new if isinstance(rule.new, list) else ()):
        if not is_accepted(replace(rule, new=[item])):
            yield (index,)
    yield from (reading.fields for reading in find_readings(rule.rule) if reading.root == "self" and reading.fields)


def _values_at(value: Any, path: Path) -> Iterator[Any]:
    """Yield the value at a path below `value`; nothing if the path does not exist."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return
    yield value
