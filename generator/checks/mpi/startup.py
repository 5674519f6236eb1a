"""mpi/*: how the pods of an MPI runtime start, find each other, and end.

The sources are those of jobset v0.12.0, and of trainer v2.3.0 where a rule says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Breach, Severity
from generator.checks.registry import ERROR, WARNING, check
from generator.checks.trainer import JOB_SET, LAUNCHER, NODE, MpiRuntime
from generator.objects.fields import mapping, strings

_NO_PODS = "no TrainJob ever gets pods, and an event is all that tells"
_NAMELESS = "no pod has the name by which the hostfile knows it: ssh reaches nobody"
_FOR_SUCCESS = f"write `{{operator: All, targetReplicatedJobs: [{LAUNCHER}]}}`"


@check("mpi/job-order", severity=ERROR, needs=MpiRuntime)
def job_order(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a dependency on a job that is not listed before.

    A job depends on one that is not listed before it. JobSet refuses that when a TrainJob is made, not when the
    runtime is.

    Source: pkg/webhooks/jobset_webhook.go ValidateCreate
    """
    earlier: list[str] = []
    for job in runtime.jobs:
        for path, name, _ in job.dependencies:
            if name not in earlier:
                is_there = any(other.name == name for other in runtime.jobs)
                yield Breach(
                    path,
                    "mpi/job-order",
                    f"`{job.name}` depends on `{name}`, which {'does not come before it' if is_there else 'is no job'}",
                    f"JobSet takes dependencies on earlier jobs only: {_NO_PODS}",
                    f"list `{name}` before `{job.name}`" if is_there else "name a job that is listed before it",
                    value=name,
                )
        earlier.append(job.name)


@check("mpi/deadlock", severity=ERROR, needs=MpiRuntime)
def deadlock(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a launcher and hosts that wait for each other to complete.

    The launcher waits until `node` is complete, or `node` until the launcher is: each needs the other to run.

    Source: pkg/controllers/depends_on.go dependencyReachedStatus
    """
    for job in runtime.pair:
        for path, name, status in job.dependencies:
            if status == "Complete" and name in {NODE, LAUNCHER} - {job.name}:
                why = "sshd never ends" if name == NODE else "`mpirun` does not end without the hosts"
                yield Breach(
                    (*path, "status"),
                    "mpi/deadlock",
                    f"`{job.name}` waits until `{name}` is complete",
                    f"{why}, so `{job.name}` never starts",
                    "write `Ready`",
                    value=status,
                )


@check("mpi/success-policy", severity=ERROR, needs=MpiRuntime)
def success_policy(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a success policy that does not wait for the launcher alone.

    By default a JobSet is complete when all its jobs are, and sshd never ends. `successPolicy` has to wait for
    `launcher`, not for `node`, and may name only jobs that are there.

    Source: pkg/webhooks/jobset_webhook.go Default, ValidateCreate; pkg/controllers/success_policy.go
    """
    if not (runtime.node and runtime.launcher):
        return
    policy = mapping(runtime.job_set, "successPolicy")
    known = [job.name for job in runtime.jobs]
    named = strings(policy.get("targetReplicatedJobs"))
    targets = set(named or known)
    is_all = policy.get("operator", "All") == "All"
    if unknown := [name for name in named if name not in known]:
        message, why = (
            f"`{unknown[0]}` is no job",
            f"JobSet takes no other names: {_NO_PODS}",
        )
    elif NODE in targets and (is_all or LAUNCHER not in targets):
        message = f"`{NODE}` has to end too" if policy else f"there is none, so `{NODE}` has to end too"
        why = "sshd never ends, and so no TrainJob does"
    elif LAUNCHER not in targets or (not is_all and targets - {NODE, LAUNCHER}):
        message, why = f"it does not wait for `{LAUNCHER}`", "the JobSet ends, with all its pods, while `mpirun` runs"
    else:
        return
    path = (*JOB_SET, "successPolicy") if policy else JOB_SET
    yield Breach(path, "mpi/success-policy", f"`successPolicy`: {message}", why, _FOR_SUCCESS, value=named or None)


@check("mpi/subdomain", severity=ERROR, needs=MpiRuntime)
def subdomain(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a subdomain that all TrainJobs of a namespace would share.

    JobSet makes one headless Service for each subdomain, for the pods of the JobSet that came first. A runtime
    serves many TrainJobs, so all others of the namespace would reach nobody.

    Source: pkg/controllers/jobset_controller.go createHeadlessSvcIfNecessary
    """
    network = mapping(runtime.job_set, "network")
    if name := network.get("subdomain"):
        yield Breach(
            (*JOB_SET, "network", "subdomain"),
            "mpi/subdomain",
            f"`subdomain` is `{name}`",
            "TrainJobs of a namespace share one Service, which knows the pods of the first: the others reach nobody",
            "remove it: each JobSet then has its own",
            value=name,
        )


@check("mpi/host-names", severity=ERROR, needs=MpiRuntime)
def host_names(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report pods without the names that the hostfile lists.

    Pods get the names that are in the hostfile only from JobSet's Service, and only if their Job is indexed; both
    are the default.

    Source: trainer pkg/runtime/framework/plugins/jobset/jobset.go IdentifyPodNetwork;
    pkg/controllers/jobset_controller.go
    """
    if mapping(runtime.job_set, "network").get("enableDNSHostnames") is False:
        path = (*JOB_SET, "network", "enableDNSHostnames")
        yield Breach(path, "mpi/host-names", "`enableDNSHostnames` is `false`", _NAMELESS, "remove it", value=False)
    for job in runtime.pair:
        mode = mapping(job.body, "template", "spec").get("completionMode")
        if mode == "NonIndexed" and (job.name == NODE or runtime.is_launcher_a_node):
            path = (*job.path, "template", "spec", "completionMode")
            message = f"`completionMode` of `{job.name}` is `{mode}`"
            yield Breach(path, "mpi/host-names", message, _NAMELESS, "remove it: JobSet writes `Indexed`", value=mode)


@check("mpi/readiness", severity=WARNING, needs=MpiRuntime)
def readiness(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report hosts that count as ready before sshd listens.

    The launcher waits until `node` is ready, but nothing probes sshd, so that a host is ready before anyone can log
    in.

    Source: pkg/controllers/depends_on.go dependencyReachedStatus
    """
    if not (runtime.launcher and runtime.node and runtime.node.container):
        return
    waits = any(name == NODE and status == "Ready" for _, name, status in runtime.launcher.dependencies)
    hosts = runtime.node.container
    if waits and not (hosts.body.get("readinessProbe") or hosts.body.get("startupProbe")):
        yield Breach(
            hosts.path,
            "mpi/readiness",
            f"`{LAUNCHER}` waits until `{NODE}` is ready, which has no `readinessProbe`",
            "a host counts as ready before its sshd listens: `mpirun` may find nobody, and fails",
            "probe the port of sshd: `readinessProbe: {tcpSocket: {port: 2222}}`",
            Severity.WARNING,
        )


@check("mpi/gang", severity=ERROR, needs=MpiRuntime)
def gang(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report pods of a gang that wait for other pods of the gang.

    With `podGroupPolicy` all pods of a TrainJob are one group, and a gang scheduler starts none before all of them
    exist. Pods that `dependsOn` or a startup order keeps back never do.

    Source: trainer pkg/runtime/framework/plugins/{coscheduling,volcano} Build; scheduler-plugins v0.34.7
    pkg/coscheduling/core/core.go PreFilter; volcano pkg/scheduler/plugins/gang/gang.go validJobFn
    """
    if not _pod_groups(runtime):
        return
    why = "no pod is scheduled before all of the group exist, and these are not made before others run"
    for job in runtime.jobs:
        for path, name, _ in job.dependencies[:1]:
            yield Breach(
                path,
                "mpi/gang",
                f"`{job.name}` depends on `{name}`, and there is a `podGroupPolicy`",
                why,
                "remove `dependsOn`, and let the launcher wait for sshd in an init container",
                value=name,
            )
    if mapping(runtime.job_set, "startupPolicy").get("startupPolicyOrder") == "InOrder":
        path = (*JOB_SET, "startupPolicy", "startupPolicyOrder")
        message = "the jobs start in order, and there is a `podGroupPolicy`"
        yield Breach(path, "mpi/gang", message, why, "write `AnyOrder`", value="InOrder")


@check("mpi/scheduler", severity=WARNING, needs=MpiRuntime)
def scheduler(runtime: MpiRuntime) -> Iterator[Breach]:
    """Report a PodGroup whose pods name no scheduler.

    Trainer makes a PodGroup, but does not choose the scheduler that knows it. That is `schedulerName` in the pods.
    """
    policies = _pod_groups(runtime)
    for job in runtime.jobs if policies else ():
        if not job.pod.get("schedulerName"):
            yield Breach(
                job.pod_path,
                "mpi/scheduler",
                f"the pods of the job `{job.name}` have no `schedulerName`, and there is a `podGroupPolicy`",
                "the default scheduler of Kubernetes does not know PodGroups, unless it was replaced",
                f"name the scheduler that does{', `volcano`' if policies == ['volcano'] else ''}",
                Severity.WARNING,
            )


def _pod_groups(runtime: MpiRuntime) -> list[str]:
    policy = mapping(runtime.body, "spec", "podGroupPolicy")
    return [name for name in ("coscheduling", "volcano") if isinstance(policy.get(name), dict)]
