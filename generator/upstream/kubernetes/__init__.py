"""Kubernetes: access, admission, quota, networks and CEL, computed from files."""
