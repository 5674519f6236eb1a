"""The values that TrainJobs may set: constants of the admission rules about jobs, from `policies.jobs.allow`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from generator.config.platform import Platform
from generator.facts.names import (
    DISPLAY_DESCRIPTION,
    DISPLAY_NAME,
    LAST_APPLIED,
    OWNER,
    PRIORITY_CLASS,
    QUEUE_NAME,
    TRAINER_MANAGER,
    WAIVERS,
)
from generator.facts.table import read_table
from generator.policies.admission.policy import RUNTIME, cel_list, copied_runtime
from generator.quantities import Quantity

MULTI_KUEUE_MANAGER = "kueue.x-k8s.io/multikueue"

_JOB_LABELS = (QUEUE_NAME, PRIORITY_CLASS, "kueue.x-k8s.io/max-exec-time-seconds", "app.kubernetes.io/")
"""Labels that every TrainJob may have. Kueue reads the first three (kueue v0.19.2
pkg/controller/constants/constants.go)."""
_JOB_ANNOTATIONS = (
    OWNER,
    WAIVERS,
    LAST_APPLIED,
    "kubernetes.io/change-cause",
    "argocd.argoproj.io/",
)
"""Annotations that every TrainJob may have: its owner, waivers, and the bookkeeping of kubectl and Argo CD."""
_FLUX_KEYS = "kustomize.toolkit.fluxcd.io/"
"""Beginning of the labels and annotations that a TrainJob may have if the GitOps engine is Flux: Flux writes the name
and namespace of the Kustomization into labels (fluxcd/pkg/ssa v0.61.0 manager.go
ResourceManager.SetOwnerLabels)."""
_CLAIM_ANNOTATIONS = (
    LAST_APPLIED,
    "kubernetes.io/change-cause",
    "meta.helm.sh/",
    DISPLAY_DESCRIPTION,
    DISPLAY_NAME,
)
"""Annotations that every claim of a team may have: the bookkeeping of kubectl and Helm, and the name and description of
the dashboard of OpenShift AI."""
_CONFIG_MAP_KEYS = (
    OWNER,
    "app.kubernetes.io/",
    "argocd.argoproj.io/",
    LAST_APPLIED,
    "kubernetes.io/change-cause",
)
"""Labels and annotations that every ConfigMap of a team may have: its owner, the name of a program, and the bookkeeping
of Argo CD and kubectl."""
_POD_ANNOTATIONS = (
    OWNER,
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-unconstrained-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-size",
)
"""Annotations that pods of every TrainJob may have: the owner, who may hold and resume the job, and requests to Kueue
for nodes that are close together (kueue v0.19.2 apis/kueue/v1beta2/topology_types.go)."""


_PACKAGE = "generator.policies.admission"


def job_constants(platform: Platform) -> Mapping[str, str]:
    """Return the constants of admission rules about TrainJobs: name → CEL, or text for messages."""
    jobs = platform.policies.jobs
    allow = jobs.allow
    locations = [platform.policies.residency.label] if platform.policies.residency else []
    flux = [_FLUX_KEYS] if platform.gitops and platform.gitops.is_flux else []
    display = [DISPLAY_NAME, DISPLAY_DESCRIPTION] if platform.cluster.openshift_ai else []
    managers = [TRAINER_MANAGER]
    if any(tenant.multi_kueue for tenant in platform.tenants):
        managers.append(MULTI_KUEUE_MANAGER)
    return {
        "RUNTIME": copied_runtime() if platform.has_own_images else RUNTIME,
        "CONTACT": jobs.contact.replace("\\", "\\\\").replace("'", "\\'"),
        "JOB_LABELS": cel_list((*_JOB_LABELS, *flux, *platform.policies.labels)),
        "JOB_ANNOTATIONS": cel_list((*_JOB_ANNOTATIONS, *flux, *display)),
        "POD_LABELS": cel_list(dict.fromkeys((*allow.labels, *platform.policies.cost_labels))),
        "POD_ANNOTATIONS": cel_list((*_POD_ANNOTATIONS, *allow.annotations)),
        "CLAIM_ANNOTATIONS": cel_list((*_CLAIM_ANNOTATIONS, *allow.annotations)),
        "CONFIG_MAP_KEYS": cel_list(
            dict.fromkeys((*_CONFIG_MAP_KEYS, *flux, *platform.policies.labels, *allow.labels, *allow.annotations))
        ),
        "MANAGERS": cel_list(managers),
        "NODE_LABELS": cel_list((*allow.node_labels, *locations)),
        "TAINTS": cel_list(allow.tolerations),
        "SECRETS": cel_list(allow.secrets),
        "DEVICE_VARIABLES": cel_list(name for name in device_variables() if name not in allow.variables),
        "OTHER_FIELDS": _other_fields("object"),
        "OTHER_FIELDS_BEFORE": _other_fields("oldObject"),
        "SOURCES": cel_list(read_table("job_fields", _PACKAGE)["spec.trainer.env[].valueFrom"]),
        **_size("MEMORY", allow.memory_volumes),
        **_size("DISK", allow.disk_volumes),
        **_size("CLAIM", allow.ephemeral_volumes),
    }


def device_variables() -> list[str]:
    """Return the variables by which a container runtime gives devices to a container."""
    return [row["name"] for row in read_table("device_variables")["variables"]]


def _other_fields(root: str) -> str:
    """Return CEL for the fields of a TrainJob that job_fields.yaml does not list, as a list of paths.

    Args:
        root: the variable of CEL with the TrainJob.
    """
    return "\n+ ".join(_others(root, path, fields) for path, fields in read_table("job_fields", _PACKAGE).items())


def _others(root: str, path: str, fields: Iterable[str]) -> str:
    """Return CEL for the fields that `fields` lacks, of the object at a path, or of each item of a list before `[]`."""
    array, _, rest = path.rpartition("[]")
    names = f".filter(key, !(key in {cel_list(fields)}))"
    if array:
        keys = f"{_field('each', rest)}.orValue({{}}){names}.map(key, '{path}.' + key)"
        return f"{_of_spec(root, array)}.orValue([]).map(each, {keys}.join(', ')).filter(text, text != '')"
    value = _of_spec(root, path)
    return f"{value}{'.orValue({})' if '?' in value else ''}{names}.map(key, '{path}.' + key)"


def _of_spec(root: str, path: str) -> str:
    """Return CEL for a field of the spec. It reads no other part of the object, so equal specs share a decision."""
    return _field(f"dyn({root}.spec)", path.removeprefix("spec"))


def _field(value: str, path: str) -> str:
    """Return CEL for an optional field, for a path such as `.trainer.env`."""
    return value + path.replace(".", ".?")


def _size(name: str, quantity: Quantity | None) -> dict[str, str]:
    """Return constants with the size in bytes for CEL, and with the size as written for messages."""
    return {f"{name}_BYTES": f"{int(quantity.value) if quantity else 0}.0", f"{name}_SIZE": str(quantity or "0")}
