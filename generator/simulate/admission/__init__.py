"""Simulation of the admission of pods: Pod Security, LimitRanges, ResourceQuotas, and OpenShift's SCCs, from files."""
