"""mpigen: one platform.yaml becomes a checked, plain-YAML GitOps tree for MPI training."""
