"""The reference of commands: what `--help` of each command prints."""

from __future__ import annotations

from collections.abc import Iterator

import click

from generator.cli.main import mpigen

_INTRODUCTION = """\
# Commands

This page is for all users of the command line. It has the text that each command prints with `--help`.
[Exit codes](exit-codes.md) describes the exit codes of all commands.
"""
_WIDTH = 80


def command_page() -> str:
    """Return the page with every command, groups before their commands."""
    return "\n".join([_INTRODUCTION, *_sections(mpigen, None, "mpigen")])


def _sections(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, max_content_width=_WIDTH)
    yield f"## {context.command_path}\n"
    yield f"```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            if below and not below.hidden:
                yield from _sections(below, context, each)
