"""A new TrainJob on a runtime of the platform, or the reasons why it would not run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from generator.documents.emit import BriefEmitter
from generator.documents.messages import format_value
from generator.errors import Problem, suggest
from generator.facts.devices import OTHER
from generator.facts.names import CHECKPOINT, JOB_LABEL, JOB_POLICY, OWNER
from generator.jobs import code, own_image, smoke
from generator.jobs.catalogue import Catalogue, Home, OfferedRuntime, Team
from generator.jobs.program import program
from generator.jobs.reach import JobError, Reach, fewest_hosts, others_for, reach, runtime_for, team_for
from generator.jobs.request import JobRequest, find_faults
from generator.jobs.smoke import Benchmark, smoke_command, smoke_nodes
from generator.jobs.sweep import unfilled_places, variants
from generator.jobs.train_job import train_job
from generator.manifests import Body, omit_none
from generator.objects.contract import Contract
from generator.upstream.kueue.capacity import LACKS_QUEUES


def _admission_problems(catalogue: Catalogue, home: Home, request: JobRequest) -> Iterator[Problem]:
    """Yield the problems of a job with its priority and labels: Kueue or an admission rule would not accept them."""
    declared, priority = catalogue.priorities, request.priority
    if priority and priority not in declared:
        # kueue v0.19.2: Kueue creates no Workload for an undefined class, and reports it only in its log
        message = f"the cluster has no priority {format_value(priority)}"
        yield Problem(message, suggest(priority, declared), path="--priority")
    elif catalogue.denies("priority", home) and home.priorities is not None:
        if priority and priority not in home.priorities:
            message = f"`{home.team}` cannot use the priority {format_value(priority)}"
            yield Problem(message, suggest(priority, home.priorities), path="--priority")
        elif not priority and home.needs_priority:
            message = f"`{home.team}` may use only priorities below 0, but a job without a priority has priority 0"
            yield Problem(message, f"pass --priority {home.priorities[0]}", path="--priority")
    if catalogue.denies("labels", home):
        yield from _wrong_labels(home, request.labels)


def _wrong_labels(home: Home, labels: Mapping[str, str]) -> Iterator[Problem]:
    for key, required in home.labels.items():
        given = labels.get(key, "")
        if not given:
            yield Problem(f"the platform requires the label `{key}`", f"pass --label {key}=VALUE", path="--label")
        elif required and given != required:
            message = f"the label `{key}` of `{home.team}` is `{required}`, not {format_value(given)}"
            yield Problem(message, "remove --label, or set this value", path="--label")


def job_network_policies(home: Home, train_job: Body) -> list[Body]:
    """Return the NetworkPolicy of a TrainJob if its namespace isolates jobs; else an empty list."""
    return [_policy(train_job["metadata"])] if home.isolates_jobs else []


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
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*$|.*\.py$")
_STARTER = re.compile(r"mpirun|mpiexec|prterun|orterun|horovodrun|torchrun|deepspeed")


@dataclass(frozen=True, slots=True)
class NewJob:
    """The TrainJobs of a request.

    Attributes:
        bodies: the TrainJobs: one, or the jobs of a sweep.
        others: the objects that the user creates before: the copy of a runtime with another image, the ConfigMap with
            the files, and NetworkPolicies.
        home: the namespace of the TrainJobs.
        runtimes: the runtime that they name; with another image, also the runtime of which it is a copy.
        notes: notes for their owner, as sentences.
    """

    bodies: tuple[Body, ...]
    others: tuple[Body, ...]
    home: Home
    runtimes: tuple[OfferedRuntime, ...]
    notes: tuple[str, ...]

    @property
    def body(self) -> Body:
        """The only TrainJob, or the first one of a sweep."""
        return self.bodies[0]

    @property
    def runtime(self) -> OfferedRuntime:
        """The runtime that the TrainJobs name."""
        return self.runtimes[0]

    @property
    def text(self) -> str:
        """The YAML text of `others` and `bodies`, for `kubectl create -f`."""
        return BriefEmitter().emit([*self.others, *self.bodies])

    @property
    def program(self) -> str:
        """A Python program that creates `others` and `bodies` with the Kubeflow SDK."""
        return program(self.others, self.bodies)


def new_job(catalogue: Catalogue, request: JobRequest) -> NewJob:
    """Return the TrainJob of a request, or the TrainJobs of a sweep.

    Args:
        catalogue: the cluster, from `catalogue`.
        request: the request.

    Raises:
        JobError: the API server would reject a job, Kueue would never admit it, or a part of the request would have
            no effect. The error has every reason.
    """
    runtime = runtime_for(catalogue, request.runtime, request.fabric)
    team = team_for(catalogue, runtime, request.tenant, request.namespace)
    home = _home(team, runtime, request.namespace)
    measured = _measured(runtime, request)
    has_own_image = request.image not in ("", runtime.image)
    name = request.name or _usual_name(runtime, request)
    required = {key: value for key, value in home.labels.items() if value}
    request = replace(request, labels={**required, **request.labels})
    if request.code:
        request = replace(request, mounts=(*request.mounts, code.mount(request.code, code.name_of(name))))
    faults = [*find_faults(request), *code.find_faults(request.code)]
    requests = [*variants(replace(request, matrix={}) if faults else request, name)]  # a matrix may be too large
    known = request.resources.keys() <= runtime.resources.keys()
    far = reach(catalogue, team, runtime, request.resources if known and not faults else {})
    chosen = measured.nodes if measured else request.nodes
    usual = chosen or _usual_nodes(runtime, request)
    nodes = chosen or _possible_nodes(usual, runtime, home, far)
    problems = [
        *find_name_problems(requests[-1].name),
        *_node_problems(nodes, catalogue, team, home, runtime, far),
        *faults,
        *_namespace_problems(request, team),
        *_runtime_problems(runtime, request, is_valid=not faults),
        *(own_image.find_image_problems(runtime, request.image) if has_own_image else ()),
        *_admission_problems(catalogue, home, request),
        *(smoke.benchmark_problems(measured, has_own_command=bool(request.command)) if measured else ()),
    ]
    if problems:
        raise JobError(tuple(problems))
    used = own_image.with_image(runtime, request.image, home) if has_own_image else runtime
    bodies = [
        train_job(variant, home, used, nodes=nodes, command=_command(runtime, variant, nodes, measured))
        for variant in requests
    ]
    notes = [*_notes(runtime, request), *(smoke.benchmark_notes(measured) if measured else ())]
    if nodes < usual:
        limit = f"`{team.name}` can run at most {nodes} in a job"
        notes.append(f"the job has {nodes} nodes instead of {usual}: {limit if far.can_have(usual) else far.reason}")
    notes += _contention_notes(team, nodes, far)
    others = [policy for body in bodies for policy in job_network_policies(home, body)]
    if request.code:
        others.insert(0, code.config_map(request.code, code.name_of(name), home.name, owner=request.owner))
    if has_own_image:
        others.insert(0, used.runtime.body)
    return NewJob(tuple(bodies), tuple(others), home, (used, runtime) if has_own_image else (runtime,), tuple(notes))


def _home(team: Team, runtime: OfferedRuntime, namespace: str) -> Home:
    """Return the namespace of the job: the named one, else the first one in which the team may use the runtime."""
    named = (home for home in team.homes if home.name == namespace)
    able = (home for home in team.homes if home.offers(runtime))
    return next(named, None) or next(able, team.home)


def _measured(runtime: OfferedRuntime, request: JobRequest) -> Benchmark | None:
    """Return the benchmark that a smoke test with `fabric` runs; None for other jobs."""
    contract = runtime.contract
    if not (request.is_smoke and request.fabric and contract and contract.fabric):
        return None
    link = request.link or contract.fabric.gigabits
    return Benchmark(runtime, contract, contract.fabric, link, request.nodes or smoke.BENCHMARK_HOSTS)


def _command(runtime: OfferedRuntime, request: JobRequest, nodes: int, measured: Benchmark | None) -> list[str]:
    if request.command or runtime.contract is None:
        return list(request.command)
    if measured:
        return smoke.benchmark_command(measured)
    if request.is_smoke:
        return smoke_command(runtime, runtime.contract, nodes)
    return list(runtime.contract.command)


def _usual_name(runtime: OfferedRuntime, request: JobRequest) -> str:
    if not request.is_smoke:
        return runtime.name
    return f"{runtime.name}-{'bench' if request.fabric else 'smoke'}"


def _usual_nodes(runtime: OfferedRuntime, request: JobRequest) -> int:
    return smoke_nodes(runtime) if request.is_smoke else runtime.nodes


def _possible_nodes(usual: int, runtime: OfferedRuntime, home: Home, far: Reach) -> int:
    """Return the usual number of nodes, or fewer if the team's limit or the quota of its queue is lower."""
    limits = (home.most_nodes or usual, usual if far.idle is None else far.idle)
    return max(min(usual, *limits), fewest_hosts(runtime))


def find_name_problems(name: str) -> Iterator[Problem]:
    """Yield why a name cannot be the name of a TrainJob. The problems are about the option `--name`."""
    if not _NAME.fullmatch(name):
        fix = "start with a letter, then use lower-case letters, digits and hyphens"
        yield Problem(f"{format_value(name)} cannot be the name of a TrainJob", fix, path="--name")
    elif len(name) > LONGEST_NAME:
        message = f"{format_value(name)} has {len(name)} characters, too many for the names of JobSet's pods"
        yield Problem(message, f"use at most {LONGEST_NAME} characters", path="--name")


def _node_problems(
    nodes: int, catalogue: Catalogue, team: Team, home: Home, runtime: OfferedRuntime, far: Reach
) -> Iterator[Problem]:
    fewest = fewest_hosts(runtime)
    if not far.can_have(fewest):
        message = f"`{team.name}` can run {far.idle or 'no'} pod of runtime `{runtime.name}`: {far.reason}"
        yield Problem(message, others_for(catalogue, team), path="--runtime")
    elif nodes < fewest:
        # trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy: max(numNodes - 1, 1) other hosts
        message = f"`{nodes}` is too few: the launcher pod runs ranks, and Trainer starts at least one worker pod"
        yield Problem(message, "pass 2 or more", path="--nodes")
    elif home.most_nodes and nodes > home.most_nodes:
        message = f"the API server rejects `{nodes}`: a job of `{team.name}` can use {home.most_nodes} nodes"
        yield Problem(message, f"pass {home.most_nodes} or less", path="--nodes")
    elif not far.can_have(nodes):
        fix = f"pass {far.idle} or less{_share_nics(runtime, far)}"
        yield Problem(f"Kueue never admits `{nodes}` nodes: {far.reason}", fix, path="--nodes")


def _share_nics(runtime: OfferedRuntime, far: Reach) -> str:
    """Return the end of the fix if NICs of the fabric limit the job; else an empty string."""
    fabric = runtime.contract.fabric if runtime.contract else None
    if fabric is None or not any(resource in far.reason for resource in fabric.resources):
        return ""
    if fabric.can_share:
        return f", or ask a platform admin to let more pods use a NIC with `podsPerNode` of fabric `{fabric.name}`"
    return f", or ask a platform admin to request fewer NICs in `resources` of runtime `{runtime.name}`"


def _namespace_problems(request: JobRequest, team: Team) -> Iterator[Problem]:
    homes = [home.name for home in team.homes]
    if request.namespace and request.namespace not in homes:
        message = f"`{team.name}` has no namespace {format_value(request.namespace)}"
        yield Problem(message, suggest(request.namespace, homes), path="--namespace")


def _runtime_problems(runtime: OfferedRuntime, request: JobRequest, *, is_valid: bool) -> Iterator[Problem]:
    for resource in request.resources:
        if resource not in runtime.resources:
            message = f"the pods of runtime `{runtime.name}` request no {format_value(resource)}"
            yield Problem(message, suggest(resource, runtime.resources), path="--resources")
    if request.resources and runtime.has_separate_launcher:
        # trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer
        message = f"Trainer would apply the resources to the launcher of `{runtime.name}`, which runs no ranks"
        yield Problem(message, "name a runtime whose launcher runs ranks", path="--resources")
    for resource, amount in runtime.kept_by_checks(request.resources) if is_valid else ():
        # component-helpers v0.34.2 resource/helpers.go PodRequests
        message = f"pods of `{runtime.name}` take {amount} {resource} anyway, because an init container requests them"
        yield Problem(message, f"pass {amount} or more, or name another runtime", path="--resources")
    if request.checkpoint and CHECKPOINT in runtime.environment:
        message = f"the jobs of runtime `{runtime.name}` have a claim for checkpoints already"
        yield Problem(message, f"remove --checkpoint, and save in `{CHECKPOINT}`", path="--checkpoint")
    for mount in request.volumes:
        if mount.path.rstrip("/") in runtime.mount_paths:
            message = f"the runtime `{runtime.name}` has a volume at {mount.path}, which this volume would replace"
            option = "--checkpoint" if mount is request.checkpoint else "--volume"
            yield Problem(message, "mount it at another path", path=option)
    for name in (name for name in request.downloads if name not in runtime.initializers):
        message = f"the runtime `{runtime.name}` has no {name} initializer"
        yield Problem(message, "name another runtime, or mount a claim with the files by --volume", path=f"--{name}")
    if runtime.contract is None and not request.command:
        message = f"mpigen did not generate the runtime `{runtime.name}`, so it knows no program for its image"
        yield Problem(message, "pass a command after `--`", path="COMMAND")


def _notes(runtime: OfferedRuntime, request: JobRequest) -> Iterator[str]:
    if runtime.is_deprecated:
        yield f"runtime `{runtime.name}` is deprecated: ask your platform admins for its successor"
    if runtime.required_topology:
        place = f"one {runtime.required_topology}"
        yield f"all pods must be in {place}: if the job needs more nodes than one has, Kueue never admits the job"
    if request.is_smoke and runtime.contract and not request.fabric:
        yield from _smoke_notes(runtime, runtime.contract)
    if not request.is_smoke and not request.command:
        yield "the command is an example: pass your own after `--`"
    for place in sorted(unfilled_places(request)):
        yield f"{format_value(place)} in the command stays as it is: no --matrix sets it"
    # mpi-operator build/base/Dockerfile and openmpi.Dockerfile install OpenSSH and Open MPI alone
    if runtime.has_default_image and not request.image and any(_PYTHON.match(word) for word in request.command):
        yield f"{runtime.image} has no Python: pass --image if the runtime allows one, or use another runtime"
    if request.command and not any(_STARTER.search(word) for word in request.command):
        yield f"{format_value(request.command[0])} runs only in the launcher pod: `mpirun` starts ranks in all pods"


def _smoke_notes(runtime: OfferedRuntime, contract: Contract) -> Iterator[str]:
    if runtime.has_default_image:
        yield f"{runtime.image} has no program that calls MPI: the job tests only that all ranks start"
    if contract.device == OTHER and contract.known_family.framework != "mpi":
        title, device = contract.title, contract.device_name
        yield f"the ranks sum on CPUs, because mpigen does not know how {title} uses `{device}`"


def _contention_notes(team: Team, nodes: int, far: Reach) -> Iterator[str]:
    """Yield a note if other teams can use the quota for some hosts of the job, so that it can wait or be preempted."""
    if far.unknown.endswith(LACKS_QUEUES):
        return
    if far.owned is None or far.idle is None:
        yield f"mpigen cannot compute if Kueue admits the job at once: {far.unknown or far.reason}"
    elif nodes <= far.owned:
        return
    elif far.reclaimable is None:
        yield f"mpigen cannot compute if Kueue admits the job at once: `{team.name}` can rely on {far.unknown}"
    elif nodes <= far.reclaimable:
        yield (
            f"only {far.owned} of these {nodes} nodes are always free for `{team.name}`: to free the other nodes, "
            "Kueue may preempt jobs that borrow quota"
        )
    else:
        yield (
            f"`{team.name}` can rely on {far.reclaimable} of these {nodes} nodes: the job stays pending while other "
            "queues use the other nodes, and Kueue may preempt the job when those queues need their quota"
        )
