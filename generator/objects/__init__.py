"""Read-only views of Kubernetes objects. A value of a wrong type counts as absent."""
