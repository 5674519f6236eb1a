"""Render the result of a command: one module for each output format, for people, CI systems and other programs."""
