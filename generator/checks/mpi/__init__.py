"""Checks mpi/*: runtimes for MPI whose jobs never start, hang, or run in one pod only."""
