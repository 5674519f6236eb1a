"""`mpigen completion`: the script that completes commands in a shell."""

from __future__ import annotations

import click

from generator.cli.output import printing


@click.command(epilog="Example: source <(mpigen completion bash)")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:  # click knows all three
        raise click.UsageError(f"click has no completion for {shell}")
    root = context.find_root().command
    text = script(root, {}, "mpigen", "_MPIGEN_COMPLETE").source()
    with printing():
        click.echo(text)
