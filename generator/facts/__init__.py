"""Facts about the world outside mpigen, each in one place: builders, the platform file and checks read them here.

A table is a YAML file with a source per row, a JSON schema beside it, and a module that reads it into frozen types.
"""
