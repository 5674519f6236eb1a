"""`mpigen pack`: one archive of a release, and an in-toto statement about its origin."""

from __future__ import annotations

from pathlib import Path

import click

from generator.cli.output import counted, emit, format_option
from generator.report.result import Result


@click.command(epilog="Example: mpigen pack output/prod -o dist")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The folder for the two files. Default: the working folder.",
)
@format_option
def pack(folder: Path, output: Path, form: str) -> int:
    """Pack the release in FOLDER into one archive, for OCI registries and clusters without access to Git.

    mpigen writes <platform>-<release>.tar, and <platform>-<release>.intoto.json, an in-toto statement to sign. The
    statement has the SHA-256 digests of the archive and of the platform, the version of mpigen, and the versions of the
    schemas. A release gives the same archive on every machine.

    mpigen compares the release with its lock first, as `mpigen verify` does, and packs only an unchanged release.
    """
    from generator.release import pack as write
    from generator.schemas.catalog import Catalog

    packed = write(folder, output, Catalog.bundled().modules)
    result = Result(
        summary={
            "archive": str(packed.archive),
            "statement": str(packed.statement),
            "digest": packed.digest,
            "files": packed.files,
        },
        lines=[f"{packed.archive}: {counted(packed.files, 'file')}, {packed.digest}", f"{packed.statement}: to sign"],
    )
    emit(form, result)
    return result.exit_code
