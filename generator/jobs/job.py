"""A new TrainJob on a runtime of the platform, or the reasons why it would not run.

The TrainJob has no field that Trainer v2.3.0 would give to the launcher alone (`image`, and `resourcesPerNode` where
the launcher is separate): pkg/runtime/framework/plugins/jobset/builder.go `Trainer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from generator.config.model.fields import to_seconds
from generator.config.model.runtimes import Runtime, fabric_of
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.documents.messages import format_value
from generator.errors import Problem, suggest
from generator.facts.names import JOB_LABEL, JOB_POLICY, OWNER, PRIORITY_CLASS, QUEUE_NAME
from generator.jobs import smoke
from generator.jobs.chosen import JobError, fewest_hosts, others_for, runtime_for, tenant_for
from generator.jobs.reach import Reach, reach
from generator.jobs.smoke import Benchmark, smoke_command, smoke_nodes
from generator.manifests import Body


def labels_for(platform: Platform, tenant: Tenant, given: Mapping[str, str]) -> dict[str, str]:
    """The labels that every job has, with the values that the team has, and those that are given."""
    known = {key: tenant.labels[key] for key in platform.policies.labels if key in tenant.labels}
    return {**known, **given}


def deadline(tenant: Tenant) -> Body:
    """The longest that a job of the team may run, where there is an end to it."""
    limit = tenant.limits.time_per_job
    return {"activeDeadlineSeconds": to_seconds(limit)} if limit else {}


def _admission_problems(
    platform: Platform, tenant: Tenant, *, labels: Mapping[str, str], priority: str
) -> Iterator[Problem]:
    """Why it would not run, as far as it is up to these; nothing of rules that do not deny."""
    denied = {rule for rule in ("labels", "priority") if platform.policies.admission.action(rule) == "deny"}
    declared = [each.name for each in platform.queues.priorities]
    if priority and priority not in declared:
        # kueue v0.19.2: a class that does not exist gets no Workload, and only the log of Kueue tells
        what = f"there is no priority {format_value(priority)}"
        yield Problem(what, suggest(priority, declared), path="--priority")
    elif "priority" in denied and priority and tenant.priorities is not None and priority not in tenant.priorities:
        what = f"{format_value(priority)} is not open to `{tenant.name}`"
        yield Problem(what, suggest(priority, tenant.priorities), path="--priority")
    if "labels" in denied:
        yield from _wrong_labels(platform, tenant, labels)


def _wrong_labels(platform: Platform, tenant: Tenant, labels: Mapping[str, str]) -> Iterator[Problem]:
    for key in platform.policies.labels:
        wanted, found = tenant.labels.get(key, ""), labels.get(key, "")
        if not found:
            yield Problem(f"a job here has the label `{key}`", f"pass --label {key}=VALUE", path="--label")
        elif wanted and found != wanted:
            what = f"{format_value(found)} is not what `{key}` is of `{tenant.name}`"
            yield Problem(what, f"leave it out: it is {wanted}", path="--label")


def job_network_policies(platform: Platform, train_job: Body) -> list[Body]:
    """What a TrainJob needs beside it: its NetworkPolicy, unless all MPI pods of a namespace reach each other."""
    return [_policy(train_job["metadata"])] if platform.isolation.unit == "job" else []


def _policy(job: Body) -> Body:
    pods = {"matchLabels": {JOB_LABEL: job["name"]}}
    owner = {key: value for key, value in job.get("annotations", {}).items() if key == OWNER}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": f"{JOB_POLICY}{job['name']}",
            "namespace": job["namespace"],
            **({"annotations": owner} if owner else {}),
        },
        "spec": {
            "podSelector": pods,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": pods}]}],
            "egress": [{"to": [{"podSelector": pods}]}],
        },
    }


# jobset v0.12.0 pkg/webhooks/jobset_webhook.go: pods are called `<name>-launcher-0-0-abcde`, in at most 63 characters.
LONGEST_NAME = 63 - len("-launcher-0-0-abcde")
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUEUE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_STARTER = re.compile(r"mpirun|mpiexec|prterun|orterun|horovodrun")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asks for; what is empty is chosen.

    Attributes:
        runtime: its name in the platform; may be empty where a fabric is named that only one runtime is on.
        tenant: whose job it is. Default: the only tenant that can have it.
        name: of the TrainJob. Default: the runtime's, with `-smoke` for a smoke test.
        nodes: `numNodes`. Default: what the runtime says, or three pods for a smoke test.
        queue: a LocalQueue that is not the default one.
        command: what the launcher runs. Default: the example of the family.
        is_smoke: whether the job is the family's smoke test.
        namespace: one of the tenant's. Default: the one of its name.
        priority: one of the platform's. Default: none. Kueue then takes that of the pods' PriorityClass, else of
            the cluster's default PriorityClass, else 0 (kueue v0.19.2 pkg/controller/jobframework/reconciler.go,
            `ExtractPriority`).
        owner: the user name of who may stop it without being an editor. Default: nobody.
        labels: beside those that the platform knows.
        fabric: one of the platform. A smoke test measures it.
        link: Gbit/s of each of its NICs, where the platform does not say of which servers it is.
    """

    runtime: str
    tenant: str = ""
    name: str = ""
    nodes: int = 0
    queue: str = ""
    command: tuple[str, ...] = ()
    is_smoke: bool = False
    namespace: str = ""
    priority: str = ""
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    fabric: str = ""
    link: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A TrainJob, and what its owner should know about it."""

    body: Body
    notes: tuple[str, ...]


def new_job(platform: Platform, wanted: Wanted) -> Job:
    """The TrainJob that is asked for.

    Raises:
        JobError: it would be refused, wait for ever, or not do what its owner thinks; with every reason.
    """
    runtime = runtime_for(platform, wanted.runtime, wanted.fabric)
    tenant = tenant_for(platform, runtime, wanted.tenant)
    measured = _measured(platform, runtime, wanted)
    name = wanted.name or _usual_name(runtime, wanted)
    nodes = measured.nodes if measured else wanted.nodes or _usual_nodes(runtime, tenant, wanted)
    far = reach(platform, tenant, runtime)
    labels = labels_for(platform, tenant, wanted.labels)
    problems = [
        *_of_name(name),
        *_of_nodes(nodes, platform, tenant, runtime, far),
        *_of_words(wanted),
        *_of_place(wanted, tenant),
        *_admission_problems(platform, tenant, labels=labels, priority=wanted.priority),
        *(smoke.benchmark_problems(measured, has_own_command=bool(wanted.command)) if measured else ()),
    ]
    if problems:
        raise JobError(tuple(problems))
    command = _command(platform, runtime, wanted, nodes, measured)
    said = {**_labels(wanted, labels), **_owner(wanted)}
    body = _train_job(runtime, {"name": name, "namespace": wanted.namespace or tenant.name, **said}, nodes, command)
    body["spec"] |= deadline(tenant)
    notes = [*_notes(runtime, wanted), *(smoke.benchmark_notes(measured) if measured else ())]
    notes += _of_contention(tenant, nodes, far)
    return Job(body, tuple(notes))


def _measured(platform: Platform, runtime: Runtime, wanted: Wanted) -> Benchmark | None:
    """What is measured, if anything is."""
    pool = platform.pool(runtime.pool)
    fabric = fabric_of(runtime, pool) if wanted.is_smoke and wanted.fabric else None
    if fabric is None:
        return None
    link = wanted.link or (fabric.known_server.link if fabric.known_server else 0)
    return Benchmark(runtime, pool, fabric, link, wanted.nodes or smoke.BENCHMARK_HOSTS)


def _command(platform: Platform, runtime: Runtime, wanted: Wanted, nodes: int, measured: Benchmark | None) -> list[str]:
    if wanted.command:
        return list(wanted.command)
    if measured:
        return smoke.benchmark_command(measured)
    if wanted.is_smoke:
        return smoke_command(runtime, platform.pool(runtime.pool), nodes)
    return list(runtime.family.command)


def _usual_name(runtime: Runtime, wanted: Wanted) -> str:
    if not wanted.is_smoke:
        return runtime.name
    return f"{runtime.name}-{'bench' if wanted.fabric else 'smoke'}"


def _usual_nodes(runtime: Runtime, tenant: Tenant, wanted: Wanted) -> int:
    """What the runtime says, or as many of them as the tenant may have in one job."""
    if wanted.is_smoke:
        return smoke_nodes(runtime)
    return min(runtime.nodes or 2, tenant.limits.hosts_per_job or 2**31)


def _labels(wanted: Wanted, others: Mapping[str, str]) -> Body:
    named = {QUEUE_NAME: wanted.queue, PRIORITY_CLASS: wanted.priority}
    labels = {label: value for label, value in {**named, **others}.items() if value}
    return {"labels": labels} if labels else {}


def _owner(wanted: Wanted) -> Body:
    return {"annotations": {OWNER: wanted.owner}} if wanted.owner else {}


def _train_job(runtime: Runtime, metadata: Body, nodes: int, command: list[str]) -> Body:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {
            "runtimeRef": {"name": runtime.name, **({"kind": "TrainingRuntime"} if runtime.tenants else {})},
            "trainer": {"numNodes": nodes, "command": command},
        },
    }


def _of_name(name: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        fix = "begin with a letter, and go on with lower-case letters, digits and hyphens"
        yield Problem(f"{format_value(name)} cannot be the name of a TrainJob", fix, path="--name")
    elif len(name) > LONGEST_NAME:
        what = f"{format_value(name)} has {len(name)} letters, too many for the names of pods that JobSet makes of it"
        yield Problem(what, f"use at most {LONGEST_NAME}", path="--name")


def _of_nodes(nodes: int, platform: Platform, tenant: Tenant, runtime: Runtime, far: Reach) -> Iterator[Problem]:
    fewest = fewest_hosts(runtime)
    if not far.can_have(fewest):
        what = f"`{tenant.name}` can have {far.idle or 'no'} host of runtime `{runtime.name}`: {far.reason}"
        yield Problem(what, others_for(platform, tenant), path="--runtime")
    elif nodes < fewest:
        # trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy: beside it max(numNodes - 1, 1) others
        what = f"`{nodes}`, and Trainer would start 2: the launcher is one of them, and never the only one"
        yield Problem(what, "pass 2 or more", path="--nodes")
    elif tenant.limits.hosts_per_job and nodes > tenant.limits.hosts_per_job:
        what = f"`{nodes}` would be refused: a job of `{tenant.name}` has at most {tenant.limits.hosts_per_job} hosts"
        yield Problem(what, "pass so many or less", path="--nodes")
    elif not far.can_have(nodes):
        yield Problem(f"`{nodes}` would wait for ever: {far.reason}", f"pass {far.idle} or less", path="--nodes")


def _of_words(wanted: Wanted) -> Iterator[Problem]:
    if wanted.queue and not _QUEUE.fullmatch(wanted.queue):
        yield Problem(
            f"{format_value(wanted.queue)} is not the name of a queue",
            "leave it out to take the team's",
            path="--queue",
        )
    if wanted.is_smoke and wanted.command and not wanted.fabric:
        yield Problem("a smoke test has a command of its own", "leave out yours, or --smoke", path="COMMAND")
    for word in wanted.command:
        if any("\ud800" <= letter <= "\udfff" for letter in word):  # how Python reads an argument that is not UTF-8
            yield Problem(f"{format_value(word)} is not UTF-8", "write it so", path="COMMAND")


def _of_place(wanted: Wanted, tenant: Tenant) -> Iterator[Problem]:
    homes = [home.name for home in tenant.homes]
    if wanted.namespace and wanted.namespace not in homes:
        what = f"{format_value(wanted.namespace)} is no namespace of `{tenant.name}`"
        yield Problem(what, suggest(wanted.namespace, homes), path="--namespace")


def _notes(runtime: Runtime, wanted: Wanted) -> Iterator[str]:
    if runtime.deprecated:
        yield f"runtime `{runtime.name}` is deprecated: ask your admins for its successor"
    if runtime.placement and runtime.placement.required:
        place = f"one {runtime.placement.required}"
        yield f"all pods must be in {place}: if none has room for them even when it is empty, the job waits for ever"
    if wanted.is_smoke and not runtime.image and not wanted.fabric:
        yield f"nothing in {runtime.family.default_image} calls MPI: this tests that ranks start, and no allreduce"
    if not wanted.is_smoke and not wanted.command:
        yield "the command is an example: pass your own after `--`"
    if wanted.command and not any(_STARTER.search(word) for word in wanted.command):
        yield f"{format_value(wanted.command[0])} runs once, in the launcher: what `mpirun` starts runs on all hosts"


def _of_contention(tenant: Tenant, nodes: int, far: Reach) -> Iterator[str]:
    """Yield what the job can wait for while other teams use the cluster."""
    if far.owned is None or far.idle is None:
        yield f"it is unknown if Kueue admits the job at once: {far.unknown or far.reason}"
    elif nodes <= far.owned:
        return
    elif far.reclaimable is None:
        yield f"it is unknown if Kueue admits the job at once: `{tenant.name}` is sure of {far.unknown}"
    elif nodes <= far.reclaimable:
        yield (
            f"only {far.owned} of these {nodes} hosts are free for `{tenant.name}` in any case: for the rest Kueue may "
            "preempt jobs that borrow"
        )
    else:
        yield (
            f"`{tenant.name}` is sure of {far.reclaimable} of these {nodes} hosts: the job waits until other queues "
            "leave the rest idle, and Kueue may preempt it when they want it back"
        )
