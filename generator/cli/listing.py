"""Command groups that list things by default, such as `mpigen runtimes` and `mpigen checks`."""

from __future__ import annotations

import click


class Listing(click.Group):
    """A command group that runs its command `list` if the command line names no command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` before arguments that do not start with the name of a command."""
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        is_completion = ctx.resilient_parsing  # the shell asks for the names of the commands
        return super().parse_args(ctx, args if named or is_completion else ["list", *args])
