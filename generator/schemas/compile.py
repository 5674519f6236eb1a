"""Compile the schemas of all pinned upstream modules, and write them with their catalog.

Two kinds have no upstream schema:

- the audit policy, a file that kube-apiserver reads at startup. The server only logs a line for an unknown field.
  Sources: apiserver v0.34.2 pkg/apis/audit/v1/types.go PolicyRule (fields), apiserver v0.34.2
  pkg/apis/audit/validation/validation.go ValidatePolicy (values), apiserver v0.34.2 pkg/audit/policy/reader.go
  LoadPolicyFromBytes (unknown fields);
- release.json, the lock of a release of mpigen. Tools that validate the manifests of a release read it as well.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from generator.errors import EngineError, OutputError, Problem
from generator.facts.versions import ANNOUNCED, SUPPORTED, Component
from generator.schemas.catalog import FILE, Catalog
from generator.schemas.crd import custom_kinds
from generator.schemas.difference import differ
from generator.schemas.go_tool import fetch_modules
from generator.schemas.json_schema import Kind, Schema, object_schema, reference, write_difference, write_schema
from generator.schemas.openapi import BuiltIns

_NAMED = 3  # foreign files in a message
_OPERATORS = Path(__file__).parent / "operators"
"""<component>/<minor>/*.yaml: kinds whose definitions are not in a Go module."""


def operator_files(name: str, minor: str) -> list[Path]:
    """Return mpigen's files of CustomResourceDefinitions that no Go module has, such as NVIDIA's."""
    return sorted((_OPERATORS / name / minor).glob("*.yaml"))


def compile_schemas(destination: Path, components: Sequence[Component] = SUPPORTED) -> int:
    """Write the schemas of all kinds of `components` to `destination`, and replace its old content.

    The layout is `<component>/<minor>/<group>/<kind>_<version>.json`, beside `catalog.json`. A file of an older minor
    has only the difference from the next newer minor, see `generator.schemas.difference`.

    Args:
        destination: the folder, which is created or replaced as a whole.
        components: the newest minor of each component first. Custom kinds take ObjectMeta from the newest Kubernetes.

    Returns:
        The number of schemas.

    Raises:
        EngineError: Go is missing, a module is unavailable or differs from its pin, or a definition is unknown.
        OutputError: the folder holds files that this function did not write, or cannot be written.
    """
    with _report_os_errors(destination):
        _check_destination(destination)
        destination.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.TemporaryDirectory(dir=destination.parent, prefix=".schemas-")
    with place as scratch:
        kinds = _kinds(components)
        with _report_os_errors(destination):
            fresh = Path(scratch) / "schemas"
            count = _write(fresh, kinds)
            if destination.exists():
                destination.rename(Path(scratch) / "old")
            shutil.move(fresh, destination)
    return count


@contextmanager
def _report_os_errors(destination: Path) -> Iterator[None]:
    """Turn an `OSError` inside the block into an `OutputError` about the folder."""
    try:
        yield
    except OSError as error:
        problem = Problem(f"cannot be written: {error.strerror}", "name another folder", str(destination))
        raise OutputError((problem,)) from None


def _check_destination(destination: Path) -> None:
    """Raise an `OutputError` if the folder holds anything but schemas, because all its content is replaced."""
    if not destination.is_dir() or not any(destination.iterdir()):
        return
    fix = "name a new or an empty folder"
    try:
        ours = {FILE, *(entry.path for entry in Catalog(destination).everything)}
    except (EngineError, ValueError, LookupError, TypeError):  # no catalog, or one of another program
        raise OutputError((Problem(f"{destination} holds no schemas", fix),)) from None
    kinds = (path for path in destination.rglob("*") if path.is_symlink() or not path.is_dir())
    foreign = sorted({path.relative_to(destination).as_posix() for path in kinds} - ours)
    if foreign:
        more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
        message = f"{destination} holds files that are not compiled schemas: {', '.join(foreign[:_NAMED])}{more}"
        raise OutputError((Problem(message, fix),))


def _kinds(components: Sequence[Component]) -> dict[Component, list[Kind]]:
    modules = fetch_modules(component for component in components if component.sum)
    newest = BuiltIns(modules[components[0]], components[0].folder, components[0].minor)
    kinds = {}
    for component in components:
        if component.name == components[0].name:
            built_ins = BuiltIns(modules[component], component.folder, component.minor)
            kinds[component] = [*built_ins.kinds(), *file_kinds(built_ins)]
        else:
            files = component.definition_files(modules[component]) if component in modules else []
            kinds[component] = custom_kinds(
                [*files, *operator_files(component.name, component.minor)], newest.definitions
            )
    kinds[OWN] = own_kinds()
    return kinds


def _write(folder: Path, kinds: dict[Component, list[Kind]]) -> int:
    """Write the newest schema of each kind as a whole, and older schemas as differences from the next newer one."""
    entries, newer = [], dict[tuple[str, str], tuple[str, Schema]]()
    for component, kinds_of_component in kinds.items():
        for kind in kinds_of_component:
            path = f"{component.name}/{component.minor}/{kind.path}"
            key = component.name, kind.path
            base, newest = newer.get(key, ("", {}))
            newer[key] = path, kind.schema
            text = write_difference(differ(newest, kind.schema)) if base else write_schema(kind.schema)
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            entries.append(_entry(kind, path, text, base))
    catalog = {
        "components": [asdict(component) for component in kinds],
        "announced": [
            {"name": row.name, "minor": row.minor, "after": row.after, "removes": [*row.removes]} for row in ANNOUNCED
        ],
        "kinds": sorted(entries, key=lambda entry: entry["path"]),
    }
    lines = (f'"{key}":[\n{_lines(values)}\n]' for key, values in catalog.items())
    (folder / FILE).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return len(entries)


def _entry(kind: Kind, path: str, text: str, base: str) -> dict[str, str]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "plural": kind.plural,
        "scope": kind.scope,
        "path": path,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        **({"base": base} if base else {}),
    }


def _lines(values: Sequence[dict[str, str]]) -> str:
    return ",\n".join(json.dumps(value, separators=(",", ":")) for value in values)


_METADATA = "meta.v1.ObjectMeta"
_TEXTS: Schema = {"type": ["array", "null"], "items": {"type": "string"}}
_STAGES: Schema = {
    "type": ["array", "null"],
    "items": {"type": "string", "enum": ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]},
}
_YES_OR_NO: Schema = {"type": ["boolean", "null"]}
_PATH = r"^(\*|/[^*]*\*?)$"
_GROUP = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$"


def _object(required: list[str], **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


_RESOURCES = _object([], group={"type": ["string", "null"], "pattern": _GROUP}, resources=_TEXTS, resourceNames=_TEXTS)
_RULE = _object(
    ["level"],
    level={"type": "string", "enum": ["None", "Metadata", "Request", "RequestResponse"]},
    users=_TEXTS,
    userGroups=_TEXTS,
    verbs=_TEXTS,
    resources={"type": ["array", "null"], "items": _RESOURCES},
    namespaces=_TEXTS,
    nonResourceURLs={"type": ["array", "null"], "items": {"type": "string", "pattern": _PATH}},
    omitStages=_STAGES,
    omitManagedFields=_YES_OR_NO,
)


def file_kinds(built_ins: BuiltIns) -> list[Kind]:
    """Return the kinds of files that the API server reads at startup: `Policy` of `audit.k8s.io/v1`."""
    struct = _object(
        ["rules"],
        metadata=reference(_METADATA),
        rules={"type": "array", "items": _RULE, "minItems": 1},
        omitStages=_STAGES,
        omitManagedFields=_YES_OR_NO,
    )
    definitions = built_ins.definitions(reference(_METADATA))
    schema = object_schema("audit.k8s.io/v1", "Policy", struct, definitions)
    return [Kind("audit.k8s.io", "v1", "Policy", "policies", "Cluster", schema)]


DIGEST = "^sha256:[0-9a-f]{64}$"

OWN = Component(
    name="mpigen",
    minor="1",
    module="mpigen",
    version="v1",
    sum="",
    folder="generator/schemas/compile.py",
    source="generator/schemas/compile.py",
)

_TEXT: Schema = {"type": "string", "minLength": 1}
_DIGEST: Schema = {"type": "string", "pattern": DIGEST}


def _record(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def own_kinds() -> list[Kind]:
    """Return the kind `Release` of `mpigen.dev/v1`, the lock that `generator.release` writes."""
    metadata = _record(name=_TEXT, annotations=_map(_TEXT))
    spec = _record(platform=_TEXT, version=_TEXT, inputs=_DIGEST, targets=_map(_TEXT), files=_map(_DIGEST))
    spec["properties"]["protections"] = _map({"type": "string"})  # locks of earlier versions have none
    spec["properties"]["removed"] = _map({"type": "object", "additionalProperties": _TEXT})
    spec["properties"]["renames"] = _map(_TEXT)
    spec["properties"]["predecessor"] = _TEXT
    schema = object_schema("mpigen.dev/v1", "Release", _record(metadata=metadata, spec=spec), {})
    return [Kind("mpigen.dev", "v1", "Release", "releases", "Cluster", schema)]
