"""The objects that come from a stored pod template: the API server validates the template only in them.

The API server stores a runtime or a JobSet without validating its pod templates. It validates a template when the
JobSet controller creates a Job, and again when the Job controller creates a Pod. So these objects follow in dry runs:

    runtime → JobSet → its volume claims, and the first Job of each replicated job → its first Pod

Trainer creates the JobSet by server-side apply. The JobSet here is that of a TrainJob that sets nothing but its
runtime, without the variables, volumes and processes that Trainer adds. No seed needs them, and none replaces a field
of a pod template. Jobs and Pods come from `upstream.compile`, which tests/unit/upstream/test_compile.py
compares with the objects of the real controllers, but each is made from the answer of the API server to its parent,
with all defaults. ValidateJob accepts templates whose Pods an admission plugin rejects, so the Pod follows the Job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings
from generator.objects.pods import JOB_SET, RUNTIMES
from generator.upstream.jobset import jobs as job_set
from tests.cluster.differential.cases import Body, parse_path

NAMESPACE = "differential-pods"
"""The namespace of these objects."""
ACCOUNT = "mpi"
"""The ServiceAccount of the templates of mpigen, in that namespace."""
TEMPLATED = frozenset((*RUNTIMES, "JobSet"))
"""The kinds whose pod templates the API server only stores."""
_GENERATED = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")


def is_in_template(path: str) -> bool:
    """Return True if a path in a runtime or JobSet is inside of a pod template."""
    steps = [step for step in parse_path(path) if isinstance(step, str)]
    return "replicatedJobs" in steps and steps[steps.index("replicatedJobs") + 1 :][:3] == [
        "template",
        "spec",
        "template",
    ]


def make_job_set(body: Body) -> Iterator[Body]:
    """Yield the JobSet of a runtime, or the JobSet itself, in the namespace of these objects."""
    template = mapping(body, *map(str, JOB_SET[:-1])) if body.get("kind") in RUNTIMES else body
    kept = {key: mapping(template, "metadata").get(key, {}) for key in ("labels", "annotations")}
    metadata = {**kept, "name": "made", "namespace": NAMESPACE}
    yield {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": template["spec"]}


def make_claims_and_jobs(body: Body) -> Iterator[Body]:
    """Yield the claims of a JobSet, and the first Job of each replicated job."""
    yield from _make_claims(body)
    yield from _make_jobs(body)


def _make_claims(body: Body) -> Iterator[Body]:
    """Yield the claims of a JobSet.

    Source: jobset v0.12.0 pkg/controllers/volume_claim_policy.go JobSetReconciler.createPVCsIfNecessary
    """
    for policy in mappings(body["spec"].get("volumeClaimPolicies")):
        for template in mappings(policy.get("templates")):
            own = mapping(template, "metadata")
            kept: Body = {key: own[key] for key in ("labels", "annotations") if key in own}
            metadata = {**kept, "name": f"{own.get('name')}-{body['metadata']['name']}", "namespace": NAMESPACE}
            claim: Body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            claim["spec"] = mapping(template, "spec")
            yield claim


def _make_jobs(body: Body) -> Iterator[Body]:
    """Yield the first Job of each replicated job of a JobSet."""
    replicated = [
        {**job, "replicas": min(job.get("replicas", 1), 1)} for job in mappings(body["spec"].get("replicatedJobs"))
    ]
    single = {**body, "spec": {**body["spec"], "replicatedJobs": replicated}}
    for number, job in job_set.jobs(_manifest(single)):
        del job["spec"]["selector"]  # the API server generates it, and the labels
        job["spec"] |= {
            key: value for key, value in replicated[number]["template"]["spec"].items() if key == "selector"
        }
        labels = job["spec"]["template"]["metadata"]["labels"]
        job["spec"]["template"]["metadata"]["labels"] = {k: v for k, v in labels.items() if k not in _GENERATED}
        yield _without_owner(job)


def make_pods(body: Body) -> Iterator[Body]:
    """Yield the first Pod of a Job."""
    parallelism = min(body["spec"]["parallelism"], 1)
    first = {**body, "spec": {**body["spec"], "parallelism": parallelism}}
    yield from map(_without_owner, job_set.pods(_manifest(first), {}))


def _manifest(body: Body) -> Manifest:
    return Manifest(body, "case.yaml")


def _without_owner(body: Any) -> Body:
    """Return an object without its owner, which a dry run does not store."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}
    return {**body, "metadata": metadata}


MADE: Mapping[str, Callable[[Body], Iterator[Body]]] = {
    **dict.fromkeys(RUNTIMES, make_job_set),
    "JobSet": make_claims_and_jobs,
    "Job": make_pods,
}
"""Kind → a function that yields the objects that its controller creates."""


def make_nothing(_: Body) -> Iterator[Body]:
    """Yield nothing, for kinds whose controller creates no object with a pod template."""
    yield from ()
