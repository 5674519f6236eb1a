"""A fuzzer for all input of mpigen: `python -m tests.fuzz --help`."""
