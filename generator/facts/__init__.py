"""Facts about Kubernetes, MPI, hardware and upstream releases. Each fact stands in one place.

A table is a YAML file with a source for each row. A JSON schema defines its form. A module reads it into frozen types.
"""
