"""Simulation of a cluster from manifests alone: RBAC, admission, network policies, Trainer, JobSet, ranks and Kueue."""
