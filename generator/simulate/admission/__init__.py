"""Simulation of the admission of pods: Pod Security and ResourceQuotas, from the Namespaces and quotas in files."""
