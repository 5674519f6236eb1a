"""The namespace of a team's CronJobs, with the rights and the network of the pods that create TrainJobs.

The namespace is not a namespace of the team: it has no LocalQueue, so Kueue queues no Jobs there, and no member of the
team can write in it. So no member can change a CronJob, run a pod with its ServiceAccount, or open a session in its
pods. The ServiceAccount may only create TrainJobs, and the admission rules apply to it as to a user.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.cluster import Cluster
from generator.config.model.isolation import ApiServer
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import (
    CONFIRMED_DELETION,
    POD_SECURITY_ENFORCE,
    SCHEDULE_CREATOR,
    SCHEDULES,
    SCHEDULES_OF,
    SYNC_OPTIONS,
)
from generator.manifests import Body
from generator.policies.access import RBAC, SCHEDULE_VIEWER, members, subject
from generator.policies.network_policies import api_server, cilium_api_server, default_deny


def account_of(tenant: Tenant) -> str:
    """Return the user name of the ServiceAccount that creates the TrainJobs of a team's schedules."""
    return f"system:serviceaccount:{tenant.schedule_namespace}:{SCHEDULES}"


def schedule_access(tenant: Tenant, platform: Platform) -> Iterator[Body]:
    """Yield the objects around the CronJobs of a team: none if the team has no schedules, or is retired.

    Args:
        tenant: the team.
        platform: the platform, with `policies.schedules` if the team has schedules.
    """
    pods = platform.policies.schedules
    if pods is None or not tenant.schedules or tenant.retired:
        return
    place = {"namespace": tenant.schedule_namespace}
    yield _namespace(tenant, platform.cluster)
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": SCHEDULES, **place},
        "automountServiceAccountToken": False,  # each pod asks for its token
    }
    account = {"kind": "ServiceAccount", "name": SCHEDULES, **place}
    for namespace in sorted({schedule.job.namespace or tenant.name for schedule in tenant.schedules}):
        yield _role_binding(SCHEDULE_CREATOR, namespace, [account])
    if users := members(tenant):
        yield _role_binding(SCHEDULE_VIEWER, tenant.schedule_namespace, [subject(user) for user in users])
    yield from _network_policies(tenant, pods.api_server or platform.isolation.api_server, platform.cluster)


def _namespace(tenant: Tenant, cluster: Cluster) -> Body:
    """Return the Namespace. It lacks the label of a team's namespaces, so the rules about teams do not select it."""
    sync = {"security.openshift.io/scc.podSecurityLabelSync": "false"} if cluster.is_openshift else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": tenant.schedule_namespace,
            "labels": {
                SCHEDULES_OF: tenant.name,
                POD_SECURITY_ENFORCE: "restricted",
                "pod-security.kubernetes.io/enforce-version": f"v{cluster.versions.kubernetes}",
                **sync,
            },
            "annotations": {SYNC_OPTIONS: CONFIRMED_DELETION},
        },
    }


def _role_binding(role: str, namespace: str, subjects: list[Body]) -> Body:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }


def _network_policies(tenant: Tenant, server: ApiServer | None, cluster: Cluster) -> Iterator[Body]:
    """Yield the policies of the namespace: they deny all traffic except to the API server.

    The pods need no DNS: Kubernetes gives them the address of the API server (client-go v0.34.2 rest/config.go
    InClusterConfig).
    """
    namespace = tenant.schedule_namespace
    yield default_deny(namespace)
    if cluster.network == "cilium":
        yield cilium_api_server(namespace, server or ApiServer())
    elif server:
        yield api_server(namespace, server)
