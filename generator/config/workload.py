"""Names that several parts of a release must agree on: what one writes, another selects or grants by."""

from __future__ import annotations

RUNTIME_LABEL = "mpigen.dev/runtime"
"""Pod label: the runtime's name. NetworkPolicies know MPI pods by it; no label of Trainer or JobSet says as much."""

JOB_LABEL = "jobset.sigs.k8s.io/jobset-name"
"""Pod label, by JobSet: the name of the TrainJob."""

JOB_POLICY = "np."
"""What the name of a job's NetworkPolicy begins with, before the job's."""

OUT_OF_THE_MESH = {"istio.io/dataplane-mode": "none", "sidecar.istio.io/inject": "false"}
"""Pod labels: no sidecar of Istio, and not its ambient mode. A TrainJob's own labels do not reach its pods."""

SERVICE_ACCOUNT = "mpi"
"""The ServiceAccount of all MPI pods, one in each tenant's namespace. It has no permissions and no token."""


REGISTRY_LOGIN = f"{SERVICE_ACCOUNT}-dockercfg"
"""The Secret by which MPI pods pull from OpenShift's own registry, which makes it; so named only where the account has
pull secrets besides."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "mpigen"}
"""Label of all that is generated."""

PART_OF = "app.kubernetes.io/part-of"
"""Label of all that is generated: the platform."""


LOCAL_QUEUE = "default"
"""The LocalQueue in each tenant's namespace. With this name Kueue queues TrainJobs there that carry no queue label
(LocalQueueDefaulting, GA)."""


OWNER = "mpigen.dev/owner"
"""Annotation of a TrainJob: the user name of whoever may stop it without being an editor."""

MEMLOCK_SCC = "mpigen-memlock"
"""On OpenShift, the SCC of pods that may lock memory, and the role that grants it."""
