"""The command line. Only here is anything printed, is the environment read, does the process exit."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `mpigen` command."""
    from generator.cli.main import main as run

    run()
