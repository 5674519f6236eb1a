"""Lenient, read-only views of Kubernetes objects: the only readers of manifest bodies."""
