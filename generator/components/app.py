"""The cdk8s App of a platform, and its components. Admins can add their own constructs to the App.

A component gets its objects from builders, and chooses their files. `MpiRuntime` is in runtimes.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import cdk8s
from constructs import Construct

from generator.components.constructs import Component, ManifestApp
from generator.components.runtimes import MpiRuntime
from generator.components.site import add_site_objects
from generator.config.model.fabrics import Fabric, ip_pool_namespace, operator_namespace
from generator.config.model.policies import AUDIT_POLICY_FILE
from generator.config.model.queues import CONFIGURATION_FILE
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.errors import ConfigError, Problem
from generator.facts.table import read_table
from generator.kueue.configuration import kueue_object
from generator.kueue.flavors import admission_checks, resource_flavor, topology, workload_priority_class
from generator.kueue.queues import cluster_queue, cohorts, local_queues, slack_queue
from generator.manifests import Body, Manifest
from generator.networks import attachments, nodes
from generator.networks.attachments import fabrics_of, pools_with
from generator.policies import access, namespace, schedules, secrets
from generator.policies.access import MEMLOCK
from generator.policies.admission.pack import admission_pack
from generator.policies.audit import audit
from generator.policies.catalogue import shared_catalogue, team_catalogue
from generator.policies.hardware_profiles import hardware_profiles
from generator.policies.network_policies import admin_network_policy, network_policies

_OBJECTS = read_table("objects", "generator.policies")


class App(ManifestApp):
    """The cdk8s App of a platform, with the components of its queues, fabrics, runtimes, policies and tenants.

    Constructs that you add to the app belong to the release too. `mpigen synth` checks and writes them. `app.synth()`
    raises a RuntimeError, because it would write them without the checks.

    Args:
        platform: the platform.

    Attributes:
        platform: the platform.
    """

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        KueueItself(self, "kueue", platform=platform)
        QueueTree(self, "queues", platform=platform)
        for fabric in platform.fabrics:
            FabricNodes(self, f"fabric-{fabric.name}", platform=platform, fabric=fabric)
        if platform.fabrics:
            Machines(self, "machines", platform=platform)
        for runtime in platform.runtimes:
            MpiRuntime(self, f"runtime-{runtime.name}", runtime=runtime)
        PlatformRoles(self, "platform-roles", platform=platform)
        if platform.tenants:
            TenantRoles(self, "roles", platform=platform)
            AdmissionPack(self, "admission", platform=platform)
            SharedCatalogue(self, "catalogue", platform=platform)
        if platform.policies.profile == "regulated":
            AuditPolicy(self, "audit", platform=platform)
        if platform.cluster.is_openshift and any(tenant.pod_security == MEMLOCK for tenant in platform.tenants):
            Memlock(self, "memlock")
        if platform.isolation.guard.baseline:
            Baseline(self, "baseline")
        for tenant in platform.tenants:
            Tenancy(self, f"tenant-{tenant.name}", platform=platform, tenant=tenant)
            TenantQueue(self, f"queue-{tenant.name}", platform=platform, tenant=tenant)
            if platform.fabrics:
                TenantNetworks(self, f"networks-{tenant.name}", platform=platform, tenant=tenant)
        add_site_objects(self, platform)
        self.seal()

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        """The runtimes of all `MpiRuntime` constructs: the runtimes of the platform, and your own."""
        return tuple(node.runtime for node in self.node.find_all() if isinstance(node, MpiRuntime))


def app_in(defined: Mapping[str, Any], file: str) -> App:
    """Return the `app` that a platform file in Python defines; else a new App of its `platform`.

    Args:
        defined: name → value in the file's module.
        file: the file, for errors.

    Raises:
        ConfigError: the file defines neither, or `app` is a plain `cdk8s.App`.
    """
    app, platform = defined.get("app"), defined.get("platform")
    if isinstance(app, App):
        return app
    if isinstance(app, cdk8s.App):
        message = "`app` is a plain cdk8s App, without the objects of the platform"
        raise ConfigError((Problem(message, "write `app = App(platform)`, from generator", file),))
    if not isinstance(platform, Platform):
        message = "the file defines neither `platform` (a Platform) nor `app` (an App)"
        raise ConfigError((Problem(message, "write `platform = Platform(...)`", file),))
    return App(platform)


class KueueItself(Component):
    """The configuration of Kueue, in a file that no GitOps engine applies."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        super().__init__(
            scope, id, [Manifest(kueue_object(platform.queues, platform.cluster, platform.fabrics), CONFIGURATION_FILE)]
        )


class QueueTree(Component):
    """The objects that all queues share: flavors, topologies, Cohorts, priorities, AdmissionChecks, queue `slack`."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        files = self._files(platform)
        super().__init__(
            scope, id, [Manifest(body, f"cluster/queues/{file}.yaml") for file, bodies in files for body in bodies]
        )

    @staticmethod
    def _files(platform: Platform) -> Iterator[tuple[str, list[Body]]]:
        yield "flavors", [resource_flavor(pool) for pool in platform.pools]
        yield "topologies", [topology(pool) for pool in platform.pools if pool.topology]
        yield "priorities", [workload_priority_class(priority) for priority in platform.queues.priorities]
        yield "cohorts", list(cohorts(platform))
        yield "admission-checks", list(admission_checks(platform.pools, platform.queues.multi_kueue))
        unowned = slack_queue(platform)
        yield "slack", [unowned] if unowned else []


class TenantQueue(Component):
    """The ClusterQueue of a tenant, and the LocalQueues that refer to it."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform, tenant: Tenant) -> None:  # noqa: A002
        file = f"tenants/{tenant.name}/queue.yaml"
        queue = cluster_queue(tenant, platform)
        super().__init__(scope, id, [Manifest(body, file) for body in (queue, *local_queues(tenant))])


class FabricNodes(Component):
    """The objects with which operators configure the nodes of a fabric. They may restart the nodes."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform, fabric: Fabric) -> None:  # noqa: A002
        bodies = self._bodies(platform, fabric)
        super().__init__(scope, id, [Manifest(body, f"cluster/networks/{fabric.name}.yaml") for body in bodies])

    @staticmethod
    def _bodies(platform: Platform, fabric: Fabric) -> Iterator[Body]:
        pools = pools_with(fabric, platform)
        if fabric.attached == "sriov" and fabric.operated != "none":
            namespace = operator_namespace(fabric, is_openshift=platform.cluster.is_openshift)
            yield from (body for pool in pools for body in nodes.sriov_node_objects(fabric, pool, namespace))
        elif fabric.operated == "nvidia" and fabric.device:
            yield from (nodes.nic_node_policy(fabric, pool) for pool in pools)
        if fabric.attached == "dra" and not fabric.device_class:
            yield attachments.device_class(fabric)
        tenants = [tenant for tenant in platform.tenants if fabric in fabrics_of(tenant, platform)]
        shares = [(tenant.name, share) for tenant in tenants for share in tenant.fabrics if share.name == fabric.name]
        if pools:
            yield from attachments.ip_pools(fabric, pools, shares, ip_pool_namespace(fabric))


class Machines(Component):
    """The objects with which OpenShift configures the nodes of all fabrics. They restart the nodes."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        bodies = nodes.machine_setup(platform.fabrics)
        super().__init__(scope, id, [Manifest(body, "cluster/networks/machines.yaml") for body in bodies])


class TenantNetworks(Component):
    """The objects that attach the pods of a team to fabrics, in each namespace of the team."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform, tenant: Tenant) -> None:  # noqa: A002
        file = f"tenants/{tenant.name}/network.yaml"
        super().__init__(scope, id, [Manifest(body, file) for body in self._bodies(platform, tenant)])

    @staticmethod
    def _bodies(platform: Platform, tenant: Tenant) -> Iterator[Body]:
        for home in tenant.homes:
            for fabric in fabrics_of(tenant, platform):
                yield from attachments.network_attachments(fabric, tenant, home.name)
                if fabric.attached == "dra":
                    yield attachments.resource_claim_template(fabric, home.name)


class TenantRoles(Component):
    """The ClusterRoles to which the bindings of all tenants refer."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        accesses = [tenant.access for tenant in platform.tenants if not tenant.retired]
        bodies = access.tenant_roles(platform.isolation, platform.access.roles, accesses, features=platform.features)
        bodies += access.schedule_roles() if platform.policies.schedules else []
        super().__init__(scope, id, [Manifest(role, "cluster/access/roles.yaml") for role in bodies])


class PlatformRoles(Component):
    """The ClusterRoles and bindings of platform admins, janitors and CI pipelines."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        bodies = access.platform_access(platform.access, platform.features)
        super().__init__(scope, id, [Manifest(body, "cluster/access/platform.yaml") for body in bodies])


class AdmissionPack(Component):
    """The ValidatingAdmissionPolicies of a platform, with their bindings."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        super().__init__(scope, id, admission_pack(platform))


class SharedCatalogue(Component):
    """The ConfigMap with the objects that all teams share, in its namespace."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        bodies = shared_catalogue(platform)
        super().__init__(scope, id, [Manifest(body, "cluster/access/catalogue.yaml") for body in bodies])


class AuditPolicy(Component):
    """The audit policy of the API server, in a file that no GitOps engine applies."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        super().__init__(scope, id, [Manifest(audit(platform), AUDIT_POLICY_FILE)])


class Memlock(Component):
    """The SecurityContextConstraints and the ClusterRole with which pods on OpenShift lock memory."""

    def __init__(self, scope: Construct, id: str) -> None:  # noqa: A002
        bodies = [_OBJECTS["memlock"], access.memlock_role()]
        super().__init__(scope, id, [Manifest(body, "cluster/access/memlock.yaml") for body in bodies])


class Baseline(Component):
    """The BaselineAdminNetworkPolicy: it denies the traffic of each pod of a tenant that no NetworkPolicy selects."""

    def __init__(self, scope: Construct, id: str) -> None:  # noqa: A002
        super().__init__(scope, id, [Manifest(_OBJECTS["baseline"], "cluster/isolation/baseline.yaml")])


class Tenancy(Component):
    """A tenant: its namespaces, access, network policies, quota, secrets, volumes and schedules."""

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
            yield "access", [access.memlock_role_binding(home) for home in tenant.homes]
        for home in tenant.homes:
            yield "isolation", [*network_policies(home, platform.isolation, cluster)]
            yield "quota", [namespace.resource_quota(home), namespace.limit_range(home, platform)]
            yield "secrets", [*secrets.secrets(home)]
            yield "data", [*namespace.persistent_volume_claims(home)]
            yield "dashboard", [*hardware_profiles(home, platform)]
        yield "catalogue", [team_catalogue(tenant)]
        yield "schedules", [*schedules.schedule_access(tenant, platform)]
        if cluster.network == "openshift-ovn":
            yield "isolation", [admin_network_policy(tenant.name, platform.isolation.guard)]
