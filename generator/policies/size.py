"""Size: how many hosts one TrainJob of a tenant may ask for, kept by the API server.

A ValidatingAdmissionPolicy sees one object at a time: it cannot count how many jobs somebody has. What a team has at
the same time is up to its queue, and how many TrainJobs there are to its ResourceQuota. Fields: kubernetes v1.34.2
staging/src/k8s.io/api/admissionregistration/v1/types.go.
"""

from __future__ import annotations

from generator.config.tenants import Tenant
from generator.manifests import Body

_HOSTS = "?spec.?trainer.?numNodes.orValue(0)"


_TRAINJOBS = {
    "apiGroups": ["trainer.kubeflow.org"],
    "apiVersions": ["v1alpha1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["trainjobs"],
    "scope": "*",
}


def job_size(tenant: Tenant) -> list[Body]:
    """The policy and its binding; nothing for a tenant without such a limit.

    A job that was larger before the limit came stays as it is: controllers go on writing to it. One that says nothing
    of hosts has those of its runtime, which the platform chose.
    """
    most = tenant.limits.hosts_per_job
    return [] if most is None else [_policy(tenant, most), _binding(tenant)]


def _policy(tenant: Tenant, most: int) -> Body:
    said = f"a job of {tenant.name} has at most {most} hosts, and this one asks for"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"{tenant.name}-job-size"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [_TRAINJOBS],
            },
            "variables": [
                {"name": "hosts", "expression": f"object.{_HOSTS}"},
                {"name": "before", "expression": f"oldObject == null ? 0 : oldObject.{_HOSTS}"},
            ],
            "validations": [
                {
                    "expression": f"variables.hosts <= {most} || variables.hosts == variables.before",
                    "messageExpression": f"'{said} ' + string(variables.hosts)",
                    "reason": "Invalid",
                }
            ],
        },
    }


def _binding(tenant: Tenant) -> Body:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{tenant.name}-job-size"},
        "spec": {
            "policyName": f"{tenant.name}-job-size",
            "validationActions": ["Deny"],
            "matchResources": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.name}},
                "objectSelector": {},
            },
        },
    }
