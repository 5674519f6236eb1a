"""The audit policy of the API server: a file for Kubernetes, an APIServer object for OpenShift.

The policy applies to the whole cluster, and Argo CD cannot apply a file of the API server, so an admin compares the
generated policy with the installed policy. The first rule that matches a request applies (apiserver v0.34.2
pkg/audit/policy/checker.go policyRuleEvaluator.EvaluatePolicyRule); fields: apiserver v0.34.2
pkg/apis/audit/v1/types.go PolicyRule.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from generator.config.platform import Platform
from generator.facts.kinds import emitted_kinds
from generator.facts.table import read_table
from generator.manifests import Body
from generator.policies.access import KUBERNETES_USERS, controller_groups

FLAGS = "mpigen.dev/api-server-flags"
"""Annotation of the policy: flags that the API server needs beside `--audit-policy-file` and `--audit-log-path`."""

_WRITES = ["create", "update", "patch", "delete", "deletecollection"]
_READS = ["get", "list", "watch"]
_HEALTH = ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*"]
_POD_ACCESS = ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"]
# The bodies of these requests contain Secrets or tokens.
_SECRETS = [
    {"group": "", "resources": ["secrets", "serviceaccounts/token"]},
    {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
]
_FREQUENT = [
    {"group": "", "resources": ["events"]},
    {"group": "events.k8s.io", "resources": ["events"]},
    {"group": "coordination.k8s.io", "resources": ["leases"]},
]
_USER_RESOURCES = (
    ("", "persistentvolumeclaims"),
    ("rbac.authorization.k8s.io", "roles"),
    ("trainer.kubeflow.org", "trainjobs"),
)
"""Resources that users write, whether or not a release has such objects."""


def audit(platform: Platform) -> Body:
    """Return the audit policy for the API server; on OpenShift an APIServer with a profile instead of rules."""
    if platform.cluster.is_openshift:
        profile: Body = read_table("objects", "generator.policies")["openshift-audit"]
        return profile
    return audit_policy(controller_groups(platform), platform.policies.retention.audit or 0)


def audit_policy(controllers: Sequence[str], days: int) -> Body:
    """Return an audit policy that logs the bodies of writes to resources that mpigen generates or that users write.

    It logs no events, leases and health checks, and only the metadata of all other requests, such as requests with
    Secrets or tokens. Reads by controllers are logged only for Secrets, tokens and connections to pods, services and
    nodes.

    Args:
        controllers: groups of the controllers' ServiceAccounts.
        days: retention of the log files; 0 for no limit.
    """
    flags = f"--audit-log-maxage={days} --audit-log-maxbackup=0"
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "metadata": {"name": "mpigen", "annotations": {FLAGS: flags}},
        "omitStages": ["RequestReceived"],
        "omitManagedFields": True,
        "rules": [
            {"level": "None", "nonResourceURLs": _HEALTH},
            {"level": "None", "resources": _FREQUENT},
            {"level": "Metadata", "resources": _SECRETS},
            {"level": "Metadata", "resources": [{"group": "", "resources": _POD_ACCESS}]},
            {"level": "Request", "verbs": _WRITES, "resources": _written_resources()},
            {"level": "None", "userGroups": ["system:nodes", *controllers], "verbs": _READS},
            {"level": "None", "users": [*KUBERNETES_USERS], "verbs": _READS},
            {"level": "Metadata"},
        ],
    }


def _written_resources() -> list[Body]:
    """Return, by API group, the resource types that mpigen generates or that users write, without subresources."""
    rows = sorted({(row.group, row.resource) for row in emitted_kinds()} | {*_USER_RESOURCES})
    return [
        {"group": group, "resources": [resource for _, resource in resources]}
        for group, resources in groupby(rows, key=itemgetter(0))
    ]
