"""The network policies of a team: NetworkPolicies, CiliumNetworkPolicies and AdminNetworkPolicies.

NetworkPolicies are additive: one denies everything, and the others allow traffic such as MPI and DNS. Their names start
with `np-`, unlike TrainJobs: on OpenShift AI, Trainer writes a policy with the name of each TrainJob and replaces an
existing one (opendatahub-io/trainer pkg/rhai/networkpolicy.go ReconcileNetworkPolicy).

CiliumNetworkPolicies add DNS names and the API server, which a NetworkPolicy cannot name. Cilium learns the addresses
of a name from answers that pass its DNS proxy, and a rule without `rules.dns` for the same port bypasses the proxy
(cilium v1.18.4 Documentation/security/policy/language.rst). So a tenant whose egress has DNS names gets Cilium's policy
for DNS instead of the NetworkPolicy for DNS.

AdminNetworkPolicies apply before the policies of namespaces. They cannot select "every other team", so each team has a
policy of its own. All of them have the same priority. OVN-Kubernetes warns about that, but the order does not matter:
all of them only deny. Sources: network-policy-api v0.1.5 apis/v1alpha1; ovn-org/ovn-kubernetes
go-controller/pkg/ovn/controller/admin_network_policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.cluster import Cluster
from generator.config.model.isolation import ApiServer, Egress, Guard, Isolation, Metrics
from generator.config.model.tenants import Tenant
from generator.facts.addressing import Address, Network, contains, denied_metadata
from generator.facts.names import DNS_PODS, METADATA_NAME, RUNTIME_LABEL, TENANT_LABEL
from generator.manifests import Body, omit_none

NOT_ISOLATED = "mpigen.dev/not-isolated"
"""Annotation of the NetworkPolicy `np-default-deny`: the traffic that bypasses all NetworkPolicies."""
_BEYOND = (
    "traffic over secondary networks and RDMA (SR-IOV, InfiniBand, RoCE, macvlan, host devices), traffic of pods with "
    "hostNetwork, traffic from the node of a pod, and all traffic if the CNI does not enforce NetworkPolicies"
)
_MPI_PODS: Body = {"matchExpressions": [{"key": RUNTIME_LABEL, "operator": "Exists"}]}


def _network_policy(namespace: str, name: str, spec: Body, annotations: Body | None = None) -> Body:
    return omit_none(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": spec,
        }
    )


def default_deny(namespace: str) -> Body:
    """Return the NetworkPolicy that denies all traffic of a namespace."""
    return _network_policy(
        namespace,
        "np-default-deny",
        {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        annotations={NOT_ISOLATED: _BEYOND},
    )


def dns_pods(cluster: Cluster) -> tuple[str, dict[str, str], int]:
    """Return the DNS pods: namespace, labels and port."""
    return DNS_PODS[cluster.is_openshift]


def dns(tenant: Tenant, cluster: Cluster, cache: Address | None = None) -> Body:
    """Return the NetworkPolicy that allows DNS to the cluster's DNS pods, and to a cache on the nodes if there is one.

    It allows UDP, and TCP for long answers.
    """
    name, labels, port = dns_pods(cluster)
    pods = {
        "namespaceSelector": {"matchLabels": {METADATA_NAME: name}},
        "podSelector": {"matchLabels": labels},
    }
    node_cache = [{"ipBlock": {"cidr": f"{cache}/{cache.max_prefixlen}"}}] if cache else []
    return _network_policy(
        tenant.name,
        "np-dns",
        {
            "podSelector": {},
            "policyTypes": ["Egress"],
            "egress": [
                {"to": [pods], "ports": _ports(port, "UDP", "TCP")},
                *([{"to": node_cache, "ports": _ports(53, "UDP", "TCP")}] if cache else []),
            ],
        },
    )


def mpi(tenant: Tenant) -> Body:
    """Return the NetworkPolicy that lets MPI pods of a namespace connect to each other on all ports, as MPI needs."""
    return _network_policy(
        tenant.name,
        "np-mpi",
        {
            "podSelector": _MPI_PODS,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": _MPI_PODS}]}],
            "egress": [{"to": [{"podSelector": _MPI_PODS}]}],
        },
    )


def metrics(tenant: Tenant, metrics: Metrics) -> Body:
    """Return the NetworkPolicy that lets all pods in the namespace of Prometheus read the metrics of MPI pods."""
    prometheus = {"namespaceSelector": {"matchLabels": {METADATA_NAME: metrics.namespace}}}
    ingress = [{"from": [prometheus], "ports": _ports(metrics.port, "TCP")}]
    spec: Body = {"podSelector": _MPI_PODS, "policyTypes": ["Ingress"], "ingress": ingress}
    return _network_policy(tenant.name, "np-metrics", spec)


def api_server(namespace: str, server: ApiServer) -> Body:
    """Return the NetworkPolicy that allows the API server by its addresses, because no pod selector matches it."""
    to = [{"ipBlock": {"cidr": str(network)}} for network in server.networks]
    spec: Body = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": to, "ports": _ports(server.port, "TCP")}],
    }
    return _network_policy(namespace, "np-api-server", spec)


def egress(tenant: Tenant, target: Egress, network: Network) -> Body:
    """Return the NetworkPolicy that allows a network outside the cluster, except metadata services of clouds."""
    metadata = [str(service) for service in denied_metadata() if contains(network, service)]
    block = {"cidr": str(network), "except": metadata or None}
    ports = [entry for port in target.ports for entry in _ports(port, target.protocol)]
    spec: Body = {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": block}], "ports": ports}],
    }
    return _network_policy(tenant.name, f"np-egress-{target.name}", spec)


def namespace_egress(tenant: Tenant, target: Egress, namespace: str) -> Body:
    """Return the NetworkPolicy that allows pods of another namespace, on the ports on which these pods listen.

    NetworkPolicies apply to the address and port of a pod, after the translation from the address of its Service:
    https://kubernetes.io/docs/concepts/services-networking/network-policies (`ipBlock`, "Services").
    """
    pods: Body = {
        "namespaceSelector": {"matchLabels": {METADATA_NAME: namespace}},
        "podSelector": {"matchLabels": dict(target.pod_labels)} if target.pod_labels else {},
    }
    ports = [entry for port in target.ports for entry in _ports(port, target.protocol)]
    spec: Body = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [pods], "ports": ports}]}
    return _network_policy(tenant.name, f"np-egress-{target.name}", spec)


def _ports(port: int, *protocols: str) -> list[Body]:
    return [{"protocol": protocol, "port": port} for protocol in protocols]


def _cilium_network_policy(namespace: str, name: str, egress: Body) -> Body:
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"endpointSelector": {}, "egress": [egress]},
    }


def cilium_dns(tenant: Tenant, cluster: Cluster) -> Body:
    """Return the CiliumNetworkPolicy for DNS: pods may resolve every name, and Cilium reads the answers."""
    namespace, labels, port = dns_pods(cluster)
    match = {"k8s:io.kubernetes.pod.namespace": namespace, **{f"k8s:{key}": value for key, value in labels.items()}}
    pods = {"matchLabels": match}
    rules = {"dns": [{"matchPattern": "*"}]}
    to_ports = [{"ports": [*_cilium_ports(port, "UDP"), *_cilium_ports(port, "TCP")], "rules": rules}]
    return _cilium_network_policy(tenant.name, "cnp-dns", {"toEndpoints": [pods], "toPorts": to_ports})


def cilium_egress(tenant: Tenant, target: Egress, domain: str) -> Body:
    """Return the CiliumNetworkPolicy that allows a DNS name outside the cluster, or a pattern of names."""
    how = "matchPattern" if "*" in domain else "matchName"
    ports = [entry for port in target.ports for entry in _cilium_ports(port, target.protocol)]
    rule: Body = {"toFQDNs": [{how: domain}], "toPorts": [{"ports": ports}]}
    return _cilium_network_policy(tenant.name, f"cnp-egress-{target.name}", rule)


def cilium_api_server(namespace: str, server: ApiServer) -> Body:
    """Return the CiliumNetworkPolicy that allows the API server by Cilium's entity, without addresses."""
    rule: Body = {"toEntities": ["kube-apiserver"], "toPorts": [{"ports": _cilium_ports(server.port, "TCP")}]}
    return _cilium_network_policy(namespace, "cnp-api-server", rule)


def _cilium_ports(port: int, protocol: str) -> list[Body]:
    return [{"port": str(port), "protocol": protocol}]


_API = "policy.networking.k8s.io/v1alpha1"


def admin_network_policy(name: str, guard: Guard) -> Body:
    """Return the AdminNetworkPolicy that denies traffic with other teams, and to metadata services of clouds."""
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
                {"name": "metadata", "action": "Deny", "to": [{"networks": [*map(str, denied_metadata())]}]},
            ],
        },
    }


def network_policies(tenant: Tenant, isolation: Isolation, cluster: Cluster) -> Iterator[Body]:
    """Yield the network policies of a tenant's namespace.

    If the platform isolates jobs, no policy allows MPI traffic: each job then needs a NetworkPolicy of its own.
    """
    yield default_deny(tenant.name)
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
            yield cilium_api_server(tenant.name, isolation.api_server)
        else:
            yield api_server(tenant.name, isolation.api_server)
    for target in tenant.egress:
        if target.cidr:
            yield egress(tenant, target, target.cidr)
        if target.fqdn:
            yield cilium_egress(tenant, target, target.fqdn)
        if target.namespace:
            yield namespace_egress(tenant, target, target.namespace)
