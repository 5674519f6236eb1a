"""`mpigen schema`: the JSON Schema of platform.yaml, for editors."""

from __future__ import annotations

import click

from generator.cli.output import printing


@click.command(epilog="Example: mpigen schema > platform.schema.json")
def schema() -> None:
    """Print the JSON Schema of platform.yaml.

    An editor with a YAML language server completes and checks a file that begins with
    `# yaml-language-server: $schema=platform.schema.json`.
    """
    from generator.config.schema import platform_schema

    text = platform_schema()
    with printing():
        click.echo(text, nl=False)
