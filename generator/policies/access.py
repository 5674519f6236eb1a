"""Access: the roles of teams and of the platform's admins, who is bound to them, and the groups of controllers.

A user who can create a TrainJob can run any pod in the namespace (trainer v2.3.0 `runtimePatches`). The namespace is
the boundary, so no role allows exec, reading Secrets, or writing runtimes, quotas, NetworkPolicies and the namespace.
No role aggregates into others, and none is aggregated: users of all namespaces hold what Kubernetes calls `edit`.
"""

from __future__ import annotations

from collections.abc import Iterable

from generator.config.model.access import PlatformAccess
from generator.config.model.fabrics import operator_namespaces
from generator.config.model.isolation import Isolation
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
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


def policy_rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> Body:
    """A rule; of objects with these names only, if there are any."""
    body: Body = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return body if names is None else {**body, "resourceNames": names}


def cluster_role(name: str, rules: list[Body]) -> Body:
    """A role that bindings refer to."""
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def rules_for_kinds(verbs: list[str]) -> list[Body]:
    """These verbs on every kind that a platform can consist of, one rule for each group."""
    by_group: dict[str, list[str]] = {}
    for each in KINDS:
        by_group.setdefault(each.group, []).append(each.resource)
    return [policy_rule(group, resources, verbs) for group, resources in by_group.items()]


_VIEW = [
    policy_rule(_TRAINER, ["trainjobs", "trainjobs/status", "trainingruntimes"], READ),
    policy_rule("jobset.x-k8s.io", ["jobsets", "jobsets/status"], READ),
    policy_rule("batch", ["jobs", "jobs/status"], READ),
    policy_rule("", ["pods", "pods/log", "pods/status", "events", "persistentvolumeclaims"], READ),
    policy_rule("", ["resourcequotas", "limitranges"], READ),
    policy_rule("", ["namespaces"], ["get"]),  # one's own says what policies allow there
    policy_rule("events.k8s.io", ["events"], READ),
    policy_rule(_KUEUE, ["localqueues", "localqueues/status", "workloads", "workloads/status"], READ),
    policy_rule("visibility.kueue.x-k8s.io", ["localqueues/pendingworkloads"], READ),
]
_SUBMIT = [
    *_VIEW,
    policy_rule(_TRAINER, ["trainjobs"], ["create", "delete"]),
]
_EDIT = [
    *_SUBMIT,
    policy_rule(_TRAINER, ["trainjobs"], ["update", "patch"]),
    policy_rule("", ["persistentvolumeclaims"], WRITE),
    policy_rule("", ["secrets"], ["create", "update", "delete"]),  # not `patch`: its answer is the whole Secret
]
_ADMIN = [
    *_EDIT,
    policy_rule(RBAC, ["rolebindings"], [*READ, *WRITE]),
    policy_rule(RBAC, ["clusterroles"], ["bind"], sorted(ROLES.values())),
]
_OFFERED = [
    policy_rule(_TRAINER, ["clustertrainingruntimes"], READ),  # the SDK lists them
    policy_rule(_KUEUE, ["workloadpriorityclasses"], READ),
]
_NODES = policy_rule("", ["nodes"], READ)
_PLATFORM_ADMIN = [
    *_VIEW,
    _NODES,
    policy_rule(_TRAINER, ["trainjobs"], ["update", "patch", "delete"]),
    policy_rule(_KUEUE, ["workloads"], ["update", "patch"]),  # `active: false` stops a job and keeps it
    policy_rule(_KUEUE, ["clusterqueues/status", "cohorts/status", "admissionchecks/status"], READ),
    policy_rule("visibility.kueue.x-k8s.io", ["clusterqueues/pendingworkloads"], READ),
    policy_rule("", ["pods"], ["delete"]),
    *rules_for_kinds([*READ, *WRITE]),
    policy_rule(RBAC, ["clusterroles"], ["bind"], sorted([*ROLES.values(), *PLATFORM_ROLES.values(), RUNTIME_READER])),
]
_PLATFORM_CI = [
    _NODES,
    policy_rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ),
    *rules_for_kinds(READ),
]


def tenant_roles(isolation: Isolation) -> list[Body]:
    """The roles of all tenants: one for each kind of access, and one to list what the cluster offers them.

    With isolation of jobs, submitters write NetworkPolicies, which the admission rule `job-isolation` restricts.
    """
    theirs = [policy_rule("networking.k8s.io", ["networkpolicies"], [*READ, "create", "delete"])]
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


def subject(text: str) -> Body:
    """`group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME` as a subject of a binding."""
    kind, _, name = text.partition(":")
    if kind == "serviceaccount":
        namespace, _, account = name.partition("/")
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {"apiGroup": RBAC, "kind": kind.capitalize(), "name": name}


def cluster_role_binding(name: str, role: str, people: Iterable[str]) -> Body:
    """A role in the whole cluster, for these people."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject(text) for text in people],
    }


def platform_access(access: PlatformAccess) -> list[Body]:
    """Return the roles of the platform's admins and CI, each with its binding, if it has subjects."""
    return [
        body
        for persona, role in PLATFORM_ROLES.items()
        if (people := getattr(access, persona))
        for body in (platform_role(persona), cluster_role_binding(role, role, people))
    ]


def role_bindings(tenant: Tenant) -> list[Body]:
    """Return a RoleBinding for each kind of access that the tenant grants."""
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": tenant.name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [subject(text) for text in getattr(tenant.access, access)],
        }
        for access, role in ROLES.items()
        if getattr(tenant.access, access)
    ]


def runtime_reader_binding(tenant: Tenant) -> Body | None:
    """Reading what the cluster offers, for the tenant's people; nothing when it has none."""
    people = sorted({subject for access in ROLES for subject in getattr(tenant.access, access)})
    return cluster_role_binding(f"{RUNTIME_READER}-{tenant.name}", RUNTIME_READER, people) if people else None


KUBERNETES_USERS = ("system:apiserver", "system:kube-controller-manager", "system:kube-scheduler")
"""The users that Kubernetes' own components are."""

OPENSHIFT_GROUPS = "system:serviceaccounts:openshift-"
"""The prefix of the groups of OpenShift's components."""

OPENSHIFT_GROUPS_FOR_USERS = tuple(f"{OPENSHIFT_GROUPS}{name}" for name in ("gitops", "operators", "pipelines"))
"""Groups of OpenShift's components that act for users, for example by applying a team's TrainJobs."""

# Where they install themselves: kueue v0.19.2, jobset v0.12.0 and trainer v2.3.0 config/default; Red Hat's operators.
_CONTROLLERS = ("jobset-system", "kube-system", "kubeflow-system", "kueue-system")
_OPENSHIFT_CONTROLLERS = ("redhat-ods-applications",)


def controller_groups(platform: Platform) -> list[str]:
    """The groups of all ServiceAccounts in the namespaces of controllers, in order; OpenShift's own are not listed."""
    more = _OPENSHIFT_CONTROLLERS if platform.cluster.is_openshift else ()
    networks = {
        name
        for name in operator_namespaces(platform.fabrics, is_openshift=platform.cluster.is_openshift)
        if not name.startswith("openshift-")
    }
    namespaces = {*_CONTROLLERS, *more, *networks, *platform.policies.admission.controllers}
    return [f"system:serviceaccounts:{namespace}" for namespace in sorted(namespaces)]
