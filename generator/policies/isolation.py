"""Isolation: NetworkPolicies that deny everything, then let MPI pods talk among themselves and find names.

Policies are additive. Names begin with `np-`: on OpenShift AI the Trainer writes a policy named as each TrainJob.
"""

from __future__ import annotations

from generator.config.cluster import Cluster
from generator.config.tenants import Egress, Tenant
from generator.config.workload import RUNTIME_LABEL
from generator.manifests import Body

_MPI_PODS: Body = {"matchExpressions": [{"key": RUNTIME_LABEL, "operator": "Exists"}]}


def _network_policy(tenant: Tenant, name: str, spec: Body) -> Body:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": tenant.name},
        "spec": spec,
    }


def default_deny(tenant: Tenant) -> Body:
    """Nothing in, nothing out."""
    return _network_policy(tenant, "np-default-deny", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})


def dns(tenant: Tenant, cluster: Cluster) -> Body:
    """Names, over UDP and, for the long answers of large jobs, TCP. Policies see the pod's port, not the Service's."""
    if cluster.is_openshift:
        name, labels, port = "openshift-dns", {"dns.operator.openshift.io/daemonset-dns": "default"}, 5353
    else:
        name, labels, port = "kube-system", {"k8s-app": "kube-dns"}, 53
    resolver = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "podSelector": {"matchLabels": labels},
    }
    ports = [{"protocol": "UDP", "port": port}, {"protocol": "TCP", "port": port}]
    spec: Body = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [resolver], "ports": ports}]}
    return _network_policy(tenant, "np-dns", spec)


def mpi(tenant: Tenant) -> Body:
    """MPI pods reach each other within the namespace, on every port: MPI and NCCL pick theirs at random."""
    return _network_policy(
        tenant,
        "np-mpi",
        {
            "podSelector": _MPI_PODS,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": _MPI_PODS}]}],
            "egress": [{"to": [{"podSelector": _MPI_PODS}]}],
        },
    )


def egress(tenant: Tenant, target: Egress) -> Body:
    """One network outside the cluster that all pods of the tenant may reach."""
    ports = [{"protocol": "TCP", "port": port} for port in target.ports]
    spec: Body = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": target.cidr}}], "ports": ports}],
    }
    return _network_policy(tenant, f"np-egress-{target.name}", spec)


def network_policies(tenant: Tenant, cluster: Cluster) -> list[Body]:
    """All policies of a tenant."""
    return [default_deny(tenant), dns(tenant, cluster), mpi(tenant), *(egress(tenant, each) for each in tenant.egress)]
