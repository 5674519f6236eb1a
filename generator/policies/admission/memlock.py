"""Pods that may lock memory: the admission rule for them, and the role for OpenShift's SecurityContextConstraints."""

from __future__ import annotations

from dataclasses import replace

from generator.config.model.tenants import POD_SECURITY, Tenant
from generator.facts.names import MEMLOCK_SCC, SERVICE_ACCOUNT
from generator.manifests import Body
from generator.policies.access import RBAC, cluster_role, policy_rule
from generator.policies.admission.policy import Rule
from generator.policies.admission.rules import read_rule

MEMLOCK = "memlock"
STANDARD = f"mpigen.dev/{POD_SECURITY}"
"""Label of the namespaces in which the rule holds; the value is the name of the rule."""


def memlock() -> Rule:
    """Return the admission rule for pods with IPC_LOCK, in the namespaces with the label."""
    return replace(read_rule(MEMLOCK), namespace_labels={STANDARD: MEMLOCK}, judges_controllers=True)


_GROUP = "security.openshift.io"


def memlock_role() -> Body:
    """Return the ClusterRole that grants `use` of the SecurityContextConstraints with IPC_LOCK."""
    return cluster_role(MEMLOCK_SCC, [policy_rule(_GROUP, ["securitycontextconstraints"], ["use"], [MEMLOCK_SCC])])


def memlock_role_binding(tenant: Tenant) -> Body:
    """Return the RoleBinding for the ServiceAccount of the pods: a controller creates the pods, not a user."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": MEMLOCK_SCC, "namespace": tenant.name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": MEMLOCK_SCC},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": tenant.name}],
    }
