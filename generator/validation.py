"""Validation of any YAML files, by the built-in engine, the real kubeconform, or both."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator.checks.files import (
    SUFFIXES,
    Origin,
    Search,
    Targets,
    by_release,
    check_everywhere,
    compare_on_disk,
    cores,
    manifest_files,
)
from generator.checks.finding import Finding, Severity
from generator.checks.kubeconform import refusals_placed
from generator.checks.run import Checked, check_text, check_together, unreadable
from generator.documents.files import read_file
from generator.errors import InputError, OutputError, Problem
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    from generator.schemas.kubeconform import Kubeconform, Result

STDIN = "stdin"


@dataclass(slots=True)
class Validation:
    """The findings of files.

    Attributes:
        checked: what was checked, and what was origins.
        names: the files that were checked.
        by_engine: engine → the number of its findings.
        since: the number of findings about the change from an older tree; None if there is none.
    """

    checked: Checked
    names: Sequence[str] = ()
    by_engine: dict[str, int] = field(default_factory=dict)
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The files to check, and how.

    Attributes:
        paths: files, and folders of files.
        stdin: the content of standard input; None if it is not checked.
        ignore_missing: True if a kind without a schema passes.
        targets: component → minor version to check for; by default the versions of each file's release, or the newest.
        since: the folder of the older trees that these files replace; None to check no change.
        today: the day of the run, for exceptions that end; None to ignore the day.
        is_serial: True to check on one processor, so that times of checks can be measured.
    """

    paths: Sequence[Path]
    stdin: bytes | None = None
    ignore_missing: bool = False
    targets: Mapping[str, str] = field(default_factory=dict)
    since: Path | None = None
    today: dt.date | None = None
    is_serial: bool = False


def validate(subject: Subject, engine: str, cache: Path) -> Validation:
    """Check files with the engine `embedded`, `kubeconform` or `both`. `cache` is the folder with kubeconform.

    Raises:
        OutputError: a path does not exist, or there are no manifests below any, or no objects below the older tree, or
            it is unclear which release replaces which.
        EngineError: kubeconform cannot be built or run.
    """
    search = manifest_files(subject.paths)
    if not (search.files or search.refused) and subject.stdin is None:
        folders = ", ".join(map(str, subject.paths))
        raise OutputError((Problem(f"no manifests below {folders}", "name files, or folders of YAML or JSON files"),))
    parts = _parts(search, subject)
    names = [*map(str, search.files), *([] if subject.stdin is None else [STDIN])]
    done = Validation(Checked(), names)
    if engine != "kubeconform":
        done.checked = _embedded(search, subject, parts)
        done.by_engine["embedded"] = len(done.checked.findings)
    if engine != "embedded":
        judged = _kubeconform(search, subject, parts, cache)
        done.by_engine["kubeconform"] = len(judged.findings)
        reported = {(finding.file, finding.resource) for finding in done.checked.findings if finding.resource}
        new = [finding for finding in judged.findings if (finding.file, finding.resource) not in reported]
        counts = judged if engine == "kubeconform" else done.checked
        findings = list(dict.fromkeys((*done.checked.findings, *new)))
        done.checked = Checked(counts.files, counts.kinds, findings, waiving=done.checked.waiving)
    if subject.since is not None:
        changes = _since(subject.since, search, subject)
        done.since = len(changes)
        done.checked.findings += changes
    if subject.ignore_missing:
        done.checked.findings = [_passed(finding) for finding in done.checked.findings]
    return done


@dataclass(frozen=True, slots=True)
class _Part:
    """Files that are checked against the same schemas, by the folder of their release; None for files of no release.

    `home` is the release that standard input is for.
    """

    catalog: Catalog
    home: Path | None = None
    releases: dict[Path | None, list[Path]] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        return [file for files in self.releases.values() for file in files]


def _parts(search: Search, subject: Subject) -> list[_Part]:
    """Return the files by target versions. The first part has the files of no release, and standard input.

    Beside a single release, they are checked together with it: a job with its runtimes and queues.
    """
    origins = by_release(search.files)
    released = [origin for origin in origins if origin.folder is not None]
    home = released[0] if len(released) == 1 else Origin()
    parts: dict[Targets, _Part] = {}
    for origin, files in ((home, []), *origins.items()):
        release = origin if origin.folder else home
        targets = () if subject.targets else release.targets
        part = parts.setdefault(targets, _Part(Catalog.bundled(dict(targets) or subject.targets), home.folder))
        part.releases.setdefault(release.folder, []).extend(files)
    return list(parts.values())


def _embedded(search: Search, subject: Subject, parts: list[_Part]) -> Checked:
    checked = Checked()
    for index, part in enumerate(parts):
        done = check_everywhere(part.files, part.catalog, 1 if subject.is_serial else cores())
        if subject.stdin is not None and index == 0:
            done.add(check_text(subject.stdin, STDIN, Engine(part.catalog)))
        done.findings += _together(done.related, part, subject)
        checked.add(done)
    for problem in search.refused:
        checked.add(unreadable(problem))
    return checked


def _together(manifests: Sequence[Manifest], part: _Part, subject: Subject) -> Iterator[Finding]:
    """Yield the findings of rules over all objects of a release. Releases hold the same objects, so they never mix."""

    def text_of(file: str) -> bytes:
        return subject.stdin if subject.stdin is not None and file == STDIN else read_file(Path(file))

    if not manifests:
        return
    folders = {str(file): folder for folder, files in part.releases.items() for file in files}
    for folder in part.releases:
        mine = [manifest for manifest in manifests if folders.get(manifest.file, part.home) == folder]
        try:
            yield from check_together(mine, part.catalog.targets, text_of, subject.today)
        except InputError as error:
            yield from unreadable(*error.problems).findings


def _since(old: Path, search: Search, subject: Subject) -> list[Finding]:
    """Return the findings about the change, for the target versions of each platform's new release."""

    def judged_for(targets: Targets) -> Mapping[str, str]:
        return Catalog.bundled(subject.targets or dict(targets)).targets

    stdin = {} if subject.stdin is None else {STDIN: subject.stdin}
    try:
        return compare_on_disk(old, search.files, stdin, judged_for)
    except InputError as error:
        return unreadable(*error.problems).findings


def _passed(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.INFO) if finding.check.endswith("/no-schema") else finding


def _kubeconform(search: Search, subject: Subject, parts: list[_Part], cache: Path) -> Checked:
    """Return the findings of kubeconform."""
    from generator.schemas.kubeconform import Kubeconform, Status, ensure_kubeconform

    checked = Checked()
    for problem in search.refused:
        checked.add(unreadable(problem))
    texts: dict[str, bytes] = {}
    results: list[Result] = []
    for index, part in enumerate(parts):
        mine = {STDIN: subject.stdin} if subject.stdin is not None and index == 0 else {}
        for file in part.files:
            try:
                mine[str(file)] = read_file(file)
            except InputError as error:
                checked.add(unreadable(*error.problems))
        results += _results(Kubeconform(ensure_kubeconform(cache), part.catalog.locations()), mine)
        texts |= mine
    checked.files += len(texts)
    checked.kinds.update(result.kind for result in results if result.status is not Status.EMPTY)
    refused: dict[str, list[Result]] = {}
    for result in results:
        if result.status in (Status.INVALID, Status.ERROR):
            refused.setdefault(result.file, []).append(result)
    for name, refusals in refused.items():
        checked.findings += refusals_placed(refusals, texts[name])
    return checked


def _results(kubeconform: Kubeconform, texts: Mapping[str, bytes]) -> list[Result]:
    """Return the verdicts by our names. kubeconform skips files with other suffixes and rewrites names beyond UTF-8."""
    by_name = [name for name in texts if name != STDIN and name.endswith(SUFFIXES) and name.isprintable()]
    results = list(kubeconform.run(map(Path, by_name)))
    for name in texts.keys() - set(by_name):
        judged = kubeconform.run_text(texts[name].decode(errors="replace"))
        results += (replace(result, file=name) for result in judged)
    return results
