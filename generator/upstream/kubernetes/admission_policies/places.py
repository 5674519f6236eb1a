"""Find the field of an object that a decision of an admission policy is about."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from generator.documents.load import Path
from generator.documents.messages import parse_path
from generator.errors import SimulationError
from generator.manifests import detach
from generator.objects.fields import mappings, string
from generator.upstream.kubernetes.admission_policies.judge import Decision, judge
from generator.upstream.kubernetes.admission_policies.policy import Policy, PolicyCluster
from generator.upstream.kubernetes.admission_policies.request import Request
from generator.upstream.kubernetes.cel.syntax import find_readings

_PATH = re.compile(r"(?<![\w./-])(?:metadata|spec)(?:\.\w+|\[[^\]\s]+\])+")
_SET = re.compile(r" sets (\w+(?:, \w+)*)")
_SHORTEST = 3
"""The fewest characters of a value by which a message names a field."""
_MOST = 50
"""The most fields without which mpigen evaluates a policy again."""


def find_place(policy: Policy, decision: Decision, request: Request, cluster: PolicyCluster) -> Path:
    """Return the path of the field that a policy rejects; empty if mpigen finds none.

    The field is the first of these that the object has and that the policy reads: a field that the message names by
    its path, with the field, key or value below it that the message contains; another field whose key or value the
    message contains, or the common parent of several; a field without which the policy accepts the object; the only
    field that the policy reads.

    Args:
        policy: the policy.
        decision: its decision that rejects the object.
        request: the request with the object.
        cluster: the objects that the policy reads.
    """
    body = request.object or {}
    fields = {path: value for path, value in _fields_of(policy, decision, body) if path}
    leaves = {path: value for path, value in fields.items() if not isinstance(value, dict | list)}
    message = decision.message
    for named, rest in _named_paths(message, body):
        below = {path: value for path, value in leaves.items() if path[: len(named)] == named}
        if below or named in fields:
            return _find_set(rest, named, fields) or _find_named(message, below) or named
    optional = _optional(leaves)
    accepted = (path for path in optional if _is_accepted_without(path, policy, request, cluster))
    return _find_named(message, leaves) or next(accepted, ()) or (optional[0] if len(optional) == 1 else ())


def _fields_of(policy: Policy, decision: Decision, body: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) of the fields of an object that a validation reads, and of all fields below them."""
    rows = mappings(policy.spec.get("validations"))
    rule = rows[decision.rule] if decision.rule is not None and decision.rule < len(rows) else {}
    variables = {
        string(row.get("name")): string(row.get("expression")) for row in mappings(policy.spec.get("variables"))
    }
    texts = [string(rule.get("expression")), string(rule.get("messageExpression"))] if rule else policy.texts
    waiting, seen = [*texts], set[str]()
    while waiting:
        for reading in find_readings(waiting.pop()):
            if reading.root == "variables" and reading.fields and reading.fields[0] not in seen:
                seen.add(reading.fields[0])
                waiting.append(variables.get(reading.fields[0], ""))
            elif reading.root == "object":
                path, value = _follow(body, reading.fields)
                if len(path) == len(reading.fields):
                    yield from _walk(value, path)


def _follow(body: Any, steps: Collection[str | int]) -> tuple[Path, Any]:
    """Return the longest beginning of a path that an object has, and the value there."""
    path: Path = ()
    for step in steps:
        try:
            body = body[step]
        except (LookupError, TypeError):
            break
        path = (*path, step)
    return path, body


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _walk(item, (*path, key))


def _named_paths(message: str, body: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the paths in a message, such as `spec.trainer.image`, as far as the object has them, and the text after."""
    for match in _PATH.finditer(message):
        path, _ = _follow(body, parse_path(match[0]))
        if len(path) > 1:
            yield path, message[match.end() :]


def _find_set(rest: str, named: Path, fields: Collection[Path]) -> Path:
    """Return the first field below a path that is in a message such as `spec.a sets b, c`; `rest`: after the path."""
    match = _SET.match(rest)
    keys = match[1].split(", ") if match else ()
    return next((path for path in fields if path[-1] in keys and path[: len(named)] == named), ())


def _find_named(message: str, leaves: Mapping[Path, Any]) -> Path:
    """Return the field whose key, such as a label, or whose value a message contains; the longest text wins."""
    by_text: dict[str, list[Path]] = {}
    for path, value in leaves.items():
        key = path[-1] if isinstance(path[-1], str) and "/" in path[-1] else ""
        for text in (key, value):
            if isinstance(text, str) and len(text) >= _SHORTEST and _contains(message, text):
                by_text.setdefault(text, []).append(path)
    return _common(by_text[max(by_text, key=len)]) if by_text else ()


def _common(paths: list[Path]) -> Path:
    """Return the part that the paths have in common at their start; the first path if this part is too short."""
    length = next((at for at, steps in enumerate(zip(*paths, strict=False)) if len({*steps}) > 1), len(paths[0]))
    start = paths[0][:length]
    return start if len(start) > 1 else paths[0]


def _contains(message: str, text: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(text)}(?![\w-]|[./]\w)", message) is not None


def _optional(leaves: Mapping[Path, Any]) -> list[Path]:
    """Return the first fields without which an object of the same kind and name exists."""
    return [path for path in leaves if len(path) > 1 and path not in _IDENTITY][:_MOST]


_IDENTITY = (("metadata", "name"), ("metadata", "namespace"))


def _is_accepted_without(path: Path, policy: Policy, request: Request, cluster: PolicyCluster) -> bool:
    body = detach(request.object or {})
    _, holder = _follow(body, path[:-1])
    del holder[path[-1]]
    try:
        decisions = judge(replace(request, object=body), cluster, [policy])
    except SimulationError:
        return False
    return all(decision.holds or "Deny" not in decision.actions for decision in decisions)
