"""Any YAML on disk → findings, from our engine, from the real kubeconform, or from both."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator.checks.files import check_everywhere, manifest_files
from generator.checks.finding import Finding, Severity
from generator.checks.run import Checked, check_text
from generator.documents.locate import locate_everywhere
from generator.errors import DocumentError
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    from generator.schemas.kubeconform import Result

_STDIN = "stdin"
_NO_SCHEMA = "could not find schema for"  # kubeconform v0.7.0 pkg/validator/validator.go ValidateResource


@dataclass(slots=True)
class Validation:
    """What was checked, what was found, and how many findings each engine had."""

    checked: Checked
    by_engine: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subject:
    """What to check.

    Attributes:
        paths: files, and folders of files.
        stdin: what standard input gave; None if it was not asked for.
        ignore_missing: whether a kind without a schema passes.
    """

    paths: Sequence[Path]
    stdin: bytes | None = None
    ignore_missing: bool = False


def validate(subject: Subject, engine: str, cache: Path) -> Validation:
    """Check with `embedded`, `kubeconform` or `both`; what the second one is built into lies in `cache`.

    Raises:
        OutputError: a path does not exist.
        EngineError: kubeconform cannot be built or run.
    """
    files = manifest_files(subject.paths)
    catalog = Catalog.bundled()
    done = Validation(Checked())
    if engine != "kubeconform":
        done.checked = _embedded(files, subject, catalog)
        done.by_engine["embedded"] = len(done.checked.findings)
    if engine != "embedded":
        found = list(_kubeconform(files, subject, catalog, cache, done.checked))
        done.by_engine["kubeconform"] = len(found)
        said = {(finding.file, finding.resource) for finding in done.checked.findings}
        done.checked.findings += [finding for finding in found if (finding.file, finding.resource) not in said]
    if subject.ignore_missing:
        done.checked.findings = [_passed(finding) for finding in done.checked.findings]
    return done


def _embedded(files: Sequence[Path], subject: Subject, catalog: Catalog) -> Checked:
    checked = check_everywhere(files, catalog, os.cpu_count() or 1)
    if subject.stdin is not None:
        checked.add(check_text(subject.stdin, _STDIN, Engine(catalog)))
    return checked


def _passed(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.INFO) if finding.check.endswith("/no-schema") else finding


def _kubeconform(
    files: Sequence[Path], subject: Subject, catalog: Catalog, cache: Path, checked: Checked
) -> Iterator[Finding]:
    """Its verdicts as findings. What it counts is taken over only where our own engine has not counted already."""
    from generator.schemas.gobuild import ensure_kubeconform
    from generator.schemas.kubeconform import Kubeconform, Status

    kubeconform = Kubeconform(ensure_kubeconform(cache), catalog.locations())
    results = list(kubeconform.run(files))
    if subject.stdin is not None:
        results += kubeconform.run_text(subject.stdin.decode(errors="replace"))
    if not checked.files:
        checked.files = len({result.file for result in results})
        checked.kinds.update(result.kind for result in results if result.status is not Status.EMPTY)
    refused: dict[str, list[Result]] = {}
    for result in results:
        if result.status in (Status.INVALID, Status.ERROR):
            refused.setdefault(result.file, []).append(result)
    for file, refusals in refused.items():
        text = subject.stdin or b"" if file == _STDIN else Path(file).read_bytes()
        objects = _objects(file, text)
        yield from (_finding(refusal, objects) for refusal in refusals)


def _objects(file: str, text: bytes) -> dict[tuple[str, str], tuple[str, int, int]]:
    """The objects of a text by kind and name, which is all that kubeconform says: the resource, its line and column."""
    manifests: list[Manifest] = []
    with suppress(DocumentError):  # what can be read before it is enough
        manifests.extend(read(text, file))
    places = locate_everywhere(text, ((manifest.index, manifest.inside) for manifest in manifests))
    found: dict[tuple[str, str], tuple[str, int, int]] = {}
    for manifest in manifests:
        place = (manifest.resource, *places[manifest.index, manifest.inside].node)
        found.setdefault((manifest.kind, manifest.name), place)
        found.setdefault((manifest.kind, ""), place)
    return found


def _finding(refusal: Result, objects: Mapping[tuple[str, str], tuple[str, int, int]]) -> Finding:
    resource, line, column = objects.get((refusal.kind, refusal.name), ("", 1, 1))
    rule = "no-schema" if refusal.message.startswith(_NO_SCHEMA) else "invalid"
    why = "the second engine refuses the object"
    return Finding(refusal.file, line, column, "$", f"kubeconform/{rule}", resource, refusal.message, why, "")
