"""Check files on disk: every object by itself, then the objects of each release together."""

from __future__ import annotations

import datetime as dt
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator.checks.files import Origin, Targets, by_release
from generator.checks.finding import Finding, Severity
from generator.checks.foreign import Skipped
from generator.checks.placeholders import read_values
from generator.checks.registry import Suite
from generator.checks.run import Checked, check_text, check_together, unreadable
from generator.checks.sources import Sources
from generator.checks.tree import Tree
from generator.documents.files import read_file
from generator.errors import DocumentError, InputError, MpigenError, Problem
from generator.facts.names import DEFINITION
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

STDIN = "stdin"
"""The name of standard input in findings."""


@dataclass(frozen=True, slots=True)
class Part:
    """Files that are checked against the same schemas.

    Attributes:
        catalog: the schemas.
        releases: folder of a release → its files. The key None has the files that belong to no release.
        texts: name → content of standard input, or of YAML that kustomize renders.
        home: the folder of the release with which standard input is checked; None without such a release.
        complete: the folders of the releases that are checked with all their files and no other files.
        sources: all files of the run.
        folders: the name of a text that kustomize renders → the folder of the kustomization.
        values: variable → the value in place of `${VARIABLE}`, from the Kustomizations of Flux in the files.
    """

    catalog: Catalog
    releases: Mapping[Path | None, Sequence[Path]]
    texts: Mapping[str, bytes] = field(default_factory=dict)
    home: Path | None = None
    complete: frozenset[Path | None] = frozenset()
    sources: Sources = field(default_factory=lambda: Sources(()))
    folders: Mapping[str, Path] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        """The files of all releases, and of no release."""
        return [file for files in self.releases.values() for file in files]

    def text_of(self, file: str) -> bytes:
        """Return the text of a file, of standard input, or of a rendered kustomization.

        Raises:
            InputError: the file cannot be read.
        """
        return self.texts[file] if file in self.texts else read_file(Path(file))

    def recognize(self, file: str, text: bytes, engine: Engine) -> Skipped | None:
        """Return why mpigen skips a file; None for a file with manifests, and for a file that mpigen never skips."""
        return None if file in self.texts else self.sources.recognize(file, text, engine)


def group_by_targets(
    sources: Sources, stdin: bytes | None, targets: Mapping[str, str], locations: Sequence[str] = ()
) -> list[Part]:
    """Group files by the target versions of their releases, or by `targets` if it is not empty.

    The first part has standard input and the files of no release. If there is a single release, mpigen checks these
    files together with the release, for example a job with its runtime and queue. Each rendered kustomization is a part
    of its own, because different overlays apply the same objects.

    Args:
        sources: the files, and the rendered kustomizations.
        stdin: the content of standard input; None if it is not checked.
        targets: component → minor version.
        locations: folders with schemas of the user, see `Catalog.read_local_schemas`.

    Raises:
        ConfigError: a location is a URL, or does not exist.
    """
    origins = by_release(sources.files)
    released = [origin for origin in origins if origin.folder is not None]
    home = released[0] if len(released) == 1 else Origin()
    groups: dict[Targets, dict[Path | None, list[Path]]] = {}
    for origin, members in ((home, []), *origins.items()):
        release = origin if origin.folder else home
        group = groups.setdefault(() if targets else release.targets, {})
        group.setdefault(release.folder, []).extend(members)
    complete = frozenset(
        origin.folder
        for origin in released
        if (stdin is None or origin != home)
        and origin.is_complete(groups[() if targets else origin.targets][origin.folder])
    )
    given = {} if stdin is None else {STDIN: stdin}
    texts = {name: text for name, (_, text) in sources.rendered.items()}
    definitions = {**sources.read_definitions(), **_with_definitions({**given, **texts})}
    local = Catalog.bundled(targets).read_local_schemas(definitions, locations)
    parts = [
        Part(
            Catalog.bundled(targets or dict(versions)).with_local(local),
            releases,
            {} if index else given,
            home.folder,
            complete,
            sources,
        )
        for index, (versions, releases) in enumerate(groups.items())
    ]
    catalog = Catalog.bundled(targets).with_local(local)
    folders = {name: file.parent for name, (file, _) in sources.rendered.items()}
    return [
        *parts,
        *(Part(catalog, {}, {name: text}, folders={name: folders[name]}) for name, text in texts.items()),
    ]


def _with_definitions(texts: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: text for name, text in texts.items() if DEFINITION in text}


def check_parts(parts: Sequence[Part], refused: Sequence[Problem], today: dt.date | None, suite: Suite) -> Checked:
    """Check every object of all parts, and the objects of each release together.

    If the suite has a profile, all checks run in this process, because a profile measures only one.

    Args:
        parts: the files.
        refused: a problem for each further file that cannot be read.
        today: the day of the check; without it no rule depends on the day.
        suite: the checks of the run.

    Raises:
        ConfigError: a check of the user's repository fails.
    """
    values = _read_values(parts)
    parts = [replace(part, values=values) for part in parts]
    alone = [_check_alone(part, suite) for part in parts]
    folders = {name: folder for part in parts for name, folder in part.folders.items()}
    tree = Tree([manifest for checked in alone for manifest in checked.related], folders=folders)
    checked = (
        result.with_findings(_check_releases(result, part, today, suite, tree))
        for result, part in zip(alone, parts, strict=True)
    )
    return Checked.total((*checked, *map(unreadable, refused)))


def _read_values(parts: Sequence[Part]) -> Mapping[str, str]:
    """Return variable → value, from the Kustomizations of Flux in all files."""
    manifests: list[Manifest] = []
    for part in parts:
        for file in (*map(str, part.files), *part.texts):
            with suppress(InputError, DocumentError):  # reported later
                if _POST_BUILD in (text := part.text_of(file)):
                    manifests += read(text, file)
    return read_values(manifests)


_POST_BUILD = b"postBuild"


def _check_alone(part: Part, suite: Suite) -> Checked:
    alone = check_files(part, 1 if suite.profile else cores(), suite)
    engine = Engine(part.catalog)
    texts = (check_text(text, name, engine, suite, part.values) for name, text in part.texts.items())
    return Checked.total((alone, *texts))


def _check_releases(alone: Checked, part: Part, today: dt.date | None, suite: Suite, tree: Tree) -> Iterator[Finding]:
    """Yield the findings of the checks that read several objects, one release at a time.

    If a file of a release cannot be parsed, the file may contain any object, so the release counts as incomplete.
    """
    if not alone.related:
        return
    folders = {str(file): folder for folder, files in part.releases.items() for file in files}
    unread = {folders.get(finding.file) for finding in alone.findings if finding.check == "yaml/unreadable"}
    for folder in part.releases or [None]:
        mine = [manifest for manifest in alone.related if folders.get(manifest.file, part.home) == folder]
        files = [*map(str, part.releases[folder])] if folder in part.complete - unread else None
        try:
            yield from check_together(
                mine,
                part.catalog.targets,
                part.text_of,
                today,
                files=files,
                suite=suite,
                tree=tree,
            )
        except InputError as error:
            yield from unreadable(*error.problems).findings


def combine_engines(first: Checked, second: Checked | None = None) -> Checked:
    """Return the findings of one or two engines.

    The findings of the second engine are left out for objects in which the first engine has a finding. A finding of the
    second engine without an object is left out for a file that the first engine cannot parse.
    """
    reported = {
        (finding.file, finding.resource)
        for finding in first.findings
        if finding.resource or finding.check == "yaml/unreadable"
    }
    further = second.findings if second else ()
    new = [finding for finding in further if (finding.file, finding.resource) not in reported]
    return replace(first, findings=list(dict.fromkeys((*first.findings, *new))))


def pass_missing_schemas(checked: Checked) -> Checked:
    """Return the result with findings about kinds without a schema as infos, for `--ignore-missing-schemas`."""

    def passed(finding: Finding) -> Finding:
        return replace(finding, severity=Severity.INFO) if finding.check.endswith("/no-schema") else finding

    return replace(checked, findings=[passed(finding) for finding in checked.findings])


_WORTH_A_PROCESS = 300_000  # bytes; below it a second process costs more than it saves


def cores() -> int:
    """Return the number of processors that this process may use. A container may have fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_files(part: Part, processes: int, suite: Suite) -> Checked:
    """Check every object of files with the same target versions, on several processes where that is faster.

    The texts of the part, such as standard input, are not checked.

    Raises:
        MpigenError: a process cannot check its files.
    """
    files = part.files
    sizes = {file: _count_bytes(file) for file in files}
    workers = min(processes, sum(sizes.values()) // _WORTH_A_PROCESS + 1)
    if workers == 1 or not hasattr(os, "fork"):
        return _check_here(files, part, suite)
    # A pool of `concurrent.futures` costs as much as it saves here: threads, queues, and 30 ms of imports.
    from multiprocessing import get_context

    # Files are distributed by size: in the order of folders, one process could get all large files.
    files = sorted(files, key=sizes.__getitem__, reverse=True)
    context = get_context("fork")
    answers = []
    for start in range(1, workers):
        answer, sender = context.Pipe(duplex=False)
        context.Process(target=_send, args=(sender, files[start::workers], part, suite), daemon=True).start()
        sender.close()
        answers.append(answer)
    results = [_check_here(files[::workers], part, suite), *(answer.recv() for answer in answers)]
    for result in results:
        if isinstance(result, MpigenError):
            raise result
    return Checked.total(results)


def _count_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # deleted meanwhile: reading it reports the problem
        return 0


def _send(sender: Connection, files: Sequence[Path], part: Part, suite: Suite) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets the signal too, and ends this process
    try:
        sender.send(_check_here(files, part, suite))
    except MpigenError as error:  # a check of the user's repository failed
        sender.send(error)


def _check_here(files: Sequence[Path], part: Part, suite: Suite) -> Checked:
    engine = Engine(part.catalog)

    def check_file(file: Path) -> Checked:
        try:
            text = read_file(file)
        except InputError as error:
            return unreadable(*error.problems)
        checked = check_text(text, str(file), engine, suite, part.values)
        skipped = part.recognize(str(file), text, engine) if checked.findings else None
        return Checked(findings=_credentials(checked), skipped=[skipped]) if skipped else checked

    return Checked.total(map(check_file, files))


def _credentials(checked: Checked) -> list[Finding]:
    """Return the findings about credentials, which matter in every file of a repository."""
    return [finding for finding in checked.findings if finding.check.startswith("secret/")]
