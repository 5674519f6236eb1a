"""Names that runtimes put on pods and tenancy selects or grants by: the two must agree."""

from __future__ import annotations

RUNTIME_LABEL = "mpigen.dev/runtime"
"""Pod label: the runtime's name. NetworkPolicies know MPI pods by it; no label of Trainer or JobSet says as much."""

OUT_OF_THE_MESH = {"istio.io/dataplane-mode": "none", "sidecar.istio.io/inject": "false"}
"""Pod labels: no sidecar of Istio, and not its ambient mode. A TrainJob's own labels do not reach its pods."""

TENANT_LABEL = "mpigen.dev/tenant"
"""Namespace label: the team's name, the same in all of its namespaces."""

SERVICE_ACCOUNT = "mpi"
"""The ServiceAccount of all MPI pods, one in each tenant's namespace. It has no permissions and no token."""
