"""The webhook of Trainer: why it rejects the request to create a TrainJob.

Source: trainer v2.3.0 pkg/webhooks/trainjob_webhook.go, pkg/runtime/framework/plugins
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.documents.load import Path
from generator.facts.api_versions import is_reached
from generator.facts.env import RESERVED_BY_TRAINER, RESERVED_SINCE_TRAINER_2_4
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, integer, mapping, mappings, string, strings
from generator.objects.pods import JOB_SET, NODE
from generator.objects.training import LAUNCHER, containers_of, replicated_jobs
from generator.upstream.trainer.runtime import INITIALIZERS, OLD, PRTE, Fault, Origin

_TORCH = ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
_PREFIXED = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/.+")


def find_rejections(job: Manifest, runtime: Manifest, version: str) -> Iterator[Fault]:
    """Yield the reasons why the webhook of Trainer rejects the request to create a TrainJob.

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
        yield rejection(
            Origin(job, ("spec", "trainer", "numNodes")), message, "set `numNodes: 1`, or use another runtime"
        )


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
            yield rejection(Origin(job, ("spec", "trainer", "env", number)), message, "remove the variable")
    for target in mappings(mapping(policy, "torch", "envInjection").get("targets")):
        containers = containers_of(replicated_jobs(runtime.body, JOB_SET), target.get("jobName"))
        for name in strings(target.get("containerNames")):
            if name not in containers:
                place = f"the replicated job `{target.get('jobName')}` of the runtime `{runtime.name}`"
                message = f"`envInjection` names the container `{name}`, which {place} lacks"
                yield rejection(
                    Origin(runtime, ("spec", "mlPolicy", "torch", "envInjection")), message, "use another runtime"
                )


def _of_initializers(job: Manifest, runtime: Manifest, version: str) -> Iterator[Fault]:
    for key, name in INITIALIZERS.items() if version != OLD else ():
        container = containers_of(replicated_jobs(runtime.body, JOB_SET), name).get(name)
        mounts = [mount.get("name") for mount in mappings(mapping(container).get("volumeMounts"))]
        if container and "initializer" not in mounts and key in mapping(job.body, "spec", "initializer"):
            message = f"the container `{name}` of the runtime `{runtime.name}` does not mount the volume `initializer`"
            yield rejection(
                Origin(job, ("spec", "initializer", key)), message, f"remove `{key}`, or use another runtime"
            )


def _of_patches(job: Manifest) -> Iterator[Fault]:
    for number, patch in indexed_mappings(mapping(job.body, "spec").get("runtimePatches")):
        base: Path = ("spec", "runtimePatches", number)
        if not _PREFIXED.fullmatch(string(patch.get("manager"))):
            message = f"`manager` of the patch is `{patch.get('manager')}`, which is not a domain and a name"
            yield rejection(
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
                    yield rejection(Origin(job, (*path, at, "env")), message, fix)


def rejection(origin: Origin, message: str, fix: str, *, is_unknown: bool = False) -> Fault:
    """Return the fault of a webhook that rejects the request to create a TrainJob."""
    return Fault(origin, message, fix, is_unknown, is_at_creation=True)
