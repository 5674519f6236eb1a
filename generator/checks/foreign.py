"""Recognize YAML that is not a manifest: Helm charts, kustomizations, templates, encrypted files, and files of tools.

`validate` skips such files and names them, because their content becomes manifests only later, or never. `validate`
never skips a file in a release of mpigen. If the command line names a file, `validate` skips the file only if it is a
template, or belongs to a Helm chart or a kustomization.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from generator.checks.finding import listed
from generator.checks.pod.fields import field as pod_fields
from generator.documents.files import read_file
from generator.documents.kustomize import NAMES, Kustomizations
from generator.documents.load import load
from generator.errors import DocumentError, InputError
from generator.facts.table import read_table
from generator.manifests import Manifest
from generator.schemas.embedded import Engine

CHART = "Chart.yaml"
_VALUES = re.compile(r"values[^/]*\.(yaml|yml|json)|ci/[^/]*\.ya?ml|Chart\.(yaml|lock)")
"""Files of a chart that are no templates, relative to the chart."""
_PATCH = re.compile(r"patches/[^/]*|(?:.*/)?[^/]*patch[^/]*", re.IGNORECASE)
"""Folder and name of a patch. Below a kustomization, mpigen skips such a file, even if no kustomization uses it."""
_CONTROL = re.compile(rb"^\s*\{[{%]", re.MULTILINE)
"""A line that starts with an expression of Go templates, or with an expression or a statement of Jinja."""
_TOP_KEY = re.compile(r"^([A-Za-z_]\w*)\s*:", re.MULTILINE)
_EXPRESSION = b"{{"
_PLACEHOLDER = re.compile(r"\{\{|\$\(?[A-Za-z_]|__[A-Z][A-Z0-9_]*__|<[A-Za-z][\w-]*>")
"""A part of a name that a tool replaces, except for `${NAME}`, which generator/checks/placeholders.py reads."""
_VARIABLE = re.compile(r"\$[A-Z_][A-Z0-9_]*")
_OBJECT_LINE = re.compile(rb"^[\s{-]*[\"']?(?:apiVersion|kind)[\"']?\s*:", re.MULTILINE)
_OBJECT_KEYS = frozenset({"name", "generateName", "namespace", "labels", "annotations"})


@dataclass(frozen=True, slots=True, order=True)
class Skipped:
    """A file that mpigen does not check.

    Attributes:
        reason: `chart`, `kustomization`, `template`, `encrypted`, `tool` or `other`.
        place: the folder of the chart, or the name of the tool; empty for other reasons.
        file: the file.
    """

    reason: str
    place: str
    file: str


def recognize_places(files: Sequence[Path], kustomizations: Kustomizations) -> dict[Path, Skipped]:
    """Return the files that are no manifests because of their place: in a Helm chart, a kustomization, or for a tool.

    Args:
        files: the files outside of releases.
        kustomizations: the kustomizations of these files.
    """
    charts: dict[Path, bool] = {}
    skipped: dict[Path, Skipped] = {}
    inputs, resources = _references(files, kustomizations)
    for file in files:
        plain = file.absolute()
        is_input = plain in inputs or (
            _PATCH.fullmatch(f"{plain.parent.name}/{plain.name}") and any(kustomizations.around(plain))
        )
        chart = next((folder for folder in plain.parents if _is_chart(folder, charts)), None)
        if chart is not None and _is_of_chart(plain.relative_to(chart)):
            skipped[file] = Skipped("chart", os.path.relpath(chart), str(file))
        elif file.name in NAMES or (is_input and plain not in resources):
            skipped[file] = Skipped("kustomization", "", str(file))
        elif tool := _reader_of_path(f"{plain.parent.name}/{plain.name}"):
            skipped[file] = Skipped("tool", tool, str(file))
    return skipped


def _reader_of_path(name: str) -> str:
    """Return the tool that reads a file with this folder and name; empty for all other files."""
    return next((tool for path, tool in _paths() if path.fullmatch(name)), "")


@cache
def _paths() -> Sequence[tuple[re.Pattern[str], str]]:
    return [(re.compile(row["path"]), row["tool"]) for row in read_table("foreign")["paths"]]


def _is_chart(folder: Path, known: dict[Path, bool]) -> bool:
    if folder not in known:
        known[folder] = False
        with suppress(DocumentError, InputError):
            if (folder / CHART).is_file():
                bodies = [document.data for document in load(read_file(folder / CHART))]
                known[folder] = len(bodies) == 1 and isinstance(bodies[0], dict) and "name" in bodies[0]
    return known[folder]


def _is_of_chart(path: Path) -> bool:
    """Return True if a file of a chart is a template, values or metadata. Helm installs files in `crds` unchanged."""
    return path.parts[0] == "templates" or _VALUES.fullmatch(path.as_posix()) is not None


def _references(files: Iterable[Path], kustomizations: Kustomizations) -> tuple[set[Path], set[Path]]:
    """Return (inputs, resources): the absolute paths of the files that kustomizations at or above these files name."""
    folders = dict.fromkeys(file.absolute().parent for file in files)
    around = {item.file: item for folder in folders for item in kustomizations.around(folder / NAMES[0])}
    everything = [*kustomizations.named, *around.values()]
    inputs = {path.absolute() for item in everything for path in item.inputs}
    return inputs, {path.absolute() for item in everything for path in item.resources}


def recognize_text(text: bytes, file: str, engine: Engine) -> Skipped | None:
    """Return why mpigen skips a file, according to its content.

    Return None for a file with manifests, even invalid ones, and for a file without content.
    """
    bodies: list[Any] = []
    try:
        bodies += (document.data for document in load(text))
    except DocumentError as error:
        line = text.splitlines()[error.problems[0].line - 1 : error.problems[0].line]
        is_template = _CONTROL.search(text) or any(_EXPRESSION in part for part in line)
        if is_template:
            return Skipped("template", "", file)
        keys = dict.fromkeys(_TOP_KEY.findall(text.decode(errors="replace")))
        if tool := next(_tools_of(keys), ""):
            return Skipped("tool", tool, file)
        return None if _OBJECT_LINE.search(text) else Skipped("other", "", file)
    bodies = [body for body in bodies if body is not None]
    if bodies and all(isinstance(body, dict) and _is_encrypted(body) for body in bodies):
        return Skipped("encrypted", "", file)
    if bodies and not any(map(_is_object, bodies)):
        tools = {tool for body in bodies if isinstance(body, dict) for tool in _tools_of(body)}
        return Skipped("tool", min(tools), file) if tools else Skipped("other", "", file)
    if any(_has_expression(body) or _has_variable(body, engine) for body in bodies):
        return Skipped("template", "", file)
    names = [_reader_of(body, engine) for body in bodies]
    return Skipped("tool", str(names[0]), file) if names and all(names) else None


def _is_encrypted(body: Mapping[str, Any]) -> bool:
    """Return True for a document that SOPS encrypted.

    Source: sops v3.11.0 stores/stores.go Metadata
    """
    metadata = body.get("sops")
    return isinstance(metadata, dict) and "mac" in metadata and "lastmodified" in metadata


def _is_object(body: object) -> bool:
    """Return True for a document with `kind`.

    Also return True for `apiVersion` or the metadata of an object, unless the document has the keys of a tool.
    """
    if not isinstance(body, dict):
        return False
    metadata = body.get("metadata")
    is_described = isinstance(metadata, dict) and bool(_OBJECT_KEYS & metadata.keys()) and len(body) > 1
    return "kind" in body or (("apiVersion" in body or is_described) and not any(_tools_of(body)))


def _has_expression(body: object) -> bool:
    """Return True if the apiVersion, kind, name or namespace of an object has a placeholder."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    values = [body.get("kind"), body.get("apiVersion")] if isinstance(body, dict) else []
    values += [metadata.get(key) for key in ("name", "namespace")] if isinstance(metadata, dict) else []
    return any(isinstance(value, str) and _PLACEHOLDER.search(value) for value in values)


def _has_variable(body: object, engine: Engine) -> bool:
    """Return True if a schema rejects a value that is a shell variable, such as `$REPLICAS` in place of a number.

    Pod templates have a schema, even in kinds without one, such as PyTorchJob.
    """
    if not isinstance(body, dict):
        return False
    rejected = (*(engine.violations(body) or ()), *pod_fields(Manifest(body, ""), engine, ()))
    return any(isinstance(item.value, str) and _VARIABLE.fullmatch(item.value) for item in rejected)


def _reader_of(body: object, engine: Engine) -> str:
    """Return the tool that reads an object instead of the API server; empty for an object of the API server."""
    api, kind = (body.get("apiVersion"), body.get("kind")) if isinstance(body, dict) else ("", "")
    if not isinstance(api, str) or not isinstance(kind, str) or engine.has_schema(api, kind):
        return ""
    return next((tool for start, tool in _apis() if api == start or (start[-1] == "/" and api.startswith(start))), "")


@cache
def _apis() -> Sequence[tuple[str, str]]:
    return [(row["api"], row["tool"]) for row in read_table("foreign")["apis"]]


def _tools_of(body: Mapping[str, Any]) -> Iterator[str]:
    types = {"mapping": dict, "list": list}
    for row in read_table("foreign")["contents"]:
        if body.keys() >= set(row["keys"]) and isinstance(body[row["keys"][0]], types.get(row.get("holds"), object)):
            yield row["tool"]


def describe_skipped(skipped: Iterable[Skipped], *, renders: bool) -> list[str]:
    """Return a line for each group of skipped files, with the action that checks their manifests.

    Args:
        skipped: the files.
        renders: True if `--kustomize` is set.
    """
    groups: dict[tuple[str, str], list[Skipped]] = {}
    for item in sorted(set(skipped), key=lambda item: (item.reason, item.file)):
        groups.setdefault((item.reason, item.place if item.reason == "chart" else ""), []).append(item)
    charts = [place for reason, place in groups if reason == "chart"]
    lines = [
        _describe_group(*key, items, renders=renders)
        for key, items in groups.items()
        if key[1] not in charts[_MOST_CHARTS:]
    ]
    if len(charts) > _MOST_CHARTS:
        rest = charts[_MOST_CHARTS:]
        count = sum(len(groups["chart", place]) for place in rest)
        lines.append(f"skipped {_files(count)} of {len(rest)} more Helm charts: {listed(rest)}")
    return lines


_MOST_CHARTS = 5


def _describe_group(reason: str, place: str, items: Sequence[Skipped], *, renders: bool) -> str:
    count = _files(len(items))
    match reason:
        case "chart":
            return f"skipped {count} of the Helm chart `{place}`: run `helm template {place} | mpigen validate -`"
        case "kustomization":
            more = " that mpigen does not render" if renders else ": add --kustomize to check what kustomize renders"
            return f"skipped {count} of kustomizations{more}"
        case "template":
            return f"skipped {count} with template expressions: render them, and pipe the result into mpigen validate -"
        case "encrypted":
            return f"skipped {count} that SOPS encrypts, except for the check secret/value"
    names = [f"{item.file} ({item.place})" if item.place else item.file for item in items]
    kind = "of tools, which no API server reads" if reason == "tool" else "without objects of an API"
    return f"skipped {count} {kind}: {', '.join(names[:_MOST_NAMES])}" + (
        f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    )


_MOST_NAMES = 3


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
