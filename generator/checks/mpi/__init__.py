"""Checks mpi/*: runtimes for MPI whose jobs never start, hang, or run on one host only."""
