"""SecurityContextConstraints of OpenShift: their answer about a pod, and the security context that they give it."""
