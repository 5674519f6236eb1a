"""The audit policy of the API server: a file for Kubernetes, an APIServer object for OpenShift.

It holds for the whole cluster, and an engine cannot apply a file of the API server, so an admin compares it with the
installed policy. The first rule that fits a request decides (k8s.io/apiserver v0.34.2
pkg/audit/policy/checker.go); fields: pkg/apis/audit/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from generator.config.platform import Platform
from generator.facts.kinds import KINDS
from generator.manifests import Body
from generator.policies.access import KUBERNETES_USERS, controller_groups

FLAGS = "mpigen.dev/api-server-flags"
"""Annotation of the policy: how the API server is started beside `--audit-policy-file` and `--audit-log-path`."""

_WRITES = ["create", "update", "patch", "delete", "deletecollection"]
_READS = ["get", "list", "watch"]
_HEALTH = ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*"]
_WAYS_IN = ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"]
# Whose bodies are Secrets, or tokens.
_SECRETS = [
    {"group": "", "resources": ["secrets", "serviceaccounts/token"]},
    {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
]
_ABOUNDING = [
    {"group": "", "resources": ["events"]},
    {"group": "events.k8s.io", "resources": ["events"]},
    {"group": "coordination.k8s.io", "resources": ["leases"]},
]
_BY_PEOPLE = (
    ("", "persistentvolumeclaims"),
    ("rbac.authorization.k8s.io", "roles"),
    ("trainer.kubeflow.org", "trainjobs"),
)
"""Resources that users write and that no release contains."""


def audit(platform: Platform) -> Body:
    """The policy of the API server, or on OpenShift, which takes no rules for single resources, its profile."""
    if platform.cluster.is_openshift:
        return openshift_profile()
    return audit_policy(controller_groups(platform), platform.policies.retention.audit or 0)


def audit_policy(controllers: Sequence[str], days: int) -> Body:
    """Return a policy that logs the bodies of writes, never the content of Secrets, and no reads of controllers.

    Args:
        controllers: groups of the controllers.
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
            {"level": "None", "resources": _ABOUNDING},
            {"level": "Metadata", "resources": _SECRETS},
            {"level": "Metadata", "resources": [{"group": "", "resources": _WAYS_IN}]},
            {"level": "Request", "verbs": _WRITES, "resources": _written()},
            {"level": "None", "userGroups": ["system:nodes", *controllers], "verbs": _READS},
            {"level": "None", "users": [*KUBERNETES_USERS], "verbs": _READS},
            {"level": "Metadata"},
        ],
    }


def _written() -> list[Body]:
    """Return the resources of a release and of users. A resource does not include its subresources."""
    groups: dict[str, set[str]] = {}
    for group, resource in ((each.group, each.resource) for each in KINDS):
        groups.setdefault(group, set()).add(resource)
    for group, resource in _BY_PEOPLE:
        groups.setdefault(group, set()).add(resource)
    return [{"group": group, "resources": sorted(resources)} for group, resources in sorted(groups.items())]


def openshift_profile() -> Body:
    """`APIServer` of OpenShift, of which this sets only `audit`: bodies of writes, of Secrets only who and when.

    openshift/api at bfa868a22401, config/v1/types_apiserver.go; what a profile logs: openshift/library-go
    pkg/operator/apiserver/audit/manifests.
    """
    return {
        "apiVersion": "config.openshift.io/v1",
        "kind": "APIServer",
        "metadata": {"name": "cluster"},
        "spec": {"audit": {"profile": "WriteRequestBodies"}},
    }
