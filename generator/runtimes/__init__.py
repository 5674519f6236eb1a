"""Training runtimes: pure builders for each MPI family, and the construct that admins subclass."""
