"""kubeconform/*: run kubeconform, and find the line of each result, which names only an object and sometimes a path."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path as File
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from generator.checks.files import SUFFIXES
from generator.checks.finding import Finding
from generator.checks.registry import ERROR, declare
from generator.checks.run import Checked, unreadable
from generator.checks.validation import Part
from generator.documents.load import Path
from generator.documents.locate import locate_everywhere
from generator.documents.messages import format_path
from generator.errors import DocumentError, InputError, Problem
from generator.manifests import Manifest, read
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    from generator.schemas.kubeconform import Kubeconform, Result

_NO_SCHEMA = "could not find schema for"  # kubeconform v0.7.0 pkg/validator/validator.go v.ValidateResource
_POINTER = re.compile(r"at '((?:[^'\\]|\\.)*)': (?!validation failed|\w+Of failed)")
_ESCAPED = re.compile(r"\\(.)")
_TYPED_LIST = re.compile(rb"[\"']?kind[\"']?\s*:\s*[\"']?[A-Za-z]+List\b")


def check_by_kubeconform(parts: Sequence[Part], refused: Sequence[Problem], cache: File) -> Checked:
    """Check every object of all parts with kubeconform.

    Args:
        parts: the files.
        refused: a problem for each further file that cannot be read.
        cache: the folder with the binary of kubeconform.

    Raises:
        EngineError: kubeconform cannot be built or run.
    """
    from generator.schemas.kubeconform import Kubeconform, Status, ensure_kubeconform  # few users run it

    problems = list(refused)
    texts: dict[str, bytes] = {}
    results: list[Result] = []
    skipped = []
    for part in parts:
        readable, engine = {}, Engine(part.catalog)
        for file in (*map(str, part.files), *part.texts):
            try:
                text = part.text_of(file)
            except InputError as error:
                problems += error.problems
                continue
            if item := part.recognize(file, text, engine):
                skipped.append(item)
            else:
                readable[file] = text
        with TemporaryDirectory() as folder:
            locations = (*_write_local_schemas(part, readable, File(folder)), *part.catalog.locations(cache))
            results += _run(Kubeconform(ensure_kubeconform(cache), locations), readable, part)
        texts |= readable
    rejected: dict[str, list[Result]] = {}
    for result in results:
        if result.status in (Status.INVALID, Status.ERROR):
            rejected.setdefault(result.file, []).append(result)
    unread = (finding for problem in problems for finding in unreadable(problem).findings)
    placed = (finding for file, mine in rejected.items() for finding in kubeconform_findings(mine, texts[file]))
    kinds = Counter(result.kind for result in results if result.status is not Status.EMPTY)
    return Checked(len(problems) + len(texts), kinds, [*unread, *placed], skipped=skipped)


def _write_local_schemas(part: Part, texts: Mapping[str, bytes], folder: File) -> tuple[str, ...]:
    """Write the schemas of the user's repository to a folder, for the kinds in `texts`.

    Return the location of these schemas, as a template that kubeconform understands.
    """
    kinds = set()
    for name, text in texts.items():
        with suppress(DocumentError):
            kinds |= {(manifest.api_version, manifest.kind) for manifest in read(text, name)}
    for api_version, kind in kinds:
        if schema := part.catalog.read_local(api_version, kind):
            group, _, version = api_version.rpartition("/")
            file = folder / group / f"{kind.lower()}_{version}.json"
            file.parent.mkdir(exist_ok=True)
            file.write_text(schema, "utf-8")
    return (f"{folder}/{{{{.Group}}}}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json",)


def _run(kubeconform: Kubeconform, texts: Mapping[str, bytes], part: Part) -> Iterator[Result]:
    """Yield the results of kubeconform with the original file names.

    kubeconform skips files without a YAML or JSON suffix and rewrites unprintable names, so mpigen passes such files as
    texts. It checks the items of a `List`, but has no schema for a `RoleList`, so mpigen passes the items alone.

    Source: kubeconform v0.7.0 pkg/resource/resource.go Resource.Resources
    """
    items = {name: text for name in texts if (text := _items_of_lists(texts[name], name))}
    by_name = [name for name in texts if name not in part.texts and name.endswith(SUFFIXES) and name.isprintable()]
    by_name = [name for name in by_name if name not in items]
    yield from kubeconform.run(map(File, by_name))
    for name in texts.keys() - set(by_name):
        judged = kubeconform.run_text(items.get(name) or texts[name].decode(errors="replace"))
        yield from (replace(result, file=name) for result in judged)


def _items_of_lists(text: bytes, file: str) -> str:
    """Return the objects of a text with a typed list, such as a `RoleList`; empty for another text."""
    if not _TYPED_LIST.search(text):
        return ""
    with suppress(DocumentError):
        return "".join(f"---\n{json.dumps(manifest.body)}\n" for manifest in read(text, file) if manifest.body)
    return ""


def kubeconform_findings(results: Sequence[Result], text: bytes) -> list[Finding]:
    """Return a finding for each result of one file. One pass through `text` finds the lines of all findings."""
    objects = _objects(text, results[0].file)
    unknown = Manifest({}, results[0].file)
    located = []
    for result in results:
        manifest = objects.get((result.kind, result.name)) or objects.get((result.kind, ""), unknown)
        located.append((result, manifest, (*manifest.inside, *_parse_path(result.message, manifest.body))))
    places = locate_everywhere(
        text, [(manifest.index, path) for _, manifest, path in located if manifest is not unknown]
    )
    findings = []
    for result, manifest, path in located:
        place = places.get((manifest.index, path))
        line, column = place.node if place else (1, 1)
        rule, fix = "invalid", "compare the object with the upstream API reference of its kind"
        if result.message.startswith(_NO_SCHEMA):
            rule, fix = "no-schema", "correct the `apiVersion`, or pass --ignore-missing-schemas"
        elif not manifest.kind:
            fix = "make each document one object, with apiVersion and kind"
        resource = manifest.resource if manifest.kind else ""
        texts = (result.message, "kubeconform rejects the object", fix)
        where = format_path(path, root="$")
        findings.append(Finding(result.file, line, column, where, f"kubeconform/{rule}", resource, *texts))
    return findings


def _objects(text: bytes, file: str) -> dict[tuple[str, str], Manifest]:
    """Return (kind, name) → object of a YAML text. The key (kind, "") has the first object of the kind."""
    objects: dict[tuple[str, str], Manifest] = {}
    with suppress(DocumentError):  # keep the documents before the error
        for manifest in read(text, file):
            if manifest.kind:
                objects.setdefault((manifest.kind, manifest.name), manifest)
                objects.setdefault((manifest.kind, ""), manifest)
    return objects


def _parse_path(message: str, body: object) -> Path:
    """Return the path in a message such as `at '/spec/containers/0': got number, want string`.

    kubeconform lists several paths in random order, so the function takes the first one by name.
    """
    pointer = min(_POINTER.findall(message), default="")
    path: list[str | int] = []
    for part in pointer.split("/")[1:]:
        step = _ESCAPED.sub(r"\1", part).replace("~1", "/").replace("~0", "~")
        if isinstance(body, list) and step.isdecimal():
            path.append(int(step))
            body = body[int(step)] if int(step) < len(body) else None
        else:
            path.append(step)
            body = body.get(step) if isinstance(body, dict) else None
    return tuple(path)


declare(
    "kubeconform/invalid",
    severity=ERROR,
    text="""Report an object that kubeconform rejects.

    `--engine kubeconform` runs the real kubeconform instead of mpigen's own engine. `--engine both` runs both, and this
    check then reports only objects in which mpigen's engine finds nothing. The message and the path come from
    kubeconform.

    Source: kubeconform v0.7.0 pkg/validator/validator.go v.ValidateResource
    """,
)
declare(
    "kubeconform/no-schema",
    severity=ERROR,
    text="""Report a kind for which kubeconform has no schema.

    Without a schema, kubeconform cannot check the object. Often the `apiVersion` is wrong.

    Source: kubeconform v0.7.0 pkg/validator/validator.go v.ValidateResource
    """,
)
