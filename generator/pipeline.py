"""Read this first: the whole of mpigen as a few calls.

platform.yaml / mpigen_platform.py ── config ──▶ Platform ── charts ──▶ [Manifest] ── checks ──▶ [Finding]
                                                                    ├── since the release before ──▶ [Finding]
                                                                    └── release ──▶ output/<platform>/<release>/
any YAML on disk ──────────── manifests.read ──▶ [Manifest] ── the same checks
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator import manifests, release
from generator.adoption.adoption import Adoption, Outcome, Run
from generator.checks.finding import Finding
from generator.checks.run import Checked, check_rendered, compare_rendered
from generator.documents.files import read_file
from generator.errors import ConfigError, InputError, Problem
from generator.report.result import reaches
from generator.schemas.catalog import Catalog

if TYPE_CHECKING:
    import cdk8s

    from generator.config.platform import Platform
    from generator.gitops.metadata import Headers


@dataclass(frozen=True, slots=True)
class Choices:
    """What the caller of `synth` decides; see `mpigen synth --help`."""

    replace: bool = False
    discard_edits: bool = False
    promote: bool | None = None
    adoption: Adoption = field(default_factory=Adoption)


@dataclass(frozen=True, slots=True)
class Synthesis:
    """What `synth` did.

    Attributes:
        platform: the platform of the file.
        checked: the number of objects of each kind, and all findings.
        outcome: the findings that are reported. They name the path that a rendered file has on disk once it is written.
        written: the release on disk; None if a finding failed the run, so that no file changed.
        texts: the path of each rendered file → its text.
    """

    platform: Platform
    checked: Checked
    outcome: Outcome
    written: release.Written | None
    texts: Mapping[str, str]

    def text_of(self, file: str) -> str:
        """Return the text of a file that a finding names: a rendered one, or one on disk. It is empty if unreadable."""
        try:
            return self.texts[file] if file in self.texts else read_file(Path(file)).decode(errors="replace")
        except InputError:
            return ""


def synth(platform_file: Path, output: Path, choices: Choices) -> Synthesis:
    """Platform file → checked release below `output`.

    Raises:
        ConfigError: the platform file is wrong.
        OutputError: the output cannot be written without losing something.
        DocumentError: a file of the release that this one replaces is not YAML.
    """
    from generator.gitops.metadata import Headers
    from generator.hazards.find import find_hazards
    from generator.hazards.sources import point_at_platform

    platform, app = load(platform_file)
    tree, pointer = render(platform, app)
    wanted = _release(platform, tree, pointer, Headers(platform, platform_file.name))
    checked = check(platform, tree, pointer, choices.adoption.today, _texts(wanted))
    checked.findings += compare_rendered(
        release.read_previous(wanted, tree, output), tree, wanted.files, wanted.targets
    )
    checked.findings = point_at_platform(checked.findings, tree, platform_file)
    checked.findings += find_hazards(platform, platform_file)
    texts = _place(checked, wanted, output)
    done = Synthesis(platform, checked, Outcome([], {}), None, texts)
    run = Run(
        checked.waiving, [str(platform_file), *texts], lambda check: not check.startswith("change/"), done.text_of
    )
    outcome = choices.adoption.apply(checked.findings, run)
    if any(reaches(finding.severity, choices.adoption.fail_on) for finding in outcome.findings):
        return replace(done, outcome=outcome)
    written = release.write(
        wanted,
        output,
        replace=choices.replace,
        discard_edits=choices.discard_edits,
        promote=choices.promote,
    )
    return replace(done, outcome=outcome, written=written)


def _place(checked: Checked, wanted: release.Release, output: Path) -> dict[str, str]:
    """Let findings name files as they will be on disk, and return the text of each of these files."""
    home = output / wanted.platform
    texts = _texts(wanted)
    files = {file: home / wanted.version / file if file in wanted.files else home / file for file in texts}
    checked.findings = [_rename(finding, files) for finding in checked.findings]
    checked.waiving = [replace(each, file=str(files[each.file])) for each in checked.waiving]
    return {str(files[file]): text for file, text in texts.items()}


def _texts(wanted: release.Release) -> dict[str, str]:
    """Return the files of a release and of its pointer: path below the release, or below the platform → text."""
    pointer = wanted.pointer(wanted.version)
    return {**wanted.files, **{f"{release.POINTER}/{file}": text for file, text in pointer.items()}}


def _rename(finding: Finding, files: Mapping[str, Path]) -> Finding:
    if finding.generated is None:
        return replace(finding, file=str(files.get(finding.file, finding.file)))
    file = finding.generated.file
    return replace(finding, generated=replace(finding.generated, file=str(files.get(file, file))))


def load(platform_file: Path) -> tuple[Platform, cdk8s.App]:
    """The platform of a file, and its app: of an mpigen_platform.py that defines one, that one.

    Raises:
        ConfigError: the file is wrong, or an mpigen_platform.py defines neither `platform` nor `app`.
    """
    if platform_file.suffix == ".py":
        return _load_python(platform_file)
    from generator.config.load import load_platform

    platform = load_platform(platform_file)  # first, because App starts Node, which takes longer than to refuse a file
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
        message = "`app` is a plain cdk8s App, which knows nothing of what the platform declares"
        raise ConfigError((Problem(message, "write `app = App(platform)`, from generator", str(platform_file)),))
    if not isinstance(platform, Platform):
        message = "it defines neither `platform`, a Platform, nor `app`, an App of one"
        raise ConfigError((Problem(message, "write `platform = Platform(...)`", str(platform_file)),))
    return platform, App(platform)


def render(platform: Platform, app: cdk8s.App) -> tuple[list[manifests.Manifest], list[manifests.Manifest]]:
    """The manifests of the release, each file's in the order in which they stand there, and those of its pointer."""
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
    """Run every check over everything that was rendered, for the versions that the platform names.

    Args:
        platform: the platform.
        tree: the manifests of the release.
        pointer: the manifests of the pointer.
        today: the day of the checks; the system's by default.
        texts: the files that hold the manifests, which findings point into. Default: without header comments.
    """
    everything = [*tree, *(replace(manifest, file=f"{release.POINTER}/{manifest.file}") for manifest in pointer)]
    targets = platform.cluster.versions.model_dump()
    return check_rendered(everything, texts or manifests.write(everything), Catalog.bundled(targets), today)


def _release(
    platform: Platform, tree: list[manifests.Manifest], pointer: list[manifests.Manifest], headers: Headers
) -> release.Release:
    from generator.gitops.argocd import pointer as pointer_to

    def pointer_texts(version: str) -> Mapping[str, str]:
        return headers.add(manifests.write(pointer_to(platform, tree, version)), f"{release.POINTER}/")

    return release.Release(
        platform=platform.platform,
        version=platform.release,
        files=headers.add(manifests.write(tree)),
        pointer=pointer_texts if pointer else lambda _version: {},
        inputs=platform.digest(),
        targets=platform.cluster.versions.model_dump(),
    )
