"""A TrainJob on a runtime of the platform: the few lines that somebody of a team writes, or why they would not run.

It says nothing that Trainer v2.3.0 would give to the launcher alone (`image`, and `resourcesPerNode` where the launcher
is separate): pkg/runtime/framework/plugins/jobset/builder.go `Trainer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from generator.config.draft import suggestion
from generator.config.platform import Platform
from generator.config.runtimes import Runtime
from generator.config.shares import amounts
from generator.config.tenants import Tenant
from generator.config.workload import OWNER
from generator.documents.syntax import shown
from generator.errors import MpigenError, Problem
from generator.jobs.admitted import deadline, labels_for, refused
from generator.jobs.reach import Reach, reach, reaches
from generator.jobs.smoke import smoke_command, smoke_nodes
from generator.manifests import Body

# jobset v0.12.0 pkg/webhooks/jobset_webhook.go: pods are called `<name>-launcher-0-0-abcde`, in at most 63 characters.
LONGEST_NAME = 63 - len("-launcher-0-0-abcde")
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUEUE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_STARTER = re.compile(r"mpirun|mpiexec|prterun|orterun|horovodrun")


class JobError(MpigenError):
    """The job that is asked for would not run on this platform."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asks for; what is empty is chosen.

    Attributes:
        runtime: its name in the platform.
        tenant: whose job it is. Default: the only tenant that can have it.
        name: of the TrainJob. Default: the runtime's, with `-smoke` for a smoke test.
        nodes: `numNodes`. Default: what the runtime says, or three pods for a smoke test.
        queue: a LocalQueue that is not the default one.
        command: what the launcher runs. Default: the example of the family.
        is_smoke: whether the job is the family's smoke test.
        namespace: one of the tenant's. Default: the one of its name.
        priority: one of the platform's. Default: none, which counts as 0.
        owner: the user name of who may stop it without being an editor. Default: nobody.
        labels: beside those that the platform knows.
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
    runtime = _runtime(platform, wanted.runtime)
    tenant = _tenant(platform, runtime, wanted.tenant)
    name = wanted.name or (f"{runtime.name}-smoke" if wanted.is_smoke else runtime.name)
    nodes = wanted.nodes or (smoke_nodes(runtime) if wanted.is_smoke else _usual_nodes(runtime, tenant))
    far = reach(platform, tenant, runtime)
    labels = labels_for(platform, tenant, wanted.labels)
    problems = [
        *_of_name(name),
        *_of_nodes(nodes, platform, tenant, runtime, far),
        *_of_words(wanted),
        *_of_place(wanted, tenant),
        *refused(platform, tenant, labels=labels, priority=wanted.priority),
    ]
    if problems:
        raise JobError(tuple(problems))
    if wanted.is_smoke:
        command = smoke_command(runtime, platform.pool(runtime.pool), nodes)
    else:
        command = list(wanted.command or runtime.family.command)
    said = {**_labels(wanted, labels), **_owner(wanted)}
    body = _train_job(runtime, {"name": name, "namespace": wanted.namespace or tenant.name, **said}, nodes, command)
    body["spec"] |= deadline(tenant)
    return Job(body, tuple(_notes(runtime, tenant, nodes, far, wanted)))


def _usual_nodes(runtime: Runtime, tenant: Tenant) -> int:
    """What the runtime says, or as many of them as the tenant may have in one job."""
    return min(runtime.nodes or 2, tenant.limits.hosts_per_job or 2**31)


def _labels(wanted: Wanted, others: Mapping[str, str]) -> Body:
    named = {"kueue.x-k8s.io/queue-name": wanted.queue, "kueue.x-k8s.io/priority-class": wanted.priority}
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


def _runtime(platform: Platform, name: str) -> Runtime:
    by_name = {runtime.name: runtime for runtime in platform.runtimes}
    if name not in by_name:
        fix = suggestion(name, by_name) if by_name else "declare it in the platform file"
        raise JobError((Problem(f"there is no runtime {shown(name)}", fix, path="--runtime"),))
    return by_name[name]


def _tenant(platform: Platform, runtime: Runtime, name: str) -> Tenant:
    """The tenant of that name; without a name the only one that can have the runtime."""
    by_name = {tenant.name: tenant for tenant in platform.tenants}
    if name and name not in by_name:
        raise JobError((Problem(f"there is no tenant {shown(name)}", suggestion(name, by_name), path="--tenant"),))
    if name and not _is_for(runtime, name):
        what = f"runtime `{runtime.name}` is not for `{name}`"
        raise JobError((Problem(what, _others(platform, by_name[name]), path="--runtime"),))
    if name:
        return by_name[name]
    asking = [each for each in platform.tenants if _is_for(runtime, each.name)]
    far = reaches(platform, asking, runtime)
    able = [each for each in asking if far[each.name].most >= _fewest(runtime)]
    if not able:
        has_some = any(_has_some(platform, each, runtime.pool) for each in asking)
        fix = "pass --tenant to see why of each" if has_some else f"give one a quota of pool `{runtime.pool}`"
        raise JobError((Problem(f"no tenant can have a host of runtime `{runtime.name}`", fix, path="--runtime"),))
    if len(able) > 1:
        fix = f"name one of: {', '.join(each.name for each in able)}"
        raise JobError((Problem(f"several tenants can have runtime `{runtime.name}`", fix, path="--tenant"),))
    return able[0]


def _has_some(platform: Platform, tenant: Tenant, pool: str) -> bool:
    """Whether a tenant owns or borrows anything of a pool."""
    return any(pool in amounts(shares, platform.supplies) for shares in (*tenant.quotas, tenant.borrow))


def _is_for(runtime: Runtime, tenant: str) -> bool:
    return not runtime.tenants or tenant in runtime.tenants


def _fewest(runtime: Runtime) -> int:
    """Hosts that a job has at least."""
    return 1 if runtime.has_separate_launcher else 2


def _others(platform: Platform, tenant: Tenant) -> str:
    able = [each for each in platform.runtimes if _is_for(each, tenant.name)]
    usable = [each.name for each in able if reach(platform, tenant, each).most >= _fewest(each)]
    return f"it can have: {', '.join(usable)}" if usable else "there is no other runtime that it can have"


def _of_name(name: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        fix = "begin with a letter, and go on with lower-case letters, digits and hyphens"
        yield Problem(f"{shown(name)} cannot be the name of a TrainJob", fix, path="--name")
    elif len(name) > LONGEST_NAME:
        what = f"{shown(name)} has {len(name)} letters, too many for the names of pods that JobSet makes of it"
        yield Problem(what, f"use at most {LONGEST_NAME}", path="--name")


def _of_nodes(nodes: int, platform: Platform, tenant: Tenant, runtime: Runtime, far: Reach) -> Iterator[Problem]:
    fewest = _fewest(runtime)
    if far.most < fewest:
        what = f"`{tenant.name}` can have {far.most or 'no'} host of runtime `{runtime.name}`: {far.reason}"
        yield Problem(what, _others(platform, tenant), path="--runtime")
    elif nodes < fewest:
        # trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy: beside it max(numNodes - 1, 1) others
        what = f"`{nodes}`, and Trainer would start 2: the launcher is one of them, and never the only one"
        yield Problem(what, "pass 2 or more", path="--nodes")
    elif tenant.limits.hosts_per_job and nodes > tenant.limits.hosts_per_job:
        what = f"`{nodes}` would be refused: a job of `{tenant.name}` has at most {tenant.limits.hosts_per_job} hosts"
        yield Problem(what, "pass so many or less", path="--nodes")
    elif nodes > far.most:
        yield Problem(f"`{nodes}` would wait for ever: {far.reason}", f"pass {far.most} or less", path="--nodes")


def _of_words(wanted: Wanted) -> Iterator[Problem]:
    if wanted.queue and not _QUEUE.fullmatch(wanted.queue):
        yield Problem(
            f"{shown(wanted.queue)} is not the name of a queue", "leave it out to take the team's", path="--queue"
        )
    if wanted.is_smoke and wanted.command:
        yield Problem("a smoke test has a command of its own", "leave out yours, or --smoke", path="COMMAND")
    for word in wanted.command:
        if any("\ud800" <= letter <= "\udfff" for letter in word):  # how Python reads an argument that is not UTF-8
            yield Problem(f"{shown(word)} is not UTF-8", "write it so", path="COMMAND")


def _of_place(wanted: Wanted, tenant: Tenant) -> Iterator[Problem]:
    homes = [home.name for home in tenant.homes]
    if wanted.namespace and wanted.namespace not in homes:
        what = f"{shown(wanted.namespace)} is no namespace of `{tenant.name}`"
        yield Problem(what, suggestion(wanted.namespace, homes), path="--namespace")


def _notes(runtime: Runtime, tenant: Tenant, nodes: int, far: Reach, wanted: Wanted) -> Iterator[str]:
    if runtime.deprecated:
        yield f"runtime `{runtime.name}` is deprecated: ask your admins for its successor"
    if nodes > far.always:
        owned = (
            f"`{tenant.name}` always has {far.always} of these {nodes} hosts"
            if far.always
            else "all of these are borrowed"
        )
        yield f"{owned}: the job waits until others leave the rest idle, and waits again when they want it back"
    if runtime.placement and runtime.placement.required:
        place = f"one {runtime.placement.required}"
        yield f"all pods must be in {place}: if none has room for them even when it is empty, the job waits for ever"
    if wanted.is_smoke and not runtime.image:
        yield f"nothing in {runtime.family.default_image} calls MPI: this tests that ranks start, and no allreduce"
    if not wanted.is_smoke and not wanted.command:
        yield "the command is an example: pass your own after `--`"
    if wanted.command and not any(_STARTER.search(word) for word in wanted.command):
        yield f"{shown(wanted.command[0])} runs once, in the launcher: what `mpirun` starts runs on all hosts"
