"""Tenancy as constructs."""

from __future__ import annotations

from collections.abc import Iterator

from constructs import Construct

from generator.config.model.policies import AUDIT_POLICY_FILE
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.constructs import Component
from generator.facts.table import read_table
from generator.manifests import Body, Manifest
from generator.policies import access, namespace, secrets
from generator.policies.admission import memlock
from generator.policies.admission.memlock import MEMLOCK
from generator.policies.admission.pack import admission_pack
from generator.policies.audit import audit
from generator.policies.network_policies import admin_network_policy, network_policies

_OBJECTS = read_table("objects", "generator.policies")


class TenantRoles(Component):
    """The roles that the bindings of all tenants refer to."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        bodies = access.tenant_roles(platform.isolation)
        super().__init__(scope, id, [Manifest(role, "cluster/access/roles.yaml") for role in bodies])


class PlatformRoles(Component):
    """The roles of the platform's admins and CI."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        bodies = access.platform_access(platform.access)
        super().__init__(scope, id, [Manifest(body, "cluster/access/platform.yaml") for body in bodies])


class AdmissionPack(Component):
    """The admission rules in the namespaces of all tenants."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        super().__init__(scope, id, admission_pack(platform))


class AuditPolicy(Component):
    """The audit policy of the API server, in a file that no GitOps engine applies."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        super().__init__(scope, id, [Manifest(audit(platform), AUDIT_POLICY_FILE)])


class Memlock(Component):
    """The permission of pods to lock memory on OpenShift."""

    def __init__(self, scope: Construct, id: str) -> None:  # noqa: A002
        bodies = [_OBJECTS["memlock"], memlock.memlock_role()]
        super().__init__(scope, id, [Manifest(body, "cluster/access/memlock.yaml") for body in bodies])


class Baseline(Component):
    """The default for namespaces of tenants in which no NetworkPolicy selects a pod."""

    def __init__(self, scope: Construct, id: str) -> None:  # noqa: A002
        super().__init__(scope, id, [Manifest(_OBJECTS["baseline"], "cluster/isolation/baseline.yaml")])


class Tenancy(Component):
    """A tenant: its namespaces, access, network policies, quota, secrets and volumes."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform, tenant: Tenant) -> None:  # noqa: A002
        files = self._files(platform, tenant)
        super().__init__(
            scope,
            id,
            [Manifest(body, f"tenants/{tenant.name}/{file}.yaml") for file, bodies in files for body in bodies],
        )

    @staticmethod
    def _files(platform: Platform, tenant: Tenant) -> Iterator[tuple[str, list[Body]]]:
        cluster = platform.cluster
        for home in tenant.homes:
            yield (
                "namespace",
                [namespace.namespace(home, tenant.name, platform), namespace.service_account(home, cluster)],
            )
        reader = access.runtime_reader_binding(tenant)
        yield (
            "access",
            [
                *(binding for home in tenant.homes for binding in access.role_bindings(home)),
                *([reader] if reader else []),
            ],
        )
        if cluster.is_openshift and tenant.pod_security == MEMLOCK:
            yield "access", [memlock.memlock_role_binding(home) for home in tenant.homes]
        for home in tenant.homes:
            yield "isolation", [*network_policies(home, platform.isolation, cluster)]
            yield "quota", [namespace.resource_quota(home), namespace.limit_range(home)]
            yield "secrets", [*secrets.secrets(home)]
            yield "data", [*namespace.persistent_volume_claims(home)]
        if cluster.network == "openshift-ovn":
            yield "isolation", [admin_network_policy(tenant.name, platform.isolation.guard)]
