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

`cli` has a module for each command, calls these steps, and prints by `report`. `jobs` reads what a cluster offers to
jobs, builds the TrainJobs of `mpigen job new`, and reports the state of existing ones. `diagnose` finds the
cause of a failed job. `training` has functions for people who train, in notebooks and scripts. `images`
compares a container image with a runtime for `mpigen image check`. `questions` has
the questions of `mpigen can-i` and `mpigen reach`. All packages read `facts`, the tables about
Kubernetes and MPI, and `objects`, the views of manifests. `stages` has the parts of the steps, with their requests and
results.

The first import of `config` (pydantic) and of `components` (Node.js) is slow, so a step imports its packages when it
runs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator import manifests
from generator.checks.finding import place_findings
from generator.checks.registry import Suite
from generator.checks.run import Checked, check_rendered, check_text
from generator.facts.versions import describe_announced
from generator.report.result import reaches
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.stages.comparison import UpgradeRequest, read_source
from generator.stages.draft import draft_all, draft_release, find_orphan_names
from generator.stages.export import describe_missing, place_rows, read_objects
from generator.stages.job_verdicts import (
    JobVerdicts,
    join_breaches,
    judge_in_cluster,
    submit_filled,
    without_repetition,
)
from generator.stages.live import Audited, Compared, read_managed
from generator.stages.loading import load_app
from generator.stages.planning import Planned, is_release, plan_between, plan_draft, plan_release
from generator.stages.promotion import Edit, Promotion, find_commit, read_followed
from generator.stages.rendering import read_catalog, render_with_effects
from generator.stages.synthesis import Choices, Rendered, Synthesis, adopt_findings, write_drafts
from generator.stages.validation import InputFiles, Subject, Validation

if TYPE_CHECKING:
    from generator.checks.submission import Destination
    from generator.components.app import App
    from generator.config.platform import Platform
    from generator.release import Written
    from generator.upgrade.entry import Upgrade

__all__ = ["audit", "check_jobs", "drift", "judge", "load", "plan", "promote", "render", "synth", "upgrade", "validate"]
__all__ += ["Audited", "Choices", "Compared", "JobVerdicts", "Planned", "Promotion", "Rendered", "Subject", "Synthesis"]
__all__ += ["UpgradeRequest", "Validation"]


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
    return load_app(platform_file, environment)


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
    tree, _ = render_with_effects(platform, app)
    return [replace(manifest, body=manifests.detach(manifest.body)) for manifest in tree]


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
    return check_rendered(tree, texts, read_catalog(targets, texts), today, suite or Suite())


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
    drafts = draft_all(platform_file, output, choices.against)
    checked = [draft.judge(choices.adoption) for draft in drafts]
    texts = {path: text for draft in drafts for path, text in draft.texts.items()}
    outcome = adopt_findings(drafts, checked, texts, choices.adoption)
    written: Sequence[Written | None] = [None] * len(drafts)
    if not any(reaches(finding.severity, choices.adoption.fail_on) for finding in outcome.findings):
        written = write_drafts(drafts, output, discard_edits=choices.discard_edits)
    releases = [
        Rendered(draft.environment, draft.platform, result, files, draft.find_applied(files))
        for draft, result, files in zip(drafts, checked, written, strict=True)
    ]
    return Synthesis(releases, outcome, texts, find_orphan_names(platform_file, output))


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
    if is_release(source):
        return plan_release(source, against, today)
    _, app = load(source)
    return plan_draft(draft_release(source, "", app, output, against), output, today)


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
    text, platform, gitops = read_followed(platform_file, environment)
    before, home = gitops.revision, output / platform.platform
    old, new = (find_commit(platform, gitops, name, home, platform_file) for name in (before, revision))
    planned = plan_between(platform, home, old, new, today)
    edit = Edit.of(platform_file, text, environment, revision)
    written = edit.write(edit.draft(output).release, output)
    return Promotion(edit.path, before, revision, planned, written)


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
    from generator.checks.validation import pass_missing_schemas

    files = InputFiles.of(subject)
    result = files.check(engine, cache)
    if subject.since:
        result = files.add_changes(result)
    return replace(result, checked=pass_missing_schemas(result.checked)) if subject.ignore_missing else result


def check_jobs(texts: Mapping[str, bytes], destination: Destination, suite: Suite | None = None) -> JobVerdicts:
    """Check TrainJobs as the cluster would: schemas and checks, RBAC, admission policies, Trainer, JobSet and Kueue.

    Args:
        texts: file → its text with TrainJobs, in the order of their submission, and with the objects that `mpigen job
            new` prints before TrainJobs.
        destination: the other objects of the cluster, such as a release, and the user.
        suite: the checks. Default: the checks of mpigen.

    Raises:
        DocumentError: a file is not YAML, or has an object of another kind, or two TrainJobs have the same name.
        SimulationError: an object of the cluster is invalid: an amount is not a quantity, or two different objects have
            the same name.
    """
    from generator.checks.submission import read_jobs

    suite = replace(suite or Suite(), of_jobs=True)
    jobs, others = read_jobs(texts, destination.namespace)
    created = [*destination.created, *others]
    destination = replace(destination, world=[*destination.world, *created], created=created)
    engine = Engine(Catalog.bundled(destination.targets))
    checked = Checked.total(check_text(text, file, engine, suite) for file, text in texts.items())
    filled, submissions = submit_filled(jobs, destination, engine)
    located = judge_in_cluster(jobs, filled, destination, engine, suite)
    breaches = join_breaches(submissions, located, destination, engine.targets)
    findings = [
        finding
        for file, text in texts.items()
        for finding in place_findings([item for item in breaches if item[0].file == file], text)
    ]
    return JobVerdicts(submissions, [*without_repetition(checked.with_findings(findings).in_order())])


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
    from generator.checks.existing.drift import compare_with_release
    from generator.checks.existing.drift_findings import find_drift

    done = compare_with_release(read_managed(texts), release, Catalog.bundled(targets))
    findings = find_drift(done, lambda file: texts[file] if file in texts else text_of(file).encode())
    return Compared(done, sorted(findings))


def upgrade(request: UpgradeRequest) -> Upgrade:
    """Return the steps of an upgrade, and what it changes for a release and for the jobs of a cluster. Write nothing.

    Raises:
        ConfigError: the platform file is invalid or declares environments of which the user selects none, or a version
            in `request` is invalid. The error has all problems of the versions.
        DocumentError: a file is not YAML or JSON, or has a document that is not an object.
        OutputError: the folder has no manifests.
        InputError: a file cannot be read.
    """
    from generator.upgrade import changes
    from generator.upgrade.entry import Upgrade, in_order
    from generator.upgrade.rows import World, find_rows
    from generator.upgrade.steps import find_steps, find_stops
    from generator.upgrade.versions import read_upgrade

    release = read_source(request.source)
    before, after = read_upgrade(request.to, request.present, release.targets)
    export = read_objects(request.texts)
    steps = find_steps(before, after)
    compared = release.compare(before, after, request.today)
    rows = [*find_rows(World.of(release.objects, export), steps, before, after)]
    hits = changes.of_rows(rows, place_rows(rows, request.texts or {}, release.place))
    entries = [*changes.of_conflicts(after), *changes.of_steps(steps), *compared.entries, *hits]
    notes = [*find_stops(steps, before, after), *compared.notes, *describe_missing(export, before, after)]
    changed = {name: minor for name, minor in after.items() if before[name] != minor}
    return Upgrade(str(request.source), before, after, steps, in_order(entries), notes, [*describe_announced(changed)])
