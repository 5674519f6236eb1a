"""`python -m generator` is `mpigen`."""

from generator.cli import main

main()
