"""The TrainJob that a request asks for. It reads as the YAML that users submit.

Trainer applies `command` to the launcher alone, and `env` also to the worker pods if the launcher runs ranks (trainer
v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer). `mpirun` of each runtime passes the environment
of the launcher to all ranks. The TrainJob sets no other field that Trainer applies to the launcher alone, such as
`image`, or `resourcesPerNode` with a separate launcher. It has no field for volumes, so they are in a patch of each pod
template.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from generator.facts.names import CHECKPOINT, OWNER, PRIORITY_CLASS, QUEUE_NAME
from generator.jobs.catalogue import Home, OfferedRuntime
from generator.jobs.request import Download, JobRequest, Mount
from generator.manifests import Body, omit_none
from generator.runtimes.additions import to_env

_MANAGER = "mpigen.dev/job"


def train_job(request: JobRequest, home: Home, runtime: OfferedRuntime, *, nodes: int, command: Sequence[str]) -> Body:
    """Return the TrainJob of a request.

    Args:
        request: the request, with the name and all labels of the job, and without a matrix.
        home: the namespace of the job.
        runtime: the runtime of the job.
        nodes: `numNodes`.
        command: the command of the launcher.
    """
    labels = {QUEUE_NAME: request.queue, PRIORITY_CLASS: request.priority, **request.labels}
    seconds = request.seconds or home.seconds
    processes = request.processes or runtime.slots_with(request.resources)
    return omit_none(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {
                "name": request.name,
                "namespace": home.name,
                "labels": {label: value for label, value in labels.items() if value} or None,
                "annotations": {OWNER: request.owner} if request.owner else None,
            },
            "spec": {
                "runtimeRef": {"name": runtime.name, "kind": runtime.kind if runtime.namespaces else None},
                "trainer": {
                    "numNodes": nodes,
                    "numProcPerNode": processes if processes != runtime.slots or request.processes else None,
                    "resourcesPerNode": _resources(request, runtime) if request.resources else None,
                    "env": [*_variables(request, runtime, processes)] or None,
                    "command": [*command],
                },
                "initializer": {name: _download(download) for name, download in request.downloads.items()} or None,
                "activeDeadlineSeconds": seconds or None,
                "runtimePatches": [*_patches(request, home, runtime)] or None,
            },
        }
    )


def _download(download: Download) -> Body:
    return omit_none({"storageUri": download.uri, "secretRef": {"name": download.secret} if download.secret else None})


def _resources(request: JobRequest, runtime: OfferedRuntime) -> Body:
    """Return all resources of a pod with ranks: Trainer replaces all of the runtime.

    trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer
    """
    amounts = {**runtime.resources, **request.resources}
    return {"requests": amounts, "limits": dict(amounts)}


def _variables(request: JobRequest, runtime: OfferedRuntime, processes: int) -> Iterator[Body]:
    """Yield the variables of the ranks, first the variables of the runtime that depend on the ranks in a pod."""
    own = {*request.environment, *request.keys}
    is_changed = request.processes or request.resources
    changed = runtime.changed_by(processes, request.resources) if is_changed else {}
    for name, value in changed.items():
        if name not in own:
            yield {"name": name, "value": value}
    for name, value in request.environment.items():
        yield {"name": name, **({"value": value} if value else {})}  # an empty `value` stops Kueue
    yield from to_env(request.keys)
    if request.checkpoint:
        yield {"name": CHECKPOINT, "value": f"{request.checkpoint.path.rstrip('/')}/{request.name}"}


def _patches(request: JobRequest, home: Home, runtime: OfferedRuntime) -> Iterator[Body]:
    """Yield a patch with the owner of the worker pods, the volumes of the MPI pods, and the cost labels of all pods.

    Kueue copies the annotations of pods into the Workload, and the admission rule `workloads` lets this user hold and
    resume the job by its Workload (kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go podSets).
    """
    mounts = request.volumes
    names = [f"job-{number}" for number, _ in enumerate(mounts, start=1)]
    pods = {
        "volumes": [{"name": name, **_source(mount)} for name, mount in zip(names, mounts, strict=True)],
        "containers": [
            {
                "name": "node",
                "volumeMounts": [
                    omit_none({"name": name, "mountPath": mount.path, "readOnly": mount.is_read_only or None})
                    for name, mount in zip(names, mounts, strict=True)
                ],
            }
        ],
    }
    owners = {"node": {OWNER: request.owner}} if request.owner else {}
    mounted = ("launcher", "node") if mounts else ()
    costs = {job.name: {**home.cost_labels} for job in runtime.runtime.jobs if home.cost_labels}
    templates = {
        name: omit_none(
            {
                "metadata": omit_none({"labels": costs.get(name), "annotations": owners.get(name)}) or None,
                "spec": pods if name in mounted else None,
            }
        )
        for name in dict.fromkeys(("launcher", "node", *costs))
    }
    jobs = [
        {"name": name, "template": {"spec": {"template": template}}} for name, template in templates.items() if template
    ]
    if jobs:
        yield {"manager": _MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def _source(mount: Mount) -> Body:
    match mount.source:
        case "claim":
            claim = {"claimName": mount.name, "readOnly": mount.is_read_only or None}
            return {"persistentVolumeClaim": omit_none(claim)}
        case "configmap":
            items = [{"key": key, "path": path} for key, path in mount.items.items()]
            return {
                "configMap": omit_none({"name": mount.name, "items": items or None, "defaultMode": mount.mode or None})
            }
        case "secret":
            return {"secret": {"secretName": mount.name}}
