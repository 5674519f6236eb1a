"""The kinds of object that a release can hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmittedKind:
    """A kind of object that a release can hold.

    Attributes:
        group: the API group; empty for the core group.
        kind: such as `ClusterQueue`.
        resource: what the API server calls it in rules, such as `clusterqueues`.
        is_namespaced: whether its objects lie in namespaces, of tenants or of operators.
    """

    group: str
    kind: str
    resource: str
    is_namespaced: bool = False


KINDS = (
    EmittedKind("", "LimitRange", "limitranges", is_namespaced=True),
    EmittedKind("", "Namespace", "namespaces"),
    EmittedKind("", "PersistentVolumeClaim", "persistentvolumeclaims", is_namespaced=True),
    EmittedKind("", "ResourceQuota", "resourcequotas", is_namespaced=True),
    EmittedKind("", "ServiceAccount", "serviceaccounts", is_namespaced=True),
    EmittedKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    EmittedKind(
        "admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
    ),
    EmittedKind("cilium.io", "CiliumNetworkPolicy", "ciliumnetworkpolicies", is_namespaced=True),
    EmittedKind("external-secrets.io", "ExternalSecret", "externalsecrets", is_namespaced=True),
    EmittedKind("external-secrets.io", "SecretStore", "secretstores", is_namespaced=True),
    EmittedKind("k8s.cni.cncf.io", "NetworkAttachmentDefinition", "network-attachment-definitions", is_namespaced=True),
    EmittedKind("kueue.x-k8s.io", "AdmissionCheck", "admissionchecks"),
    EmittedKind("kueue.x-k8s.io", "ClusterQueue", "clusterqueues"),
    EmittedKind("kueue.x-k8s.io", "Cohort", "cohorts"),
    EmittedKind("kueue.x-k8s.io", "LocalQueue", "localqueues", is_namespaced=True),
    EmittedKind("kueue.x-k8s.io", "MultiKueueCluster", "multikueueclusters"),
    EmittedKind("kueue.x-k8s.io", "MultiKueueConfig", "multikueueconfigs"),
    EmittedKind("kueue.x-k8s.io", "ProvisioningRequestConfig", "provisioningrequestconfigs"),
    EmittedKind("kueue.x-k8s.io", "ResourceFlavor", "resourceflavors"),
    EmittedKind("kueue.x-k8s.io", "Topology", "topologies"),
    EmittedKind("kueue.x-k8s.io", "WorkloadPriorityClass", "workloadpriorityclasses"),
    EmittedKind("machineconfiguration.openshift.io", "KubeletConfig", "kubeletconfigs"),
    EmittedKind("machineconfiguration.openshift.io", "MachineConfig", "machineconfigs"),
    EmittedKind("mellanox.com", "NicNodePolicy", "nicnodepolicies"),
    EmittedKind("networking.k8s.io", "NetworkPolicy", "networkpolicies", is_namespaced=True),
    EmittedKind("nv-ipam.nvidia.com", "IPPool", "ippools", is_namespaced=True),
    EmittedKind("performance.openshift.io", "PerformanceProfile", "performanceprofiles"),
    EmittedKind("policy.networking.k8s.io", "AdminNetworkPolicy", "adminnetworkpolicies"),
    EmittedKind("policy.networking.k8s.io", "BaselineAdminNetworkPolicy", "baselineadminnetworkpolicies"),
    EmittedKind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles"),
    EmittedKind("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings"),
    EmittedKind("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", is_namespaced=True),
    EmittedKind("resource.k8s.io", "DeviceClass", "deviceclasses"),
    EmittedKind("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates", is_namespaced=True),
    EmittedKind("security.openshift.io", "SecurityContextConstraints", "securitycontextconstraints"),
    EmittedKind("sriovnetwork.openshift.io", "SriovIBNetwork", "sriovibnetworks", is_namespaced=True),
    EmittedKind("sriovnetwork.openshift.io", "SriovNetwork", "sriovnetworks", is_namespaced=True),
    EmittedKind("sriovnetwork.openshift.io", "SriovNetworkNodePolicy", "sriovnetworknodepolicies", is_namespaced=True),
    EmittedKind("sriovnetwork.openshift.io", "SriovNetworkPoolConfig", "sriovnetworkpoolconfigs", is_namespaced=True),
    EmittedKind("trainer.kubeflow.org", "ClusterTrainingRuntime", "clustertrainingruntimes"),
    EmittedKind("trainer.kubeflow.org", "TrainingRuntime", "trainingruntimes", is_namespaced=True),
)
"""In the order of their groups and names. Whatever admins add to a release comes on top."""
