"""Read this first: the whole of mpigen as a few calls.

platform.yaml / mpigen_platform.py ── config ──▶ Platform ── charts ──▶ [Manifest] ── checks ──▶ [Finding]
                                                                    ├── against the older release ─▶ [Finding]
                                                                    └── release ──▶ output/<platform>/<release>/
any YAML on disk ──────────── manifests.read ──▶ [Manifest] ── the same checks
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator import manifests
from generator.adoption.adoption import Adoption, Outcome, Run
from generator.checks.files import (
    SUFFIXES,
    Origin,
    Search,
    Targets,
    by_release,
    check_everywhere,
    compare_on_disk,
    compare_rendered,
    cores,
    manifest_files,
)
from generator.checks.finding import Finding, Severity
from generator.checks.kubeconform import kubeconform_findings
from generator.checks.run import Checked, check_rendered, check_text, check_together, unreadable
from generator.documents.files import read_file
from generator.errors import ConfigError, InputError, OutputError, Problem
from generator.manifests import Manifest
from generator.report.result import reaches
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    import cdk8s

    from generator.config.platform import Platform
    from generator.gitops.metadata import Headers
    from generator.release import Release, Written
    from generator.schemas.kubeconform import Kubeconform, Result


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of `synth`; see `mpigen synth --help`."""

    replace: bool = False
    discard_edits: bool = False
    promote: bool | None = None
    adoption: Adoption = field(default_factory=Adoption)


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The result of `synth`.

    Attributes:
        platform: the platform of the file.
        checked: the number of objects of each kind, and all findings.
        outcome: the reported findings, with the paths that rendered files have on disk once they are written.
        written: the release on disk; None if a finding failed the run, so no file changed.
        texts: the path of each rendered file → its text.
    """

    platform: Platform
    checked: Checked
    outcome: Outcome
    written: Written | None
    texts: Mapping[str, str]

    def text_of(self, file: str) -> str:
        """Return the text of a rendered file or of a file on disk; empty if unreadable."""
        try:
            return self.texts[file] if file in self.texts else read_file(Path(file)).decode(errors="replace")
        except InputError:
            return ""


def synth(platform_file: Path, output: Path, choices: Choices) -> Synthesis:
    """Render the release of a platform file, check it, and write it below `output`.

    Raises:
        ConfigError: the platform file is invalid.
        OutputError: writing the output would lose files or edits.
        DocumentError: a file of the release that this one replaces is not YAML.
    """
    from generator import release
    from generator.gitops.metadata import Headers
    from generator.hazards.find import find_hazards
    from generator.hazards.sources import point_at_platform

    platform, app = load(platform_file)
    tree, pointer = render(platform, app)
    new_release = _release(platform, tree, pointer, Headers(platform, platform_file.name))
    checked = check(platform, tree, pointer, choices.adoption.today, new_release.texts)
    checked.findings += compare_rendered(
        release.read_previous(new_release, tree, output), tree, new_release.files, new_release.targets
    )
    checked.findings = point_at_platform(checked.findings, tree, platform_file)
    checked.findings += find_hazards(platform, platform_file)
    texts = _place(checked, new_release, output)
    done = Synthesis(platform, checked, Outcome([], {}), None, texts)
    run = Run(
        checked.waiving, [str(platform_file), *texts], lambda check: not check.startswith("change/"), done.text_of
    )
    outcome = choices.adoption.apply(checked.findings, run)
    if any(reaches(finding.severity, choices.adoption.fail_on) for finding in outcome.findings):
        return replace(done, outcome=outcome)
    written = release.write(
        new_release,
        output,
        replace=choices.replace,
        discard_edits=choices.discard_edits,
        promote=choices.promote,
    )
    return replace(done, outcome=outcome, written=written)


def _place(checked: Checked, new_release: Release, output: Path) -> dict[str, str]:
    """Replace paths in the release by paths on disk in all findings, and return path on disk → text."""
    home = output / new_release.platform
    texts = new_release.texts
    files = {file: home / new_release.version / file if file in new_release.files else home / file for file in texts}
    checked.findings = [_rename(finding, files) for finding in checked.findings]
    checked.waiving = [replace(manifest, file=str(files[manifest.file])) for manifest in checked.waiving]
    return {str(files[file]): text for file, text in texts.items()}


def _rename(finding: Finding, files: Mapping[str, Path]) -> Finding:
    if finding.generated is None:
        return replace(finding, file=str(files.get(finding.file, finding.file)))
    file = finding.generated.file
    return replace(finding, generated=replace(finding.generated, file=str(files.get(file, file))))


def load(platform_file: Path) -> tuple[Platform, cdk8s.App]:
    """Load the platform of a file, and its app. An mpigen_platform.py can define the app itself.

    Raises:
        ConfigError: the file is invalid, or an mpigen_platform.py defines neither `platform` nor `app`.
    """
    if platform_file.suffix == ".py":
        return _load_python(platform_file)
    from generator.config.load import load_platform

    platform = load_platform(platform_file)  # reports errors before App starts Node, which is slow
    from generator.app import App

    return platform, App(platform)


def _load_python(platform_file: Path) -> tuple[Platform, cdk8s.App]:
    from generator.config.platform import Platform
    from generator.config.python_file import check_platform_file, run_platform_file

    check_platform_file(platform_file)  # before Node starts
    from generator.app import App  # before cdk8s: it chooses the Node that cdk8s starts

    import cdk8s  # isort: skip

    defined = run_platform_file(platform_file)
    app, platform = defined.get("app"), defined.get("platform")
    if isinstance(app, App):
        return app.platform, app
    if isinstance(app, cdk8s.App):
        message = "`app` is a plain cdk8s App, without the objects of the platform"
        raise ConfigError((Problem(message, "write `app = App(platform)`, from generator", str(platform_file)),))
    if not isinstance(platform, Platform):
        message = "it defines neither `platform`, a Platform, nor `app`, an App of one"
        raise ConfigError((Problem(message, "write `platform = Platform(...)`", str(platform_file)),))
    return platform, App(platform)


def render(platform: Platform, app: cdk8s.App) -> tuple[list[manifests.Manifest], list[manifests.Manifest]]:
    """Return the manifests of the release, ordered by file, and the manifests of the Argo CD pointer to it."""
    from generator.constructs import collect
    from generator.gitops.argocd import account_role, pointer
    from generator.gitops.metadata import annotate_waves, label_owner
    from generator.policies.admission.parameters import add_parameters_of_tree

    tree = label_owner(add_parameters_of_tree(collect(app), platform.fabrics), platform.platform)
    if platform.gitops is None:
        return tree, []
    tree += label_owner(account_role(platform, tree), platform.platform)
    return annotate_waves(tree), pointer(platform, tree, platform.release)


def check(
    platform: Platform,
    tree: list[manifests.Manifest],
    pointer: list[manifests.Manifest],
    today: dt.date | None = None,
    texts: Mapping[str, str] | None = None,
) -> Checked:
    """Run every check on the rendered manifests, for the target versions of the platform.

    `tree` holds the manifests of the release, and `texts` maps their files to the text in which findings have lines: by
    default without header comments. Without `today`, no check depends on the day.
    """
    from generator.release import POINTER

    everything = [*tree, *(replace(manifest, file=f"{POINTER}/{manifest.file}") for manifest in pointer)]
    targets = platform.cluster.versions.model_dump()
    return check_rendered(everything, texts or manifests.write(everything), Catalog.bundled(targets), today)


def _release(
    platform: Platform, tree: list[manifests.Manifest], pointer: list[manifests.Manifest], headers: Headers
) -> Release:
    from generator.gitops.argocd import pointer as pointer_to
    from generator.release import POINTER, Release

    def pointer_texts(version: str) -> Mapping[str, str]:
        return headers.add(manifests.write(pointer_to(platform, tree, version)), f"{POINTER}/")

    return Release(
        platform=platform.platform,
        version=platform.release,
        files=headers.add(manifests.write(tree)),
        pointer=pointer_texts if pointer else lambda _version: {},
        inputs=platform.digest(),
        targets=platform.cluster.versions.model_dump(),
    )


STDIN = "stdin"


@dataclass(slots=True)
class Validation:
    """The result of `validate`.

    Attributes:
        checked: the checked objects and the findings.
        names: the checked files.
        by_engine: engine → the number of its findings.
        since: the number of findings about changes since an older tree; None without an older tree.
    """

    checked: Checked
    names: Sequence[str] = ()
    by_engine: dict[str, int] = field(default_factory=dict)
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The files to check, and the options of the checks.

    Attributes:
        paths: files, and folders of files.
        stdin: the content of standard input; None if it is not checked.
        ignore_missing: True if a kind without a schema passes.
        targets: component → minor version to check for; by default the versions of each file's release, or the newest.
        since: the folder of the older trees that these files replace; None to check no change.
        today: the day on which waivers and exemptions must be valid; None to ignore their end dates.
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
        OutputError: a path does not exist, no path holds manifests, the older tree holds no objects, or several new
            releases could replace the same older release.
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
    """Files that are checked against the same schemas.

    Attributes:
        home: the release with which standard input is checked; None without such a release.
        releases: folder of a release → its files; None → the files of no release.
    """

    catalog: Catalog
    home: Path | None = None
    releases: dict[Path | None, list[Path]] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        return [file for files in self.releases.values() for file in files]


def _parts(search: Search, subject: Subject) -> list[_Part]:
    """Group the files by target versions. The first part has standard input and the files of no release.

    If there is a single release, they are checked together with it: a job, for example, with its runtime and queue.
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
    """Yield the findings of checks that compare objects with each other, one release at a time."""

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
    """Return the findings about changes since the trees in `old`, for the target versions of each new release."""

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
        checked.findings += kubeconform_findings(refusals, texts[name])
    return checked


def _results(kubeconform: Kubeconform, texts: Mapping[str, bytes]) -> list[Result]:
    """Return the results of kubeconform with the original file names.

    It skips files without a YAML or JSON suffix and rewrites unprintable names, so it gets such files as texts.
    """
    by_name = [name for name in texts if name != STDIN and name.endswith(SUFFIXES) and name.isprintable()]
    results = list(kubeconform.run(map(Path, by_name)))
    for name in texts.keys() - set(by_name):
        judged = kubeconform.run_text(texts[name].decode(errors="replace"))
        results += (replace(result, file=name) for result in judged)
    return results
