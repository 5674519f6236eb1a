"""Queues: ResourceFlavors, Cohorts, ClusterQueues and LocalQueues from pools and tenants."""
