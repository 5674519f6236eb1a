"""`mpigen synth`: platform file → checked release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.findings import FindingOptions, findings_options
from generator.cli.output import counted, progress

if TYPE_CHECKING:
    from generator.pipeline import Synthesis
    from generator.release import Pointer, Written


@click.command(epilog="Example: mpigen synth platform.yaml --output output")
@click.argument("platform", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("output"),
    show_default=True,
    help="The folder that holds the releases of all platforms.",
)
@click.option("--replace", is_flag=True, help="Replace a release that has other content.")
@click.option("--discard-edits", is_flag=True, help="Overwrite generated files that were edited by hand.")
@click.option(
    "--promote/--no-promote",
    default=None,
    help="Name this release in the Application, or do not. Default: only if it is new and the newest.",
)
@findings_options
def synth(
    platform: Path, output: Path, replace: bool, discard_edits: bool, promote: bool | None, options: FindingOptions
) -> int:
    """Write the release that PLATFORM, a platform.yaml or mpigen_platform.py, describes.

    It renders and checks the tree, and then writes it whole or not at all:
    OUTPUT/<platform>/<release>/, and OUTPUT/<platform>/argocd/, which points at it.

    synth compares it with the release that the Application names. It writes nothing if a
    finding fails the run, such as an update that the API server rejects. It warns of an update that
    stops running jobs.
    """
    from generator import pipeline

    adoption = options.load()
    choices = pipeline.Choices(replace=replace, discard_edits=discard_edits, promote=promote, adoption=adoption)
    with progress(f"rendering {platform}"), options.profiling():
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
        yield f"{name}: refused, {count}; nothing was written"
        return
    yield f"{name}: {done.written.status}, {counted(done.checked.objects, 'object')}, {count}"
    yield f"  {_parts(done)}"
    yield f"  {done.written.folder}{_changes(done.written)}"
    if done.written.pointer:
        yield f"  {_pointer(done.written.pointer, done.platform.release)}"
    yield from (f"  not ours, unchecked, and applied with the rest: {path}" for path in done.written.kept)


def _parts(done: Synthesis) -> str:
    platform = done.platform
    parts = ((platform.pools, "pool"), (platform.runtimes, "runtime"), (platform.tenants, "tenant"))
    return ", ".join(counted(len(entries), noun) for entries, noun in parts)


def _changes(written: Written) -> str:
    if written.status != "replaced":
        return f": {counted(written.files, 'file')}"
    return f": {len(written.added)} added, {len(written.changed)} changed, {len(written.removed)} removed"


def _pointer(pointer: Pointer, release: str) -> str:
    if pointer.edits:
        return f"the Application was edited by hand in {len(pointer.edits)} places, so synth did not change it"
    if pointer.moved:
        before = f" instead of {pointer.before}" if pointer.before else ""
        return f"the Application names {pointer.at}{before}: Argo CD applies it after you commit and push the output"
    hint = "" if pointer.at == release else "; pass --promote to make it name this release"
    return f"the Application names {pointer.at}{hint}"
