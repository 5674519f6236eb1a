"""`mpigen init`: a platform file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from generator.cli.output import format_option, show
from generator.examples import EXAMPLES


@click.command(epilog="Example: mpigen init --example openshift-h100")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option(
    "--example", type=click.Choice(EXAMPLES), default="cpu-kubernetes", show_default=True, help="What to start from."
)
@format_option
def init(folder: Path, example: str, form: str) -> None:
    """Write a platform file and its JSON Schema for editors into FOLDER, by default the working folder.

    It never overwrites a file.
    """
    from generator.examples import start

    written = start(example, folder)
    files = [str(path) for path in written]
    lines = [*(f"wrote {file}" for file in files), f"next: mpigen synth {files[0]}"]
    show(form, {"example": example, "files": files}, lines)
