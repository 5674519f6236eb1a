"""AdminNetworkPolicies: what stands above and below the NetworkPolicies of namespaces, where the cluster has them.

They cannot say "another team": a team has a policy of its own, and all of these have one priority, at which
OVN-Kubernetes warns of the second. No pod is the subject of two, and two that meet both deny. Sources:
network-policy-api v0.1.5 apis/v1alpha1; ovn-org/ovn-kubernetes go-controller/pkg/ovn/controller/admin_network_policy.
"""

from __future__ import annotations

from generator.config.model.isolation import METADATA_SERVICES, Guard
from generator.facts.names import EVERYWHERE, TENANT_LABEL
from generator.manifests import Body

_API = "policy.networking.k8s.io/v1alpha1"
_EVERYWHERE = [EVERYWHERE, "::/0"]


def team(name: str, guard: Guard) -> Body:
    """Nothing between a team and others, and nothing to the metadata service, whatever their NetworkPolicies say."""
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


def baseline() -> Body:
    """Nothing in or out of the namespaces of tenants where no NetworkPolicy decides. The cluster can have only one."""
    anybody: Body = {"namespaces": {}}
    return {
        "apiVersion": _API,
        "kind": "BaselineAdminNetworkPolicy",
        "metadata": {"name": "default"},
        "spec": {
            "subject": {"namespaces": {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]}},
            "ingress": [{"name": "nobody", "action": "Deny", "from": [anybody]}],
            "egress": [{"name": "nowhere", "action": "Deny", "to": [anybody, {"networks": _EVERYWHERE}]}],
        },
    }
