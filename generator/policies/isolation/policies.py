"""NetworkPolicies that deny everything, then let MPI pods talk among themselves and find names.

Policies are additive. Names begin with `np-`, as few TrainJobs do: on OpenShift AI, Trainer writes a policy with the
name of each TrainJob, and replaces one that exists (opendatahub-io/trainer pkg/rhai/networkpolicy.go,
`ReconcileNetworkPolicy`).
"""

from __future__ import annotations

import ipaddress

from generator.config.model.cluster import Cluster
from generator.config.model.isolation import ApiServer, Egress, Metrics, metadata_services_in
from generator.config.model.tenants import Tenant
from generator.facts.names import METADATA_NAME, RUNTIME_LABEL
from generator.manifests import Body

NOT_ISOLATED = "mpigen.dev/not-isolated"
"""Annotation of the policy that denies everything: what it does not deny."""
_BEYOND = (
    "traffic over secondary networks and RDMA (SR-IOV, InfiniBand, RoCE, macvlan, host devices), pods with hostNetwork "
    "and whatever comes from the node of a pod; and all of it where the CNI enforces no NetworkPolicy"
)
_MPI_PODS: Body = {"matchExpressions": [{"key": RUNTIME_LABEL, "operator": "Exists"}]}


def _network_policy(tenant: Tenant, name: str, spec: Body) -> Body:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": tenant.name},
        "spec": spec,
    }


def default_deny(tenant: Tenant) -> Body:
    """Nothing in, nothing out, as far as a NetworkPolicy goes."""
    body = _network_policy(tenant, "np-default-deny", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    body["metadata"]["annotations"] = {NOT_ISOLATED: _BEYOND}
    return body


def resolver(cluster: Cluster) -> tuple[str, dict[str, str], int]:
    """Who answers DNS: namespace, labels, and the port of the pods. Policies see that one, not the Service's.

    Source: openshift/cluster-dns-operator pkg/manifests/assets/dns/{service,daemonset}.yaml.
    """
    if cluster.is_openshift:
        return "openshift-dns", {"dns.operator.openshift.io/daemonset-dns": "default"}, 5353
    return "kube-system", {"k8s-app": "kube-dns"}, 53


def dns(tenant: Tenant, cluster: Cluster, cache: str | None = None) -> Body:
    """Names, over UDP and, for the long answers of large jobs, TCP; also from a cache on the node, at its address."""
    name, labels, port = resolver(cluster)
    pods = {
        "namespaceSelector": {"matchLabels": {METADATA_NAME: name}},
        "podSelector": {"matchLabels": labels},
    }
    egress = [{"to": [pods], "ports": _ports(port, "UDP", "TCP")}]
    if cache:
        egress.append({"to": [{"ipBlock": {"cidr": _only(cache)}}], "ports": _ports(53, "UDP", "TCP")})
    return _network_policy(tenant, "np-dns", {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress})


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


def scraped(tenant: Tenant, metrics: Metrics) -> Body:
    """Prometheus reads the metrics of MPI pods, and reaches nothing else of them."""
    prometheus = {"namespaceSelector": {"matchLabels": {METADATA_NAME: metrics.namespace}}}
    ingress = [{"from": [prometheus], "ports": _ports(metrics.port, "TCP")}]
    spec: Body = {"podSelector": _MPI_PODS, "policyTypes": ["Ingress"], "ingress": ingress}
    return _network_policy(tenant, "np-metrics", spec)


def api_server(tenant: Tenant, server: ApiServer) -> Body:
    """The API server, at addresses: it is no pod that a selector could match."""
    to = [{"ipBlock": {"cidr": network}} for network in server.networks]
    spec: Body = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": to, "ports": _ports(server.port, "TCP")}],
    }
    return _network_policy(tenant, "np-api-server", spec)


def egress(tenant: Tenant, target: Egress, network: str) -> Body:
    """One network outside the cluster that all pods of the tenant may reach, without the metadata service in it."""
    metadata = metadata_services_in(network)
    block = {"cidr": network, **({"except": metadata} if metadata else {})}
    ports = [port for each in target.ports for port in _ports(each, target.protocol)]
    spec: Body = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": block}], "ports": ports}],
    }
    return _network_policy(tenant, f"np-egress-{target.name}", spec)


def _ports(port: int, *protocols: str) -> list[Body]:
    return [{"protocol": protocol, "port": port} for protocol in protocols]


def _only(address: str) -> str:
    """The network of a single address."""
    return str(ipaddress.ip_network(address))
