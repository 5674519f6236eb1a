"""Patterns for paths: the globs of Argo CD, the patterns of Go's `path.Match`, and the ignore patterns of Flux."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

_SPECIAL = frozenset("*?[")


@cache
def compile_glob(pattern: str, separators: str = "") -> re.Pattern[str] | None:
    r"""Return the regular expression of a glob of gobwas/glob; None if the library rejects the pattern.

    Without separators, `*` matches `/` too.

    Args:
        pattern: the glob, with `*`, `**`, `?`, `[a-z]`, `[!a]`, `{a,b}` and `\`.
        separators: the characters that `*` and `?` do not match.

    Source: gobwas/glob v0.2.3 glob.go
    """
    one = f"[^{re.escape(separators)}]" if separators else "."
    parts: list[str] = []
    depth = 0
    tokens = _TOKENS.findall(pattern)
    for text in tokens:
        if text in ("{", "}"):
            depth += 1 if text == "{" else -1
            parts.append("(?:" if text == "{" else ")")
        elif text == "," and depth:
            parts.append("|")
        elif text == "**":
            parts.append(".*")
        else:
            parts.append(_translate(text, one, "!"))
    return _compile("".join(parts)) if not depth and "".join(tokens) == pattern else None


@cache
def compile_path_match(pattern: str, one: str = "[^/]") -> re.Pattern[str] | None:
    r"""Return the regular expression of a pattern of Go's `path.Match`; None for a malformed pattern.

    Args:
        pattern: the pattern, with `*`, `?`, `[a-z]`, `[^a]` and `\`.
        one: the expression of the character that `?` matches. Git matches `/` too.

    Source: golang/go path/match.go
    """
    tokens = _TOKENS.findall(pattern)
    parts = (f"{one}*" if text == "**" else _translate(text, one, "^") for text in tokens)
    return _compile("".join(parts)) if "".join(tokens) == pattern else None


_TOKENS = re.compile(r"\\.|\*\*|\[[^\]].*?\]|[^\\\[]", re.DOTALL)
"""An escaped character, `**`, a character class, or another character."""


def _translate(token: str, one: str, negation: str) -> str:
    """Return the expression of a token: an escaped character, `*`, `?`, a character class, or another character."""
    if token.startswith("\\"):
        return re.escape(token[1:])
    if token.startswith("[") and len(token) > 1:
        return _character_class(token[1:-1], negation)
    return {"*": f"{one}*", "?": one}.get(token) or re.escape(token)


def _character_class(content: str, negation: str) -> str:
    is_negated = content.startswith(negation)
    inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", content[1:] if is_negated else content)
    return f"[{'^' if is_negated else ''}{inside}]"


def _compile(expression: str) -> re.Pattern[str] | None:
    try:
        return re.compile(expression, re.DOTALL)
    except re.error:
        return None


def literal_start(pattern: str) -> str:
    """Return the folders of a pattern before the first one with a wildcard: `apps` for `apps/*/base`."""
    steps = pattern.strip("/").split("/")
    literal = next((number for number, step in enumerate(steps) if _SPECIAL & set(step)), len(steps))
    return "/".join(steps[:literal])


class Ignored:
    """Ignore patterns in the syntax of `.gitignore`. The last pattern that matches a file decides.

    Source: go-git v5.16.3 plumbing/format/gitignore/matcher.go
    """

    def __init__(self, text: str) -> None:
        """Read the patterns from their lines."""
        lines = (line.rstrip() for line in text.splitlines())
        self._patterns = [_ignore_pattern(line) for line in lines if line and not line.startswith("#")]

    def __contains__(self, file: str) -> bool:
        """Return True if the patterns exclude a file, or one of the folders above it."""
        folders = list(_folders_of(file))
        for is_excluded, only_folders, expression in reversed(self._patterns):
            if any(expression.fullmatch(path) for path in (folders if only_folders else (*folders, file))):
                return is_excluded
        return False


def _folders_of(file: str) -> Iterator[str]:
    steps = file.split("/")
    for number in range(1, len(steps)):
        yield "/".join(steps[:number])


def _ignore_pattern(line: str) -> tuple[bool, bool, re.Pattern[str]]:
    """Return (excludes, matches only folders, expression) of an ignore pattern."""
    is_excluded = not line.startswith("!")
    pattern = line if is_excluded else line[1:]
    only_folders, body = pattern.endswith("/"), pattern.strip("/")
    start = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    steps: Sequence[str] = body.split("/")
    parts: list[str] = []
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        if step == "**":
            parts.append(".*" if is_last else "(?:.*/)?")
        else:
            expression = compile_path_match(step)
            parts.append((expression.pattern if expression else re.escape(step)) + ("" if is_last else "/"))
    return is_excluded, only_folders, re.compile(start + "".join(parts), re.DOTALL)
