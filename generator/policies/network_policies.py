"""The network policies of a team: NetworkPolicies, CiliumNetworkPolicies and AdminNetworkPolicies.

NetworkPolicies are additive: one denies everything, and the others allow MPI and DNS. Their names start with `np-`,
unlike TrainJobs: on OpenShift AI, Trainer writes a policy with the name of each TrainJob and replaces an existing one
(opendatahub-io/trainer pkg/rhai/networkpolicy.go, `ReconcileNetworkPolicy`).

CiliumNetworkPolicies add DNS names and the API server, which a NetworkPolicy cannot name. Cilium learns the addresses
of a name from answers that pass its DNS proxy, and a rule without `rules.dns` for the same port bypasses the proxy
(cilium v1.18.4 Documentation/security/policy/language.rst). So a tenant with names has Cilium's DNS policy instead of
the other.

AdminNetworkPolicies apply before the policies of namespaces. They cannot name "another team", so each team has one. All
have one priority, at which OVN-Kubernetes warns of the second; no pod is the subject of two, and where two apply, both
deny. Sources: network-policy-api v0.1.5 apis/v1alpha1; ovn-org/ovn-kubernetes
go-controller/pkg/ovn/controller/admin_network_policy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from generator.config.model.cluster import Cluster
from generator.config.model.isolation import (
    METADATA_SERVICES,
    ApiServer,
    Egress,
    Guard,
    Isolation,
    Metrics,
    metadata_services_in,
)
from generator.config.model.tenants import Tenant
from generator.facts.names import METADATA_NAME, RUNTIME_LABEL, TENANT_LABEL
from generator.manifests import Body

NOT_ISOLATED = "mpigen.dev/not-isolated"
"""Annotation of the policy that denies everything: the traffic that bypasses it."""
_BEYOND = (
    "traffic over secondary networks and RDMA (SR-IOV, InfiniBand, RoCE, macvlan, host devices), traffic of pods with "
    "hostNetwork, traffic from the node of a pod, and all traffic if the CNI does not enforce NetworkPolicies"
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
    """Return the NetworkPolicy that denies all traffic of a namespace."""
    body = _network_policy(tenant, "np-default-deny", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    body["metadata"]["annotations"] = {NOT_ISOLATED: _BEYOND}
    return body


def dns_pods(cluster: Cluster) -> tuple[str, dict[str, str], int]:
    """Return the DNS pods: namespace, labels and port. Policies match the port of the pods, not of the Service.

    Source: openshift/cluster-dns-operator pkg/manifests/assets/dns/{service,daemonset}.yaml.
    """
    if cluster.is_openshift:
        return "openshift-dns", {"dns.operator.openshift.io/daemonset-dns": "default"}, 5353
    return "kube-system", {"k8s-app": "kube-dns"}, 53


def dns(tenant: Tenant, cluster: Cluster, cache: str | None = None) -> Body:
    """Return the NetworkPolicy for DNS: UDP and TCP, which long answers need, and the address of a node cache."""
    name, labels, port = dns_pods(cluster)
    pods = {
        "namespaceSelector": {"matchLabels": {METADATA_NAME: name}},
        "podSelector": {"matchLabels": labels},
    }
    egress = [{"to": [pods], "ports": _ports(port, "UDP", "TCP")}]
    if cache:
        egress.append(
            {"to": [{"ipBlock": {"cidr": str(ipaddress.ip_network(cache))}}], "ports": _ports(53, "UDP", "TCP")}
        )
    return _network_policy(tenant, "np-dns", {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress})


def mpi(tenant: Tenant) -> Body:
    """Return the NetworkPolicy between MPI pods of the namespace, on every port: MPI and NCCL use random ports."""
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


def metrics(tenant: Tenant, metrics: Metrics) -> Body:
    """Return the NetworkPolicy that lets Prometheus read the metrics of MPI pods."""
    prometheus = {"namespaceSelector": {"matchLabels": {METADATA_NAME: metrics.namespace}}}
    ingress = [{"from": [prometheus], "ports": _ports(metrics.port, "TCP")}]
    spec: Body = {"podSelector": _MPI_PODS, "policyTypes": ["Ingress"], "ingress": ingress}
    return _network_policy(tenant, "np-metrics", spec)


def api_server(tenant: Tenant, server: ApiServer) -> Body:
    """Return the NetworkPolicy for the API server, by address: no pod selector matches the API server."""
    to = [{"ipBlock": {"cidr": network}} for network in server.networks]
    spec: Body = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": to, "ports": _ports(server.port, "TCP")}],
    }
    return _network_policy(tenant, "np-api-server", spec)


def egress(tenant: Tenant, target: Egress, network: str) -> Body:
    """Return a NetworkPolicy that allows a network outside the cluster, except the metadata service."""
    metadata = metadata_services_in(network)
    block = {"cidr": network, **({"except": metadata} if metadata else {})}
    ports = [entry for port in target.ports for entry in _ports(port, target.protocol)]
    spec: Body = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": block}], "ports": ports}],
    }
    return _network_policy(tenant, f"np-egress-{target.name}", spec)


def _ports(port: int, *protocols: str) -> list[Body]:
    return [{"protocol": protocol, "port": port} for protocol in protocols]


def _cilium_network_policy(tenant: Tenant, name: str, egress: Body) -> Body:
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": name, "namespace": tenant.name},
        "spec": {"endpointSelector": {}, "egress": [egress]},
    }


def cilium_dns(tenant: Tenant, cluster: Cluster) -> Body:
    """Return the CiliumNetworkPolicy for DNS: pods may resolve every name, and Cilium learns the addresses."""
    namespace, labels, port = dns_pods(cluster)
    match = {"k8s:io.kubernetes.pod.namespace": namespace, **{f"k8s:{key}": value for key, value in labels.items()}}
    pods = {"matchLabels": match}
    rules = {"dns": [{"matchPattern": "*"}]}
    to_ports = [{"ports": [*_cilium_ports(port, "UDP"), *_cilium_ports(port, "TCP")], "rules": rules}]
    return _cilium_network_policy(tenant, "cnp-dns", {"toEndpoints": [pods], "toPorts": to_ports})


def cilium_egress(tenant: Tenant, target: Egress, domain: str) -> Body:
    """Return a CiliumNetworkPolicy that allows a DNS name outside the cluster."""
    how = "matchPattern" if "*" in domain else "matchName"
    ports = [entry for port in target.ports for entry in _cilium_ports(port, target.protocol)]
    rule: Body = {"toFQDNs": [{how: domain}], "toPorts": [{"ports": ports}]}
    return _cilium_network_policy(tenant, f"cnp-egress-{target.name}", rule)


def cilium_api_server(tenant: Tenant, server: ApiServer) -> Body:
    """Return the CiliumNetworkPolicy for the API server, which needs no addresses."""
    rule: Body = {"toEntities": ["kube-apiserver"], "toPorts": [{"ports": _cilium_ports(server.port, "TCP")}]}
    return _cilium_network_policy(tenant, "cnp-api-server", rule)


def _cilium_ports(port: int, protocol: str) -> list[Body]:
    return [{"port": str(port), "protocol": protocol}]


_API = "policy.networking.k8s.io/v1alpha1"


def admin_network_policy(name: str, guard: Guard) -> Body:
    """Return the AdminNetworkPolicy that denies traffic to other teams and to metadata services."""
    others = {
        "namespaces": {
            "matchExpressions": [
                {"key": TENANT_LABEL, "operator": "Exists"},
                {"key": TENANT_LABEL, "operator": "NotIn", "values": [name]},
            ]
        }
    }
    return {
        "apiVersion": _API,
        "kind": "AdminNetworkPolicy",
        "metadata": {"name": f"mpigen-{name}"},
        "spec": {
            "priority": guard.priority,
            "subject": {"namespaces": {"matchLabels": {TENANT_LABEL: name}}},
            "ingress": [{"name": "other-teams", "action": "Deny", "from": [others]}],
            "egress": [
                {"name": "other-teams", "action": "Deny", "to": [others]},
                {"name": "metadata", "action": "Deny", "to": [{"networks": [*METADATA_SERVICES]}]},
            ],
        },
    }


def network_policies(tenant: Tenant, isolation: Isolation, cluster: Cluster) -> Iterator[Body]:
    """Yield the policies of a tenant's namespace. If jobs are isolated, each job has a NetworkPolicy of its own."""
    yield default_deny(tenant)
    if any(target.fqdn for target in tenant.egress):
        yield cilium_dns(tenant, cluster)
    else:
        yield dns(tenant, cluster, isolation.dns_cache)
    if isolation.unit == "namespace":
        yield mpi(tenant)
    if isolation.metrics:
        yield metrics(tenant, isolation.metrics)
    if isolation.api_server:
        if cluster.network == "cilium":
            yield cilium_api_server(tenant, isolation.api_server)
        else:
            yield api_server(tenant, isolation.api_server)
    for target in tenant.egress:
        if target.cidr:
            yield egress(tenant, target, target.cidr)
        if target.fqdn:
            yield cilium_egress(tenant, target, target.fqdn)
