"""Stages: the parts of the steps in `generator/pipeline.py`, with their requests and results."""
