"""SecurityContextConstraints of OpenShift: which of them admits a pod, and the security context that it gives the pod."""
