"""mpi/*: how the pods of an MPI runtime start, find each other, and end."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.checks.trainer import LAUNCHER, MpiRuntime
from generator.facts.names import SSH_PORT
from generator.objects.fields import mapping, strings
from generator.objects.pods import JOB_SET, NODE

_NO_PODS = "no TrainJob ever gets pods, and only an event reports the error"
_NO_NAMES = "no pod has the name that the hostfile lists, so ssh fails: could not resolve hostname"


@check("mpi/job-order", severity=ERROR, needs=MpiRuntime)
def job_order(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a dependency on a job that is not listed before.

    JobSet accepts `dependsOn` only on jobs that are listed earlier. Its webhook rejects the JobSet of each TrainJob,
    not the runtime.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go ValidateCreate
    """
    names = [job.name for job in runtime.jobs]
    for position, job in enumerate(runtime.jobs):
        for path, name, _ in job.dependencies:
            if name not in names[:position]:
                is_job = name in names
                yield Breach(
                    path,
                    f"`{job.name}` depends on `{name}`, which {'is not listed before it' if is_job else 'is no job'}",
                    f"JobSet accepts dependencies on earlier jobs only: {_NO_PODS}",
                    f"list `{name}` before `{job.name}`" if is_job else "name a job that is listed before it",
                    value=name,
                )


@check("mpi/deadlock", severity=ERROR, needs=MpiRuntime)
def deadlock(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a launcher and hosts that wait for each other to complete.

    `dependsOn` with the status `Complete` starts one job after the other ends. But sshd never ends, and `mpirun`
    needs the hosts.

    Source: jobset v0.12.0 pkg/controllers/depends_on.go dependencyReachedStatus
    """
    for job in runtime.pair:
        for path, name, status in job.dependencies:
            if status == "Complete" and name in {NODE, LAUNCHER} - {job.name}:
                why = "sshd never ends" if name == NODE else "`mpirun` does not end without the hosts"
                yield Breach(
                    (*path, "status"),
                    f"`{job.name}` waits until `{name}` is complete",
                    f"{why}, so `{job.name}` never starts",
                    "set `Ready`",
                    value=status,
                )


@check("mpi/success-policy", severity=ERROR, needs=MpiRuntime)
def success_policy(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a success policy that does not wait for the launcher alone.

    By default a JobSet is complete when all its jobs are complete, and sshd never ends. `successPolicy` must wait
    for `launcher` and not for `node`. JobSet rejects a policy that names an undefined job.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go Default, ValidateCreate; pkg/controllers/success_policy.go
    """
    if not (runtime.node and runtime.launcher):
        return
    policy = mapping(runtime.job_set, "successPolicy")
    jobs = [job.name for job in runtime.jobs]
    named = strings(policy.get("targetReplicatedJobs"))
    targets = set(named or jobs)
    is_all = policy.get("operator", "All") == "All"
    if unknown := [name for name in named if name not in jobs]:
        message = f"`successPolicy` names `{unknown[0]}`, which is no job"
        why = f"JobSet rejects undefined jobs: {_NO_PODS}"
    elif NODE in targets and (is_all or LAUNCHER not in targets):
        message = (
            f"`successPolicy` waits for `{NODE}`" if policy else f"no `successPolicy`: the default includes `{NODE}`"
        )
        why = "sshd never ends, so no TrainJob ever completes"
    elif LAUNCHER not in targets or (not is_all and targets - {NODE, LAUNCHER}):
        message = f"`successPolicy` does not wait for `{LAUNCHER}`"
        why = "the JobSet ends, with all its pods, while `mpirun` still runs"
    else:
        return
    path = (*JOB_SET, "successPolicy") if policy else JOB_SET
    fix = f"set `successPolicy: {{operator: All, targetReplicatedJobs: [{LAUNCHER}]}}`"
    yield Breach(path, message, why, fix, value=named or None)


@check("mpi/subdomain", severity=ERROR, needs=MpiRuntime)
def subdomain(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a subdomain that all TrainJobs of a namespace share.

    JobSet creates one headless Service per subdomain, which selects the pods of the first JobSet. The pods of every
    other TrainJob of the runtime in the namespace get no DNS names.

    Source: jobset v0.12.0 pkg/controllers/jobset_controller.go createHeadlessSvcIfNecessary
    """
    if name := mapping(runtime.job_set, "network").get("subdomain"):
        yield Breach(
            (*JOB_SET, "network", "subdomain"),
            f"`subdomain` is `{name}`",
            "all TrainJobs of a namespace share one Service, which selects the pods of the first; in the others ssh "
            "fails: could not resolve hostname",
            "remove it: each JobSet then has its own subdomain",
            value=name,
        )


@check("mpi/host-names", severity=ERROR, needs=MpiRuntime)
def host_names(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report pods without the names that the hostfile lists.

    Pods get these names from the headless Service of JobSet, and only if their Job is indexed. Both are the default.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/jobset/jobset.go IdentifyPodNetwork;
    jobset v0.12.0 pkg/controllers/jobset_controller.go
    """
    if mapping(runtime.job_set, "network").get("enableDNSHostnames") is False:
        path = (*JOB_SET, "network", "enableDNSHostnames")
        yield Breach(path, "`enableDNSHostnames` is `false`", _NO_NAMES, "remove it", value=False)
    for job in runtime.pair:
        mode = mapping(job.body, "template", "spec").get("completionMode")
        if mode == "NonIndexed" and (job.name == NODE or runtime.is_launcher_a_node):
            path = (*job.path, "template", "spec", "completionMode")
            message = f"`completionMode` of `{job.name}` is `{mode}`"
            yield Breach(path, message, _NO_NAMES, "remove it: JobSet sets `Indexed`", value=mode)


@check("mpi/readiness", severity=WARNING, needs=MpiRuntime)
def readiness(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report hosts that count as ready before sshd listens.

    A pod without a probe is ready as soon as it runs. A launcher that waits until `node` is ready may then connect
    before sshd accepts connections.

    Source: jobset v0.12.0 pkg/controllers/depends_on.go dependencyReachedStatus
    """
    if not (runtime.launcher and runtime.node and runtime.node.container):
        return
    waits = any(name == NODE and status == "Ready" for _, name, status in runtime.launcher.dependencies)
    hosts = runtime.node.container
    if waits and not (hosts.body.get("readinessProbe") or hosts.body.get("startupProbe")):
        yield Breach(
            hosts.path,
            f"`{LAUNCHER}` waits until `{NODE}` is ready, but `{NODE}` has no `readinessProbe`",
            "a host counts as ready before its sshd listens, so `mpirun` may fail: connection refused",
            f"probe the port of sshd: `readinessProbe: {{tcpSocket: {{port: {SSH_PORT}}}}}`",
        )


@check("mpi/gang", severity=ERROR, needs=MpiRuntime)
def gang(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report pods of a gang that wait for other pods of the gang.

    With `podGroupPolicy` all pods of a TrainJob are one PodGroup, and a gang scheduler starts none before all of them
    exist. JobSet does not create pods with `dependsOn` or a startup order before other pods run, so all stay Pending.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/{coscheduling,volcano} Build; scheduler-plugins v0.34.7
    pkg/coscheduling/core/core.go PreFilter; volcano pkg/scheduler/plugins/gang/gang.go validJobFn
    """
    if not _pod_groups(runtime):
        return
    why = "the scheduler waits for all pods of the group, and JobSet creates these only after others run"
    for job in runtime.jobs:
        for path, name, _ in job.dependencies[:1]:
            yield Breach(
                path,
                f"`{job.name}` depends on `{name}`, but the runtime has a `podGroupPolicy`",
                why,
                "remove `dependsOn`, and let the launcher wait for sshd in an init container",
                value=name,
            )
    if mapping(runtime.job_set, "startupPolicy").get("startupPolicyOrder") == "InOrder":
        path = (*JOB_SET, "startupPolicy", "startupPolicyOrder")
        message = "the jobs start in order, but the runtime has a `podGroupPolicy`"
        yield Breach(path, message, why, "set `AnyOrder`", value="InOrder")


@check("mpi/scheduler", severity=WARNING, needs=MpiRuntime)
def scheduler(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a PodGroup whose pods name no scheduler.

    Trainer creates a PodGroup, but does not set `schedulerName` in the pods. The default scheduler of Kubernetes
    ignores PodGroups, so the gang is not scheduled as one.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/{coscheduling,volcano}
    """
    policies = _pod_groups(runtime)
    for job in runtime.jobs if policies else ():
        if not job.pod.get("schedulerName"):
            yield Breach(
                job.pod_path,
                f"the pods of the job `{job.name}` have no `schedulerName`, but the runtime has a `podGroupPolicy`",
                "the default scheduler of Kubernetes ignores PodGroups, unless the cluster replaces it",
                f"set `schedulerName` to the gang scheduler{', `volcano`' if policies == ['volcano'] else ''}",
            )


def _pod_groups(runtime: MpiRuntime) -> list[str]:
    """Return the gang schedulers that `podGroupPolicy` names."""
    policy = mapping(runtime.body, "spec", "podGroupPolicy")
    return [name for name in ("coscheduling", "volcano") if isinstance(policy.get(name), dict)]
