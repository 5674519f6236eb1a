"""Names that runtimes put on pods and tenancy selects or grants by: the two must agree."""

from __future__ import annotations

RUNTIME_LABEL = "mpigen.dev/runtime"
"""Pod label: the runtime's name. NetworkPolicies know MPI pods by it; no label of Trainer or JobSet says as much."""

SERVICE_ACCOUNT = "mpi"
"""The ServiceAccount of all MPI pods, one in each tenant's namespace. It has no permissions and no token."""
