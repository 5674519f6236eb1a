"""The command line. Only this package prints, reads the environment and exits the process."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `mpigen` command."""
    try:
        from generator.cli.main import main as run
    except KeyboardInterrupt:  # before the module is loaded that reports it
        sys.exit(130)
    run()
