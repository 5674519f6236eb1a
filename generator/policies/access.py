"""Access: who is bound to which role, in each tenant's namespaces and on the whole platform."""

from __future__ import annotations

from collections.abc import Iterable

from generator.config.model.access import PlatformAccess
from generator.config.model.tenants import Tenant
from generator.manifests import Body
from generator.policies.roles import PLATFORM_ROLES, RBAC, ROLES, RUNTIME_READER, platform_role


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
    """The roles of those who run the platform, each with its binding; none that nobody has."""
    return [
        body
        for persona, role in PLATFORM_ROLES.items()
        if (people := getattr(access, persona))
        for body in (platform_role(persona), cluster_role_binding(role, role, people))
    ]


def role_bindings(tenant: Tenant) -> list[Body]:
    """One binding for each kind of access that the tenant grants."""
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
