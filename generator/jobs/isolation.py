"""The NetworkPolicy of one TrainJob, where jobs of a namespace are isolated from each other.

No policy says "the same job": each job has one, by the label that JobSet puts on its pods (jobset v0.12.0
pkg/controllers/jobset_controller.go). The name has a dot, which no TrainJob's has: on OpenShift AI the Trainer writes a
policy named as the job.
"""

from __future__ import annotations

from generator.config.platform import Platform
from generator.facts.names import JOB_LABEL, JOB_POLICY, OWNER
from generator.manifests import Body


def beside(platform: Platform, train_job: Body) -> list[Body]:
    """What a TrainJob needs beside it: its NetworkPolicy, unless all MPI pods of a namespace reach each other."""
    return [_policy(train_job["metadata"])] if platform.isolation.unit == "job" else []


def _policy(job: Body) -> Body:
    pods = {"matchLabels": {JOB_LABEL: job["name"]}}
    owner = {key: value for key, value in job.get("annotations", {}).items() if key == OWNER}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": f"{JOB_POLICY}{job['name']}",
            "namespace": job["namespace"],
            **({"annotations": owner} if owner else {}),
        },
        "spec": {
            "podSelector": pods,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": pods}]}],
            "egress": [{"to": [{"podSelector": pods}]}],
        },
    }
