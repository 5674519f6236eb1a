"""A fuzzer for everything that mpigen reads: `python -m tests.fuzz --help`."""
