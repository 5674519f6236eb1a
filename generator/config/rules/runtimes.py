"""Runtimes that do not fit their pool."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from generator import quantities
from generator.config.mistakes import Mistake
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime, fabric_of
from generator.errors import suggest
from generator.facts.families import FAMILIES

_Path = tuple[str | int, ...]
SHARED_GPU = "nvidia.com/gpu.shared"


def runtime_contradictions(runtime: Runtime, pool: Pool, path: _Path = ()) -> Iterator[Mistake]:
    """What a runtime asks of its pool that the pool does not have, or that Trainer would turn into something else."""
    yield from _family(path, runtime, pool)
    yield from _launcher(path, runtime)
    for resource, amount in runtime.launcher_resources.items():
        yield from _fits_a_node((*path, "launcherResources", resource), resource, amount, pool)
    for resource, amount in runtime.resources.items():
        yield from _fits_a_node((*path, "resources", resource), resource, amount, pool)
    yield from _slices(path, runtime, pool)
    yield from _numa(path, runtime, pool)
    yield from _placement(path, runtime, pool)
    yield from _fabric(path, runtime, pool)
    if runtime.locks_memory and runtime.family.mpi != "openmpi":
        # Ranks get it one by one, from a program that Open MPI starts them through; Hydra has no such place.
        what = f"`capability` with {runtime.family.title}, whose ranks cannot be given it"
        yield Mistake((*path, "memlock"), what, "raise the limit of the nodes, and leave it out")
    devices = {**pool.offered, **runtime.resources}.get(pool.accelerator, "0")
    if runtime.processes_per_node == 1 and "gpu" in pool.accelerator.lower() and quantities.parse(devices).value > 1:
        # trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go EnforceMLPolicy: 1 stands for "as many as GPUs".
        yield Mistake(
            (*path, "processesPerNode"),
            f"`1` with {devices} {pool.accelerator} on a node, which Trainer takes for {devices}",
            "ask for one device in `resources`, or leave it out",
        )


def _family(path: _Path, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    family = runtime.family
    if pool.device not in family.devices:
        fit = ", ".join(name for name, other in FAMILIES.items() if pool.device in other.devices)
        because = family.not_on.get(pool.device, "the catalogue does not offer it there")
        where = pool.accelerator or "no device"
        yield Mistake(
            (*path, "use"), f"`{family.name}` and pool `{pool.name}` with {where}: {because}", f"use one of: {fit}"
        )
    elif runtime.image is None and (pool.accelerator or not family.default_image):
        libraries = f", with the libraries of {pool.accelerator}" if pool.accelerator else ""
        yield Mistake(
            path,
            f"no `image`, and there is no public one for {family.title} on pool `{pool.name}`",
            f"name an image with OpenSSH and {family.image}{libraries}",
        )


def _slices(path: _Path, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Find hosts that would have several ranks on one GPU.

    A CUDA process sees one MIG slice. NCCL rejects two ranks of a host on one GPU: up to 2.29 always (nccl v2.29.2-1
    src/init.cc, "Duplicate GPU detected"), since 2.30 unless the experimental NCCL_MULTI_RANK_GPU_ENABLE is set
    (v2.30.7-1 src/init.cc). For NCCL each pod is a host (src/misc/utils.cc getHostHash: host name and boot id).
    """
    if pool.accelerator == SHARED_GPU and runtime.family.framework != "mpi":
        yield from _shared(path, runtime, pool)
    if pool.device != "nvidia-mig":
        return
    asked = runtime.resources.get(pool.accelerator, "1")
    if quantities.parse(asked).value > 1:
        what = f"`{asked}` slices in one pod, of which a process sees only one"
        yield Mistake((*path, "resources", pool.accelerator), what, "ask for one, and let jobs ask for more nodes")
    if (runtime.processes_per_node or 1) > 1:
        what = f"`{runtime.processes_per_node}` ranks on one slice"
        yield Mistake((*path, "processesPerNode"), what, "leave it out, and let jobs ask for more nodes")


def _shared(path: _Path, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Find hosts with several shares of GPUs, which may be of the same GPU.

    NVIDIA/k8s-device-plugin README.md, Shared Access to GPUs: two shares do not mean two GPUs, nor more of one.
    """
    asked = runtime.resources.get(pool.accelerator, pool.offered[pool.accelerator])
    if quantities.parse(asked).value > 1:
        what = f"`{asked}` shares in one pod, which may all be of one GPU: NCCL then rejects its ranks"
        key = (*path, "resources", pool.accelerator) if pool.accelerator in runtime.resources else path
        yield Mistake(key, what, f"write `resources: {{{pool.accelerator}: 1}}`, and let jobs ask for more nodes")
    if (runtime.processes_per_node or 1) > 1:
        what = f"`{runtime.processes_per_node}` ranks on one share of a GPU"
        yield Mistake((*path, "processesPerNode"), what, "leave it out, and let jobs ask for more nodes")


def _numa(path: _Path, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Find hosts with devices of several sockets, where the kubelet only admits pods of a single NUMA node.

    kubernetes v1.34.2 pkg/kubelet/cm/topologymanager/policy_single_numa_node.go: a hint of two nodes is left out. A
    socket has one NUMA node or several.
    """
    fabric = pool.wiring
    if not fabric or fabric.nodes.numa != "single-numa-node" or not pool.accelerator:
        return
    sockets = fabric.known_server.sockets if fabric.known_server else None
    there = quantities.parse(pool.offered[pool.accelerator]).value
    devices = quantities.parse(runtime.resources.get(pool.accelerator, pool.devices_per_host)).value
    if sockets and devices > ceil(there / sockets):
        what = f"hosts take {devices} of {there} {pool.accelerator}, which are on {sockets} sockets"
        rejected = f"with `numa: single-numa-node` of `{fabric.name}` the kubelet rejects them (TopologyAffinityError)"
        key = (*path, "resources", pool.accelerator) if pool.accelerator in runtime.resources else path
        yield Mistake(key, f"{what}: {rejected}", "write `numa: restricted`, or let each host take fewer devices")


def _launcher(path: _Path, runtime: Runtime) -> Iterator[Mistake]:
    if runtime.launcher == "node" and runtime.family.rank_variables:
        yield Mistake(
            (*path, "launcher"),
            "`node`, where rank 0 is on the launcher with Open MPI 4 and on a node with Open MPI 5",
            "write separate, or leave it out",
        )
    if runtime.launcher_resources and not runtime.has_separate_launcher:
        yield Mistake(
            (*path, "launcherResources"),
            "the launcher is a node, and asks for what every node asks for",
            "add `launcher: separate`, or remove it",
        )


def _fits_a_node(path: _Path, resource: str, amount: str, pool: Pool) -> Iterator[Mistake]:
    if resource not in pool.offered:
        fix = suggest(resource, pool.offered)
        yield Mistake(path, f"nodes of pool `{pool.name}` have no {resource}", fix, is_of_key=True)
    elif quantities.parse(amount).value > quantities.parse(pool.offered[resource]).value:
        yield Mistake(
            path,
            f"`{amount}` is more than the {pool.offered[resource]} that a node of pool `{pool.name}` has",
            "ask for at most what one node offers",
        )


def _placement(path: _Path, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Kueue has no flavor for a job that asks for a level which no topology has."""
    if runtime.placement is None or runtime.placement.level in pool.topology:
        return
    if pool.topology:
        what = f"pool `{pool.name}` has no level `{runtime.placement.level}`"
        yield Mistake((*path, "placement"), what, suggest(runtime.placement.level, pool.topology))
    else:
        what, fix = f"pool `{pool.name}` has no topology", f"leave it out, or give `{pool.name}` its `topology`"
        yield Mistake((*path, "placement"), what, fix)


def _fabric(path: _Path, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """What the pool's fabric cannot give to this runtime, or what the family cannot make of it."""
    fabric = fabric_of(runtime, pool)
    if fabric is None:
        if runtime.fabric == "none" and pool.fabric is None:
            yield Mistake((*path, "fabric"), f"`none`, and pool `{pool.name}` has no fabric", "leave it out")
        return
    if fabric.has_rdma and pool.device == "cpu" and runtime.family.name in ("pytorch-mpi", "deepspeed"):
        # torch docs/source/distributed.md: on CPUs its backend is Gloo, which knows TCP alone.
        what = f"{runtime.family.title} on CPUs sends by TCP, whatever `{fabric.name}` is"
        yield Mistake(path, what, "add `fabric: none`")
    asked = {resource: runtime.resources.get(resource, str(amount)) for resource, amount in fabric.requests.items()}
    if asked and not any(quantities.parse(amount).value for amount in asked.values()):
        what = f"nothing of the fabric `{fabric.name}`, which its ranks would wait for"
        yield Mistake((*path, "resources"), what, "write `fabric: none`, or ask for a device of it")
    for resource, amount in fabric.requests.items():
        if fabric.attached == "dra" and asked[resource] != str(amount):
            what = f"`{asked[resource]}`, and a claim of `{fabric.name}` is for {amount}"
            yield Mistake((*path, "resources", resource), what, "leave it out")
