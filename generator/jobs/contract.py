"""The contract of a runtime: the ranks, resources and variables of a job, and the programs that its image needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from generator.config.model.devices import DeviceType
from generator.config.model.runtimes import HOME, Runtime
from generator.facts.devices import OTHER, DeviceKind
from generator.facts.families import FAMILIES, MPI, Family
from generator.facts.names import SSH_PORT
from generator.jobs.catalogue import Catalogue, OfferedRuntime
from generator.jobs.reach import Reach, offers, reaches
from generator.quantities import ZERO
from generator.runtimes.hosts import DEFAULT_USER, NodeSize
from generator.runtimes.training_runtime import launcher_environment

Facts = dict[str, Any]
Topics = Iterator[tuple[str, str]]
"""Pairs (topic, text), for the text output of commands."""

_RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def family_facts(family: Family) -> Facts:
    """Return the contract of an MPI family as JSON data."""
    return {
        "name": family.name,
        "title": family.title,
        "like": family.like,
        "mpi": mpi_versions(family),
        "devices": list(family.devices),
        "notOn": dict(family.not_on),
        "unproven": dict(family.unproven),
        "launcher": "separate" if family.rank_variables else "node",
        "image": family.image,
        "defaultImage": family.default_image,
        "defaultImageDevices": list(family.default_image_devices),
        "rankVariables": list(_rank_variables(family)),
        "command": list(family.command),
        "limits": list(_limits(family)),
    }


def device_facts(entry: DeviceType) -> Facts:
    """Return a device type of the platform file as JSON data. `most` is 0 if it is unknown."""
    device = entry.device
    return {
        "name": device.name,
        "title": device.title,
        "resource": device.offered,
        "like": entry.like or "",
        "most": device.most,
        "environment": dict(device.environment),
    }


def runtime_facts(catalogue: Catalogue, runtime: OfferedRuntime) -> Facts:
    """Return the contract of a cluster's runtime as JSON data."""
    contract = runtime.contract
    return {
        "name": runtime.name,
        "family": contract.family if contract else "",
        "pool": contract.pool if contract else "",
        "device": contract.device_name if contract else "",
        "image": runtime.image,
        "images": [*runtime.images],
        "nodes": runtime.nodes,
        "ranksPerNode": runtime.slots,
        "threadsPerRank": runtime.threads,
        "resources": dict(runtime.resources),
        "sharedMemory": runtime.shared_memory,
        "launcher": "separate" if runtime.has_separate_launcher else "node",
        "launcherResources": dict(runtime.launcher_resources),
        "environment": dict(runtime.environment),
        "volumes": dict(runtime.volumes),
        "tenants": sorted(
            team.name for team in catalogue.teams.values() if runtime.namespaces and offers(team, runtime)
        ),
        "hosts": _hosts(catalogue, runtime),
        "deprecated": runtime.is_deprecated,
    }


def mpi_versions(family: Family) -> str:
    """Return the name and the versions of a family's MPI."""
    return FAMILIES[family.mpi].image


def describe_family(family: Family) -> Topics:
    """Yield the contract of an MPI family as (topic, text)."""
    yield "family", f"{family.name}: {family.title}{f', like {family.like}' if family.like else ''}"
    yield "devices", ", ".join(family.devices)
    for device, why in family.not_on.items():
        yield "devices", f"not {device}: {why}"
    for device, why in family.unproven.items():
        yield "devices", f"{device} is unproven: {why}"
    pools = "" if family.own_image else "on CPU pools "
    default = f"; {pools}{family.default_image}, if you name none" if family.default_image else ""
    yield "image", f"must have {family.image}, a shell, ssh and /usr/sbin/sshd{default}"
    if family.rank_variables:
        yield "launcher", "a small separate pod without devices; numNodes counts the worker pods"
    else:
        yield "launcher", "a pod that runs ranks and is one of numNodes (2 or more); if separate, a small pod"
    cpus = "one" if family.cpu_ranks else "one for each whole CPU"
    yield "ranks", f"one for each device; on CPU nodes {cpus}, unless processesPerNode is set"
    yield "ranks", f"read their rank from {', '.join(_rank_variables(family))}"
    yield "variables", "all variables of the launcher reach all ranks: trainer.env of a TrainJob, `environment`, and"
    yield "variables", ", ".join(_variables(family))
    yield "pods", f"run as user {DEFAULT_USER}, on OpenShift as the user of the namespace, never as root"
    yield "pods", f"can write to {HOME}, /tmp and /dev/shm, which start empty, and to your volumes"
    yield "pods", f"listen on port {SSH_PORT} (sshd); ranks connect to any port of the tenant's other pods"
    for limit in _limits(family):
        yield "limits", limit
    yield "example", " ".join(family.command)
    yield "options", ", ".join(_options(family))


def describe_runtime(catalogue: Catalogue, runtime: OfferedRuntime) -> Topics:
    """Yield the contract of a cluster's runtime as (topic, text), without the text of `describe_family`."""
    facts = runtime_facts(catalogue, runtime)
    yield "runtime", f"{runtime.name}{', deprecated' if runtime.is_deprecated else ''}"
    if runtime.contract:
        yield "pool", f"{facts['pool']} ({facts['device']})"
    yield "image", facts["image"]
    if runtime.images:
        yield "image", f"or, with --image, {' or '.join(runtime.images)}"
    ranks, cores = facts["ranksPerNode"], facts["threadsPerRank"]
    host_ranks = f"{ranks} {'rank' if ranks == 1 else 'ranks'} on each"
    rank_cores = f"{cores} {'core' if cores == 1 else 'cores'} for a rank"
    yield "hosts", f"{facts['nodes']} by default, {host_ranks}, {rank_cores}"
    yield "hosts", f"each takes {in_words(facts['resources'])}, /dev/shm {facts['sharedMemory']}"
    if runtime.has_separate_launcher:
        yield "launcher", f"separate: {in_words(facts['launcherResources'])}"
    for path, content in facts["volumes"].items():
        yield "volumes", f"{path}: {content}"
    for tenant, hosts in facts["hosts"].items():
        yield "tenants", f"{tenant}: {_largest(hosts)}"


def in_words(resources: Mapping[str, str]) -> str:
    """Format resources: `14 cpu, 57Gi memory`."""
    return ", ".join(f"{amount} {resource}" for resource, amount in resources.items())


def _hosts(catalogue: Catalogue, runtime: OfferedRuntime) -> Facts:
    """Return tenant → the sizes of its largest jobs in hosts; tenants that can run none are omitted."""
    able = [team for team in catalogue.teams.values() if offers(team, runtime)]
    far = reaches(catalogue, able, runtime)
    return {name: _numbers(largest) for name, largest in far.items() if largest.idle != 0}


def _numbers(far: Reach) -> Facts:
    unknown = {"unknown": far.reason if far.idle is None else far.unknown}
    numbers = {"owned": far.owned, "reclaimable": far.reclaimable, "idle": far.idle}
    return {**numbers, **(unknown if None in numbers.values() else {})}


def _largest(hosts: Mapping[str, Any]) -> str:
    """Format the sizes of a tenant's largest jobs: without preemption, with it, and while other queues are idle."""
    owned, reclaimable, idle = hosts["owned"], hosts["reclaimable"], hosts["idle"]
    if idle is None:
        return f"{hosts['unknown']}"
    if owned == idle:
        return f"{idle} hosts"
    texts = [] if owned is None else [f"{owned} hosts without preemption"]
    if owned is not None and reclaimable is not None and reclaimable > owned:
        texts.append(f"{reclaimable} with it")
    if reclaimable != idle:
        texts.append(f"{idle}{'' if texts else ' hosts'} while other queues are idle")
    unknown = "" if reclaimable is not None else f"; {'with preemption ' if texts[1:] else ''}{hosts['unknown']}"
    return ", ".join(texts) + unknown


def _rank_variables(family: Family) -> tuple[str, ...]:
    return _RANK_VARIABLES if family.rank_variables else MPI[family.mpi].rank_variables


def _limits(family: Family) -> Iterator[str]:
    yield from family.limits
    if "nvidia-mig" in family.devices:
        yield "on MIG slices, a pod has one slice, because a CUDA process sees only one: add nodes for more ranks"
    yield "a job keeps its size: elastic training is not supported"
    # trainer v2.3.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer: both apply to the job of the
    # `trainer` step only.
    yield "trainer.image of a TrainJob would reach the launcher only: declare a runtime for each image"
    if family.rank_variables:
        yield "resourcesPerNode of a TrainJob would change the launcher only"


def _variables(family: Family) -> list[str]:
    """Return the names of the variables that mpigen sets for a family, on the first device of mpigen in its list.

    Without such a device, on a device that mpigen does not know.
    """
    runtime = Runtime(name="any", use=family.name, pool="any").with_family([family])
    device = next((kind for kind in get_args(DeviceKind) if kind in family.devices), OTHER)
    return list(launcher_environment(runtime, NodeSize(1, {}, ZERO), device))


def _options(family: Family) -> list[str]:
    left_out = {"name", "use", "pool", *(("launcher",) if family.rank_variables else ())}
    fields = Runtime.model_fields.items()
    return [field.alias or name for name, field in fields if name not in left_out]
