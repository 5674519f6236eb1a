"""The cdk8s App of a platform. Admins can add their own constructs to it."""

from __future__ import annotations

from generator.config.platform import Platform
from generator.constructs import ManifestApp
from generator.kueue.chart import KueueItself, QueueTree, TenantQueue
from generator.networks.chart import FabricNodes, Machines, TenantNetworks
from generator.policies.admission.memlock import MEMLOCK
from generator.policies.chart import AdmissionPack, AuditPolicy, Baseline, Memlock, PlatformRoles, Tenancy, TenantRoles
from generator.runtimes.chart import MpiRuntime


class App(ManifestApp):
    """The components of a platform, such as its queue tree, fabrics, runtimes, policies and tenants."""

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
