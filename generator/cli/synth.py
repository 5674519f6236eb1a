"""`mpigen synth`: render a platform file, check the manifests, and write them as a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.findings import FindingOptions, findings_options
from generator.cli.inputs import against_option, output_option
from generator.cli.output import counted, progress

if TYPE_CHECKING:
    from generator.config.platform import Platform
    from generator.pipeline import Synthesis
    from generator.release import Written


@click.command(epilog="Example: mpigen synth platform.yaml --output output")
@click.argument("platform", type=click.Path(path_type=Path))
@output_option
@click.option("--discard-edits", is_flag=True, help="Overwrite generated files that were edited or deleted by hand.")
@against_option
@findings_options
def synth(platform: Path, output: Path, discard_edits: bool, against: str, options: FindingOptions) -> int:
    """Render the manifests of PLATFORM, check them, and write them as a release.

    PLATFORM is a platform.yaml or an mpigen_platform.py. Its release is the folder OUTPUT/<platform>/
    with the manifests and release.json, which lists them. mpigen replaces the release as a whole or
    not at all, and keeps files in the folder that it did not generate.

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


def _summary(done: Synthesis) -> dict[str, object]:
    written = done.written
    return {
        "platform": done.platform.platform,
        "release": done.platform.release,
        "folder": str(written.folder) if written else "",
        "status": written.status if written else "refused",
        "objects": done.checked.objects,
        "kinds": dict(sorted(done.checked.kinds.items())),
    }


def _lines(done: Synthesis) -> Iterator[str]:
    name = f"{done.platform.platform} {done.platform.release}"
    count = counted(len(done.outcome.findings), "finding")
    if done.written is None:
        yield f"{name}: not written, {count}; the files on disk are unchanged"
        return
    yield f"{name}: {done.written.status}, {counted(done.checked.objects, 'object')}, {count}"
    yield f"  {_parts(done)}"
    yield f"  {done.written.folder}{_changes(done.written)}"
    if done.written.earlier:
        yield f"  replaced the version folders of the earlier layout: {', '.join(done.written.earlier)}"
    if done.platform.gitops:
        yield f"  {_applied(done.platform, done.platform.gitops.revision)}"
    yield from (
        f"  applied with the release, but not generated or checked by mpigen: {path}" for path in done.written.kept
    )


def _parts(done: Synthesis) -> str:
    platform = done.platform
    parts = ((platform.pools, "pool"), (platform.runtimes, "runtime"), (platform.tenants, "tenant"))
    return ", ".join(counted(len(entries), noun) for entries, noun in parts)


def _changes(written: Written) -> str:
    if written.status != "replaced":
        return f": {counted(written.files, 'file')}"
    return f": {len(written.added)} added, {len(written.changed)} changed, {len(written.removed)} removed"


def _applied(platform: Platform, revision: str) -> str:
    """Return the line about the branch or tag that Argo CD applies."""
    tag = f"{platform.platform}/{platform.release}"
    if revision == tag:
        return f"Argo CD applies the tag `{tag}`"
    if revision.startswith(f"{platform.platform}/"):
        return f"Argo CD applies the tag `{revision}`; to apply this release, tag it `{tag}` and set `gitops.revision`"
    return f"Argo CD applies this release after you commit it and push it to `{revision}`"
