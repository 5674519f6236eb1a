"""Access: the roles of teams and of the platform (roles.yaml), their bindings, and the groups of controllers.

A user who can create a TrainJob can run any program in the pods of a runtime (trainer v2.3.0 `runtimePatches`). The
namespace is the boundary, so no role of a team allows reading Secrets, or writing quotas and the namespace. Only if a
runtime has `images`, the roles with which users submit jobs allow writing TrainingRuntimes.
Only the roles of `access.sessions` allow exec. Only if the platform isolates jobs, the roles with which users submit
jobs allow writing NetworkPolicies. No role aggregates into the ClusterRole `edit` of Kubernetes, because users of other
namespaces hold `edit`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, groupby

from generator.config.model.access import Access, PlatformAccess
from generator.config.model.fabrics import operator_namespaces
from generator.config.model.isolation import Isolation
from generator.config.model.roles import LEVELS, SESSIONS, TeamRole
from generator.config.model.tenants import POD_SECURITY, Tenant
from generator.config.platform import Platform
from generator.facts.kinds import emitted_kinds
from generator.facts.names import DESCRIPTION, MEMLOCK_SCC, OWN_ROLE, SCHEDULE_CREATOR, SERVICE_ACCOUNT
from generator.facts.table import read_table
from generator.manifests import Body

RBAC = "rbac.authorization.k8s.io"
READ = ["get", "list", "watch"]
WRITE = ["create", "update", "patch", "delete"]
ROLES = {"view": "mpigen-view", "submit": "mpigen-submit", "edit": "mpigen-edit", "admin": "mpigen-admin"}
"""Kind of access in `tenants[].access` → role. Each role includes the rules of the roles before it."""
SESSION_ROLES = {role: f"mpigen-{role}" for role in SESSIONS}
"""Role of `tenants[].access.sessions` → ClusterRole."""
PLATFORM_ROLES = {
    "admin": "mpigen-platform-admin",
    "janitor": "mpigen-platform-janitor",
    "ci": "mpigen-platform-ci",
}
"""Key of `access` in the platform file → ClusterRole."""
_PLATFORM_RULES = {
    "admin": ("view", "janitor", "platform-admin"),
    "janitor": ("view", "janitor"),
    "ci": ("platform-ci",),
}
RUNTIME_READER = "mpigen-runtime-reader"
SCHEDULE_VIEWER = "mpigen-schedule-view"
"""The ClusterRole with which members of a team read its CronJobs, their Jobs and the logs of their pods."""
MEMLOCK = "memlock"
STANDARD = f"mpigen.dev/{POD_SECURITY}"
"""Key of the label of namespaces whose pods may lock memory. Its value is `memlock`."""


def policy_rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> Body:
    """Return an RBAC rule; with `names`, only for the objects with these names."""
    body: Body = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return body if names is None else {**body, "resourceNames": names}


def cluster_role(name: str, rules: list[Body]) -> Body:
    """Return a ClusterRole."""
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def rules_for_kinds(verbs: list[str], features: Collection[str] = ()) -> list[Body]:
    """Return RBAC rules that allow these verbs on every kind that mpigen generates, one rule for each API group.

    Args:
        verbs: the verbs.
        features: the optional features of the platform, from `Platform.features`.
    """
    return [
        policy_rule(group, [row.resource for row in rows], verbs)
        for group, rows in groupby(emitted_kinds(features), key=lambda row: row.group)
    ]


_RULES: Mapping[str, list[Body]] = read_table("roles", "generator.policies")


def _rules(*names: str, features: Collection[str] = ()) -> list[Body]:
    """Return the RBAC rules at these keys of roles.yaml. A rule with `kinds: all` becomes a rule for each API group."""
    rules = [rule for name in names for rule in _RULES[name]]
    expanded = (rules_for_kinds(rule["verbs"], features) if "kinds" in rule else [rule] for rule in rules)
    return list(chain(*expanded))


def role_of(access: str) -> str:
    """Return the ClusterRole for a kind of access, or for a role of `access.roles`."""
    return (ROLES | SESSION_ROLES).get(access, f"{OWN_ROLE}{access}")


_ADDED = {
    "dashboard": ("dashboard", 0),
    "job-isolation": ("job-isolation", 1),
    "own-images": ("own-images", 1),
    "own-images-edit": ("own-images", 2),
}
"""Key of roles.yaml → (feature of the platform, place in `LEVELS` of the first role to which the rules are added)."""


def tenant_roles(
    isolation: Isolation,
    own: Iterable[TeamRole] = (),
    accesses: Iterable[Access] = (),
    *,
    features: Collection[str] = (),
) -> list[Body]:
    """Return the ClusterRoles of all tenants: one for each kind of access, and one to list runtimes and priorities.

    Args:
        isolation: the isolation of jobs.
        own: the roles of `access.roles`. Each gets a ClusterRole, which team admins can bind.
        accesses: the access of each tenant. A role of sessions gets a ClusterRole if a tenant gives the role to
            subjects. Team admins cannot bind it.
        features: the optional features of the platform, from `Platform.features`.

    If the platform isolates jobs, users who can submit jobs can also create and delete NetworkPolicies. The admission
    rule `job-isolation` restricts them to the NetworkPolicies of their own jobs. With own images, they can also create
    TrainingRuntimes. The admission rule `own-images` restricts them to copies of runtimes.
    """
    own = sorted(own, key=lambda role: role.name)
    used = {role for access in accesses for role, subjects in access.sessions.subjects.items() if subjects}
    enabled = {*features, *(["job-isolation"] if isolation.unit == "job" else [])}
    added = [(key, least) for key, (feature, least) in _ADDED.items() if feature in enabled]
    rules = {
        level: _with_bindable(
            _rules(*LEVELS[: index + 1], *(key for key, least in added if index >= least)),
            own,
        )
        for index, level in enumerate(LEVELS)
    }
    return [
        *(cluster_role(ROLES[level], rules[level]) for level in LEVELS),
        cluster_role(RUNTIME_READER, _rules("runtime-reader")),
        *(_own_role(role, rules[role.like] if role.like else []) for role in own),
        *(cluster_role(name, _rules(role)) for role, name in SESSION_ROLES.items() if role in used),
    ]


def _own_role(role: TeamRole, included: list[Body]) -> Body:
    """Return the ClusterRole of a role of `access.roles`, with the rules of the role that it includes."""
    rules = [
        {
            "apiGroups": [*rule.api_groups],
            "resources": [*rule.resources],
            "verbs": [*rule.verbs],
            **({"resourceNames": [*rule.resource_names]} if rule.resource_names else {}),
        }
        for rule in role.rules
    ]
    body = cluster_role(role_of(role.name), [*included, *rules])
    return {**body, "metadata": {**body["metadata"], "annotations": {DESCRIPTION: role.description}}}


def _with_bindable(rules: list[Body], own: Iterable[TeamRole], more: Iterable[str] = ()) -> list[Body]:
    """Return rules of which each rule with the verb `bind` also names the roles of `access.roles` and further roles."""
    names = [*(role_of(role.name) for role in own), *more]
    return [
        {**rule, "resourceNames": sorted([*rule["resourceNames"], *names])} if rule["verbs"] == ["bind"] else rule
        for rule in rules
    ]


def subject(text: str) -> Body:
    """Parse `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME` into a subject of a binding."""
    kind, _, name = text.partition(":")
    if kind == "serviceaccount":
        namespace, _, account = name.partition("/")
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {"apiGroup": RBAC, "kind": kind.capitalize(), "name": name}


def cluster_role_binding(name: str, role: str, subjects: Iterable[str]) -> Body:
    """Return a ClusterRoleBinding of a role for these subjects."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject(text) for text in subjects],
    }


def schedule_roles() -> list[Body]:
    """Return the ClusterRoles of the pods of schedules, and of the members of teams who read schedules."""
    return [cluster_role(SCHEDULE_CREATOR, _rules("schedule")), cluster_role(SCHEDULE_VIEWER, _rules("schedule-view"))]


def platform_access(access: PlatformAccess, features: Collection[str] = ()) -> list[Body]:
    """Return the ClusterRoles of platform admins, janitors and CI, each with its binding.

    A role for which the platform file names no subject is left out.

    Args:
        access: the subjects.
        features: the optional features of the platform, from `Platform.features`.
    """
    more = (SCHEDULE_CREATOR, SCHEDULE_VIEWER) if "schedules" in features else ()
    return [
        body
        for persona, role in PLATFORM_ROLES.items()
        if (subjects := getattr(access, persona))
        for body in (
            cluster_role(
                role, _with_bindable(_rules(*_PLATFORM_RULES[persona], features=features), access.roles, more)
            ),
            cluster_role_binding(role, role, subjects),
        )
    ]


def granted_roles(tenant: Tenant) -> Mapping[str, str]:
    """Return kind of access → role, for the roles that the tenant can grant: all, or only `view` if it is retired.

    The roles of `access.roles` that the tenant gives to subjects are among them.
    """
    return {access: role_of(access) for access in tenant.access.subjects if access == "view" or not tenant.retired}


def role_bindings(tenant: Tenant) -> list[Body]:
    """Return a RoleBinding for each kind of access that the tenant grants to at least one subject."""
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": tenant.name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [subject(text) for text in tenant.access.subjects[access]],
        }
        for access, role in granted_roles(tenant).items()
        if tenant.access.subjects[access]
    ]


def runtime_reader_binding(tenant: Tenant) -> Body | None:
    """Return the binding that lets a tenant's users list runtimes and priorities; None if the tenant has no users."""
    users = members(tenant)
    return cluster_role_binding(f"{RUNTIME_READER}-{tenant.name}", RUNTIME_READER, users) if users else None


def members(tenant: Tenant) -> list[str]:
    """Return the subjects that have a role in the namespaces of a tenant, sorted."""
    return sorted({user for access in granted_roles(tenant) for user in tenant.access.subjects[access]})


KUBERNETES_USERS = ("system:apiserver", "system:kube-controller-manager", "system:kube-scheduler")
"""The users of Kubernetes' own components."""

OPENSHIFT_GROUPS = "system:serviceaccounts:openshift-"
"""The prefix of the ServiceAccount groups of OpenShift's components."""

OPENSHIFT_GROUPS_FOR_USERS = tuple(f"{OPENSHIFT_GROUPS}{name}" for name in ("gitops", "operators", "pipelines"))
"""ServiceAccount groups of OpenShift's components that act for users, for example apply a team's TrainJobs."""


def memlock_role() -> Body:
    """Return the ClusterRole that grants `use` of the SecurityContextConstraints with IPC_LOCK."""
    group = "security.openshift.io"
    return cluster_role(MEMLOCK_SCC, [policy_rule(group, ["securitycontextconstraints"], ["use"], [MEMLOCK_SCC])])


def memlock_role_binding(tenant: Tenant) -> Body:
    """Return the RoleBinding that lets MPI pods of a namespace use the SecurityContextConstraints with IPC_LOCK."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": MEMLOCK_SCC, "namespace": tenant.name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": MEMLOCK_SCC},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": tenant.name}],
    }


# The namespaces of controllers: `config/default` of Kueue and JobSet, `manifests/overlays/manager` of Trainer; Red
# Hat's operators.
_CONTROLLERS = ("jobset-system", "kube-system", "kubeflow-system", "kueue-system")
_OPENSHIFT_CONTROLLERS = ("redhat-ods-applications",)
_NODES = "system:nodes"
"""The group of kubelets, which delete pods of their node (apiserver v0.34.2 pkg/authentication/user/user.go
NodesGroup)."""
_SCHEDULERS = {"coscheduling": "scheduler-plugins", "volcano": "volcano-system"}
"""`gang` of a runtime → the usual namespace of the scheduler, which deletes pods to preempt them.

Sources: scheduler-plugins v0.33.5 manifests/install/charts; volcano v1.12 installer/helm.
"""


def controller_groups(platform: Platform) -> list[str]:
    """Return the group of kubelets, and then, sorted, the ServiceAccount group of each namespace of controllers.

    On OpenShift, the list omits network operators in namespaces of OpenShift, which `OPENSHIFT_GROUPS` covers.
    """
    is_openshift = platform.cluster.is_openshift
    more = _OPENSHIFT_CONTROLLERS if is_openshift else ()
    networks = {
        name
        for name in operator_namespaces(platform.fabrics, is_openshift=is_openshift)
        if not (is_openshift and name.startswith("openshift-"))
    }
    schedulers = {_SCHEDULERS[runtime.gang] for runtime in platform.runtimes if runtime.gang in _SCHEDULERS}
    namespaces = {*_CONTROLLERS, *more, *networks, *schedulers, *platform.policies.admission.controllers}
    return [_NODES, *(f"system:serviceaccounts:{namespace}" for namespace in sorted(namespaces))]
