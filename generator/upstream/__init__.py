"""The behavior of other systems: a package for each system, and a module for each idea of its code.

Each function names the code that it follows as module, version, path and function. `python -m tests.upstream` compares
this code between two versions.
"""
