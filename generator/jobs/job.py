"""A new TrainJob on a runtime of the platform, or the reasons why it would not run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime, fabric_of
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.documents.messages import format_value
from generator.errors import Problem, suggest
from generator.facts.devices import OTHER
from generator.facts.names import JOB_LABEL, JOB_POLICY, OWNER
from generator.jobs import code, smoke
from generator.jobs.reach import JobError, Reach, fewest_hosts, others_for, reach, runtime_for, tenant_for
from generator.jobs.request import Request, find_faults
from generator.jobs.smoke import Benchmark, smoke_command, smoke_nodes
from generator.jobs.sweep import unfilled_places, variants
from generator.jobs.train_job import train_job
from generator.manifests import Body, omit_none
from generator.runtimes.hosts import DEFAULT_HOSTS


def _admission_problems(
    platform: Platform, tenant: Tenant, *, labels: Mapping[str, str], priority: str
) -> Iterator[Problem]:
    """Yield the problems of a job with its priority and labels: Kueue or an admission rule would not accept them."""
    denied = {rule for rule in ("labels", "priority") if platform.policies.admission.action(rule) == "deny"}
    declared = [declaration.name for declaration in platform.queues.priorities]
    if priority and priority not in declared:
        # kueue v0.19.2: Kueue creates no Workload for an undefined class, and reports it only in its log
        message = f"the platform has no priority {format_value(priority)}"
        yield Problem(message, suggest(priority, declared), path="--priority")
    elif "priority" in denied:
        usable = platform.queues.priorities_of(tenant.name, tenant.priorities)
        names = [row.name for row in usable]
        if priority and priority not in names:
            message = f"`{tenant.name}` cannot use the priority {format_value(priority)}"
            yield Problem(message, suggest(priority, names), path="--priority")
        elif not priority and usable and all(row.value < 0 for row in usable):
            message = f"`{tenant.name}` may use only priorities below 0, but a job without a priority has priority 0"
            yield Problem(message, f"pass --priority {names[0]}", path="--priority")
    if "labels" in denied:
        yield from _wrong_labels(platform, tenant, labels)


def _wrong_labels(platform: Platform, tenant: Tenant, labels: Mapping[str, str]) -> Iterator[Problem]:
    for key in platform.policies.labels:
        required, given = tenant.labels.get(key, ""), labels.get(key, "")
        if not given:
            yield Problem(f"the platform requires the label `{key}`", f"pass --label {key}=VALUE", path="--label")
        elif required and given != required:
            message = f"the label `{key}` of `{tenant.name}` is `{required}`, not {format_value(given)}"
            yield Problem(message, "remove --label, or set this value", path="--label")


def job_network_policies(platform: Platform, train_job: Body) -> list[Body]:
    """Return the NetworkPolicy of a TrainJob if the platform isolates jobs; else an empty list."""
    return [_policy(train_job["metadata"])] if platform.isolation.unit == "job" else []


def _policy(job: Body) -> Body:
    pods = {"matchLabels": {JOB_LABEL: job["name"]}}
    owner = {key: value for key, value in job.get("annotations", {}).items() if key == OWNER}
    return omit_none(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "name": f"{JOB_POLICY}{job['name']}",
                "namespace": job["namespace"],
                "annotations": owner or None,
            },
            "spec": {
                "podSelector": pods,
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"from": [{"podSelector": pods}]}],
                "egress": [{"to": [{"podSelector": pods}]}],
            },
        }
    )


# jobset v0.12.0 pkg/webhooks/jobset_webhook.go: pods are called `<name>-launcher-0-0-abcde`, in at most 63 characters.
LONGEST_NAME = 63 - len("-launcher-0-0-abcde")
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_STARTER = re.compile(r"mpirun|mpiexec|prterun|orterun|horovodrun|torchrun|deepspeed")


@dataclass(frozen=True, slots=True)
class Job:
    """The TrainJobs of a request as `bodies`, with their tenant, their runtime, and notes for their owner.

    `others` are the objects that the user creates before: the ConfigMap with the files, and NetworkPolicies.
    """

    bodies: tuple[Body, ...]
    others: tuple[Body, ...]
    tenant: Tenant
    runtime: Runtime
    notes: tuple[str, ...]

    @property
    def body(self) -> Body:
        """The only TrainJob, or the first one of a sweep."""
        return self.bodies[0]


def new_job(platform: Platform, request: Request) -> Job:
    """Return the TrainJob of a request, or the TrainJobs of a sweep.

    Raises:
        JobError: the API server would reject a job, Kueue would never admit it, or a part of the request would have
            no effect. The error has every reason.
    """
    runtime = runtime_for(platform, request.runtime, request.fabric)
    tenant = tenant_for(platform, runtime, request.tenant)
    measured = _measured(platform, runtime, request)
    name = request.name or _usual_name(runtime, request)
    required = {key: tenant.labels[key] for key in platform.policies.labels if key in tenant.labels}
    request = replace(request, labels={**required, **request.labels})
    if request.code:
        request = replace(request, mounts=(*request.mounts, code.mount(request.code, code.name_of(name))))
    faults = [*find_faults(request), *code.find_faults(request.code)]
    requests = [*variants(replace(request, matrix={}) if faults else request, name)]  # a matrix may be too large
    far = reach(platform, tenant, runtime)
    chosen = measured.nodes if measured else request.nodes
    usual = chosen or _usual_nodes(runtime, request)
    nodes = chosen or _possible_nodes(usual, runtime, tenant, far)
    problems = [
        *find_name_problems(requests[-1].name),
        *_node_problems(nodes, platform, tenant, runtime, far),
        *faults,
        *_namespace_problems(request, tenant),
        *_admission_problems(platform, tenant, labels=request.labels, priority=request.priority),
        *(smoke.benchmark_problems(measured, has_own_command=bool(request.command)) if measured else ()),
    ]
    if problems:
        raise JobError(tuple(problems))
    bodies = [
        train_job(
            variant,
            platform,
            tenant,
            runtime,
            nodes=nodes,
            command=_command(platform, runtime, variant, nodes, measured),
        )
        for variant in requests
    ]
    notes = [
        *_notes(runtime, platform.pool(runtime.pool), request),
        *(smoke.benchmark_notes(measured) if measured else ()),
    ]
    if nodes < usual:
        limit = f"`{tenant.name}` can run at most {nodes} in a job"
        notes.append(f"the job has {nodes} nodes instead of {usual}: {limit if far.can_have(usual) else far.reason}")
    notes += _contention_notes(tenant, nodes, far)
    others = [policy for body in bodies for policy in job_network_policies(platform, body)]
    if request.code:
        home = request.namespace or tenant.name
        others.insert(0, code.config_map(request.code, code.name_of(name), home, owner=request.owner))
    return Job(tuple(bodies), tuple(others), tenant, runtime, tuple(notes))


def _measured(platform: Platform, runtime: Runtime, request: Request) -> Benchmark | None:
    """Return the benchmark that a smoke test with `fabric` runs; None for other jobs."""
    pool = platform.pool(runtime.pool)
    fabric = fabric_of(runtime, pool) if request.is_smoke and request.fabric else None
    if fabric is None:
        return None
    link = request.link or (fabric.known_server.link if fabric.known_server else 0)
    return Benchmark(runtime, pool, fabric, link, request.nodes or smoke.BENCHMARK_HOSTS)


def _command(
    platform: Platform, runtime: Runtime, request: Request, nodes: int, measured: Benchmark | None
) -> list[str]:
    if request.command:
        return list(request.command)
    if measured:
        return smoke.benchmark_command(measured)
    if request.is_smoke:
        return smoke_command(runtime, platform.pool(runtime.pool), nodes)
    return list(runtime.family.command)


def _usual_name(runtime: Runtime, request: Request) -> str:
    if not request.is_smoke:
        return runtime.name
    return f"{runtime.name}-{'bench' if request.fabric else 'smoke'}"


def _usual_nodes(runtime: Runtime, request: Request) -> int:
    return smoke_nodes(runtime) if request.is_smoke else runtime.nodes or DEFAULT_HOSTS


def _possible_nodes(usual: int, runtime: Runtime, tenant: Tenant, far: Reach) -> int:
    """Return the usual number of nodes, or fewer if the tenant's limit or the quota of its queue is lower."""
    limits = (tenant.limits.hosts_per_job or usual, usual if far.idle is None else far.idle)
    return max(min(usual, *limits), fewest_hosts(runtime))


def find_name_problems(name: str) -> Iterator[Problem]:
    """Yield why a name cannot be the name of a TrainJob. The problems are about the option `--name`."""
    if not _NAME.fullmatch(name):
        fix = "start with a letter, then use lower-case letters, digits and hyphens"
        yield Problem(f"{format_value(name)} cannot be the name of a TrainJob", fix, path="--name")
    elif len(name) > LONGEST_NAME:
        message = f"{format_value(name)} has {len(name)} characters, too many for the names of JobSet's pods"
        yield Problem(message, f"use at most {LONGEST_NAME} characters", path="--name")


def _node_problems(nodes: int, platform: Platform, tenant: Tenant, runtime: Runtime, far: Reach) -> Iterator[Problem]:
    fewest = fewest_hosts(runtime)
    if not far.can_have(fewest):
        message = f"`{tenant.name}` can run {far.idle or 'no'} pod of runtime `{runtime.name}`: {far.reason}"
        yield Problem(message, others_for(platform, tenant), path="--runtime")
    elif nodes < fewest:
        # trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy: max(numNodes - 1, 1) other hosts
        message = f"`{nodes}` is too few: the launcher pod runs ranks, and Trainer starts at least one worker pod"
        yield Problem(message, "pass 2 or more", path="--nodes")
    elif tenant.limits.hosts_per_job and nodes > tenant.limits.hosts_per_job:
        message = (
            f"the API server rejects `{nodes}`: a job of `{tenant.name}` can use {tenant.limits.hosts_per_job} nodes"
        )
        yield Problem(message, f"pass {tenant.limits.hosts_per_job} or less", path="--nodes")
    elif not far.can_have(nodes):
        fix = f"pass {far.idle} or less{_share_nics(platform, runtime, far)}"
        yield Problem(f"Kueue never admits `{nodes}` nodes: {far.reason}", fix, path="--nodes")


def _share_nics(platform: Platform, runtime: Runtime, far: Reach) -> str:
    """Return the end of the fix if NICs of the fabric limit the job; else an empty string."""
    fabric = fabric_of(runtime, platform.pool(runtime.pool))
    if fabric is None or not any(resource in far.reason for resource in fabric.requests):
        return ""
    if fabric.can_share_nics:
        return f", or ask a platform admin to let more pods use a NIC with `podsPerNode` of fabric `{fabric.name}`"
    return f", or ask a platform admin to request fewer NICs in `resources` of runtime `{runtime.name}`"


def _namespace_problems(request: Request, tenant: Tenant) -> Iterator[Problem]:
    homes = [home.name for home in tenant.homes]
    if request.namespace and request.namespace not in homes:
        message = f"`{tenant.name}` has no namespace {format_value(request.namespace)}"
        yield Problem(message, suggest(request.namespace, homes), path="--namespace")


def _notes(runtime: Runtime, pool: Pool, request: Request) -> Iterator[str]:
    if runtime.deprecated:
        yield f"runtime `{runtime.name}` is deprecated: ask your platform admins for its successor"
    if runtime.placement and runtime.placement.required:
        place = f"one {runtime.placement.required}"
        yield f"all pods must be in {place}: if the job needs more nodes than one has, Kueue never admits the job"
    if request.is_smoke and not runtime.declared_image and not request.fabric:
        yield f"{runtime.family.default_image} has no program that calls MPI: the job tests only that all ranks start"
    if request.is_smoke and pool.device == OTHER and runtime.family.framework != "mpi":
        title, device = runtime.family.title, pool.device_name
        yield f"the ranks sum on CPUs, because mpigen does not know how {title} uses `{device}`"
    if not request.is_smoke and not request.command:
        yield "the command is an example: pass your own after `--`"
    for place in sorted(unfilled_places(request)):
        yield f"{format_value(place)} in the command stays as it is: no --matrix sets it"
    if request.command and not any(_STARTER.search(word) for word in request.command):
        yield f"{format_value(request.command[0])} runs only in the launcher pod: `mpirun` starts ranks in all pods"


def _contention_notes(tenant: Tenant, nodes: int, far: Reach) -> Iterator[str]:
    """Yield a note if other teams can use the quota for some hosts of the job, so that it can wait or be preempted."""
    if far.owned is None or far.idle is None:
        yield f"mpigen cannot compute if Kueue admits the job at once: {far.unknown or far.reason}"
    elif nodes <= far.owned:
        return
    elif far.reclaimable is None:
        yield f"mpigen cannot compute if Kueue admits the job at once: `{tenant.name}` can rely on {far.unknown}"
    elif nodes <= far.reclaimable:
        yield (
            f"only {far.owned} of these {nodes} nodes are always free for `{tenant.name}`: to free the other nodes, "
            "Kueue may preempt jobs that borrow quota"
        )
    else:
        yield (
            f"`{tenant.name}` can rely on {far.reclaimable} of these {nodes} nodes: the job stays pending while other "
            "queues use the other nodes, and Kueue may preempt the job when those queues need their quota"
        )
