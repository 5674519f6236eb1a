"""CiliumNetworkPolicies: names outside the cluster and the API server, neither of which a NetworkPolicy knows.

Cilium adds them to NetworkPolicies: what one of them allows is allowed. It learns which addresses a name has from the
answers that pass its DNS proxy, and a rule without `rules.dns` for the same port keeps them from passing there
(cilium v1.18.4 Documentation/security/policy/language.rst): a tenant with names has this DNS policy, and no other.
"""

from __future__ import annotations

from generator.config.model.cluster import Cluster
from generator.config.model.isolation import ApiServer, Egress
from generator.config.model.tenants import Tenant
from generator.manifests import Body
from generator.policies.isolation.policies import resolver


def _policy(tenant: Tenant, name: str, egress: Body) -> Body:
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": name, "namespace": tenant.name},
        "spec": {"endpointSelector": {}, "egress": [egress]},
    }


def dns(tenant: Tenant, cluster: Cluster) -> Body:
    """Every name may be asked for, and Cilium sees the answers."""
    namespace, labels, port = resolver(cluster)
    pods = {"matchLabels": {"k8s:io.kubernetes.pod.namespace": namespace, **_of_pods(labels)}}
    rules = {"dns": [{"matchPattern": "*"}]}
    to_ports = [{"ports": [*_ports(port, "UDP"), *_ports(port, "TCP")], "rules": rules}]
    return _policy(tenant, "cnp-dns", {"toEndpoints": [pods], "toPorts": to_ports})


def _of_pods(labels: dict[str, str]) -> dict[str, str]:
    return {f"k8s:{key}": value for key, value in labels.items()}


def egress(tenant: Tenant, target: Egress, domain: str) -> Body:
    """One name outside the cluster that all pods of the tenant may reach."""
    how = "matchPattern" if "*" in domain else "matchName"
    ports = [port for each in target.ports for port in _ports(each, target.protocol)]
    rule: Body = {"toFQDNs": [{how: domain}], "toPorts": [{"ports": ports}]}
    return _policy(tenant, f"cnp-egress-{target.name}", rule)


def api_server(tenant: Tenant, server: ApiServer) -> Body:
    """The API server, wherever it is."""
    rule: Body = {"toEntities": ["kube-apiserver"], "toPorts": [{"ports": _ports(server.port, "TCP")}]}
    return _policy(tenant, "cnp-api-server", rule)


def _ports(port: int, protocol: str) -> list[Body]:
    return [{"port": str(port), "protocol": protocol}]
