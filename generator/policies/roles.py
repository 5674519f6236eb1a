"""Roles: what each persona may do, as rules of RBAC.

Whoever may create a TrainJob may run any pod in the namespace (trainer v2.3.0 `runtimePatches`): the namespace is the
boundary, so nobody gets exec, reading of Secrets, or writing of runtimes, quotas, NetworkPolicies and the namespace.
No role aggregates into others, nor is any aggregated: what Kubernetes calls `edit` is held by people of all namespaces.
"""

from __future__ import annotations

from generator.config.model.isolation import Isolation
from generator.facts.kinds import KINDS
from generator.manifests import Body

RBAC = "rbac.authorization.k8s.io"
READ = ["get", "list", "watch"]
WRITE = ["create", "update", "patch", "delete"]
ROLES = {"view": "mpigen-view", "submit": "mpigen-submit", "edit": "mpigen-edit", "admin": "mpigen-admin"}
"""The role of each kind of access in `tenants[].access`, each with all that the one before may do."""
PLATFORM_ROLES = {"admin": "mpigen-platform-admin", "ci": "mpigen-platform-ci"}
"""The role of each kind of access in `access`."""
RUNTIME_READER = "mpigen-runtime-reader"
_TRAINER, _KUEUE = "trainer.kubeflow.org", "kueue.x-k8s.io"


def rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> Body:
    """A rule; of objects with these names only, if there are any."""
    body: Body = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return body if names is None else {**body, "resourceNames": names}


def cluster_role(name: str, rules: list[Body]) -> Body:
    """A role that bindings refer to."""
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def about_kinds(verbs: list[str]) -> list[Body]:
    """These verbs on every kind that a platform can consist of, one rule for each group."""
    by_group: dict[str, list[str]] = {}
    for each in KINDS:
        by_group.setdefault(each.group, []).append(each.resource)
    return [rule(group, resources, verbs) for group, resources in by_group.items()]


_VIEW = [
    rule(_TRAINER, ["trainjobs", "trainjobs/status", "trainingruntimes"], READ),
    rule("jobset.x-k8s.io", ["jobsets", "jobsets/status"], READ),
    rule("batch", ["jobs", "jobs/status"], READ),
    rule("", ["pods", "pods/log", "pods/status", "events", "persistentvolumeclaims"], READ),
    rule("", ["resourcequotas", "limitranges"], READ),
    rule("", ["namespaces"], ["get"]),  # one's own says what policies allow there
    rule("events.k8s.io", ["events"], READ),
    rule(_KUEUE, ["localqueues", "localqueues/status", "workloads", "workloads/status"], READ),
    rule("visibility.kueue.x-k8s.io", ["localqueues/pendingworkloads"], READ),
]
_SUBMIT = [
    *_VIEW,
    rule(_TRAINER, ["trainjobs"], ["create", "delete"]),
]
_EDIT = [
    *_SUBMIT,
    rule(_TRAINER, ["trainjobs"], ["update", "patch"]),
    rule("", ["persistentvolumeclaims"], WRITE),
    rule("", ["secrets"], ["create", "update", "delete"]),  # not `patch`: its answer is the whole Secret
]
_ADMIN = [
    *_EDIT,
    rule(RBAC, ["rolebindings"], [*READ, *WRITE]),
    rule(RBAC, ["clusterroles"], ["bind"], sorted(ROLES.values())),
]
_OFFERED = [
    rule(_TRAINER, ["clustertrainingruntimes"], READ),  # the SDK lists them
    rule(_KUEUE, ["workloadpriorityclasses"], READ),
]
_NODES = rule("", ["nodes"], READ)
_PLATFORM_ADMIN = [
    *_VIEW,
    _NODES,
    rule(_TRAINER, ["trainjobs"], ["update", "patch", "delete"]),
    rule(_KUEUE, ["workloads"], ["update", "patch"]),  # `active: false` stops a job and keeps it
    rule(_KUEUE, ["clusterqueues/status", "cohorts/status", "admissionchecks/status"], READ),
    rule("visibility.kueue.x-k8s.io", ["clusterqueues/pendingworkloads"], READ),
    rule("", ["pods"], ["delete"]),
    *about_kinds([*READ, *WRITE]),
    rule(RBAC, ["clusterroles"], ["bind"], sorted([*ROLES.values(), *PLATFORM_ROLES.values(), RUNTIME_READER])),
]
_PLATFORM_CI = [
    _NODES,
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ),
    *about_kinds(READ),
]


def tenant_roles(isolation: Isolation) -> list[Body]:
    """The roles of all tenants: one for each kind of access, and one to list what the cluster offers them.

    Where each job has a NetworkPolicy, whoever submits jobs writes these: admission/job_isolation.py says which.
    """
    theirs = [rule("networking.k8s.io", ["networkpolicies"], [*READ, "create", "delete"])]
    more = theirs if isolation.unit == "job" else []
    return [
        cluster_role(ROLES["view"], _VIEW),
        cluster_role(ROLES["submit"], [*_SUBMIT, *more]),
        cluster_role(ROLES["edit"], [*_EDIT, *more]),
        cluster_role(ROLES["admin"], [*_ADMIN, *more]),
        cluster_role(RUNTIME_READER, _OFFERED),
    ]


def platform_role(persona: str) -> Body:
    """The role of `admin` or `ci` in the platform's own `access`."""
    return cluster_role(PLATFORM_ROLES[persona], {"admin": _PLATFORM_ADMIN, "ci": _PLATFORM_CI}[persona])
