"""Renderers for people, CI systems and other programs: one module per format, one table, one input."""
