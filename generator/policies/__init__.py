"""Tenancy: the namespaces, roles, network policies, limits and secrets of each tenant, and the admission policies."""
