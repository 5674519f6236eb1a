"""A real Kubernetes control plane on this machine, without containers, to judge everything that mpigen emits."""
