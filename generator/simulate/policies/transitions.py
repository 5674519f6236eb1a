"""Evaluation of transition rules: the CEL rules of CustomResourceDefinitions that read `self` and `oldSelf`."""

from __future__ import annotations

from functools import cache
from typing import Any

from generator.errors import NotModelledError, Problem
from generator.schemas.updates import Transition

_NAMES = ("self", "oldSelf")
_OPTIONAL = "oldSelf[?0]"
"""Reads an optional value from a list with at most one item: cel-expr-python cannot be given an optional value."""


def is_accepted(transition: Transition) -> bool:
    """Return True if the API server accepts the change. It also rejects a change whose rule ends in an error.

    Raises:
        NotModelledError: the expression cannot be evaluated here.
    """
    from cel_expr_python import cel  # type: ignore[import-untyped]

    old = transition.old
    if transition.is_optional:
        old = [] if old is None else [old]
    try:
        program = _compiled(transition.rule, is_optional=transition.is_optional)
        result = program.eval(data={"self": transition.new, "oldSelf": old})
    except RuntimeError as error:
        raise NotModelledError((Problem(f"the rule cannot be evaluated: {error}"),)) from None
    return bool(result.type() != cel.Type.ERROR and result.plain_value() is True)


@cache
def _compiled(rule: str, *, is_optional: bool) -> Any:
    from generator.simulate.policies.environment import evaluation_environment
    from generator.simulate.policies.syntax import tokenize

    if is_optional:
        read = [each for each in tokenize(rule) if each.text == "oldSelf"]
        for token in reversed(read):
            rule = rule[: token.start] + _OPTIONAL + rule[token.end :]
    return evaluation_environment(_NAMES).compile(rule)
