"""Findings and results for people and for machines."""
