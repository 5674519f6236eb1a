"""The webhook of Kueue: what it changes in a TrainJob, and why it rejects one.

Source: kueue v0.19.2 pkg/controller/jobframework/validation.go ValidateJobOnCreate; kueue v0.19.2
pkg/controller/jobframework/tas_validation.go ValidateTASPodSetRequest
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.facts.names import QUEUE_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings
from generator.objects.pods import JOB_SET
from generator.objects.training import AMOUNTS, DEFAULT_QUEUE, containers_of, replicated_jobs
from generator.quantities import amount_of
from generator.upstream.trainer.runtime import Fault, Origin
from generator.upstream.trainer.webhook import rejection

_KUEUE = QUEUE_NAME.partition("/")[0]
_TOPOLOGIES = tuple(f"{_KUEUE}/podset-{kind}-topology" for kind in ("required", "preferred", "unconstrained"))
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def set_queue(job: Body, *, has_default: bool) -> Body:
    """Return a TrainJob as Kueue's webhook changes it.

    The webhook sets the queue label to `default` if it is absent or empty and the namespace has this LocalQueue, and
    suspends a TrainJob that then has the label.

    Args:
        job: the TrainJob.
        has_default: True if its namespace has the LocalQueue `default`.

    Source: kueue v0.19.2 pkg/controller/jobframework/defaults.go ApplyDefaultLocalQueue; kueue v0.19.2
    pkg/controller/jobframework/defaults.go ApplyDefaultForSuspend
    """
    metadata = mapping(job, "metadata")
    labels = mapping(metadata, "labels")
    if has_default and not labels.get(QUEUE_NAME):
        labels = {**labels, QUEUE_NAME: DEFAULT_QUEUE}
    if QUEUE_NAME not in labels:
        return job
    return {**job, "metadata": {**metadata, "labels": labels}, "spec": {**mapping(job, "spec"), "suspend": True}}


def find_topology_conflicts(job_set: Body, runtime: Manifest) -> Iterator[Fault]:
    """Yield a fault for pods with several topology annotations: Kueue's webhook rejects their TrainJob."""
    for item in replicated_jobs(job_set, ("spec",)):
        annotations = mapping(item, "template", "spec", "template", "metadata", "annotations")
        if len(set_ := [key for key in _TOPOLOGIES if key in annotations]) > 1:
            message = f"the pods `{item.get('name')}` have more than one topology annotation: {', '.join(set_)}"
            yield Fault(Origin(runtime, JOB_SET), message, "keep one of the annotations")


def find_exceeded_limits(job_set: Body) -> Iterator[str]:
    """Yield a reason for each request of a container above its limit: Kueue admits no workload with such a request.

    Source: kueue v0.19.2 pkg/workload/resources.go ValidateResources
    """
    for item in mappings(mapping(job_set, "spec").get("replicatedJobs")):
        for name, container in containers_of([item], item.get("name")).items():
            limits, requests = (mapping(container, "resources", key) for key in AMOUNTS)
            for key, request in requests.items():
                amount, limit = amount_of(request), amount_of(limits.get(key))
                if amount is not None and limit is not None and amount > limit:
                    yield f"the container `{name}` requests `{key}: {request}`, above its limit `{limits[key]}`"


def find_rejections(job: Manifest) -> Iterator[Fault]:
    """Yield the reasons why the webhook of Kueue rejects the request to create a TrainJob, valid by its schema."""
    labels, annotations = (mapping(job.body, "metadata", key) for key in ("labels", "annotations"))
    if (queue := labels.get(QUEUE_NAME)) and not _SUBDOMAIN.fullmatch(str(queue)):
        yield _wrong_queue(job, queue)
    key = f"{_KUEUE}/max-exec-time-seconds"
    if key in labels and not re.fullmatch(r"\+?0*[1-9]\d{0,17}", str(labels[key])):
        message = f"the label `{key}` is `{labels[key]}`, not a positive integer"
        yield rejection(Origin(job, ("metadata", "labels", key)), message, "set the seconds, such as `3600`")
    key = f"{_KUEUE}/elastic-job"
    if annotations.get(key) == "true":
        message = f"the annotation `{key}` makes the TrainJob elastic, which Kueue does not support for TrainJobs"
        yield rejection(Origin(job, ("metadata", "annotations", key)), message, "remove the annotation")
    for holder, values in (("labels", labels), ("annotations", annotations)):
        for name in (f"{_KUEUE}/prebuilt-workload-name", f"{_KUEUE}/admission-gated-by"):
            if name in values:
                message = f"mpigen does not simulate `{name}`"
                yield rejection(Origin(job, ("metadata", holder, name)), message, f"remove `{name}`", is_unknown=True)


def _wrong_queue(job: Manifest, queue: object) -> Fault:
    message = f"the label `{QUEUE_NAME}` is `{queue}`, which is not the name of a LocalQueue"
    return rejection(Origin(job, ("metadata", "labels", QUEUE_NAME)), message, "set the name of a LocalQueue")


def find_empty_queue(job: Manifest) -> Iterator[Fault]:
    """Yield a fault if the queue label of a TrainJob is still empty after Kueue's webhook (`set_queue`)."""
    if mapping(job.body, "metadata", "labels").get(QUEUE_NAME) == "":
        yield _wrong_queue(job, "")
