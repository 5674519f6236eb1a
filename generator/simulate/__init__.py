"""Simulation of a cluster from manifests alone: RBAC, admission policies and Kueue."""
