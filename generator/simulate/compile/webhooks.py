"""The requests to create TrainJobs that the webhooks of Trainer and Kueue reject.

Source: trainer v2.3.0 pkg/webhooks/trainjob_webhook.go, pkg/runtime/framework/plugins; kueue v0.19.2
pkg/controller/jobframework/validation.go ValidateJobOnCreate
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from generator.documents.load import Path
from generator.facts.api_versions import is_reached
from generator.facts.env import RESERVED_BY_TRAINER, RESERVED_SINCE_TRAINER_2_4
from generator.facts.names import QUEUE_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, integer, mapping, mappings, string, strings
from generator.objects.pods import JOB_SET, NODE
from generator.objects.training import LAUNCHER
from generator.simulate.compile.trainer import INITIALIZERS, OLD, PRTE, Fault, Origin

_KUEUE = QUEUE_NAME.partition("/")[0]
_TORCH = ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PREFIXED = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/.+")


def find_rejections(job: Manifest, runtime: Manifest, version: str) -> Iterator[Fault]:
    """Yield the reasons why the webhooks of Trainer and Kueue reject the request to create a TrainJob.

    Args:
        job: the TrainJob, valid by its schema.
        runtime: its runtime.
        version: the minor version of Trainer.
    """
    yield from _of_variables(job, runtime, version)
    yield from _of_initializers(job, runtime, version)
    yield from _of_patches(job)
    names = {string(item.get("name")) for item in replicated_jobs(runtime.body, JOB_SET)}
    is_launcher_a_node = mapping(runtime.body, "spec", "mlPolicy", "mpi").get("runLauncherAsNode") is True
    nodes = mapping(job.body, "spec", "trainer").get("numNodes")
    if is_launcher_a_node and integer(nodes, 1) > 1 and (absent := {LAUNCHER, NODE} - names):
        message = f"`numNodes` is {nodes}, but the runtime `{runtime.name}` has no replicated job `{min(absent)}`"
        yield _rejection(
            Origin(job, ("spec", "trainer", "numNodes")), message, "set `numNodes: 1`, or use another runtime"
        )
    yield from _of_kueue(job)


def _of_variables(job: Manifest, runtime: Manifest, version: str) -> Iterator[Fault]:
    policy = mapping(runtime.body, "spec", "mlPolicy")
    reserved = (
        *(RESERVED_BY_TRAINER if "mpi" in policy and version != OLD else ()),
        *(RESERVED_SINCE_TRAINER_2_4 if "mpi" in policy and is_reached(version, PRTE) else ()),
        *(_TORCH if "torch" in policy else ()),
    )
    for number, variable in indexed_mappings(mapping(job.body, "spec", "trainer").get("env")):
        if (name := variable.get("name")) in reserved:
            message = f"`trainer.env` sets `{name}`, which only Trainer can set"
            yield _rejection(Origin(job, ("spec", "trainer", "env", number)), message, "remove the variable")
    for target in mappings(mapping(policy, "torch", "envInjection").get("targets")):
        containers = containers_of(replicated_jobs(runtime.body, JOB_SET), target.get("jobName"))
        for name in strings(target.get("containerNames")):
            if name not in containers:
                place = f"the replicated job `{target.get('jobName')}` of the runtime `{runtime.name}`"
                message = f"`envInjection` names the container `{name}`, which {place} lacks"
                yield _rejection(
                    Origin(runtime, ("spec", "mlPolicy", "torch", "envInjection")), message, "use another runtime"
                )


def _of_initializers(job: Manifest, runtime: Manifest, version: str) -> Iterator[Fault]:
    for key, name in INITIALIZERS.items() if version != OLD else ():
        container = containers_of(replicated_jobs(runtime.body, JOB_SET), name).get(name)
        mounts = [mount.get("name") for mount in mappings(mapping(container).get("volumeMounts"))]
        if container and "initializer" not in mounts and key in mapping(job.body, "spec", "initializer"):
            message = f"the container `{name}` of the runtime `{runtime.name}` does not mount the volume `initializer`"
            yield _rejection(
                Origin(job, ("spec", "initializer", key)), message, f"remove `{key}`, or use another runtime"
            )


def _of_patches(job: Manifest) -> Iterator[Fault]:
    for number, patch in indexed_mappings(mapping(job.body, "spec").get("runtimePatches")):
        base: Path = ("spec", "runtimePatches", number)
        if not _PREFIXED.fullmatch(string(patch.get("manager"))):
            message = f"`manager` of the patch is `{patch.get('manager')}`, which is not a domain and a name"
            yield _rejection(
                Origin(job, (*base, "manager")), message, "write a domain in lower case and a name: `example.com/name`"
            )
        base = (*base, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        jobs = mapping(patch, *map(str, base[3:-1])).get("replicatedJobs")
        for place, item in indexed_mappings(jobs):
            path: Path = (*base, place, "template", "spec", "template", "spec", "containers")
            for at, container in indexed_mappings(mapping(item, *map(str, path[-5:-1])).get("containers")):
                if container.get("env") and container.get("name") in (NODE, *INITIALIZERS.values()):
                    message = f"the patch sets variables of the container `{container['name']}`, which Trainer rejects"
                    fix = "set the variables in `spec.trainer` or `spec.initializer`"
                    yield _rejection(Origin(job, (*path, at, "env")), message, fix)


def _of_kueue(job: Manifest) -> Iterator[Fault]:
    labels, annotations = (mapping(job.body, "metadata", key) for key in ("labels", "annotations"))
    if (queue := labels.get(QUEUE_NAME)) and not _SUBDOMAIN.fullmatch(str(queue)):
        yield _wrong_queue(job, queue)
    key = f"{_KUEUE}/max-exec-time-seconds"
    if key in labels and not re.fullmatch(r"\+?0*[1-9]\d{0,17}", str(labels[key])):
        message = f"the label `{key}` is `{labels[key]}`, not a positive integer"
        yield _rejection(Origin(job, ("metadata", "labels", key)), message, "set the seconds, such as `3600`")
    key = f"{_KUEUE}/elastic-job"
    if annotations.get(key) == "true":
        message = f"the annotation `{key}` makes the TrainJob elastic, which Kueue does not support for TrainJobs"
        yield _rejection(Origin(job, ("metadata", "annotations", key)), message, "remove the annotation")
    for holder, values in (("labels", labels), ("annotations", annotations)):
        for name in (f"{_KUEUE}/prebuilt-workload-name", f"{_KUEUE}/admission-gated-by"):
            if name in values:
                message = f"mpigen does not simulate `{name}`"
                yield _rejection(Origin(job, ("metadata", holder, name)), message, f"remove `{name}`", is_unknown=True)


def _wrong_queue(job: Manifest, queue: object) -> Fault:
    message = f"the label `{QUEUE_NAME}` is `{queue}`, which is not the name of a LocalQueue"
    return _rejection(Origin(job, ("metadata", "labels", QUEUE_NAME)), message, "set the name of a LocalQueue")


def find_empty_queue(job: Manifest) -> Iterator[Fault]:
    """Yield a fault if the queue label of a TrainJob is still empty after Kueue's webhook (`webhooks.set_queue`)."""
    if mapping(job.body, "metadata", "labels").get(QUEUE_NAME) == "":
        yield _wrong_queue(job, "")


def _rejection(origin: Origin, message: str, fix: str, *, is_unknown: bool = False) -> Fault:
    return Fault(origin, message, fix, is_unknown, is_at_creation=True)


def replicated_jobs(body: Body, path: Path) -> list[Body]:
    """Return the replicated jobs of the JobSet spec at a path."""
    return [dict(item) for item in mappings(mapping(body, *map(str, path)).get("replicatedJobs"))]


def containers_of(jobs: Iterable[Body], name: object) -> dict[str, Mapping[str, Any]]:
    """Return name → container of the replicated job `name`, init containers included."""
    pods = [mapping(job, "template", "spec", "template", "spec") for job in jobs if job.get("name") == name]
    lists = [mappings(pod.get(kind)) for pod in pods for kind in ("initContainers", "containers")]
    return {string(container.get("name")): container for container in chain.from_iterable(lists)}
