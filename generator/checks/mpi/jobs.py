"""mpi/*: the launcher and the hosts of an MPI runtime, and how Trainer tells one from the other.

The sources are those of trainer v2.3.0. tests/cluster/test_mpi_checks.py runs TrainJobs on runtimes that break a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.trainer import JOB_SET, LAUNCHER, MPI, NODE, TRAINER, MpiRuntime, ReplicatedJob
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.names import STEP
from generator.objects.fields import indexed_mappings, mapping


def implementation(runtime: MpiRuntime) -> Iterator[Breach]:
    """An empty text is in the enum of the CRD, and no plugin knows it.

    pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy, `default`
    """
    if runtime.policy.get("mpiImplementation") == "":
        yield Breach(
            (*MPI, "mpiImplementation"),
            "mpi/implementation",
            "`mpiImplementation` is an empty text",
            "no TrainJob comes to anything: Kueue refuses it, and where there is no Kueue, an event is all that tells",
            "write `OpenMPI`, whatever MPI the image has: it is the only one that Trainer knows",
            value="",
        )


def processes(runtime: MpiRuntime) -> Iterator[Breach]:
    """The CRD of this version has no minimum.

    pkg/runtime/framework/plugins/mpi/mpi.go buildHostFileConfigMap
    """
    slots = runtime.policy.get("numProcPerNode")
    if isinstance(slots, int) and not isinstance(slots, bool) and slots < 1:
        yield Breach(
            (*MPI, "numProcPerNode"),
            "mpi/processes",
            f"`numProcPerNode` is `{slots}`",
            f"each line of the hostfile says `slots={slots}`, and so `mpirun` has no room for any process",
            "write how many processes a host runs",
            value=slots,
        )


def launchers(runtime: MpiRuntime) -> Iterator[Breach]:
    """The job with the step `trainer` gets `numNodes` pods, and nothing sets that right for MPI.

    pkg/runtime/core/trainingruntime.go newRuntimeInfo; pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy
    """
    nodes = runtime.ml_policy.get("numNodes")
    if not isinstance(nodes, int) or nodes <= 1 or not runtime.launcher or runtime.launcher.step != TRAINER:
        return
    pods = nodes - 1 if runtime.is_launcher_a_node else nodes
    yield Breach(
        ("spec", "mlPolicy", "numNodes"),
        "mpi/launchers",
        f"`numNodes` is `{nodes}`",
        f"every TrainJob gets {nodes} launchers, each of which starts an `mpirun` of its own",
        f"write 1, and for {nodes} hosts by default `parallelism: {pods}` in the Job of `{NODE}`",
        value=nodes,
    )


def jobs(runtime: MpiRuntime) -> Iterator[Breach]:
    """The plugin knows the jobs by their names alone.

    pkg/constants/constants.go Node, Launcher; pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy, isNode
    """
    for name, command in ((NODE, "sshd"), (LAUNCHER, "`mpirun`")):
        if not any(job.name == name for job in runtime.jobs):
            yield Breach(
                (*JOB_SET, "replicatedJobs"),
                "mpi/jobs",
                f"no job is called `{name}`",
                "Trainer knows the jobs by their names: it makes a hostfile of `node`, and mounts it in `launcher`",
                f"call the job that runs {command} `{name}`",
            )


def container(runtime: MpiRuntime) -> Iterator[Breach]:
    """The webhook asks for the container of the launcher only, and only if it has its label.

    pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy; pkg/webhooks/trainingruntime_webhook.go
    """
    for job in runtime.pair:
        names = [item.get("name") for _, item in indexed_mappings(job.pod.get("containers"))]
        if names and not job.container:
            yield Breach(
                (*job.pod_path, "containers"),
                "mpi/container",
                f"in the job `{job.name}` no container is called `{NODE}`; "
                f"there is {', '.join(map(format_value, names))}",
                "Trainer mounts the ssh key, and in the launcher the hostfile, into a container of that name only",
                f"call the container that runs {'`mpirun`' if job.name == LAUNCHER else 'sshd'} `{NODE}`",
                value=names,
            )


def image(runtime: MpiRuntime) -> Iterator[Breach]:
    """A TrainJob may name the image of the launcher, and no other.

    pkg/runtime/framework/plugins/jobset/builder.go Trainer
    """
    for job in runtime.jobs:
        for path, body in job.containers:
            is_open = job.name == LAUNCHER and job.container is not None and body is job.container.body
            if not body.get("image") and not is_open:
                yield Breach(
                    path,
                    "mpi/image",
                    f"the container {format_value(body.get('name'))} of the job `{job.name}` has no image",
                    "no TrainJob can name one, and JobSet makes no Job without: an event of it is all that tells",
                    "name one",
                )


def step_label(runtime: MpiRuntime) -> Iterator[Breach]:
    """What a TrainJob says goes to the jobs with the label, which is one of the Job, not of its pods.

    pkg/runtime/framework/plugins/jobset/builder.go Trainer; pkg/runtime/core/trainingruntime.go newRuntimeInfo
    """
    for job in runtime.jobs:
        if job.name == LAUNCHER and job.step != TRAINER:
            yield _unlabelled(job)
        if job.name != LAUNCHER and job.step == TRAINER:
            yield Breach(
                (*job.path, "template", "metadata", "labels", STEP),
                "mpi/step-label",
                f"`{job.name}` has the label `{STEP}: {TRAINER}`",
                "the command of a TrainJob runs there too: on the hosts, in the place of sshd",
                f"remove it: only `{LAUNCHER}` needs it",
                value=job.step,
            )


def _unlabelled(job: ReplicatedJob) -> Breach:
    where = (*job.path, "template", "metadata", "labels")
    message, fix = f"the Job of `{job.name}` has no label `{STEP}: {TRAINER}`", "add it to `template.metadata.labels`"
    if STEP in mapping(job.pods, "metadata", "labels"):
        where = (*job.pods_path, "metadata", "labels")
        message, fix = f"the label `{STEP}` is one of the pods of `{job.name}`", "move it to `template.metadata.labels`"
    elif job.step is not None:
        message, fix = f"the label `{STEP}` of `{job.name}` is {format_value(job.step)}", f"write `{TRAINER}`"
    why = "Trainer passes over the image, the command and the arguments of a TrainJob"
    if job.step is None:
        why += ", and the Kubeflow SDK fails to list any runtime"
    return Breach((*where, STEP), "mpi/step-label", message, why, fix, value=job.step)


def replicas(runtime: MpiRuntime) -> Iterator[Breach]:
    """The numbers of pods do not know of replicas.

    pkg/webhooks/trainingruntime_webhook.go; pkg/runtime/framework/plugins/jobset/jobset.go IdentifyPodNetwork
    """
    for job in runtime.pair:
        count = job.body.get("replicas", 1)
        if not isinstance(count, int) or count == 1:
            continue
        is_refused = job.step == TRAINER
        yield Breach(
            (*job.path, "replicas"),
            "mpi/replicas",
            f"`{job.name}` has `{count}` replicas",
            "Trainer refuses the runtime"
            if is_refused
            else f"a TrainJob gets {count} times the hosts that it asks for",
            "write 1" if is_refused else "write 1, and how many hosts there are by default as `parallelism` of the Job",
            Severity.ERROR if is_refused else Severity.WARNING,
            value=count,
        )


_OF_MPI_JOBS = ("training.kubeflow.org/", "mpi-job-")
"""Of the pods of an MPIJob (mpi-operator pkg/apis/kubeflow/v2beta1/constants.go), or of those before it."""


def foreign_selector(runtime: MpiRuntime) -> Iterator[Breach]:
    """JobSet labels pods `jobset.sigs.k8s.io/…` (jobset v0.12.0 api/jobset/v1alpha2/jobset_types.go)."""
    for job in runtime.jobs:
        for path, selector in _selectors(job.pod_path, job.pod):
            if key := _foreign(selector):
                yield Breach(
                    path,
                    "mpi/foreign-selector",
                    f"pods of `{job.name}` are placed by the label `{key}`, as those of an MPIJob are",
                    "pods of a TrainJob have no such label: what this asks for is never the case, or always",
                    "select by `jobset.sigs.k8s.io/replicatedjob-name`, or let Kueue place the job (a topology)",
                    Severity.WARNING,
                )


def _selectors(path: Path, pod: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Those of affinity and of the spreading over domains."""
    for kind in ("podAffinity", "podAntiAffinity"):
        for field, said in mapping(pod, "affinity", kind).items():
            for number, term in indexed_mappings(said):
                inside = mapping(term, "podAffinityTerm") or term
                deeper: Path = ("podAffinityTerm",) if "podAffinityTerm" in term else ()
                place: Path = (*path, "affinity", kind, field, number, *deeper, "labelSelector")
                yield place, mapping(inside, "labelSelector")
    for number, each in indexed_mappings(pod.get("topologySpreadConstraints")):
        yield (*path, "topologySpreadConstraints", number, "labelSelector"), mapping(each, "labelSelector")


def _foreign(selector: Mapping[str, Any]) -> str:
    keys: list[object] = [*mapping(selector, "matchLabels")]
    keys += [each.get("key") for _, each in indexed_mappings(selector.get("matchExpressions"))]
    return next((key for key in keys if isinstance(key, str) and key.startswith(_OF_MPI_JOBS)), "")
