"""A real Kubernetes control plane on this machine, without containers, that tests all output of mpigen."""
