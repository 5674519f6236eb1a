"""mpi/*: the replicated jobs of an MPI runtime: their names and labels, and how their pods start and end.

tests/cluster/test_mpi_checks.py runs TrainJobs on runtimes that break a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.names import SSH_PORT, STEP
from generator.objects.fields import indexed_mappings, mapping, strings
from generator.objects.pods import JOB_SET, NODE
from generator.objects.training import LAUNCHER, MPI, TRAINER, MpiRuntime


@check("mpi/implementation", severity=ERROR, needs=MpiRuntime)
def implementation(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an empty `mpiImplementation`.

    The API server accepts the empty string, because it is in the enum of the CRD. Kueue then rejects every TrainJob.
    Without Kueue, Trainer creates no JobSet. Trainer 2.3 supports only `OpenMPI`, whatever MPI the image contains. For
    MPICH or Intel MPI, also set `OpenMPI`. `mpi/hydra-hostfile` describes their hostfile.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy, `default`
    """
    if runtime.policy.get("mpiImplementation") == "":
        yield Breach(
            (*MPI, "mpiImplementation"),
            "`mpiImplementation` is an empty string",
            "no TrainJob on this runtime ever gets pods: Kueue rejects the TrainJob, or, without Kueue, only an "
            "event reports the error",
            "set `OpenMPI`, whatever MPI the image contains: Trainer supports no other value",
            value="",
        )


@check("mpi/processes", severity=ERROR, needs=MpiRuntime)
def processes(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a `numProcPerNode` below 1.

    The CRD of Trainer 2.3 has no minimum for the field. The hostfile, which lists the pods for `mpirun`, then has no
    slots, and `mpirun` fails.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.buildHostFileConfigMap
    """
    slots = runtime.policy.get("numProcPerNode")
    if isinstance(slots, int) and not isinstance(slots, bool) and slots < 1:
        yield Breach(
            (*MPI, "numProcPerNode"),
            f"`numProcPerNode` is `{slots}`",
            f"each line of the hostfile has `slots={slots}`, so `mpirun` can start no process",
            "set `numProcPerNode` to the number of processes per node, at least 1",
            value=slots,
        )


@check("mpi/launchers", severity=ERROR, needs=MpiRuntime)
def launchers(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI runtime whose TrainJobs get several launchers.

    The job with the label `trainer.kubeflow.org/trainjob-ancestor-step: trainer` gets `numNodes` pods. In an MPI
    runtime that job is the launcher, and Trainer's MPI plugin does not set the number back to 1. `parallelism` in the
    Job of `node` sets the default number of worker pods.

    Source: trainer v2.3.0 pkg/runtime/core/trainingruntime.go TrainingRuntime.newRuntimeInfo; trainer v2.3.0
    pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy
    """
    nodes = runtime.ml_policy.get("numNodes")
    if not isinstance(nodes, int) or nodes <= 1 or not runtime.launcher or runtime.launcher.step != TRAINER:
        return
    pods = nodes - 1 if runtime.is_launcher_a_node else nodes
    yield Breach(
        ("spec", "mlPolicy", "numNodes"),
        f"`numNodes` is `{nodes}`, but in an MPI runtime it sets the number of launchers",
        f"every TrainJob gets {nodes} launchers, and each launcher starts its own `mpirun`",
        f"set `numNodes: 1`; for {nodes} pods with ranks by default, set `parallelism: {pods}` in the Job template of "
        f"`{NODE}`",
        value=nodes,
    )


@check("mpi/jobs", severity=ERROR, needs=MpiRuntime)
def jobs(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI runtime without a job `node` or `launcher`.

    Trainer finds the two jobs of an MPI runtime by these names. Without `node` the hostfile lists no worker pods, and
    without `launcher` no pod gets the hostfile. So `mpirun` starts no rank in the worker pods.

    Source: trainer v2.3.0 pkg/constants/constants.go Node; trainer v2.3.0 pkg/constants/constants.go Launcher; trainer
    v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; trainer v2.3.0
    pkg/runtime/framework/plugins/mpi/mpi.go isNode
    """
    for name, command in ((NODE, "sshd"), (LAUNCHER, "`mpirun`")):
        if not any(job.name == name for job in runtime.jobs):
            yield Breach(
                (*JOB_SET, "replicatedJobs"),
                f"no replicated job of the runtime has the name `{name}`",
                "Trainer finds the jobs by name: it lists the pods of job `node` in the hostfile, and mounts the "
                "hostfile in job `launcher`",
                f"rename the job that runs {command} to `{name}`",
            )


@check("mpi/container", severity=ERROR, needs=MpiRuntime)
def container(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report an MPI job without a container `node`.

    Trainer mounts the ssh key, and in the launcher the hostfile, into the container `node`. If a launcher with the
    label `trainer.kubeflow.org/trainjob-ancestor-step: trainer` lacks this container, Trainer's webhook rejects the
    runtime. The webhook accepts a job `node` without this container, but then sshd finds no key.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; trainer v2.3.0
    pkg/webhooks/trainingruntime_webhook.go
    """
    for job in runtime.pair:
        names = [item.get("name") for _, item in indexed_mappings(job.pod.get("containers"))]
        if names and not job.container:
            containers = f"the container{'s' if len(names) > 1 else ''} {', '.join(map(format_value, names))}"
            yield Breach(
                (*job.pod_path, "containers"),
                f"the job `{job.name}` has no container `{NODE}`, but only {containers}",
                f"Trainer mounts the ssh key and, in the launcher, the hostfile only into the container `{NODE}`",
                f"rename the container that runs {'`mpirun`' if job.name == LAUNCHER else 'sshd'} to `{NODE}`",
                value=names,
            )


@check("mpi/image", severity=ERROR, needs=MpiRuntime)
def image(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a container without an image, except where a TrainJob sets the image.

    A TrainJob can set the image of the launcher only. The API server rejects a Job with any other container that
    has no image, so the TrainJob never runs.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer
    """
    for job in runtime.jobs:
        for path, body in job.containers:
            is_set_by_job = job.name == LAUNCHER and job.container is not None and body is job.container.body
            if not body.get("image") and not is_set_by_job:
                yield Breach(
                    path,
                    f"the container {format_value(body.get('name'))} of the job `{job.name}` has no image",
                    "a TrainJob cannot set the image of this container, so the API server rejects the Job, and only an "
                    "event reports the error",
                    "set `image` in this container",
                )


@check("mpi/step-label", severity=ERROR, needs=MpiRuntime)
def step_label(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a step label that is missing on the Job of the launcher, or is on another Job.

    Trainer sets the image, command and arguments of a TrainJob on the Job with the label
    `trainer.kubeflow.org/trainjob-ancestor-step: trainer`. That Job must be the launcher: on `node` the command would
    replace sshd. The label belongs to the Job (`template.metadata.labels` of the replicated job), not to its pods.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer; trainer v2.3.0
    pkg/runtime/core/trainingruntime.go TrainingRuntime.newRuntimeInfo
    """
    for job in runtime.jobs:
        path = (*job.path, "template", "metadata", "labels", STEP)
        if job.name != LAUNCHER and job.step == TRAINER:
            yield Breach(
                path,
                f"the job `{job.name}` has the label `{STEP}: {TRAINER}`",
                f"the command of a TrainJob also runs in the pods of `{job.name}`, in place of the runtime's command",
                f"remove the label: only the job `{LAUNCHER}` needs it",
                value=job.step,
            )
        if job.name != LAUNCHER or job.step == TRAINER:
            continue
        message = f"the job `{job.name}` has no label `{STEP}: {TRAINER}`"
        fix = f"add the label to `template.metadata.labels` of the job `{job.name}`"
        if STEP in mapping(job.pods, "metadata", "labels"):
            path = (*job.pods_path, "metadata", "labels", STEP)
            message = f"the label `{STEP}` is on the pods of the job `{job.name}`, not on its Job template"
            fix = f"move the label to `template.metadata.labels` of the job `{job.name}`"
        elif job.step is not None:
            message = f"the label `{STEP}` of the job `{job.name}` is {format_value(job.step)}, not `{TRAINER}`"
            fix = f"set the label to `{TRAINER}`"
        why = "Trainer ignores the image, command and arguments of every TrainJob on this runtime"
        if job.step is None:
            why += ", and the Kubeflow SDK fails to list any runtime"
        yield Breach(path, message, why, fix, value=job.step)


@check("mpi/replicas", severity=ERROR, needs=MpiRuntime)
def replicas(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a job `node` or `launcher` of an MPI runtime whose `replicas` is not 1.

    If the job has the label `trainer.kubeflow.org/trainjob-ancestor-step: trainer`, Trainer rejects the runtime. For a
    job without this label, such as `node`, the finding is a warning: Trainer ignores `replicas` when it counts pods,
    but JobSet creates that many Jobs.

    Source: trainer v2.3.0 pkg/webhooks/trainingruntime_webhook.go; trainer v2.3.0
    pkg/runtime/framework/plugins/jobset/jobset.go JobSet.IdentifyPodNetwork
    """
    for job in runtime.pair:
        count = job.body.get("replicas", 1)
        if not isinstance(count, int) or count == 1:
            continue
        path, message = (*job.path, "replicas"), f"the job `{job.name}` has `{count}` replicas"
        if job.step == TRAINER:
            why = f"Trainer's webhook rejects the runtime: a job with the label `{STEP}: {TRAINER}` needs 1 replica"
            yield Breach(path, message, why, "set `replicas: 1`", value=count)
        else:
            why = f"JobSet creates {count} Jobs, so a TrainJob gets {count} times the pods of the job `{job.name}`"
            fix = "set `replicas: 1`"
            if job.name == NODE:
                fix += ", and set the default number of worker pods in `parallelism` of the Job template"
            yield Breach(path, message, why, fix, severity=WARNING, value=count)


_MPI_JOB_LABELS = ("training.kubeflow.org/", "mpi-job-")
"""Prefixes of the pod labels of an MPIJob (mpi-operator v0.8.0 pkg/apis/kubeflow/v2beta1/constants.go), and older
ones."""


@check("mpi/foreign-selector", severity=WARNING, needs=MpiRuntime)
def foreign_selector(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report pod affinity or topology spread constraints that select pods by labels of an MPIJob.

    A runtime that was converted from an MPIJob may still select pods by the labels that the MPI Operator sets, such as
    `training.kubeflow.org/job-name`. Pods of a TrainJob have the labels that JobSet sets: `jobset.sigs.k8s.io/…`.

    Source: jobset v0.12.0 api/jobset/v1alpha2/jobset_types.go
    """
    for job in runtime.jobs:
        for path, selector in _selectors(job.pod_path, job.pod):
            keys: list[object] = [*mapping(selector, "matchLabels")]
            keys += [term.get("key") for _, term in indexed_mappings(selector.get("matchExpressions"))]
            if key := next((key for key in keys if isinstance(key, str) and key.startswith(_MPI_JOB_LABELS)), ""):
                yield Breach(
                    path,
                    f"an affinity or spread rule of the job `{job.name}` selects pods by the MPIJob label `{key}`",
                    "pods of a TrainJob do not have this label, so the rule matches no pod of the TrainJob",
                    "select by the label `jobset.sigs.k8s.io/replicatedjob-name`, or remove the rule and let "
                    "Kueue place the pods in a topology",
                )


def _selectors(path: Path, pod: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the paths and label selectors in the affinity and topology spread constraints of a pod."""
    for kind in ("podAffinity", "podAntiAffinity"):
        for field, terms in mapping(pod, "affinity", kind).items():
            for number, term in indexed_mappings(terms):
                weighted: Path = ("podAffinityTerm",) if "podAffinityTerm" in term else ()
                place: Path = (*path, "affinity", kind, field, number, *weighted, "labelSelector")
                yield place, mapping(mapping(term, "podAffinityTerm") or term, "labelSelector")
    for number, constraint in indexed_mappings(pod.get("topologySpreadConstraints")):
        yield (*path, "topologySpreadConstraints", number, "labelSelector"), mapping(constraint, "labelSelector")


_NO_PODS = "no TrainJob ever gets pods, and only an event reports the error"
_NO_NAMES = "no pod has the host name that the hostfile lists, so ssh fails: could not resolve hostname"


@check("mpi/job-order", severity=ERROR, needs=MpiRuntime)
def job_order(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a dependency on a job that the runtime does not list earlier.

    JobSet accepts in `dependsOn` only jobs that are listed before the dependent job. JobSet's webhook rejects the
    JobSet of each TrainJob, not the runtime.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateCreate
    """
    names = [job.name for job in runtime.jobs]
    for position, job in enumerate(runtime.jobs):
        for path, name, _ in job.dependencies:
            if name not in names[:position]:
                is_job = name in names
                yield Breach(
                    path,
                    f"the job `{job.name}` depends on the job `{name}`, which "
                    + (f"is not listed before `{job.name}`" if is_job else "does not exist"),
                    f"JobSet accepts only dependencies on jobs that are listed earlier, so {_NO_PODS}",
                    f"remove the dependency, or list `{name}` before `{job.name}`"
                    if is_job
                    else f"remove the dependency, or set a job that is listed before `{job.name}`",
                    value=name,
                )


@check("mpi/deadlock", severity=ERROR, needs=MpiRuntime)
def deadlock(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a launcher that waits until the worker pods end, or worker pods that wait until the launcher ends.

    With the status `Complete` in `dependsOn`, JobSet starts a job only after the named job ends. But sshd in the worker
    pods never ends, and `mpirun` in the launcher does not end without the worker pods.

    Source: jobset v0.12.0 pkg/controllers/depends_on.go dependencyReachedStatus
    """
    for job in runtime.pair:
        for path, name, status in job.dependencies:
            if status == "Complete" and name in {NODE, LAUNCHER} - {job.name}:
                why = (
                    f"sshd in `{NODE}` never ends"
                    if name == NODE
                    else f"`mpirun` does not end without the pods of `{NODE}`"
                )
                yield Breach(
                    (*path, "status"),
                    f"the job `{job.name}` waits until the job `{name}` is complete",
                    f"{why}, so `{job.name}` never starts",
                    "set `status: Ready`",
                    value=status,
                )


@check("mpi/success-policy", severity=ERROR, needs=MpiRuntime)
def success_policy(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a success policy with which a TrainJob ends too early or never.

    By default a JobSet is complete when all its jobs are complete, but sshd in `node` never ends. `successPolicy` must
    wait for `launcher` and not for `node`. With `operator: Any` it may name both, but no other job, because the JobSet
    ends with the first of its jobs. `workload/job-set` reports a policy that names an undefined job.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.Default; jobset v0.12.0
    pkg/controllers/success_policy.go
    """
    if not (runtime.node and runtime.launcher):
        return
    policy = mapping(runtime.job_set, "successPolicy")
    named = strings(policy.get("targetReplicatedJobs"))
    if fault := _fault_of_success_policy(policy, named, [job.name for job in runtime.jobs]):
        path = (*JOB_SET, "successPolicy") if policy else JOB_SET
        fix = f"set `successPolicy: {{operator: All, targetReplicatedJobs: [{LAUNCHER}]}}`"
        yield Breach(path, *fault, fix, value=named or None)


def _fault_of_success_policy(
    policy: Mapping[str, Any], named: Sequence[str], jobs: Sequence[str]
) -> tuple[str, str] | None:
    """Return the message and the effect of a wrong success policy; None for a correct or an invalid one."""
    targets = set(named or jobs)
    is_all = policy.get("operator", "All") == "All"
    if not targets <= set(jobs):
        return None  # JobSet rejects the policy
    if NODE in targets and (is_all or LAUNCHER not in targets):
        waits = "waits" if policy else "is not set, and its default also waits"
        return f"`successPolicy` {waits} for the job `{NODE}`", f"sshd in `{NODE}` never ends, so no TrainJob completes"
    if LAUNCHER not in targets or (not is_all and targets - {NODE, LAUNCHER}):
        message = f"`successPolicy` does not wait for the job `{LAUNCHER}`"
        return message, "the JobSet ends, with all its pods, while `mpirun` still runs"
    return None


@check("mpi/subdomain", severity=ERROR, needs=MpiRuntime)
def subdomain(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a subdomain that all TrainJobs of a namespace share.

    JobSet creates one headless Service per subdomain. The Service selects only the pods of the first JobSet, so in the
    same namespace the pods of every other TrainJob on the runtime get no DNS names.

    Source: jobset v0.12.0 pkg/controllers/jobset_controller.go JobSetReconciler.createHeadlessSvcIfNecessary
    """
    if name := mapping(runtime.job_set, "network").get("subdomain"):
        yield Breach(
            (*JOB_SET, "network", "subdomain"),
            f"`subdomain` is `{name}`",
            "all TrainJobs on this runtime in a namespace share one Service, which selects only the pods of the first "
            "TrainJob. In the later TrainJobs ssh fails: could not resolve hostname",
            "remove `subdomain`: each JobSet then has its own subdomain",
            value=name,
        )


@check("mpi/host-names", severity=ERROR, needs=MpiRuntime)
def host_names(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report pods without the DNS names that the hostfile lists.

    Pods get these names only if JobSet creates a headless Service, and if their Job is indexed. JobSet does both by
    default.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/jobset.go JobSet.IdentifyPodNetwork; jobset v0.12.0
    pkg/controllers/jobset_controller.go
    """
    if mapping(runtime.job_set, "network").get("enableDNSHostnames") is False:
        path = (*JOB_SET, "network", "enableDNSHostnames")
        fix = "remove `enableDNSHostnames`: JobSet sets `true`"
        yield Breach(path, "`enableDNSHostnames` is `false`", _NO_NAMES, fix, value=False)
    for job in runtime.pair:
        mode = mapping(job.body, "template", "spec").get("completionMode")
        if mode == "NonIndexed" and (job.name == NODE or runtime.is_launcher_a_node):
            path = (*job.path, "template", "spec", "completionMode")
            message = f"`completionMode` of the job `{job.name}` is `{mode}`"
            yield Breach(path, message, _NO_NAMES, "remove `completionMode`: JobSet sets `Indexed`", value=mode)


@check("mpi/readiness", severity=WARNING, needs=MpiRuntime)
def readiness(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report worker pods that count as ready before sshd listens.

    A pod without a probe is ready as soon as it runs. A launcher that waits until `node` is ready may then connect
    before sshd accepts connections.

    Source: jobset v0.12.0 pkg/controllers/depends_on.go dependencyReachedStatus
    """
    if not (runtime.launcher and runtime.node and runtime.node.container):
        return
    waits = any(name == NODE and status == "Ready" for _, name, status in runtime.launcher.dependencies)
    workers = runtime.node.container
    if waits and not (workers.body.get("readinessProbe") or workers.body.get("startupProbe")):
        yield Breach(
            workers.path,
            f"the job `{LAUNCHER}` waits until the job `{NODE}` is ready, but the container with sshd has no "
            "`readinessProbe`",
            "a worker pod counts as ready before its sshd listens, so `mpirun` may fail: connection refused",
            f"add a probe of the port of sshd to the container: `readinessProbe: {{tcpSocket: {{port: {SSH_PORT}}}}}`",
        )


@check("mpi/gang", severity=ERROR, needs=MpiRuntime)
def gang(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a start order of pods that a gang scheduler starts only together.

    With `podGroupPolicy` all pods of a TrainJob are one PodGroup. A gang scheduler starts no pod of the group before
    all pods of the group exist. With `dependsOn` or a startup order, JobSet creates the launcher only after the worker
    pods run. So all pods stay Pending. Let the launcher wait for sshd in an init container instead.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/coscheduling/coscheduling.go CoScheduling.Build; trainer v2.3.0
    pkg/runtime/framework/plugins/volcano/volcano.go Volcano.Build; scheduler-plugins v0.34.7
    pkg/coscheduling/core/core.go PodGroupManager.PreFilter; volcano-sh/volcano pkg/scheduler/plugins/gang/gang.go
    validJobFn
    """
    if not _pod_groups(runtime):
        return
    why = "the gang scheduler starts no pod before all pods of the group exist, but JobSet creates the pods of"
    for job in runtime.jobs:
        for path, name, _ in job.dependencies[:1]:
            yield Breach(
                path,
                f"the job `{job.name}` depends on the job `{name}`, but the runtime has a `podGroupPolicy`",
                f"{why} `{job.name}` only after pods of `{name}` run: all pods stay Pending",
                f"remove `dependsOn`, and let `{job.name}` wait for `{name}` in an init container",
                value=name,
            )
    if mapping(runtime.job_set, "startupPolicy").get("startupPolicyOrder") == "InOrder":
        path = (*JOB_SET, "startupPolicy", "startupPolicyOrder")
        message = "`startupPolicyOrder` is `InOrder`, but the runtime has a `podGroupPolicy`"
        why += " a job only after pods of the job before it run: all pods stay Pending"
        fix = "set `AnyOrder`, and let the launcher wait for sshd in an init container"
        yield Breach(path, message, why, fix, value="InOrder")


@check("mpi/scheduler", severity=WARNING, needs=MpiRuntime)
def scheduler(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a PodGroup whose pods name no scheduler.

    Trainer creates a PodGroup, but does not set `schedulerName` in the pods. The default scheduler of Kubernetes
    ignores PodGroups, so some pods of a TrainJob can start without the others.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/{coscheduling,volcano}
    """
    policies = _pod_groups(runtime)
    for job in runtime.jobs if policies else ():
        if not job.pod.get("schedulerName"):
            yield Breach(
                job.pod_path,
                f"the pods of the job `{job.name}` have no `schedulerName`, but the runtime has a `podGroupPolicy`",
                "the default scheduler ignores PodGroups, so some pods of a TrainJob can start without the others",
                f"set `schedulerName` to the gang scheduler{', `volcano`' if policies == ['volcano'] else ''}",
            )


def _pod_groups(runtime: MpiRuntime) -> list[str]:
    """Return the gang schedulers in `podGroupPolicy` of a runtime: `coscheduling`, `volcano`, or none."""
    policy = mapping(runtime.body, "spec", "podGroupPolicy")
    return [name for name in ("coscheduling", "volcano") if isinstance(policy.get(name), dict)]
