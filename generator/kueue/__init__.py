"""Kueue: ResourceFlavors, Cohorts, ClusterQueues and LocalQueues, built from the pools and tenants of a platform."""
