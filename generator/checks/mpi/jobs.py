"""mpi/*: the launcher and the hosts of an MPI runtime, and how Trainer tells one from the other.

The sources are those of trainer v2.3.0. tests/cluster/test_mpi_checks.py runs TrainJobs on runtimes that break a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.registry import ERROR, WARNING, check
from generator.checks.trainer import JOB_SET, LAUNCHER, MPI, NODE, TRAINER, MpiRuntime, ReplicatedJob
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.names import STEP
from generator.objects.fields import indexed_mappings, mapping


@check("mpi/implementation", severity=ERROR, needs=MpiRuntime)
def implementation(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an empty `mpiImplementation`.

    `mpiImplementation` is an empty text. The API server accepts it, and then Kueue refuses every TrainJob, or where
    it is not installed, Trainer makes nothing of them. `OpenMPI` is the only one that Trainer 2.3 knows, whatever
    the image has: what the others need beyond it is up to the runtime.

    Source: pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy, `default`
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


@check("mpi/processes", severity=ERROR, needs=MpiRuntime)
def processes(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a `numProcPerNode` below 1.

    `numProcPerNode` is less than 1, which Trainer 2.3 does not refuse: `mpirun` finds hosts without slots.

    Source: pkg/runtime/framework/plugins/mpi/mpi.go buildHostFileConfigMap
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


@check("mpi/launchers", severity=ERROR, needs=MpiRuntime)
def launchers(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI runtime whose TrainJobs get several launchers.

    `numNodes` of an MPI runtime is how many *launchers* a TrainJob gets, as nothing takes the number back from the
    job with the label. Write 1; how many hosts there are by default is `parallelism` in the Job of `node`.

    Source: pkg/runtime/core/trainingruntime.go newRuntimeInfo; pkg/runtime/framework/plugins/mpi/mpi.go
    EnforceMLPolicy
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


@check("mpi/jobs", severity=ERROR, needs=MpiRuntime)
def jobs(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI runtime without a job `node` or `launcher`.

    Trainer knows the two jobs of an MPI runtime by their names, `node` and `launcher`. Without one of them there
    are no hosts in the hostfile, or nobody who gets it.

    Source: pkg/constants/constants.go Node, Launcher; pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy,
    isNode
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


@check("mpi/container", severity=ERROR, needs=MpiRuntime)
def container(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI job without a container `node`.

    Trainer mounts the ssh key, and in the launcher the hostfile, into a container called `node`. In the launcher it
    refuses the runtime without one; elsewhere nothing is said, and sshd has no key.

    Source: pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy; pkg/webhooks/trainingruntime_webhook.go
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


@check("mpi/image", severity=ERROR, needs=MpiRuntime)
def image(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a container without an image.

    A container has no image. Only for the launcher can a TrainJob name one; of all others the API server refuses
    the Job.

    Source: pkg/runtime/framework/plugins/jobset/builder.go Trainer
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


@check("mpi/step-label", severity=ERROR, needs=MpiRuntime)
def step_label(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a step label that is not on the Job of the launcher.

    The label `trainer.kubeflow.org/trainjob-ancestor-step: trainer` says for which job the image, the command and
    the arguments of a TrainJob are: the launcher. It is a label of the Job (`template.metadata.labels` of the
    replicated job), not of its pods. On `node` the command would replace sshd.

    Source: pkg/runtime/framework/plugins/jobset/builder.go Trainer; pkg/runtime/core/trainingruntime.go
    newRuntimeInfo
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


@check("mpi/replicas", severity=ERROR, needs=MpiRuntime)
def replicas(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI job with several replicas.

    Trainer counts pods by `parallelism` and does not know replicas: it refuses a launcher with several, and a
    warning says that `node` multiplies the hosts that a TrainJob asks for.

    Source: pkg/webhooks/trainingruntime_webhook.go; pkg/runtime/framework/plugins/jobset/jobset.go
    IdentifyPodNetwork
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


@check("mpi/foreign-selector", severity=WARNING, needs=MpiRuntime)
def foreign_selector(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report affinity or spreading by labels of an MPIJob.

    Affinity, or the spreading over domains, goes by labels of an MPIJob's pods (`training.kubeflow.org/job-name`,
    …), as where one was made a runtime of. Pods of a TrainJob have none of them.
    """
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
