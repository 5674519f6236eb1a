"""`mpigen synth`: render a platform file, check the manifests, and write them as a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.findings import FindingOptions, findings_options
from generator.cli.inputs import against_option, environment_option, output_option
from generator.cli.output import counted, progress
from generator.objects.pods import RUNTIMES

if TYPE_CHECKING:
    from generator.config.model.cluster import GitOps
    from generator.config.platform import Platform
    from generator.pipeline import Rendered, Synthesis
    from generator.release import Written


@click.command(epilog="Example: mpigen synth platform.yaml --output output")
@click.argument("platform", type=click.Path(path_type=Path))
@output_option
@click.option("--discard-edits", is_flag=True, help="Overwrite generated files that were edited or deleted by hand.")
@against_option
@environment_option
@findings_options
def synth(platform: Path, output: Path, discard_edits: bool, against: str, options: FindingOptions) -> int:
    """Render the manifests of PLATFORM, check them, and write them as a release.

    PLATFORM is a platform.yaml or an mpigen_platform.py. Its release is the folder OUTPUT/<platform>/
    with the manifests and release.json, which lists them. mpigen replaces the release as a whole or
    not at all, and keeps files in the folder that it did not generate. If PLATFORM has environments,
    mpigen writes the release of each one, or none of them. The folder is OUTPUT/<platform>-<environment>/,
    unless the environment sets `platform`.

    mpigen compares the manifests with the release in Git, and warns of changes that stop running jobs.
    It writes nothing if a finding reaches the severity of --fail-on, such as a change that the API
    server rejects, or if the Git tag <platform>/<release> has other content.
    """
    from generator import pipeline

    adoption = options.load()
    choices = pipeline.Choices(discard_edits=discard_edits, against=against, adoption=adoption)
    with progress(f"rendering {platform}"):
        done = pipeline.synth(platform, output, choices)
    return options.show(adoption, done.outcome, _summary(done), _lines(done), done.text_of)


def _summary(done: Synthesis) -> dict[str, Any]:
    """Return the JSON data: of the release, or with `environments` of the release of each environment."""
    releases = {release.environment: _summary_of(release) for release in done.releases}
    return releases.get("", {"environments": releases})


def _summary_of(release: Rendered) -> dict[str, Any]:
    written = release.written
    return {
        "platform": release.platform.platform,
        "release": release.platform.release,
        "folder": str(written.folder) if written else "",
        "status": written.status if written else "refused",
        "objects": release.checked.objects,
        "kinds": dict(sorted(release.checked.kinds.items())),
    }


def _lines(done: Synthesis) -> Iterator[str]:
    count = counted(len(done.outcome.findings), "finding")
    one = count if len(done.releases) == 1 else ""
    for release in done.releases:
        yield from _lines_of(release, one)
    for name in done.orphans:
        yield from _lines_of_orphan(name, done.releases[0])
    if not one:
        yield f"{counted(len(done.releases), 'environment')}: {count}"


def _lines_of_orphan(name: str, release: Rendered) -> Iterator[str]:
    from generator.effects.renames import describe_orphan

    gitops = release.platform.gitops
    engine = f"{gitops.engine_name} keeps applying it" if gitops else "its objects stay"
    yield f"{name}: the platform file does not write this release, but its folder stays, and {engine}"
    yield from (f"  {line}" for line in describe_orphan(name))


def _lines_of(release: Rendered, findings: str) -> Iterator[str]:
    from generator.release import next_version

    platform, written = release.platform, release.written
    name = f"{platform.platform} {platform.release}"
    counts = [counted(release.checked.objects, "object"), *filter(None, [findings])]
    if written is None:
        yield f"{name}: {', '.join(['not written', *counts[1:]])}; the files on disk are unchanged"
        return
    yield f"{name}: {', '.join([written.status, *counts])}"
    yield f"  {_parts(release)}"
    yield f"  {written.folder}{_changes(written)}"
    if written.merged:
        yield f"  replaces the merge of two releases; run `git add {written.folder}` to resolve its conflicts"
    if written.repeats:
        raised = next_version(platform.release)
        both = f"both sides of the merge have release {platform.release}"
        yield f"  {both}: set `release: {raised}`, and run `mpigen synth` again"
    if written.earlier:
        yield f"  replaced the version folders of the earlier layout: {', '.join(written.earlier)}"
    if platform.gitops:
        yield f"  {_applied(release, written.folder, platform.gitops)}"
    if folder := _earlier_folder(release, written.folder):
        yield f"  {folder} keeps the release before the rename: the page `Rename a platform` has the next steps"
    engine = platform.gitops.engine_name if platform.gitops else "the release"
    verb = "applies" if platform.gitops else "contains"
    yield from (
        f"  {engine} {verb} a file that mpigen neither generates nor checks: {path}" for path in release.applied
    )


def _earlier_folder(release: Rendered, folder: Path) -> Path | None:
    """Return the folder of the release before a rename of the platform; None if there is none."""
    if not release.platform.renamed_from:
        return None
    earlier = folder.with_name(release.platform.renamed_from)
    return earlier if earlier.exists() else None


def _parts(release: Rendered) -> str:
    """Return the number of pools, tenants and rendered runtimes, with the runtimes that a Python file adds."""
    runtimes = sum(release.checked.kinds[kind] for kind in RUNTIMES)
    parts = ((len(release.platform.pools), "pool"), (runtimes, "runtime"), (len(release.platform.tenants), "tenant"))
    return ", ".join(counted(number, noun) for number, noun in parts)


def _changes(written: Written) -> str:
    if written.status != "replaced":
        return f": {counted(written.files, 'file')}"
    return f": {len(written.added)} added, {len(written.changed)} changed, {len(written.removed)} removed"


def _applied(release: Rendered, folder: Path, gitops: GitOps) -> str:
    """Return the line about the branch or tag that the GitOps engine applies."""
    from generator.release import is_tag

    if gitops.is_oci:
        return describe_artifact(release.platform, gitops, release.environment)
    platform, engine = release.platform, gitops.engine_name
    revision = gitops.revision.removeprefix("refs/tags/")
    tag = f"{platform.platform}/{platform.release}"
    if revision == tag:
        return f"{engine} applies the tag `{tag}`"
    is_pinned = revision.startswith(f"{platform.platform}/") or is_tag(folder, revision)
    if is_pinned or gitops.is_commit:
        kind = "commit" if gitops.is_commit else "tag"
        command = " ".join(["mpigen promote", *filter(None, [release.environment]), "--to", tag])
        return f"{engine} applies the {kind} `{revision}`; to apply this release, commit it, tag it and run `{command}`"
    if gitops.is_version:
        return f"{engine} applies this release after you commit it and push the tag or branch `{revision}` with it"
    return f"{engine} applies this release after you commit it and push it to `{revision}`"


def describe_artifact(platform: Platform, gitops: GitOps, environment: str) -> str:
    """Return the line about the artifact of an OCI registry that Flux applies."""
    revision = gitops.revision
    artifact = f"{gitops.repository}/{platform.platform}"
    version = str(platform.release)
    if gitops.is_digest:
        rest = "to apply this release, push it and write its digest into `gitops.revision`"
        return f"Flux applies `{artifact}@{revision}`; {rest}"
    if gitops.is_range:
        return f"Flux applies the newest tag in the range `{revision}`; push this release to `{artifact}:{version}`"
    if revision != version and gitops.is_version:
        command = " ".join(["mpigen promote", *filter(None, [environment]), "--to", version])
        pushed = f"push it to `{artifact}:{version}`"
        return f"Flux applies the tag `{revision}`; to apply this release, commit it, {pushed} and run `{command}`"
    return f"Flux applies this release after you push it to `{artifact}:{revision}`"
