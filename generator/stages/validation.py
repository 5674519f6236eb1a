"""Validation: the check of YAML files, and of their changes since older files."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from generator.checks.files import Older, Search, compare_with_older, manifest_files
from generator.checks.finding import Finding
from generator.checks.registry import Suite
from generator.checks.run import Checked
from generator.errors import OutputError, Problem
from generator.facts.versions import describe_announced

if TYPE_CHECKING:
    from generator.checks.sources import Sources
    from generator.checks.validation import Part


@dataclass(frozen=True, slots=True)
class Subject:
    """The files to check, and the options of the checks.

    Attributes:
        paths: YAML and JSON files, and folders of them.
        stdin: the content of standard input; None if it is not checked.
        ignore_missing: True to report a kind without a schema as info instead of error.
        renders: True to check the manifests that kustomize renders from the kustomizations in folders.
        schema_locations: folders with schemas or CustomResourceDefinitions of the user.
        targets: component → minor version to check for, such as `{"kueue": "0.19"}`. Default: the versions of each
            file's release, or the newest.
        since: a file, folder or Git revision with the older manifests that these files replace; empty for none.
        today: the day of the check: a relaxation or reservation with an earlier last day is a finding. None to ignore
            their last days.
        suite: the checks of mpigen and of the user's repository.
    """

    paths: Sequence[Path]
    stdin: bytes | None = None
    ignore_missing: bool = False
    renders: bool = False
    schema_locations: Sequence[str] = ()
    targets: Mapping[str, str] = field(default_factory=dict)
    since: str = ""
    today: dt.date | None = None
    suite: Suite = field(default_factory=Suite)


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of `validate`.

    Attributes:
        checked: the number of objects of each kind, and all findings.
        names: the names of the checked files, and of standard input.
        by_engine: `embedded` or `kubeconform` → the number of its findings, without consequences of other findings.
        announced: the announced versions among the targets, such as `Kueue 0.20`.
        of_files: the number of findings about kustomizations that cannot be rendered, and about edited releases.
        since: the number of findings about changes since the older manifests; None without older manifests.
        texts: name → text of standard input, and of the files of a Git revision.
        skipped: a line for each group of files that mpigen does not check, such as the files of a Helm chart, with the
            command or option that checks their manifests if there is one.
        rendered: the number of rendered kustomizations.
    """

    checked: Checked
    names: Sequence[str]
    by_engine: Mapping[str, int]
    announced: Sequence[str]
    of_files: int
    since: int | None
    texts: Mapping[str, str]
    skipped: Sequence[str] = ()
    rendered: int = 0


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of a subject, and the manifests that kustomize renders from them.

    Attributes:
        subject: the files to check, and the options of the checks.
        search: the files below the paths of the subject, and the files that mpigen refuses to read.
        sources: the files without the files of charts and kustomizations, and the rendered manifests.
        parts: the files and texts by their target versions.
        stdin: the name of standard input → its content; empty if it is not checked.
    """

    subject: Subject
    search: Search
    sources: Sources
    parts: Sequence[Part]
    stdin: Mapping[str, bytes]

    @classmethod
    def of(cls, subject: Subject) -> InputFiles:
        """Find the files of a subject, and render kustomizations if the subject requires it.

        Args:
            subject: the files to check, and the options of the checks.

        Raises:
            ConfigError: a location of schemas is not a folder.
            OutputError: a path does not exist, or no path holds manifests.
            EngineError: neither kubectl nor kustomize can render.
        """
        from generator.checks.sources import find_sources
        from generator.checks.validation import STDIN, group_by_targets

        search = manifest_files(subject.paths)
        if not (search.files or search.refused) and subject.stdin is None:
            folders = ", ".join(map(str, subject.paths))
            fix = "name files, or folders of YAML or JSON files"
            raise OutputError((Problem(f"no manifests below {folders}", fix),))
        sources = find_sources(search, renders=subject.renders)
        parts = group_by_targets(sources, subject.stdin, subject.targets, subject.schema_locations)
        stdin = {} if subject.stdin is None else {STDIN: subject.stdin}
        return cls(subject, search, sources, parts, stdin)

    def check(self, engine: str, cache: Path) -> Validation:
        """Check the files without a comparison with older files.

        Args:
            engine: `embedded` for the bundled schemas and all checks, `kubeconform` for schemas alone, or `both`.
            cache: the folder with the binary of kubeconform. `embedded` ignores it.

        Raises:
            ConfigError: one of your own checks raises an exception.
            OutputError: no file has manifests.
            EngineError: kubeconform cannot be built or run.
        """
        from generator.checks.consequences import without_consequences
        from generator.checks.foreign import describe_skipped
        from generator.checks.validation import combine_engines

        sources = self.sources
        results = dict(self._run_engines(engine, cache))
        of_files = dict.fromkeys([*sources.findings, *self._find_altered()])
        checked = combine_engines(*results.values()).with_findings([*of_files])
        checked = replace(checked, findings=sources.relocate(checked.findings))
        skipped = describe_skipped((*sources.skipped, *checked.skipped), renders=self.subject.renders)
        if skipped and not (checked.files or checked.findings or self.stdin):
            raise OutputError(tuple(Problem(line) for line in skipped))
        return Validation(
            checked,
            names=[*map(str, self.search.files), *self.stdin],
            by_engine={name: len(without_consequences(result.findings)) for name, result in results.items()},
            announced=[
                *dict.fromkeys(text for part in self.parts for text in describe_announced(part.catalog.targets))
            ],
            of_files=len(of_files),
            since=None,
            texts=_decode(self.stdin),
            skipped=skipped,
            rendered=len(sources.rendered),
        )

    def add_changes(self, validation: Validation) -> Validation:
        """Return a result of `check` with the findings about changes since the older files.

        Args:
            validation: the result of `check`.

        Raises:
            ConfigError: there is no Git revision `since`.
            OutputError: `since` has no objects, or the older and the new releases do not match by platform.
        """
        from generator.checks.sources import find_sources
        from generator.effects.findings import judge_with_effects

        subject = self.subject
        older = _find_older(subject.since, subject.paths)
        older = replace(older, search=replace(older.search, files=find_sources(older.search, renders=False).files))
        newer = find_sources(self.search, renders=False).files if subject.renders else self.sources.files
        judge = partial(judge_with_effects, suite=subject.suite)
        changes = compare_with_older(older, newer, self.stdin, subject.targets, judge, subject.today)
        checked, texts = validation.checked.with_findings(changes), {**self.stdin, **older.texts}
        return replace(validation, checked=checked, since=len(changes), texts=_decode(texts))

    def _find_altered(self) -> list[Finding]:
        """Return a finding for each file that differs from the lock of its release, in the checked releases."""
        from generator.checks.altered import find_whole_releases, report_altered
        from generator.release import verify

        folders = find_whole_releases(self.subject.paths, self.search.files)
        return [finding for folder in folders for finding in report_altered(verify(folder))]

    def _run_engines(self, engine: str, cache: Path) -> Iterator[tuple[str, Checked]]:
        """Yield the name and the result of each engine."""
        from generator.checks.validation import check_parts

        subject, refused = self.subject, self.search.refused
        if engine != "kubeconform":
            yield "embedded", check_parts(self.parts, refused, subject.today, subject.suite)
        if engine != "embedded":
            from generator.checks.kubeconform import check_by_kubeconform

            yield "kubeconform", check_by_kubeconform(self.parts, refused, cache)


def _find_older(since: str, paths: Sequence[Path]) -> Older:
    """Return the older manifests: in the file or folder `since`, or else at `paths` in the Git revision `since`."""
    if os.path.exists(since):  # noqa: PTH110 - Path.exists raises for a name that is too long
        return Older(since, manifest_files([Path(since)]))
    from generator.release import read_manifest_texts

    texts = read_manifest_texts(since, paths)
    return Older(since, Search(tuple(map(Path, texts)), ()), texts)


def _decode(texts: Mapping[str, bytes]) -> dict[str, str]:
    return {name: text.decode(errors="replace") for name, text in texts.items()}
