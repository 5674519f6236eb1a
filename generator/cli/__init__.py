"""The command line. Only here is anything printed, is the environment read, does the process exit."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `mpigen` command."""
    try:
        from generator.cli.main import main as run
    except KeyboardInterrupt:  # before the module is loaded that reports it
        sys.exit(130)
    run()
