"""Tenancy: namespace, access, isolation and quota of each tenant."""
