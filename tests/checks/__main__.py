"""Record the words of all fixtures of checks, or of the families that the command line names."""

import sys

from tests.checks import FAMILIES, record

for family in sys.argv[1:] or FAMILIES:
    record(family)
