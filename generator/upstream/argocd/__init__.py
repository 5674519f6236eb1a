"""Argo CD and Flux: the Applications of an ApplicationSet, and the patterns of paths."""
