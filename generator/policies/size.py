"""Size: how many hosts one TrainJob of a tenant may ask for, kept by the API server.

A ValidatingAdmissionPolicy sees one object at a time: it cannot count how many jobs somebody has. What a team has at
the same time is up to its queue, and how many TrainJobs there are to its ResourceQuota. Fields: kubernetes v1.34.2
staging/src/k8s.io/api/admissionregistration/v1/types.go.
"""

from __future__ import annotations

from generator.config.tenants import Tenant
from generator.manifests import Body

_HOSTS = "?spec.?trainer.?numNodes.orValue(0)"


def job_size(tenant: Tenant) -> list[Body]:
    """The policy and its binding; nothing for a tenant without such a limit.

    A job that was larger before the limit came stays as it is: controllers go on writing to it. One that says nothing
    of hosts has those of its runtime, which the platform chose.
    """
    most = tenant.limits.hosts_per_job
    if most is None:
        return []
    name = f"{tenant.name}-job-size"
    said = f"a job of {tenant.name} has at most {most} hosts, and this one asks for"
    policy: Body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [
                    {
                        "apiGroups": ["trainer.kubeflow.org"],
                        "apiVersions": ["v1alpha1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["trainjobs"],
                        "scope": "*",
                    }
                ],
            },
            "variables": [
                {"name": "hosts", "expression": "object.?spec.?trainer.?numNodes.orValue(0)"},
                {
                    "name": "before",
                    "expression": "oldObject == null ? 0 : oldObject.?spec.?trainer.?numNodes.orValue(0)",
                },
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
    binding: Body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.name}},
                "objectSelector": {},
            },
        },
    }
    return [policy, binding]
