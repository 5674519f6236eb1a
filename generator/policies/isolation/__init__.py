"""Isolation: who reaches whom. What a NetworkPolicy cannot say is said where the cluster's CNI understands more."""
