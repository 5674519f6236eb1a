"""Checks change/*: updates that fail, or that stop or strand jobs, although the new tree alone is correct."""
