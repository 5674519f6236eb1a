"""Regular expressions: k8s.io/apiserver v0.34.2 pkg/cel/library/regex.go, matched by RE2 as in Go."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.simulate.policies.signatures import Function

_PIECE = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|(?P<group>\((?:\?P?<\w+>|(?!\?)))|.", re.DOTALL
)
"""What stands in a pattern: quoted text, an escape, a class, the start of a group that captures, or any letter."""


@cache
def _re2() -> Any:
    config = cel.NewEnvConfigFromYaml("name: regex\nextensions:\n- name: optional\n- name: regex\n")
    env = cel.NewEnv(config=config, variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
    return env.compile("regex.extractAll(text, pattern)")


def _matches(text: str, pattern: str) -> list[str]:
    """The parts of the text that match. RE2 would give what the first group captures, so nothing may capture."""
    groups = _PIECE.sub(lambda piece: "(?:" if piece["group"] else piece[0], pattern)
    found = _re2().eval(data={"text": text, "pattern": groups})
    if found.type() == cel.Type.ERROR:
        raise ValueError(str(found.value()))
    return [str(part) for part in found.plain_value()]


def _find(text: str, pattern: str) -> str:
    return next(iter(_matches(text, pattern)), "")


def _find_some(text: str, pattern: str, most: int) -> list[str]:
    found = _matches(text, pattern)
    return found if most < 0 else found[:most]


FUNCTIONS = (
    Function("find", ("string", "string"), "string", _find),
    Function("findAll", ("string", "string"), "list<string>", _matches),
    Function("findAll", ("string", "string", "int"), "list<string>", _find_some),
)
