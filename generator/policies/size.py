"""Size: how many hosts one TrainJob of a tenant may ask for, kept by the API server.

One policy for the cluster, and a number for each namespace in a ConfigMap that its tenant may not write. A
ValidatingAdmissionPolicy sees one object at a time: it cannot count how many jobs somebody has. What a team has at the
same time is up to its queue, and how many TrainJobs there are to its ResourceQuota. Fields: kubernetes v1.34.2
staging/src/k8s.io/api/admissionregistration/v1/types.go; which ConfigMap: staging/src/k8s.io/apiserver/pkg/admission/
plugin/policy/generic/policy_dispatcher.go CollectParams (without a namespace the one of the request).
"""

from __future__ import annotations

from generator.config.tenants import Tenant
from generator.manifests import Body
from generator.policies.roles import PARAMETERS

_NAME = "mpigen-job-size"
_HOSTS = "?spec.?trainer.?numNodes.orValue(0)"
_SAID = (
    "'a job of ' + request.namespace + ' has at most ' + string(variables.most)"
    " + ' hosts, and this one asks for ' + string(variables.hosts)"
)
_TRAINJOBS = {
    "apiGroups": ["trainer.kubeflow.org"],
    "apiVersions": ["v1alpha1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["trainjobs"],
    "scope": "*",
}


def job_size() -> list[Body]:
    """The policy and its binding, for every tenant that has a limit.

    A job that was larger before the limit came stays as it is: controllers go on writing to it. One that says nothing
    of hosts has those of its runtime, which no policy can see.
    """
    return [_policy(), _binding()]


def parameters(tenant: Tenant) -> list[Body]:
    """What the policy reads in the tenant's namespace; nothing for a tenant without such a limit."""
    most = tenant.limits.hosts_per_job
    if most is None:
        return []
    metadata = {"name": PARAMETERS, "namespace": tenant.name}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hostsPerJob": str(most)}}]


def _policy() -> Body:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _NAME},
        "spec": {
            "failurePolicy": "Fail",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [_TRAINJOBS],
            },
            "variables": [
                {"name": "hosts", "expression": f"object.{_HOSTS}"},
                {"name": "before", "expression": f"oldObject == null ? 0 : oldObject.{_HOSTS}"},
                {
                    "name": "most",
                    "expression": "params.?data.?hostsPerJob.optMap(most, int(most)).orValue(variables.hosts)",
                },
            ],
            "validations": [
                {
                    "expression": "variables.hosts <= variables.most || variables.hosts == variables.before",
                    "messageExpression": _SAID,
                    "reason": "Invalid",
                }
            ],
        },
    }


def _binding() -> Body:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": _NAME},
        "spec": {
            "policyName": _NAME,
            "validationActions": ["Deny"],
            "paramRef": {"name": PARAMETERS, "parameterNotFoundAction": "Allow"},
            "matchResources": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchExpressions": [{"key": "mpigen.dev/tenant", "operator": "Exists"}]},
                "objectSelector": {},
            },
        },
    }
