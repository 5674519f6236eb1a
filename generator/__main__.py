"""`python -m generator` is `mpigen`."""

import sys

if not sys.flags.safe_path:
    # Python has put the working folder first, where a platform.py would stand in for the standard library's `platform`.
    del sys.path[0]

from generator.cli import main

main()
