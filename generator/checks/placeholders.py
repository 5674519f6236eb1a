"""object/placeholder: values such as `${NODES}`, which envsubst or Flux replaces before the API server gets the object.

A placeholder with a default, such as `${NODES:=2}`, gets its default, unless the Kustomizations of Flux in the files
set the variable. Without a value, the rules read the object with a name in its place. If the field is no string, only
the schema judges the object, because most rules about its pods depend on the number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from generator.checks.registry import INFO, Breach, declare
from generator.documents.load import Path
from generator.documents.scalars import resolve
from generator.manifests import Manifest, detach
from generator.objects.fields import mapping, string_map
from generator.schemas.embedded import Engine

MARK = b"${"
CHECK = "object/placeholder"
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_]\w*)(?::?[=-]([^{}]*))?\}")
_ELSE = re.compile(r"\$\{|[\s;|&]")
"""Text that a shell reads, or an expression that mpigen does not replace."""
_PROGRAMS = frozenset({"args", "binaryData", "command", "data", "script", "stringData", "value"})
"""Fields with text in which `${…}` can belong to a shell or a program."""
_SUBSTITUTE = "kustomize.toolkit.fluxcd.io/substitute"
STAND_IN = "placeholder-"
"""The start of the name that stands for a placeholder without a value."""


def read_values(manifests: Iterable[Manifest]) -> Mapping[str, str]:
    """Return variable → value that the Kustomizations of Flux set; without variables that have different values.

    Source: fluxcd/pkg/kustomize v1.24.0 kustomize_varsub.go SubstituteVariables
    """
    values: dict[str, set[str]] = {}
    for item in manifests:
        if (item.group, item.kind) == ("kustomize.toolkit.fluxcd.io", "Kustomization"):
            for name, value in string_map(mapping(item.body, "spec", "postBuild").get("substitute")).items():
                values.setdefault(name, set()).add(value.replace("\n", ""))
    return {name: next(iter(texts)) for name, texts in values.items() if len(texts) == 1}


def fill(manifest: Manifest, engine: Engine, values: Mapping[str, str]) -> tuple[Manifest, list[Path]]:
    """Return an object with the values of its placeholders, and the paths of the placeholders without a value.

    Args:
        manifest: the object.
        engine: the schemas of the target versions.
        values: variable → value.
    """
    metadata = mapping(manifest.body, "metadata")
    if "disabled" in (mapping(metadata, field).get(_SUBSTITUTE) for field in ("annotations", "labels")):
        return manifest, []
    places = dict(_find(manifest.body, ()))
    if not places:
        return manifest, []
    body, unknown = detach(manifest.body), list[Path]()
    for path, text in places.items():
        filled = _PLACEHOLDER.sub(lambda match: values.get(match[1], match[2] or match[0]), text)
        if "${" in filled:
            unknown.append(path)
            filled = _PLACEHOLDER.sub(lambda match: STAND_IN + match[1].lower().replace("_", "-"), filled)
        _set(body, path, filled)
    is_partial = False
    for violation in engine.violations(body) or ():
        if violation.path in unknown and isinstance(violation.path[-1], str):
            is_partial = True
            _set(body, violation.path)
        elif violation.path in places and isinstance(violation.value, str):
            _set(body, violation.path, resolve(violation.value))
    return replace(manifest, body=body, written=manifest.body, is_partial=is_partial), unknown


def _find(node: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(node, str):
        if "${" in node and not _ELSE.search(_PLACEHOLDER.sub("", node)):
            yield path, node
    elif isinstance(node, dict | list):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            if key not in _PROGRAMS:
                yield from _find(item, (*path, key))


_REMOVED = object()


def _set(body: Any, path: Path, value: object = _REMOVED) -> None:
    for step in path[:-1]:
        body = body[step]
    if value is _REMOVED:
        body.pop(path[-1], None)
    else:
        body[path[-1]] = value


def note(manifest: Manifest, unknown: Iterable[Path]) -> Breach:
    """Return the note about the placeholders without a value.

    Args:
        manifest: the object as the file has it.
        unknown: the paths of the placeholders; at least one.
    """
    paths = [*unknown]
    values = [_at(manifest.body, path) for path in paths]
    names = dict.fromkeys(match[0] for value in values for match in _PLACEHOLDER.finditer(value))
    text = ", ".join(f"`{name}`" for name in names)
    return Breach(
        paths[0],
        f"mpigen checks this object without the values of {text}",
        "mpigen makes no prediction about these fields: the values depend on the tool that replaces the placeholders",
        "render the file and pipe the result into `mpigen validate -`, or write a default such as `${NAME:=value}`",
        severity=INFO,
        value=values[0],
        check=CHECK,
    )


def depends_on(breach: Breach, unknown: Iterable[Path]) -> bool:
    """Return True if a breach is about a placeholder without a value: at its place, next to it, or with its name.

    Args:
        breach: the breach.
        unknown: the paths of the placeholders without a value.
    """
    at_place = any(breach.path in (path, path[:-1]) for path in unknown)
    return at_place or names_placeholder(breach.message)


def names_placeholder(message: str) -> bool:
    """Return True if a message has the name that stands for a placeholder."""
    return STAND_IN in message


def _at(node: Any, path: Path) -> str:
    for step in path:
        node = node[step]
    return str(node)


declare(
    CHECK,
    severity=INFO,
    text="""Report values such as `${NODES}` that have no value in the files.

    envsubst and Flux (`postBuild`) replace such placeholders. mpigen uses the default in `${NODES:=2}` or
    `${NODES:-2}`, or the value in `postBuild.substitute` of a Kustomization among the files if all of these agree.
    Without a value, mpigen reports nothing about the field; if the field is a number, it checks only the schema of the
    object. It does not read placeholders in commands, arguments,
    values of environment variables, and data of ConfigMaps, because a shell or a program may read them.

    Source: fluxcd/pkg/kustomize v1.24.0 kustomize_varsub.go SubstituteVariables; fluxcd/pkg envsubst v1.5.0
    """,
)
