"""Access: four roles for people, bound in each tenant's namespace.

Whoever may create a TrainJob may run any pod in the namespace (trainer v2.3.0 `runtimePatches`): the namespace is the
boundary, so nobody gets exec, reading of Secrets, or writing of runtimes, quotas, NetworkPolicies and the namespace.
"""

from __future__ import annotations

from generator.config.tenants import Tenant
from generator.manifests import Body

_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "update", "patch", "delete"]
ROLES = {"view": "mpigen-view", "submit": "mpigen-submit", "edit": "mpigen-edit", "admin": "mpigen-admin"}
"""The role of each kind of access in `tenants[].access`."""
RUNTIME_READER = "mpigen-runtime-reader"


def _rule(group: str, resources: list[str], verbs: list[str]) -> Body:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


_VIEW = [
    _rule("trainer.kubeflow.org", ["trainjobs", "trainjobs/status", "trainingruntimes"], _READ),
    _rule("jobset.x-k8s.io", ["jobsets", "jobsets/status"], _READ),
    _rule("batch", ["jobs", "jobs/status"], _READ),
    _rule("", ["pods", "pods/log", "pods/status", "events", "persistentvolumeclaims"], _READ),
    _rule("", ["resourcequotas", "limitranges"], _READ),
    _rule("events.k8s.io", ["events"], _READ),
    _rule("kueue.x-k8s.io", ["localqueues", "localqueues/status", "workloads", "workloads/status"], _READ),
    _rule("visibility.kueue.x-k8s.io", ["localqueues/pendingworkloads"], _READ),
]
_SUBMIT = [
    *_VIEW,
    _rule("trainer.kubeflow.org", ["trainjobs"], ["create", "delete"]),
]
_EDIT = [
    *_SUBMIT,
    _rule("trainer.kubeflow.org", ["trainjobs"], ["update", "patch"]),
    _rule("", ["persistentvolumeclaims"], _WRITE),
    _rule("", ["secrets"], ["create", "update", "delete"]),  # not `patch`: its answer is the whole Secret
]
_ADMIN = [
    *_EDIT,
    _rule(_RBAC, ["rolebindings"], [*_READ, *_WRITE]),
    {**_rule(_RBAC, ["clusterroles"], ["bind"]), "resourceNames": sorted(ROLES.values())},
]


def cluster_role(name: str, rules: list[Body]) -> Body:
    """A role that bindings in tenant namespaces refer to."""
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def cluster_roles() -> list[Body]:
    """The roles of all tenants: one for each kind of access, and one to list what the cluster offers them."""
    return [
        cluster_role(ROLES["view"], _VIEW),
        cluster_role(ROLES["submit"], _SUBMIT),
        cluster_role(ROLES["edit"], _EDIT),
        cluster_role(ROLES["admin"], _ADMIN),
        cluster_role(RUNTIME_READER, [_rule("trainer.kubeflow.org", ["clustertrainingruntimes"], _READ)]),
    ]


def subject(text: str) -> Body:
    """`group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME` as a subject of a binding."""
    kind, _, name = text.partition(":")
    if kind == "serviceaccount":
        namespace, _, account = name.partition("/")
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {"apiGroup": _RBAC, "kind": kind.capitalize(), "name": name}


def role_bindings(tenant: Tenant) -> list[Body]:
    """One binding for each kind of access that the tenant grants."""
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": tenant.name},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [subject(text) for text in getattr(tenant.access, access)],
        }
        for access, role in ROLES.items()
        if getattr(tenant.access, access)
    ]


def runtime_reader_binding(tenant: Tenant) -> Body | None:
    """Reading ClusterTrainingRuntimes, for the tenant's people; nothing when it has none."""
    people = sorted({subject for access in ROLES for subject in getattr(tenant.access, access)})
    if not people:
        return None
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{RUNTIME_READER}-{tenant.name}"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": RUNTIME_READER},
        "subjects": [subject(text) for text in people],
    }
