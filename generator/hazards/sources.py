"""Move findings about generated objects to the line of the platform file that causes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from generator.checks.finding import Finding, Generated
from generator.config.platform import Platform
from generator.documents.messages import parse_path
from generator.facts.table import read_table
from generator.hazards.find import Written, locate_paths
from generator.manifests import Body, Manifest
from generator.patches.apply import Effects

_CODE = re.compile(r"`[^`]+`")


def point_at_platform(
    findings: Iterable[Finding],
    tree: Iterable[Manifest],
    platform_file: Path,
    environment: str = "",
    causes: Causes | None = None,
    platform: Platform | None = None,
) -> list[Finding]:
    """Return findings about generated files with the line, the path and the field names of the platform file.

    If the platform file does not cause a finding, the finding keeps its place in the generated file. An example is a
    finding about an object that a platform in Python adds.

    Args:
        findings: the findings of one release, placed in its generated files.
        tree: the manifests of that release.
        platform_file: a platform.yaml or a platform in Python, as the user named it.
        environment: the environment of the platform; empty for a file without environments.
        causes: the patches and the objects of `extra`; None if there are none.
        platform: the platform of a Python file, with the runtimes of all constructs.
    """
    objects = {(manifest.file, manifest.resource): manifest for manifest in tree}
    findings = list(findings)
    subjects = [objects.get((finding.file, finding.resource)) for finding in findings]
    tables = [
        find_source(finding, manifest.body if manifest else {})
        for finding, manifest in zip(findings, subjects, strict=True)
    ]
    own = [
        causes.find(finding, manifest) if causes else None for finding, manifest in zip(findings, subjects, strict=True)
    ]
    sources = [
        table if cause is None else tuple(map(str, cause.path)) for table, cause in zip(tables, own, strict=True)
    ]
    places = iter(locate_paths(platform_file, [source for source in sources if source], environment, platform))
    return [
        _place(finding, str(platform_file), next(places) if source else None, cause)
        for finding, source, cause in zip(findings, sources, own, strict=True)
    ]


def _place(finding: Finding, file: str, place: Written | None, cause: Cause | None) -> Finding:
    if cause is not None and cause.file:
        generated = Generated(finding.file, finding.line, finding.path)
        return replace(finding, file=cause.file, line=cause.line, column=0, path=cause.name, generated=generated)
    if place is None:
        return finding
    return _move(finding, file, place, translates=cause is None)


class Cause(NamedTuple):
    """The place that causes a finding: a path in the platform file, or a line in a Python file.

    Attributes:
        path: the path in the platform file, such as `("patches", 2)`; empty for a Python file.
        file: the Python file.
        line: the line in it.
        name: the method at this line, such as `Torch.environment`; empty for a patch.
    """

    path: tuple[str | int, ...] = ()
    file: str = ""
    line: int = 0
    name: str = ""


FindHook = Callable[[Body, tuple[str | int, ...]], Cause | None]
"""A function that returns the hook of a runtime in Python that sets a field of the runtime; None if it is uncertain."""


@dataclass(frozen=True, slots=True)
class Causes:
    """The patches, the hooks of runtimes and the objects of `extra`, to which findings belong.

    Attributes:
        effects: the effects of patches.
        extras: identity of an object → the path of its entry in the platform file.
        hooks: identity of a runtime → the function that returns the hook that sets a field of its body.
    """

    effects: Effects
    extras: Mapping[tuple[str, str, str, str], tuple[str | int, ...]]
    hooks: Mapping[tuple[str, str, str, str], FindHook] = field(default_factory=dict)

    def find(self, finding: Finding, manifest: Manifest | None) -> Cause | None:
        """Return the cause of a finding: the last patch of its field, the hook that sets it, or the object of `extra`.

        The result is None if none of them causes the finding. A finding about a whole section has the patch of a field
        in the section as its cause, because the patch may have removed a field of the section.
        """
        path = parse_path(finding.path)
        for effect in reversed(self.effects.get((finding.file, finding.resource), ())):
            if any(_overlap(path, changed) for changed in effect.changed):
                return Cause(effect.patch.path, effect.patch.file, effect.patch.line)
        if manifest and manifest.identity in self.hooks:
            return self.hooks[manifest.identity](manifest.body, path)
        source = self.extras.get(manifest.identity) if manifest else None
        return None if source is None else Cause((*source, *path))


def _overlap(path: tuple[str | int, ...], changed: tuple[str | int, ...]) -> bool:
    length = min(len(path), len(changed))
    return path[:length] == changed[:length]


def find_source(finding: Finding, body: Body) -> tuple[str, ...]:
    """Return the path in the platform file that causes a generated field; empty if the file does not cause it.

    Args:
        finding: a finding about a generated object.
        body: that object.

    Returns:
        A path such as `("tenants", "robotics", "borrow", "h100")`.
    """
    for row in _rows():
        captured = _match(row.file, tuple(re.split(r"[/.]", finding.file)))
        if captured is not None:
            break
    else:
        return ()
    captured["object"] = finding.resource.rpartition("/")[2].rpartition(" ")[2]
    path = tuple(_named(body, parse_path(finding.path)))
    kind = finding.resource.partition(" ")[0]
    source = row.source
    for one in row.fields:
        prefix = _match(one.steps, path[: len(one.steps)]) if one.kind == kind else None
        if prefix is not None:
            captured |= prefix
            source = (*row.source, *one.source)
    return tuple(captured.get(step[1:-1], step) if step.startswith("{") else step for step in source)


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of generated objects of a kind, and the field of the platform file that sets it.

    Attributes:
        kind: the kind of the generated object.
        steps: the path in the generated object, with placeholders such as `{pool}`.
        source: the path in the platform file, below the source of the generated file.
    """

    kind: str
    steps: tuple[str, ...]
    source: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """A generated file, and the section of the platform file that causes it.

    Attributes:
        file: the steps of the file's path, with placeholders such as `{tenant}`.
        source: the path of the section in the platform file.
        fields: the fields of the generated objects that have a source of their own.
    """

    file: tuple[str, ...]
    source: tuple[str, ...]
    fields: tuple[_Field, ...]


def _table() -> Mapping[str, Any]:
    return read_table("sources", "generator.hazards")


@cache
def _words() -> dict[str, str]:
    """Return API field → field of the platform file, such as `stopPolicy` → `stop`."""
    return {row["field"]: row["word"] for row in _table()["words"]}


@cache
def _values(field: str) -> dict[str, str]:
    """Return value of an API field → value of the platform file, such as `Hold` → `hold` for `stopPolicy`."""
    return next((row.get("values", {}) for row in _table()["words"] if row["field"] == field), {})


@cache
def _rows() -> Sequence[_Row]:
    """Return the rows of sources.yaml. The fields of a row are sorted from the shortest path to the longest."""
    return [
        _Row(
            tuple(re.split(r"[/.]", row["file"])),
            tuple(row["source"].split(".")),
            tuple(
                sorted(
                    (
                        _Field(
                            field["kind"],
                            tuple(field["field"].split(".")),
                            tuple(field["source"].split(".")),
                        )
                        for field in row.get("fields", ())
                    ),
                    key=lambda field: len(field.steps),
                )
            ),
        )
        for row in _table()["files"]
    ]


def _match(pattern: Sequence[str], steps: Sequence[str]) -> dict[str, str] | None:
    """Return the values of a pattern's placeholders; None if the steps do not match the pattern.

    `("tenants", "{tenant}")` matches `("tenants", "team-a")`, with `{"tenant": "team-a"}`.
    """
    if len(pattern) != len(steps):
        return None
    captured = {}
    for expected, step in zip(pattern, steps, strict=True):
        if expected.startswith("{"):
            captured[expected[1:-1]] = step
        elif expected not in ("*", step):
            return None
    return captured


def _named(body: Any, path: Iterable[str | int]) -> Iterator[str]:
    """Yield the steps of a path in an object. The name of a list item, if it has one, replaces its position."""
    for step in path:
        if isinstance(body, dict):
            body = body.get(step)
        elif isinstance(body, list) and isinstance(step, int) and step < len(body):
            body = body[step]
            if isinstance(body, dict) and isinstance(body.get("name"), str):
                yield body["name"]
                continue
        yield str(step)


def _move(finding: Finding, file: str, place: Written, *, translates: bool) -> Finding:
    """Return a finding with its place in the platform file, and with the field names of the platform file."""
    generated = Generated(finding.file, finding.line, finding.path)
    moved = replace(
        finding, file=place.file or file, line=place.line, column=place.column, path=place.path, generated=generated
    )
    if not translates:
        return moved
    field = str(next(reversed(parse_path(finding.path)), ""))
    return replace(
        moved,
        message=_translate(finding.message, field),
        why=_translate(finding.why, field),
        fix=_translate(finding.fix, field),
    )


def _translate(text: str, own_field: str) -> str:
    """Replace API fields and their values by fields of the platform file: `stopPolicy: Hold` → `stop: hold`.

    Args:
        text: a part of a finding.
        own_field: the field that the finding is about. Its values are replaced wherever the text quotes them alone.
    """
    fields = re.compile(rf"\b({'|'.join(_words())})\b(: (\w+))?")

    def write(match: re.Match[str]) -> str:
        """Return the field of the platform file, with its value, for an API field and the value after it."""
        field, assigned, value = match.groups()
        return _words()[field] + (f": {_values(field).get(value, value)}" if assigned else "")

    def write_code(code: re.Match[str]) -> str:
        """Translate text in backticks: as a value of `own_field` if it is one, or else the API fields in it."""
        quoted = code[0].strip("`")
        return f"`{_values(own_field)[quoted]}`" if quoted in _values(own_field) else fields.sub(write, code[0])

    return fields.sub(write, _CODE.sub(write_code, text))
