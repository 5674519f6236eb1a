"""OpenShift's own gate for pods that may lock memory: an SCC, and who may use it.

Fields and what they demand: openshift/apiserver-library-go pkg/securitycontextconstraints (sccmatching/provider.go,
capabilities/mustrunas.go). It is restricted-v2 (openshift/cluster-kube-apiserver-operator
bindata/bootkube/scc-manifests/*_scc-restricted-v2.yaml) with two differences, which belong together: IPC_LOCK may be
added, and a container may escalate, as a user other than root gets a capability from a file and in no other way.
"""

from __future__ import annotations

from generator.config.model.tenants import Tenant
from generator.facts.names import IPC_LOCK, MEMLOCK_SCC, NET_BIND_SERVICE, SERVICE_ACCOUNT
from generator.manifests import Body
from generator.policies.roles import RBAC, cluster_role, rule

_GROUP = "security.openshift.io"


def security_context_constraints() -> Body:
    """What pods may ask for. Nobody is named in it: a role grants it."""
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "SecurityContextConstraints",
        "metadata": {"name": MEMLOCK_SCC},
        "allowHostDirVolumePlugin": False,
        "allowHostIPC": False,
        "allowHostNetwork": False,
        "allowHostPID": False,
        "allowHostPorts": False,
        "allowPrivilegeEscalation": True,
        "allowPrivilegedContainer": False,
        "allowedCapabilities": [IPC_LOCK, NET_BIND_SERVICE],
        "defaultAddCapabilities": [],
        "defaultAllowPrivilegeEscalation": False,
        "fsGroup": {"type": "MustRunAs"},
        "groups": [],
        "priority": 0,
        "readOnlyRootFilesystem": False,
        "requiredDropCapabilities": ["ALL"],
        "runAsUser": {"type": "MustRunAsRange"},
        "seLinuxContext": {"type": "MustRunAs"},
        "seccompProfiles": ["runtime/default"],
        "supplementalGroups": {"type": "RunAsAny"},
        "userNamespaceLevel": "AllowHostLevel",
        "users": [],
        "volumes": [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ],
    }


def user_role() -> Body:
    """The right to use it."""
    return cluster_role(MEMLOCK_SCC, [rule(_GROUP, ["securitycontextconstraints"], ["use"], [MEMLOCK_SCC])])


def user_binding(tenant: Tenant) -> Body:
    """The right for the pods of jobs: it is their ServiceAccount's, as a controller makes them, and no person."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": MEMLOCK_SCC, "namespace": tenant.name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": MEMLOCK_SCC},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": tenant.name}],
    }
