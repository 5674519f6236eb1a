"""`mpigen schema`: the JSON Schemas of mpigen's own files, for editors and other programs."""

from __future__ import annotations

import click

from generator.cli.output import printing


@click.command(
    epilog="""
    \b
    Example:
      mpigen schema > platform.schema.json
      mpigen schema report > report.schema.json
    """
)
@click.argument("name", type=click.Choice(["platform", "settings", "report"]), default="platform")
def schema(name: str) -> None:
    """Print the JSON Schema of platform.yaml, of the settings file, or of the JSON reports.

    An editor with a YAML language server completes and checks a file that begins with
    `# yaml-language-server: $schema=platform.schema.json`.
    """
    if name == "platform":
        from generator.config.platform import platform_schema

        text = platform_schema()
    elif name == "settings":
        from generator.adoption.settings import SCHEMA as SETTINGS

        text = SETTINGS.read_text("utf-8")
    else:
        from generator.report.json import SCHEMA as REPORT

        text = REPORT.read_text("utf-8")
    with printing():
        click.echo(text, nl=False)
