"""OpenShift's SecurityContextConstraints (SCC): the SCC that admits a pod, and the security context that it sets."""
