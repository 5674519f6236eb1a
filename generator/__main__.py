"""`python -m generator` is `mpigen`."""

import sys

if not sys.flags.safe_path:
    # Python puts the working folder first, where a file such as platform.py would replace a standard library module.
    del sys.path[0]

from generator.cli import main

main()
