"""mpi/*: the replicated jobs of an MPI runtime, and the names and labels by which Trainer finds them.

tests/cluster/test_mpi_checks.py runs TrainJobs on runtimes that break a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.checks.trainer import LAUNCHER, MPI, TRAINER, MpiRuntime
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.names import STEP
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import JOB_SET, NODE


@check("mpi/implementation", severity=ERROR, needs=MpiRuntime)
def implementation(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an empty `mpiImplementation`.

    The API server accepts the empty string, because it is in the enum of the CRD. Kueue then rejects every TrainJob.
    Without Kueue, Trainer creates no JobSet. Trainer 2.3 supports only `OpenMPI`, whatever MPI the image contains:
    the runtime must add what other implementations need.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy, `default`
    """
    if runtime.policy.get("mpiImplementation") == "":
        yield Breach(
            (*MPI, "mpiImplementation"),
            "`mpiImplementation` is an empty string",
            "no TrainJob ever gets pods: Kueue rejects it, or without Kueue, an event reports the error",
            "set `OpenMPI`, whatever MPI the image contains: Trainer supports no other value",
            value="",
        )


@check("mpi/processes", severity=ERROR, needs=MpiRuntime)
def processes(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a `numProcPerNode` below 1.

    The CRD of Trainer 2.3 has no minimum for the field. The hostfile then has no slots, and `mpirun` fails.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go buildHostFileConfigMap
    """
    slots = runtime.policy.get("numProcPerNode")
    if isinstance(slots, int) and not isinstance(slots, bool) and slots < 1:
        yield Breach(
            (*MPI, "numProcPerNode"),
            f"`numProcPerNode` is `{slots}`",
            f"each line of the hostfile has `slots={slots}`, so `mpirun` can start no process",
            "set the number of processes per node",
            value=slots,
        )


@check("mpi/launchers", severity=ERROR, needs=MpiRuntime)
def launchers(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI runtime whose TrainJobs get several launchers.

    The job with the step label gets `numNodes` pods. In an MPI runtime that job is the launcher, and the MPI plugin
    does not set the number back to 1. `parallelism` in the Job of `node` sets the default number of hosts.

    Source: trainer v2.3.0 pkg/runtime/core/trainingruntime.go newRuntimeInfo; pkg/runtime/framework/plugins/mpi/mpi.go
    EnforceMLPolicy
    """
    nodes = runtime.ml_policy.get("numNodes")
    if not isinstance(nodes, int) or nodes <= 1 or not runtime.launcher or runtime.launcher.step != TRAINER:
        return
    pods = nodes - 1 if runtime.is_launcher_a_node else nodes
    yield Breach(
        ("spec", "mlPolicy", "numNodes"),
        f"`numNodes` is `{nodes}`",
        f"every TrainJob gets {nodes} launchers, and each starts its own `mpirun`",
        f"set `numNodes: 1`; for {nodes} hosts by default, set `parallelism: {pods}` in the Job of `{NODE}`",
        value=nodes,
    )


@check("mpi/jobs", severity=ERROR, needs=MpiRuntime)
def jobs(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI runtime without a job `node` or `launcher`.

    Trainer finds the two jobs of an MPI runtime by these names. Without `node` the hostfile has no hosts. Without
    `launcher` no pod gets the hostfile.

    Source: trainer v2.3.0 pkg/constants/constants.go Node, Launcher; pkg/runtime/framework/plugins/mpi/mpi.go
    EnforceMLPolicy, isNode
    """
    for name, command in ((NODE, "sshd"), (LAUNCHER, "`mpirun`")):
        if not any(job.name == name for job in runtime.jobs):
            yield Breach(
                (*JOB_SET, "replicatedJobs"),
                f"no job is called `{name}`",
                "Trainer finds the jobs by name: it lists the pods of `node` in the hostfile, and mounts the hostfile "
                "in `launcher`",
                f"rename the job that runs {command} to `{name}`",
            )


@check("mpi/container", severity=ERROR, needs=MpiRuntime)
def container(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI job without a container `node`.

    Trainer mounts the ssh key, and in the launcher the hostfile, into the container `node`. Its webhook rejects a
    launcher with the step label and without this container. In other jobs nothing fails until sshd finds no key.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy;
    pkg/webhooks/trainingruntime_webhook.go
    """
    for job in runtime.pair:
        names = [item.get("name") for _, item in indexed_mappings(job.pod.get("containers"))]
        if names and not job.container:
            containers = f"the container{'s are' if len(names) > 1 else ' is'} {', '.join(map(format_value, names))}"
            yield Breach(
                (*job.pod_path, "containers"),
                f"the job `{job.name}` has no container `{NODE}`; {containers}",
                "Trainer mounts the ssh key, and in the launcher the hostfile, into the container of that name only",
                f"rename the container that runs {'`mpirun`' if job.name == LAUNCHER else 'sshd'} to `{NODE}`",
                value=names,
            )


@check("mpi/image", severity=ERROR, needs=MpiRuntime)
def image(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a container without an image.

    A TrainJob can set the image of the launcher only. The API server rejects a Job with any other container that
    has no image, so the TrainJob never runs.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer
    """
    for job in runtime.jobs:
        for path, body in job.containers:
            is_set_by_job = job.name == LAUNCHER and job.container is not None and body is job.container.body
            if not body.get("image") and not is_set_by_job:
                yield Breach(
                    path,
                    f"the container {format_value(body.get('name'))} of the job `{job.name}` has no image",
                    "a TrainJob cannot set it, and the API server rejects the Job. Only an event reports the error",
                    "set `image`",
                )


@check("mpi/step-label", severity=ERROR, needs=MpiRuntime)
def step_label(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a step label that is not on the Job of the launcher.

    Trainer sets the image, command and arguments of a TrainJob on the Job with the label
    `trainer.kubeflow.org/trainjob-ancestor-step: trainer`. That must be the launcher: on `node` the command would
    replace sshd. The label belongs to the Job (`template.metadata.labels` of the replicated job), not to its pods.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer;
    pkg/runtime/core/trainingruntime.go newRuntimeInfo
    """
    for job in runtime.jobs:
        path = (*job.path, "template", "metadata", "labels", STEP)
        if job.name != LAUNCHER and job.step == TRAINER:
            yield Breach(
                path,
                f"`{job.name}` has the label `{STEP}: {TRAINER}`",
                "the command of a TrainJob runs on the hosts too, and replaces sshd there",
                f"remove the label: only `{LAUNCHER}` needs it",
                value=job.step,
            )
        if job.name != LAUNCHER or job.step == TRAINER:
            continue
        message = f"the Job of `{job.name}` has no label `{STEP}: {TRAINER}`"
        fix = "add it to `template.metadata.labels`"
        if STEP in mapping(job.pods, "metadata", "labels"):
            path = (*job.pods_path, "metadata", "labels", STEP)
            message = f"the label `{STEP}` is on the pods of `{job.name}`, not on the Job"
            fix = "move it to `template.metadata.labels`"
        elif job.step is not None:
            message = f"the label `{STEP}` of `{job.name}` is {format_value(job.step)}"
            fix = f"set `{TRAINER}`"
        why = "Trainer ignores the image, command and arguments of a TrainJob"
        if job.step is None:
            why += ", and the Kubeflow SDK fails to list any runtime"
        yield Breach(path, message, why, fix, value=job.step)


@check("mpi/replicas", severity=ERROR, needs=MpiRuntime)
def replicas(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI job with several replicas.

    Trainer counts pods by `parallelism` and ignores `replicas`. It rejects a launcher with several replicas. In `node`
    they are a warning: they multiply the number of hosts that a TrainJob requests.

    Source: trainer v2.3.0 pkg/webhooks/trainingruntime_webhook.go; pkg/runtime/framework/plugins/jobset/jobset.go
    IdentifyPodNetwork
    """
    for job in runtime.pair:
        count = job.body.get("replicas", 1)
        if not isinstance(count, int) or count == 1:
            continue
        path, message = (*job.path, "replicas"), f"`{job.name}` has `{count}` replicas"
        if job.step == TRAINER:
            yield Breach(path, message, "Trainer rejects the runtime", "set `replicas: 1`", value=count)
        else:
            why = f"a TrainJob gets {count} times the hosts that it requests"
            fix = "set `replicas: 1`, and the default number of hosts as `parallelism` of the Job"
            yield Breach(path, message, why, fix, severity=WARNING, value=count)


_MPI_JOB_LABELS = ("training.kubeflow.org/", "mpi-job-")
"""Prefixes of the pod labels of an MPIJob (mpi-operator pkg/apis/kubeflow/v2beta1/constants.go), and older ones."""


@check("mpi/foreign-selector", severity=WARNING, needs=MpiRuntime)
def foreign_selector(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report affinity or spreading by labels of an MPIJob.

    A runtime that was made from an MPIJob may still select pods by its labels, such as
    `training.kubeflow.org/job-name`. Pods of a TrainJob have none of them: JobSet labels pods `jobset.sigs.k8s.io/…`.

    Source: jobset v0.12.0 api/jobset/v1alpha2/jobset_types.go
    """
    for job in runtime.jobs:
        for path, selector in _selectors(job.pod_path, job.pod):
            keys: list[object] = [*mapping(selector, "matchLabels")]
            keys += [term.get("key") for _, term in indexed_mappings(selector.get("matchExpressions"))]
            if key := next((key for key in keys if isinstance(key, str) and key.startswith(_MPI_JOB_LABELS)), ""):
                yield Breach(
                    path,
                    f"the pods of `{job.name}` are placed by the label `{key}` of an MPIJob",
                    "pods of a TrainJob have no such label, so the selector matches none of them",
                    "select by `jobset.sigs.k8s.io/replicatedjob-name`, or let Kueue place the job (a topology)",
                )


def _selectors(path: Path, pod: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the paths and label selectors of pod affinity and topology spread constraints."""
    for kind in ("podAffinity", "podAntiAffinity"):
        for field, terms in mapping(pod, "affinity", kind).items():
            for number, term in indexed_mappings(terms):
                weighted: Path = ("podAffinityTerm",) if "podAffinityTerm" in term else ()
                place: Path = (*path, "affinity", kind, field, number, *weighted, "labelSelector")
                yield place, mapping(mapping(term, "podAffinityTerm") or term, "labelSelector")
    for number, constraint in indexed_mappings(pod.get("topologySpreadConstraints")):
        yield (*path, "topologySpreadConstraints", number, "labelSelector"), mapping(constraint, "labelSelector")
