"""The fabrics of a platform as constructs."""

from __future__ import annotations

from collections.abc import Iterator

from constructs import Construct

from generator.config.model.fabrics import Fabric, ip_pool_namespace, operator_namespace
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.constructs import Component
from generator.manifests import Body, Manifest
from generator.networks import attachments, nodes
from generator.networks.attachments import fabrics_of, pools_with


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
    """The objects that attach the pods of a team to fabrics, in each of its namespaces."""

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
