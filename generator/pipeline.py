"""Read this first: the flow of mpigen, one function for each step.

step       input and packages                                                       result
load       platform.yaml or mpigen_platform.py ── config ────────────────────────▶ Platform
render     Platform ── runtimes, networks, kueue, policies ── components ── gitops
           [Manifest] ── patches ────────────────────────────────────────────────▶ [Manifest]
judge      [Manifest] ── checks, which use schemas and upstream ─────────────────▶ [Finding]
synth      load, render, judge, and then
           Platform ── hazards ──────────────────────────────────────────────────▶ [Finding]
           [Finding] ── adoption: settings, waivers, baselines ──────────────────▶ [Finding]
           [Manifest] ── release, if no finding fails the run ───────────────────▶ output/<platform>/
plan       load, render, and then
           [Manifest] before and after ── effects, which uses checks and upstream ▶ [Effect]
promote    platform.yaml ── documents, and then load, render, plan, release ─────▶ argocd/ or flux/
validate   YAML on disk ── documents ──▶ [Manifest] ── the same checks ──────────▶ [Finding]
check_jobs [TrainJob], [Manifest] ── checks.submission, which uses upstream ────▶ [Finding]
audit      [Manifest] of a cluster ── checks.existing, which uses upstream ───────▶ [Finding]
drift      [Manifest] of a cluster and of a release ── checks.existing ───────────▶ [Finding]
upgrade    [Manifest] of two versions, and of a cluster ── upgrade, which uses effects ▶ [Entry]

`cli` has a module for each command, calls these steps, and prints by `report`. `jobs` builds the TrainJobs of
`mpigen job new`. `images` compares a container image with a runtime for `mpigen image check`. `questions` has the
questions of `mpigen can-i` and `mpigen reach`. All packages read `facts`, the tables about Kubernetes and MPI, and
`objects`, the views of manifests.

The first import of `config` (pydantic) and of `components` (Node.js) is slow, so a step imports its packages when it
runs.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from generator import manifests
from generator.adoption.adoption import Adoption, Outcome, Run
from generator.checks.files import Older, Search, compare_rendered, compare_with_older, manifest_files
from generator.checks.finding import Breach, Finding, Severity, place_findings
from generator.checks.registry import Stage, Suite
from generator.checks.run import Checked, check_rendered, check_text, judge_together, number_documents
from generator.documents.files import read_file
from generator.errors import ConfigError, InputError, OutputError, Problem
from generator.facts.names import DEFINITION
from generator.facts.versions import describe_announced
from generator.report.result import reaches
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    from generator.checks.existing.drift import Drift
    from generator.checks.existing.verdicts import Audit
    from generator.checks.submission import Destination, Submission
    from generator.checks.validation import Part
    from generator.components.app import App
    from generator.config.model.cluster import GitOps
    from generator.config.platform import Platform
    from generator.effects.effect import Effect
    from generator.hazards.sources import FindHook
    from generator.patches.apply import Effects
    from generator.release import Release, Tree, Written
    from generator.upgrade.entry import Entry, Upgrade


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of `synth`.

    Attributes:
        discard_edits: True to overwrite generated files that were edited or deleted by hand. By default, `synth`
            raises an OutputError that lists them.
        against: the Git revision or folder with the release to compare with. Default: `HEAD`, or the release on disk
            if `HEAD` has none.
        adoption: the settings, waivers and baseline that select the findings.
    """

    discard_edits: bool = False
    against: str = ""
    adoption: Adoption = field(default_factory=Adoption)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A release that `synth` rendered.

    Attributes:
        environment: its environment; empty for a platform file without environments.
        platform: its platform.
        checked: the number of objects of each kind, and the findings of all checks.
        written: the release on disk; None if `synth` wrote no release.
        applied: the files in the folder that mpigen did not generate, and that the GitOps engine applies.
    """

    environment: str
    platform: Platform
    checked: Checked
    written: Written | None
    applied: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The result of `synth`.

    Attributes:
        releases: the release of each environment, in the order of the platform file; one release for a file without
            environments. If a finding has the severity of `--fail-on` or a higher one, none of them is written.
        outcome: the findings to report. Rendered files have the paths that they get on disk.
        texts: path → text of each rendered file, and of each file in a release that a new one replaces.
        orphans: the names of platforms whose releases stay in the output folder, although the platform file no longer
            writes them.
    """

    releases: Sequence[Rendered]
    outcome: Outcome
    texts: Mapping[str, str]
    orphans: Sequence[str] = ()

    def text_of(self, file: str) -> str:
        """Return the text of a rendered file or of a file on disk; empty if unreadable."""
        return _read_text(self.texts, file)


def synth(platform_file: Path, output: Path, choices: Choices) -> Synthesis:
    """Render the releases of a platform file, check them, and write all of them below `output`, or none.

    Args:
        platform_file: a platform.yaml, or a Python file, which mpigen executes.
        output: the folder for releases. A release replaces the files of its subfolder, named after the platform.
        choices: the options.

    Returns:
        The findings, and the releases on disk if no finding prevents it.

    Raises:
        ConfigError: the platform file is invalid, there is no Git revision `choices.against`, or one of your own checks
            raises an exception.
        OutputError: writing the output would lose files or edits, or the Git tag of this version has other content.
        DocumentError: a file in a release that the new one replaces is not YAML.
    """
    from generator import release

    drafts = _draft_all(platform_file, output, choices.against)
    checked = [draft.judge(choices.adoption) for draft in drafts]
    texts = {path: text for draft in drafts for path, text in draft.texts.items()}
    files = list(dict.fromkeys(file for draft in drafts for file in draft.files))
    together = Checked.total(checked)
    run = Run(together.waiving, files, _is_covered, partial(_read_text, texts))
    outcome = choices.adoption.apply(together.findings, run)
    written: list[Written | None] = [None] * len(drafts)
    if not any(reaches(finding.severity, choices.adoption.fail_on) for finding in outcome.findings):
        if problems := [problem for draft in drafts for problem in release.find_tagged(draft.release, draft.home)]:
            raise OutputError(tuple(problems))
        drafted = [draft.release for draft in drafts]
        written = [*release.write_all(drafted, output, discard_edits=choices.discard_edits)]
    releases = [
        Rendered(draft.environment, draft.platform, result, files, draft.find_applied(files))
        for draft, result, files in zip(drafts, checked, written, strict=True)
    ]
    return Synthesis(releases, outcome, texts, _find_orphans(platform_file, output))


def _find_orphans(platform_file: Path, output: Path) -> list[str]:
    """Return the names of platforms whose releases stay, although the platform file no longer writes them."""
    from generator.config.load import find_names
    from generator.release import find_orphans

    base, names = find_names(platform_file)
    return [lock.platform for lock in find_orphans(output, base, names, platform_file.name)]


def _is_covered(check: str) -> bool:
    """Return True if a waiver of a check is unused when `synth` has no finding for the waiver.

    Findings of `change/` depend on the release that the new one replaces, so a waiver can be needed again later.
    """
    return not check.startswith("change/")


def _read_text(texts: Mapping[str, str], file: str) -> str:
    try:
        return texts[file] if file in texts else read_file(Path(file)).decode(errors="replace")
    except InputError:
        return ""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A rendered release, before it is written.

    Attributes:
        environment: the environment of the platform; empty for a file without environments.
        source: the platform file.
        tree: the manifests.
        release: the files.
        home: the folder of the release.
        replaced: the release that this one replaces; None for the first release.
        effects: the effects of patches on the manifests.
        declared: the platform, with the runtimes of all constructs.
        hooks: identity of a runtime → the function that returns the hook that sets a field of its body.
    """

    environment: str
    platform: Platform
    source: Path
    tree: list[manifests.Manifest]
    release: Release
    home: Path
    replaced: Tree | None
    effects: Effects
    declared: Platform
    hooks: Mapping[tuple[str, str, str, str], FindHook]

    @property
    def paths(self) -> Mapping[str, str]:
        """Return rendered file → its path on disk."""
        return {file: str(self.home / file) for file in self.release.files}

    @property
    def texts(self) -> Mapping[str, str]:
        """Return path → text of each rendered file, and of each file in the replaced release."""
        rendered = {path: self.release.files[file] for file, path in self.paths.items()}
        return {**(self.replaced.texts if self.replaced else {}), **rendered}

    @property
    def files(self) -> list[str]:
        """The platform file, and the paths of the rendered files."""
        return [str(self.source), *self.paths.values()]

    def find_applied(self, written: Written | None) -> list[str]:
        """Return the files of the folder that mpigen did not generate, and that the GitOps engine applies."""
        from generator.gitops.own_files import find_applied

        return find_applied(written.kept if written else (), self.release.files, self.platform.gitops)

    def judge(self, adoption: Adoption) -> Checked:
        """Run the checks of the manifests, of the update, and of the platform file."""
        from generator.hazards.find import find_hazards
        from generator.hazards.patched import find_weakened

        lock, texts = self.release.lock, self.release.files
        catalog = _read_catalog(self.release.targets, texts, adoption.settings.schema_locations)
        checked = check_rendered(self.tree, texts, catalog, adoption.today, adoption.suite, lock=lock.manifest)
        findings = self.point_at_platform([*checked.findings, *self._compare(adoption)])
        findings += find_weakened(self.effects, self.source, self.environment, self.declared)
        findings += find_hazards(self.platform, self.source, self.environment, adoption.today)
        return replace(checked, findings=findings).with_paths(self.paths)

    @property
    def numbered(self) -> list[manifests.Manifest]:
        """Return the manifests, each with the number of its document in its file."""
        return [*number_documents(self.tree)]

    def for_targets(self, targets: Mapping[str, str]) -> _Draft:
        """Return the same manifests, to be judged for other versions."""
        return replace(self, release=replace(self.release, targets=dict(targets)))

    def render_for(self, targets: Mapping[str, str]) -> _Draft:
        """Render the platform of a YAML file for other versions.

        Raises:
            ConfigError: the platform is invalid for these versions. The problems have no line.
        """
        from generator import App
        from generator.config.model.fields import copy_unchecked

        cluster = self.platform.cluster  # `replace` checks the sections inside
        changed = copy_unchecked(cluster, versions=copy_unchecked(cluster.versions, **targets))
        platform = self.platform.replace(cluster=changed)
        return _draft(self.source, self.environment, App(platform), self.home.parent, "")

    def place(self, manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        """Return the file and the line of the platform file that cause a part of an object, or else of the release."""
        text = self.release.files.get(manifest.file, "")
        (finding,) = place_findings([(manifest, Breach(path, "", "", "", manifest, check="upgrade"))], text)
        (placed,) = self.point_at_platform([finding])
        return self.paths.get(placed.file, placed.file), placed.line

    def line_of_versions(self) -> int:
        """Return the line of `cluster.versions` in the platform file, or of the nearest section around it."""
        from generator.hazards.find import locate_paths

        return locate_paths(self.source, [("cluster", "versions")], self.environment, self.declared)[0].line

    def point_at_platform(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return findings in rendered files with the lines of the platform file that cause them."""
        from generator.components.site import sources_of_extras
        from generator.hazards.sources import Causes, point_at_platform

        causes = Causes(self.effects, sources_of_extras(self.platform), self.hooks)
        return point_at_platform(findings, self.tree, self.source, self.environment, causes, self.declared)

    def _compare(self, adoption: Adoption) -> list[Finding]:
        """Return the findings of the checks that compare this release with the release that it replaces.

        The first release is compared with an empty release.
        """
        from generator.release import LOCK

        lock = {LOCK: self.release.lock.encode().decode()}
        texts = {**(self.replaced.texts if self.replaced else {}), **self.release.files, **lock}
        older = (
            [*self.replaced.manifests(self.release, self.tree), self.replaced.lock.manifest] if self.replaced else []
        )
        newer = [*self.tree, self.release.lock.manifest]
        return compare_rendered(older, newer, texts, self.release.targets, adoption.suite, adoption.today)


def _draft_all(platform_file: Path, output: Path, against: str) -> list[_Draft]:
    """Render the release of each environment of a platform file."""
    if platform_file.suffix == ".py":
        _, app = load(platform_file)
        return [_draft(platform_file, "", app, output, against)]
    from generator.config.load import load_environments

    platforms = load_environments(platform_file)  # reports errors before App starts Node.js, which is slow
    from generator import App

    return [
        _draft(platform_file, environment, App(platform), output, against)
        for environment, platform in platforms.items()
    ]


def _draft(platform_file: Path, environment: str, app: App, output: Path, against: str) -> _Draft:
    from generator.config.environments import selected_environment
    from generator.config.model.fields import copy_unchecked
    from generator.gitops.metadata import Headers
    from generator.objects.protections import read_protections
    from generator.release import Release, find_replaced

    platform = app.platform
    app.file, app.environment = str(platform_file), environment or selected_environment()
    tree, effects = _render(platform, app)
    home = output / platform.platform
    release = Release(
        platform=platform.platform,
        version=platform.release,
        files=Headers(platform, platform_file.name).add(manifests.write(tree)),
        inputs=platform.digest(),
        targets=platform.cluster.versions.model_dump(),
        protections=read_protections(tree),
        removed={name: removal.as_texts for name, removal in platform.removed.items()},
        renames={tenant.name: tenant.renamed_from for tenant in platform.tenants if tenant.renamed_from},
        predecessor=platform.renamed_from or "",
    )
    replaced = find_replaced(home, against, release.predecessor)
    is_python = platform_file.suffix == ".py"
    declared = copy_unchecked(platform, runtimes=app.runtimes) if is_python else platform
    hooks = {identity: partial(origins.find, file=str(platform_file)) for identity, origins in app.origins.items()}
    return _Draft(environment, platform, platform_file, tree, release, home, replaced, effects, declared, hooks)


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of `plan`.

    Attributes:
        platform: the name of the platform.
        version: the version of the new release.
        against: the release before the update, such as `HEAD:output/prod`; empty if there is none.
        effects: the effects of the update, by topic.
    """

    platform: str
    version: str
    against: str
    effects: Sequence[Effect]

    @property
    def is_new_version(self) -> bool:
        """Return True if the release before the update has another version."""
        return any(
            effect.topic == "version" and effect.before and effect.after == self.version for effect in self.effects
        )


def plan(source: Path, output: Path, against: str, today: dt.date | None = None) -> Planned:
    """Return the effects of an update: of a platform file, or of the release in a folder. Write nothing.

    Args:
        source: a platform.yaml, a Python file, which mpigen executes, or the folder of a release. A missing folder is a
            deleted release.
        output: the folder for releases, for a platform file.
        against: the Git revision or folder with the release before the update. Default: `HEAD`. Default for a platform
            file outside of Git, or with releases that Git ignores: the release on disk.
        today: the day of the plan: an acknowledgement in `removed` with an earlier last day has no effect. None to
            ignore last days.

    Raises:
        ConfigError: the platform file is invalid or declares environments of which the user selects none, or there is
            no Git revision `against`.
        OutputError: a folder is not a release, or its lock is damaged.
        DocumentError: a file of a release is not YAML.
        InputError: a file cannot be read.
    """
    from generator.checks.objects import Change
    from generator.effects.renames import find_orphan_effects
    from generator.effects.topics import find_effects
    from generator.release import is_uncommitted, read_others, read_update

    if source.is_dir() or not (source.exists() or source.suffix):
        update = read_update(source, against)
        change = Change.of_trees(update.old, update.new, update.lock.targets, today)
        return Planned(update.lock.platform, update.lock.version, update.against, find_effects(change))
    _, app = load(source)
    draft = _draft(source, "", app, output, against)
    if draft.replaced and is_uncommitted(draft.replaced, draft.home):
        draft = replace(draft, replaced=None)
    lock = draft.release.lock
    old: list[manifests.Manifest] = []
    if draft.replaced:
        replaced = replace(draft.replaced, prefix="")
        old = [*replaced.manifests(draft.release, draft.tree), *replaced.other_manifests, replaced.lock.manifest]
    change = Change.of_trees(old, [*draft.tree, *read_others(draft.home), lock.manifest], lock.targets, today)
    before = draft.replaced.prefix.removeprefix("replaced:").rstrip("/") if draft.replaced else ""
    orphans = [name for name in _find_orphans(source, output) if lock.platform.startswith(f"{name}-")]
    effects = [*find_orphan_effects(orphans, output.as_posix(), source.name), *find_effects(change)]
    return Planned(lock.platform, lock.version, before, effects)


@dataclass(frozen=True, slots=True)
class Promotion:
    """The result of `promote`.

    Attributes:
        path: the edited field, such as `environments.prod.gitops.revision`.
        before: the revision that the field had.
        after: the revision that the field has now.
        planned: the effects of the update from the release in `before` to the release in `after`.
        written: the release on disk, whose Application has the new revision.
    """

    path: str
    before: str
    after: str
    planned: Planned
    written: Written


def promote(
    platform_file: Path, environment: str, revision: str, output: Path, today: dt.date | None = None
) -> Promotion:
    """Set `gitops.revision` in a platform.yaml, and write the objects of the GitOps engine with this revision.

    Args:
        platform_file: a platform.yaml. One line of it changes.
        environment: the environment to promote; empty for a file without environments.
        revision: the branch, tag or commit that the engine should follow. The local clone has it. For an artifact in
            an OCI registry, the tag of the artifact: the clone has the Git tag `<platform>/<tag>`, or `<tag>`.
        output: the folder for releases.
        today: the day of the plan, as for `plan`.

    Raises:
        ConfigError: the platform file is invalid, a Python file or without `gitops`, its line cannot be edited, there
            is no Git revision `revision`, the clone lacks the revision that the engine follows now, Flux reads the
            name of a tag as the name of a branch, or a revision is a digest or a range of versions in a registry.
        OutputError: `revision` has no release of this platform, or the release on disk differs from what the platform
            file renders, or a file cannot be written. Nothing has changed then.
        DocumentError: a file of a release is not YAML.
    """
    from generator.config.load import parse_platform
    from generator.documents.edit import replace_file

    if platform_file.suffix == ".py":
        fix = "set `gitops.revision` in the file, run `mpigen synth`, and compare the releases with `mpigen plan`"
        raise ConfigError((Problem("`promote` edits only a platform.yaml", fix, str(platform_file)),))
    text = read_file(platform_file)
    platform = parse_platform(text, platform_file, environment)
    if platform.gitops is None:
        message = "the platform has no `gitops`, so no engine follows a revision"
        raise ConfigError((Problem(message, "add `gitops`, and run `mpigen synth`", str(platform_file)),))
    before, home = platform.gitops.revision, output / platform.platform
    old, new = (_find_commit(platform, platform.gitops, name, home, platform_file) for name in (before, revision))
    planned = _plan_between(platform, home, old, new, today)
    path, edited = _edit_revision(platform_file, text, environment, revision)
    from generator import App, release

    promoted = parse_platform(edited, platform_file, environment)
    if (
        promoted.gitops
        and promoted.gitops.is_flux
        and "branch" in promoted.gitops.flux_reference
        and release.is_tag(home, revision)
    ):
        message = f"`{revision}` is a tag, but Flux reads this name as the name of a branch"
        raise ConfigError((Problem(message, f"pass `--to refs/tags/{revision}`", str(platform_file), path=path),))
    app = App(promoted)
    draft = _draft(platform_file, environment, app, output, str(home))
    if draft.replaced is None or draft.replaced.lock.versioned != draft.release.lock.versioned:
        message = f"the release on disk is not what `{platform_file}` renders, so other lines would change too"
        fix = f"run `mpigen synth {platform_file}`, and commit the result before you promote"
        raise OutputError((Problem(message, fix, str(home)),))
    with release.report_os_errors(platform_file):
        replace_file(platform_file, edited)
    try:
        written = release.write(draft.release, output)
    except BaseException:
        replace_file(platform_file, text)
        raise
    return Promotion(path, before, revision, planned, written)


def _find_commit(platform: Platform, gitops: GitOps, revision: str, home: Path, platform_file: Path) -> str:
    """Return the Git revision with the release that a revision names: for an artifact of a registry, its Git tag.

    Raises:
        ConfigError: the revision is a digest or a range of versions in a registry.
    """
    from generator import release
    from generator.config.model.fields import copy_unchecked

    if not gitops.is_oci:
        return revision
    named = copy_unchecked(gitops, revision=revision)
    if named.is_digest or named.is_range:
        message = f"`{revision}` names no Git tag, so mpigen cannot compare its release"
        fix = "promote from one tag to another, or edit `gitops.revision` by hand and run `mpigen synth`"
        raise ConfigError((Problem(message, fix, str(platform_file)),))
    tag = f"{platform.platform}/{revision}"
    if release.is_tag(home, tag):
        return tag
    return revision if release.is_tag(home, revision) or not named.is_version else tag


def _plan_between(platform: Platform, home: Path, before: str, after: str, today: dt.date | None) -> Planned:
    """Return the effects of an update from the release in one Git revision to the release in another."""
    from generator.checks.objects import Change
    from generator.effects.topics import find_effects
    from generator.release import read_update_between

    update = read_update_between(home, before, after)
    effects = find_effects(Change.of_trees(update.old, update.new, update.lock.targets, today))
    return Planned(platform.platform, update.lock.version, update.against, effects)


def _edit_revision(platform_file: Path, text: bytes, environment: str, revision: str) -> tuple[str, bytes]:
    """Return the path of `gitops.revision` of an environment, and the text with the new revision."""
    from generator.config.environments import ENVIRONMENTS
    from generator.documents.edit import set_value
    from generator.documents.messages import format_path

    steps = (*((ENVIRONMENTS, environment) if environment else ()), "gitops", "revision")
    path = format_path(steps)
    try:
        return path, set_value(text.decode(), steps, revision).encode()
    except ValueError:
        message = "mpigen cannot edit this line without a change of other values"
        fix = f"set it to `{revision}` by hand, and run `mpigen synth`"
        raise ConfigError((Problem(message, fix, str(platform_file), path=path),)) from None


def load(platform_file: Path, environment: str = "") -> tuple[Platform, App]:
    """Return the platform of a platform file, and its app, the root of its cdk8s constructs.

    A platform.yaml gets an app without further constructs. A Python file defines `platform`, or `app` with further
    constructs. The first call in a process starts Node.js, which takes about a second.

    Args:
        platform_file: a platform.yaml, or a Python file such as mpigen_platform.py, which mpigen executes.
        environment: one of the `environments` of a platform.yaml. Default: the environment that `--environment`
            selects, or none.

    Raises:
        ConfigError: the file cannot be read or is invalid, `environment` is not one of its environments, or a Python
            file fails or defines neither name. The error has every mistake of a platform.yaml, each with its line.
    """
    from generator.config.environments import reject_environment, selected_environment
    from generator.config.load import load_platform
    from generator.config.python_file import check_platform_file, run_platform_file

    if platform_file.suffix != ".py":
        platform = load_platform(platform_file, environment)  # reports errors before App starts Node.js, which is slow
        from generator import App

        app = App(platform)
        app.file, app.environment = str(platform_file), environment or selected_environment()
        return platform, app
    check_platform_file(platform_file)
    reject_environment(environment, str(platform_file))
    from generator import App  # before the file imports cdk8s: it chooses the Node.js that cdk8s starts
    from generator.components.app import app_in

    app = app_in(run_platform_file(platform_file), str(platform_file))
    app.file = str(platform_file)
    return app.platform, app


def render(platform: Platform, app: App) -> list[manifests.Manifest]:
    """Return the manifests of the release. With `gitops`, the objects of Argo CD or Flux are last.

    A script can change their bodies. A change affects neither the platform nor other manifests nor later calls.

    Args:
        platform: the platform.
        app: the app of the platform, with all its constructs.

    Raises:
        ConfigError: a construct of your own does not validate, or its object cannot be written as YAML, or is in a file
            that Flux cannot apply; an object of `extra` is in the release twice; or a patch matches no object, fails,
            or changes nothing.
    """
    return [replace(manifest, body=manifests.detach(manifest.body)) for manifest in _render(platform, app)[0]]


def _render(platform: Platform, app: App) -> tuple[list[manifests.Manifest], Effects]:
    """Return the manifests as `render` does, but with bodies that share values, and the effects of patches on them.

    Callers must not change the bodies.

    Raises:
        ConfigError: as for `render`. The problems have their places, if the app has the name of its platform file.
    """
    try:
        return _render_unplaced(platform, app)
    except ConfigError as error:
        if not app.file:
            raise
        from generator.hazards.find import place_problems

        raise ConfigError(place_problems(Path(app.file), error.problems, app.environment, platform)) from None


def _render_unplaced(platform: Platform, app: App) -> tuple[list[manifests.Manifest], Effects]:
    """Return the manifests of the release, and the effects of patches on them. Problems have no line."""
    from generator.components.constructs import collect
    from generator.components.site import count_constructs, find_late, find_repeated, patching_of
    from generator.gitops.argocd import account_role, application_manifests
    from generator.gitops.bootstrap import bootstrap_manifests
    from generator.gitops.flux import annotate_for_flux, flux_manifests
    from generator.gitops.metadata import annotate_for_argocd, label_owner
    from generator.objects.pods import RUNTIMES
    from generator.policies.admission.parameters import add_parameters_of_tree

    def annotate(objects: list[manifests.Manifest]) -> list[manifests.Manifest]:
        """Return objects with the labels of their owner and the annotations of the GitOps engine."""
        labelled = label_owner(objects, platform.platform)
        if platform.gitops is None:
            return labelled
        return annotate_for_flux(labelled) if platform.gitops.is_flux else annotate_for_argocd(labelled)

    collected = add_parameters_of_tree(collect(app), platform.fabrics)
    if problems := [*find_repeated(platform, collected)]:
        raise ConfigError(tuple(problems))
    patching = patching_of(platform, app)
    constructs = count_constructs(app, patching)
    tree = patching.apply(annotate(collected))
    if any(manifest.kind in RUNTIMES for manifest in patching.patched(tree)):
        tree = add_parameters_of_tree(tree, platform.fabrics)  # namespaces list the resources of runtimes
    engine = annotate(account_role(platform, tree))
    if platform.gitops and platform.gitops.is_flux:
        engine += flux_manifests(platform, [*tree, *engine])
    elif platform.gitops:
        engine += [*application_manifests(platform, [*tree, *engine]), *bootstrap_manifests(platform)]
    tree += patching.apply(engine)
    patching.check(tree)
    if problems := [*find_late(app, patching, constructs)]:
        raise ConfigError(tuple(problems))
    return tree, patching.effects


def judge(
    platform: Platform,
    tree: list[manifests.Manifest],
    today: dt.date | None = None,
    texts: Mapping[str, str] | None = None,
    suite: Suite | None = None,
) -> Checked:
    """Run the checks of manifests on the rendered manifests, for the versions in `cluster.versions` of the platform.

    Args:
        platform: the platform.
        tree: all manifests of its release. A reference to an object that the release lacks is a finding.
        today: the day of the check: a relaxation or reservation with an earlier last day is a finding. None to ignore
            their last days.
        texts: file → its text, for the lines of findings; it has every file of `tree`. Default: the YAML of `tree`,
            without header comments.
        suite: the checks. Default: the checks of mpigen.

    Returns:
        The number of objects of each kind, and all findings. Their files are relative to the release folder.

    Raises:
        ConfigError: one of your own checks raises an exception.
    """
    targets = platform.cluster.versions.model_dump()
    texts = texts or manifests.write(tree)
    return check_rendered(tree, texts, _read_catalog(targets, texts), today, suite or Suite())


def _read_catalog(targets: Mapping[str, str], texts: Mapping[str, str], locations: Sequence[str] = ()) -> Catalog:
    """Return the schemas of the target versions, of the CustomResourceDefinitions in a release, and of folders."""
    catalog, name = Catalog.bundled(targets), DEFINITION.decode()
    definitions = {file: text.encode() for file, text in texts.items() if name in text}
    if not definitions and not locations:
        return catalog
    return catalog.with_local(catalog.read_local_schemas(definitions, locations))


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


def validate(subject: Subject, engine: str, cache: Path) -> Validation:
    """Check the manifests in files.

    Args:
        subject: the files, and the options of the checks.
        engine: `embedded` for the bundled schemas and all checks, `kubeconform` for schemas alone, or `both`.
        cache: the folder with the binary of kubeconform, which is built if it is missing. `embedded` ignores it.

    Returns:
        The number of objects of each kind, and all findings. A file that cannot be read or parsed is a finding.

    Raises:
        ConfigError: there is no Git revision `subject.since`, a location of schemas is not a folder, or one of your own
            checks raises an exception.
        OutputError: a path does not exist, no path holds manifests, `subject.since` has no objects, or the older and
            the new releases do not match by platform.
        EngineError: kubeconform cannot be built or run, or neither kubectl nor kustomize can render.
    """
    from generator.checks.consequences import without_consequences
    from generator.checks.foreign import describe_skipped
    from generator.checks.sources import find_sources
    from generator.checks.validation import STDIN, combine_engines, group_by_targets, pass_missing_schemas

    search = manifest_files(subject.paths)
    if not (search.files or search.refused) and subject.stdin is None:
        folders = ", ".join(map(str, subject.paths))
        raise OutputError((Problem(f"no manifests below {folders}", "name files, or folders of YAML or JSON files"),))
    sources = find_sources(search, renders=subject.renders)
    parts = group_by_targets(sources, subject.stdin, subject.targets, subject.schema_locations)
    results = dict(_run_engines(subject, parts, search.refused, engine, cache))
    of_files = dict.fromkeys([*sources.findings, *_find_altered(subject, search)])
    checked = combine_engines(*results.values()).with_findings([*of_files])
    checked = replace(checked, findings=sources.relocate(checked.findings))
    skipped = describe_skipped((*sources.skipped, *checked.skipped), renders=subject.renders)
    if skipped and not (checked.files or checked.findings or subject.stdin is not None):
        raise OutputError(tuple(Problem(line) for line in skipped))
    stdin = {} if subject.stdin is None else {STDIN: subject.stdin}
    changes, texts = None, stdin
    if subject.since:
        from generator.effects.findings import judge_with_effects

        older = _find_older(subject.since, subject.paths)
        older = replace(older, search=replace(older.search, files=find_sources(older.search, renders=False).files))
        newer = find_sources(search, renders=False).files if subject.renders else sources.files
        judge = partial(judge_with_effects, suite=subject.suite)
        changes = compare_with_older(older, newer, stdin, subject.targets, judge, subject.today)
        checked, texts = checked.with_findings(changes), {**stdin, **older.texts}
    return Validation(
        pass_missing_schemas(checked) if subject.ignore_missing else checked,
        names=[*map(str, search.files), *stdin],
        by_engine={name: len(without_consequences(result.findings)) for name, result in results.items()},
        announced=[*dict.fromkeys(text for part in parts for text in describe_announced(part.catalog.targets))],
        of_files=len(of_files),
        since=None if changes is None else len(changes),
        texts={name: text.decode(errors="replace") for name, text in texts.items()},
        skipped=skipped,
        rendered=len(sources.rendered),
    )


def _find_altered(subject: Subject, search: Search) -> list[Finding]:
    """Return a finding for each file that differs from the lock of its release, in the releases that are checked."""
    from generator.checks.altered import find_whole_releases, report_altered
    from generator.release import verify

    folders = find_whole_releases(subject.paths, search.files)
    return [finding for folder in folders for finding in report_altered(verify(folder))]


def _run_engines(
    subject: Subject, parts: Sequence[Part], refused: Sequence[Problem], engine: str, cache: Path
) -> Iterator[tuple[str, Checked]]:
    """Yield the name and the result of each engine."""
    from generator.checks.validation import check_parts

    if engine != "kubeconform":
        yield "embedded", check_parts(parts, refused, subject.today, subject.suite)
    if engine != "embedded":
        from generator.checks.kubeconform import check_by_kubeconform

        yield "kubeconform", check_by_kubeconform(parts, refused, cache)


def _find_older(since: str, paths: Sequence[Path]) -> Older:
    """Return the older manifests: in the file or folder `since`, or else at `paths` in the Git revision `since`."""
    if os.path.exists(since):  # noqa: PTH110 - Path.exists raises for a name that is too long
        return Older(since, manifest_files([Path(since)]))
    from generator.release import read_manifest_texts

    texts = read_manifest_texts(since, paths)
    return Older(since, Search(tuple(map(Path, texts)), ()), texts)


@dataclass(frozen=True, slots=True)
class JobVerdicts:
    """The result of `check_jobs`: the submitted TrainJobs, and all findings in their files."""

    submissions: Sequence[Submission]
    findings: Sequence[Finding]

    @property
    def jobs(self) -> list[manifests.Manifest]:
        """The TrainJobs."""
        return [submission.job for submission in self.submissions]

    def verdict(self, submission: Submission, findings: Collection[Finding]) -> str:
        """Return the verdict on a TrainJob: that of the cluster, or `faulty`.

        A TrainJob that Kueue admits, now or later, is `faulty` if a finding about it is an error.

        Args:
            submission: one of the submissions.
            findings: the findings that count, such as those without a waiver.
        """
        job = submission.job
        metadata = {key: value for key, value in job.body["metadata"].items() if key != "namespace"}
        without = replace(job, body={**job.body, "metadata": metadata})
        names = {job.resource, job.resource_in_file, without.resource}  # as in the file
        errors = (finding for finding in findings if finding.severity is Severity.ERROR)
        is_faulty = any(error.file == job.file and error.resource in names for error in errors)
        return "faulty" if is_faulty and submission.verdict in ("admitted", "waits") else submission.verdict


def check_jobs(texts: Mapping[str, bytes], destination: Destination, suite: Suite | None = None) -> JobVerdicts:
    """Check TrainJobs as the cluster would: schemas and checks, RBAC, admission policies, Trainer, JobSet and Kueue.

    Args:
        texts: file → its text with TrainJobs, in the order of their submission.
        destination: the other objects of the cluster, such as a release, and the user.
        suite: the checks. Default: the checks of mpigen.

    Raises:
        DocumentError: a file is not YAML, or has an object that is not a TrainJob, or two TrainJobs have the same name.
        SimulationError: an object of the cluster is invalid: an amount is not a quantity, or two different objects have
            the same name.
    """
    from generator.checks.compiled import judge_runtime, without_explained
    from generator.checks.corrected import correct
    from generator.checks.placeholders import fill, names_placeholder
    from generator.checks.submission import JUDGED, Submission, can_report_jobs, read_jobs, select_near, submit
    from generator.upstream.compile import find_runtime

    suite = replace(suite or Suite(), of_jobs=True)
    jobs = read_jobs(texts, destination.namespace)
    engine = Engine(Catalog.bundled(destination.targets))
    namespaces = {job.namespace for job in jobs}
    near = [item for item in destination.world if item.namespace in ("", *namespaces)]
    if not suite.own:  # your own checks can read all
        near = select_near(near, namespaces)
    checked = Checked.total(check_text(text, file, engine, suite) for file, text in texts.items())
    filled = [fill(job, engine, {}) for job in jobs]
    submitted = iter(submit([job for job, unknown in filled if not unknown], destination, engine))
    submissions = [
        Submission(job, is_clear=False) if unknown else next(submitted)
        for job, (_, unknown) in zip(jobs, filled, strict=True)
    ]
    of_others = {check.id for check in suite.at(Stage.TOGETHER, engine.targets) if not can_report_jobs(check)}
    located = list(
        judge_together(
            [*near, *(correct(job, engine) for job, _ in filled)],
            engine.targets,
            files=() if destination.is_complete else None,
            suite=suite,
            left_out=[*JUDGED, *of_others],
        )
    )
    predicted = (breach for submission in submissions for breach in submission.located)
    breaches = [*located, *without_explained(predicted, located)]
    for submission in submissions:
        job = submission.job
        runtime = find_runtime(job, destination.world)
        if isinstance(runtime, manifests.Manifest) and submission.is_of_known_namespace:
            complete = destination.is_complete
            breaches += judge_runtime(job, runtime, located, engine.targets, is_complete=complete)
    breaches = [item for item in breaches if not (item[0].is_partial or names_placeholder(item[1].message))]
    findings = [
        finding
        for file, text in texts.items()
        for finding in place_findings([located for located in breaches if located[0].file == file], text)
    ]
    return JobVerdicts(submissions, [*_without_repetition(checked.with_findings(findings).in_order())])


def _without_repetition(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Leave out verdicts on TrainJobs whose cause another finding reports.

    `quota/never-admitted` names the size to choose. Other `trainjob/*` errors explain a rejection at the same field.
    """
    sized = {(finding.file, finding.resource) for finding in findings if finding.check == "quota/never-admitted"}
    verdicts = ("trainjob/denied", "trainjob/forbidden", "trainjob/not-admitted", "trainjob/rejected")
    errors = [finding for finding in findings if finding.severity is Severity.ERROR and finding.check not in verdicts]
    causes = [finding for finding in errors if finding.check.startswith("trainjob/")]
    places = {(finding.file, finding.line, finding.path) for finding in causes}
    for finding in findings:
        is_sized = finding.check == "trainjob/not-admitted" and (finding.file, finding.resource) in sized
        is_predicted = finding.check in ("trainjob/rejected", "workload/job-set")
        is_explained = is_predicted and (finding.file, finding.line, finding.path) in places
        if not (is_sized or is_explained):
            yield finding


@dataclass(frozen=True, slots=True)
class Audited:
    """The result of `audit`: the verdicts on existing objects, and the findings in the export."""

    audit: Audit
    findings: Sequence[Finding]


def audit(texts: Mapping[str, bytes], release: Sequence[manifests.Manifest], targets: Mapping[str, str]) -> Audited:
    """Judge the existing objects of a cluster by admission policies and Pod Security levels.

    Args:
        texts: file → its text with exported objects.
        release: the objects with the policies; empty if the export has them.
        targets: component → minor version; empty for the newest.

    Raises:
        DocumentError: a file is not YAML or JSON, or has a document that is not an object.
        OutputError: there are no policies, or the export has no objects.
    """
    from generator.checks.existing.audit import audit_objects, read_export
    from generator.checks.existing.findings import find_findings

    objects, repeated = read_export(texts)
    done = audit_objects(objects, release, Catalog.bundled(targets))
    if repeated:
        done.notes.append(f"{repeated} objects appear more than once, and only the last of each counts")
    return Audited(done, sorted(find_findings(done, texts)))


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of `drift`: the differences of live objects from a release, and the findings about them."""

    drift: Drift
    findings: Sequence[Finding]


def drift(
    texts: Mapping[str, bytes],
    release: Sequence[manifests.Manifest],
    targets: Mapping[str, str],
    text_of: Callable[[str], str],
) -> Compared:
    """Compare the existing objects of a cluster with a release, without what servers add.

    Args:
        texts: file → its text with exported objects.
        release: the objects of the release.
        targets: component → minor version; empty for the newest.
        text_of: returns the text of a file of the release; empty if an object is in no file.

    Raises:
        DocumentError: a file is not YAML or JSON, or has a document that is not an object.
        OutputError: the export has no objects.
    """
    from generator.checks.existing.audit import read_export
    from generator.checks.existing.drift import compare_with_release
    from generator.checks.existing.drift_findings import find_drift

    export = "kubectl get $(mpigen drift RELEASE --resources) -A -o yaml --show-managed-fields"
    objects, _ = read_export(texts, export)
    if not objects:
        raise OutputError((Problem("the export has no objects", f"export the objects: `{export}`"),))
    done = compare_with_release(objects, release, Catalog.bundled(targets))
    findings = find_drift(done, lambda file: texts[file] if file in texts else text_of(file).encode())
    return Compared(done, sorted(findings))


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """The input of `upgrade`.

    Attributes:
        source: a platform.yaml, a Python file, which mpigen executes, or a folder with the manifests of a release.
        to: the values of `--to`, such as `kueue=0.20,trainer=2.4`.
        present: the values of `--from`. Default: the versions of the platform file or of the release.
        texts: file → its text with exported objects; None without an export.
        today: the day of the checks.
    """

    source: Path
    to: Sequence[str]
    present: Sequence[str] = ()
    texts: Mapping[str, bytes] | None = None
    today: dt.date | None = None


def upgrade(request: UpgradeRequest) -> Upgrade:
    """Return the steps of an upgrade, and what it changes for a release and for the jobs of a cluster. Write nothing.

    Raises:
        ConfigError: the platform file is invalid or declares environments of which the user selects none, or a version
            in `request` is invalid. The error has all problems of the versions.
        DocumentError: a file is not YAML or JSON, or has a document that is not an object.
        OutputError: the folder has no manifests.
        InputError: a file cannot be read.
    """
    from generator.checks.existing.audit import read_export
    from generator.upgrade import changes
    from generator.upgrade.entry import Upgrade, in_order
    from generator.upgrade.rows import World, find_missing, find_rows
    from generator.upgrade.steps import find_steps, find_stops
    from generator.upgrade.versions import read_upgrade

    subject = _Folder.of(request.source) if request.source.is_dir() else _Rendering.of(request.source)
    before, after = read_upgrade(request.to, request.present, subject.targets)
    export = read_export(request.texts, UPGRADE_EXPORT)[0] if request.texts else []
    texts = request.texts or {}

    steps = find_steps(before, after)
    compared = subject.compare(before, after, request.today)
    rows = [*find_rows(World.of(subject.objects, export), steps, before, after)]
    lines = _find_lines(texts, [(item.manifest, item.path) for row in rows for item in row.located])

    def place(manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        line = lines.get((manifest.file, manifest.index, (*manifest.inside, *path)))
        return subject.place(manifest, path) if line is None else (manifest.file, line)

    entries = [*changes.of_conflicts(after), *changes.of_steps(steps), *compared.entries, *changes.of_rows(rows, place)]
    notes = [*find_stops(steps, before, after), *compared.notes]
    if not export:
        notes.append(
            f"without `--jobs`, no entry is about objects and jobs of the cluster; export them: `{UPGRADE_EXPORT}`"
        )
    else:
        notes += find_missing(export, before, after)
    changed = {name: minor for name, minor in after.items() if before[name] != minor}
    return Upgrade(str(request.source), before, after, steps, in_order(entries), notes, [*describe_announced(changed)])


def _find_lines(
    texts: Mapping[str, str | bytes], parts: Sequence[tuple[manifests.Manifest, tuple[str | int, ...]]]
) -> dict[tuple[str, int, tuple[str | int, ...]], int]:
    """Return (file, document, path in the document) → line, for parts of objects in these texts, each read once."""
    from generator.documents.locate import locate_everywhere

    requests: dict[str, list[tuple[int, tuple[str | int, ...]]]] = {}
    for manifest, path in parts:
        if manifest.file in texts:
            requests.setdefault(manifest.file, []).append((manifest.index, (*manifest.inside, *path)))
    return {
        (file, *request): place.node[0]
        for file, of_file in requests.items()
        for request, place in locate_everywhere(texts[file], of_file).items()
    }


def _place_in(text: str | bytes, manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
    """Return the file and the line of a part of an object."""
    from generator.documents.locate import locate

    return manifest.file, locate(text, manifest.index, (*manifest.inside, *path))[0]


UPGRADE_EXPORT = (
    "kubectl get trainjobs,jobsets,workloads,clustertrainingruntimes,trainingruntimes,workloadpriorityclasses,crd,cm "
    "-A -o yaml --show-managed-fields"
)
"""The command that exports what `upgrade` reads of a cluster."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """The changes of a release by other versions.

    Attributes:
        entries: the findings of the checks, and the effects of a new release.
        notes: the limits of the result, and when to apply the new release.
    """

    entries: Sequence[Entry]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder of manifests without its platform file, for `upgrade`."""

    source: Path
    objects: Sequence[manifests.Manifest]
    targets: Mapping[str, str]
    texts: Mapping[str, bytes]

    @classmethod
    def of(cls, source: Path) -> _Folder:
        """Read the manifests of a folder, and the versions for which the release was rendered."""
        from generator.checks.files import LOCK, by_release

        search = manifest_files([source])
        if search.refused or not search.files:
            nothing = Problem(f"no manifests below {source}", "name a platform file, or the folder of a release")
            raise OutputError(tuple(search.refused) or (nothing,))
        targets = {origin.targets for origin in by_release(search.files) if origin.targets}
        texts = {str(file): read_file(file) for file in search.files if file.name != LOCK}
        items = [item for file, text in texts.items() for item in manifests.read(text, file)]
        return cls(source, items, dict(targets.pop()) if len(targets) == 1 else {}, texts)

    def place(self, manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        return _place_in(self.texts[manifest.file], manifest, path)

    def compare(self, before: Mapping[str, str], after: Mapping[str, str], today: dt.date | None) -> _Compared:
        from generator.upgrade.changes import find_new, of_findings
        from generator.upgrade.entry import Entry, Hit, Impact

        old, new = (
            validate(Subject([self.source], targets=targets, today=today), "embedded", Path()).checked.in_order()
            for targets in (before, after)
        )
        lock = Hit("Release", str(self.source / "release.json"))
        text = "the release is for the present versions, and its platform file shows what `mpigen synth` changes"
        fix = "set `cluster.versions` in the platform file, run `mpigen upgrade PLATFORM` and `mpigen synth`"
        rendered = [Entry("synth", Impact.MECHANICAL, text, [lock], after=fix)] if self.targets else []
        return _Compared([*of_findings(find_new(old, new), is_repaired=False), *rendered], ())


@dataclass(frozen=True, slots=True)
class _Rendering:
    """A platform file, rendered for its versions, for `upgrade`."""

    source: Path
    draft: _Draft
    targets: Mapping[str, str]

    @classmethod
    def of(cls, source: Path) -> _Rendering:
        """Render a platform file."""
        platform, app = load(source)
        draft = _draft(source, "", app, Path("output"), "")
        return cls(source, draft, platform.cluster.versions.model_dump())

    @property
    def objects(self) -> Sequence[manifests.Manifest]:
        """The rendered manifests, each with the number of its document."""
        return self.draft.numbered

    def place(self, manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        return self.draft.place(manifest, path)

    def compare(self, before: Mapping[str, str], after: Mapping[str, str], today: dt.date | None) -> _Compared:
        """Compare the release for the present versions with the release that `mpigen synth` renders for the others."""
        from generator.checks.objects import Change
        from generator.effects.topics import find_effects
        from generator.upgrade import changes
        from generator.upgrade.entry import Entry, Hit, Impact
        from generator.upgrade.steps import find_steps

        adoption = Adoption(today=today)
        is_fixed = self.source.suffix == ".py" or before == self.targets
        present = self.draft.for_targets(before) if is_fixed else self.draft.render_for(before)
        old, kept = (draft.judge(adoption).in_order() for draft in (present, present.for_targets(after)))
        needed = changes.find_new(old, kept)
        if self.source.suffix == ".py" or not find_steps(before, after):
            note = "mpigen did not render the release for the new versions: set them in the file, and run `mpigen plan`"
            return _Compared([*changes.of_findings(needed, is_repaired=False)], [note])
        try:
            renewed = self.draft.render_for(after)
        except ConfigError as error:
            return _Compared([*changes.of_refusals(error.problems, str(self.source))], ())
        left = changes.find_new(old, renewed.judge(adoption).in_order())
        repaired = changes.find_new(left, needed)
        sides = ([*draft.numbered, draft.release.lock.manifest] for draft in (present, renewed))
        effects = find_effects(Change.of_trees(next(sides), next(sides), after, today))
        hit = Hit("cluster.versions", str(self.source), self.draft.line_of_versions())
        is_changed = any(effect.topic != "version" for effect in effects)
        extent = "the objects below and the versions" if is_changed else "only the versions"
        text = f"`mpigen synth` renders the release for the new versions, and changes {extent} in release.json"
        entries = [
            Entry("synth", Impact.MECHANICAL, text, [hit], after="set `cluster.versions`, and run `mpigen synth`"),
            *changes.of_findings(left, is_repaired=False),
            *changes.of_findings(repaired, is_repaired=True),
            *changes.of_effects(effects, _placer(present, renewed)),
        ]
        early = changes.find_new(old, renewed.for_targets(before).judge(adoption).in_order())
        return _Compared(entries, [changes.say_when(early, needed)])


def _placer(*drafts: _Draft) -> Callable[[manifests.Manifest, tuple[str | int, ...]], tuple[str, int]]:
    """Return a function that returns the place of a part of an object of several drafts: of the last that has it."""
    known = {(item.identity, item.file): draft for draft in drafts for item in draft.tree}

    def place(manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        draft = known.get((manifest.identity, manifest.file))
        return draft.place(manifest, path) if draft else (manifest.file, 0)

    return place
