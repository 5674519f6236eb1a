"""The rules about a runtime on its pool: requests beyond a node, unsupported MPI families, and unusable fabrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil

from generator.config.mistakes import Mistake
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import Steps
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime, fabric_of
from generator.config.rules.rule import PartialPlatform, lacks_fabric, rule
from generator.errors import suggest
from generator.facts.devices import OTHER
from generator.facts.families import FAMILIES
from generator.quantities import ZERO, Quantity

_SHARED_GPU = "nvidia.com/gpu.shared"
_GLOO_FAMILIES = ("pytorch-mpi", "deepspeed")
_ONE = Quantity(Fraction(1))
_MORE_NODES = "and let jobs request more nodes"


RuntimeRule = Callable[[Steps, Runtime, Pool], Iterator[Mistake]]
_RULES: list[RuntimeRule] = []
_FAMILY_RULES: list[RuntimeRule] = []


def runtime_rule(function: RuntimeRule) -> RuntimeRule:
    """Register a function as a rule of a runtime on its pool."""
    _RULES.append(function)
    return function


def family_rule(function: RuntimeRule) -> RuntimeRule:
    """Register a function as a rule of a runtime on its pool, for runtimes whose family is known."""
    _FAMILY_RULES.append(function)
    return runtime_rule(function)


@rule
def runtimes_on_pools(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report the mistakes of each runtime whose pool is valid. The `runtime_rule` functions find them."""
    for index, runtime in platform.runtimes.items():
        yield from find_runtime_mistakes(runtime, *platform.pools_named(runtime.pool), path=("runtimes", index))


def find_runtime_mistakes(runtime: Runtime, *pools: Pool, path: Steps = ()) -> Iterator[Mistake]:
    """Yield the mistakes of a runtime on its pool. The path of each mistake begins with `path`.

    `duplicate_names` reports several pools of one name. A runtime is certainly wrong if it is wrong on each of them.
    """
    known = _RULES if runtime.has_family else [check for check in _RULES if check not in _FAMILY_RULES]
    for check in known if pools else ():
        mistakes, *others = [[*check(path, runtime, pool)] for pool in pools]
        wrong = [{mistake.path for mistake in other} for other in others]
        yield from (mistake for mistake in mistakes if all(mistake.path in paths for paths in wrong))


@family_rule
def _family_on_pool(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report an MPI family that does not run on the devices of the pool, and a missing image."""
    family = runtime.family
    if not pool.runs(family.devices):
        fitting = ", ".join(name for name, other in FAMILIES.items() if pool.runs(other.devices))
        unknown = (
            "mpigen does not know this device" if pool.device == OTHER else "mpigen does not support this combination"
        )
        reason = family.not_on.get(pool.device, unknown)
        device = pool.accelerator or "no accelerator"
        message = f"`{family.name}` does not run on pool `{pool.name}` with {device}: {reason}"
        fix = f"use one of: {fitting}"
        if pool.own_device:
            fix = f"{fix}; or list `{pool.device_name}` in `devices` of an entry of `families`"
        yield Mistake((*path, "use"), message, fix)
    elif runtime.image is None and not pool.runs(family.default_image_devices):
        libraries = f", with the libraries of {pool.accelerator}" if pool.accelerator else ""
        message = f"`image` is missing, and {family.title} on pool `{pool.name}` has no default image"
        yield Mistake(path, message, f"name an image with OpenSSH and {family.image}{libraries}")


@family_rule
def _launcher_settings(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report `launcher: node` for a family whose rank 0 can be on a different host, and useless `launcherResources`."""
    del pool
    if runtime.launcher == "node" and runtime.family.rank_variables:
        message = "with `launcher: node`, Open MPI 4 runs rank 0 on the launcher, but Open MPI 5 on a different host"
        yield Mistake((*path, "launcher"), message, "write `separate`, or remove this field")
    if runtime.launcher_resources and not runtime.has_separate_launcher:
        message = "`launcherResources` has no effect: the launcher runs in a worker pod, with the requests of this pod"
        yield Mistake((*path, "launcherResources"), message, "add `launcher: separate`, or remove this field")


@runtime_rule
def _requests_on_node(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report requests that no node of the pool can satisfy."""
    for field, resources in (("launcherResources", runtime.launcher_resources), ("resources", runtime.resources)):
        for resource, amount in resources.items():
            offered = pool.offered.get(resource)
            if offered is None and lacks_fabric(pool) and resource not in ("cpu", "memory"):
                continue
            if offered is None:
                fix = suggest(resource, pool.offered)
                if not fix.startswith("did you mean"):
                    fix = f"request only {' and '.join(sorted(pool.offered))} in this pool, or choose another pool"
                message = f"nodes of pool `{pool.name}` have no {resource}"
                yield Mistake((*path, field, resource), message, fix, is_of_key=True)
            elif amount.value > offered.value:
                message = f"`{amount}` is more than the {offered} that a node of pool `{pool.name}` offers to jobs"
                yield Mistake((*path, field, resource), message, f"write at most {offered}")


@runtime_rule
def _ranks_per_mig_slice(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report pods with several MIG slices, and several ranks on one MIG slice.

    A CUDA process sees one MIG slice. NCCL rejects two ranks of a host on one GPU: up to 2.29 always (nccl v2.29.2-1
    src/init.cc, "Duplicate GPU detected"), since 2.30 unless the experimental NCCL_MULTI_RANK_GPU_ENABLE is set
    (v2.30.7-1 src/init.cc). For NCCL each pod is a host (src/misc/utils.cc getHostHash: host name and boot id).
    """
    if pool.device != "nvidia-mig":
        return
    slices = runtime.resources.get(pool.accelerator, _ONE)
    if slices.value > 1:
        message = f"a pod gets `{slices}` MIG slices, but a CUDA process uses only one"
        yield Mistake((*path, "resources", pool.accelerator), message, f"request one slice, {_MORE_NODES}")
    if (runtime.processes_per_node or 1) > 1:
        message = f"`{runtime.processes_per_node}` ranks would use one MIG slice, which NCCL rejects"
        yield Mistake((*path, "processesPerNode"), message, f"remove this field, {_MORE_NODES}")


@family_rule
def _ranks_per_shared_gpu(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report pods with several GPU shares, and several ranks on one share, if ranks communicate by NCCL.

    Two shares of a pod can belong to the same GPU, and NCCL rejects two ranks on one GPU. Families without a framework,
    which run plain MPI programs, are not reported.

    Source: NVIDIA/k8s-device-plugin README.md, Shared Access to GPUs: two shares can be of one GPU.
    """
    if pool.accelerator != _SHARED_GPU or runtime.family.framework == "mpi":
        return
    shares = runtime.resources.get(pool.accelerator, pool.offered[pool.accelerator])
    if shares.value > 1:
        message = f"the `{shares}` GPU shares of a pod can belong to the same GPU, and NCCL then rejects the ranks"
        fix = f"write `resources: {{{pool.accelerator}: 1}}`, {_MORE_NODES}"
        yield Mistake(_path_of_devices(path, runtime, pool), message, fix)
    if (runtime.processes_per_node or 1) > 1:
        message = f"`{runtime.processes_per_node}` ranks would use one share of a GPU, which NCCL rejects"
        yield Mistake((*path, "processesPerNode"), message, f"remove this field, {_MORE_NODES}")


@runtime_rule
def _devices_per_numa_node(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report pods that need devices of several sockets, on nodes whose kubelet only admits pods of one NUMA node.

    Source: kubernetes v1.34.2 pkg/kubelet/cm/topologymanager/policy_single_numa_node.go filterSingleNumaHints: the
    kubelet drops hints of
    several NUMA nodes. A socket has one NUMA node or several. The rule needs a fabric with `server`.
    """
    fabric = pool.wiring
    if not fabric or fabric.nodes.numa != "single-numa-node" or not pool.accelerator:
        return
    sockets = fabric.known_server.sockets if fabric.known_server else None
    available = pool.offered[pool.accelerator].value
    requested = runtime.resources.get(pool.accelerator, pool.devices_per_host).value
    if sockets and requested > ceil(available / sockets):
        message = (
            f"a worker pod requests {requested} of the {available} {pool.accelerator} on {sockets} sockets of a node; "
            f"with `numa: single-numa-node` of fabric `{fabric.name}` the kubelet rejects it (TopologyAffinityError)"
        )
        fix = "set `numa: restricted` in the fabric, or request fewer devices per pod"
        yield Mistake(_path_of_devices(path, runtime, pool), message, fix)


def _path_of_devices(path: Steps, runtime: Runtime, pool: Pool) -> Steps:
    return (*path, "resources", pool.accelerator) if pool.accelerator in runtime.resources else path


@runtime_rule
def _placement_in_topology(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report a placement at a level that the pool's topology lacks: Kueue then finds no flavor for the job."""
    if runtime.placement is None or runtime.placement.level in pool.topology:
        return
    if pool.topology:
        message = f"the topology of pool `{pool.name}` has no level `{runtime.placement.level}`"
        fix = suggest(runtime.placement.level, pool.topology)
    else:
        message, fix = f"pool `{pool.name}` has no topology", f"remove this field, or set `topology` of `{pool.name}`"
    yield Mistake((*path, "placement"), message, fix)


@family_rule
def _fabric_of_ranks(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report a runtime that cannot use the fabric of its pool, and `fabric: none` on a pool without a fabric.

    With `attach: dra`, also report `resources` that differ from the devices in a claim of the fabric.
    """
    fabric = fabric_of(runtime, pool)
    if fabric is not None:
        yield from _check_fabric(path, runtime, pool, fabric)
    elif runtime.fabric == "none" and pool.fabric is None:
        message = f"`none` has no effect: pool `{pool.name}` has no fabric"
        yield Mistake((*path, "fabric"), message, "remove this field")


def _check_fabric(path: Steps, runtime: Runtime, pool: Pool, fabric: Fabric) -> Iterator[Mistake]:
    if fabric.has_rdma and pool.device == "cpu" and runtime.family.original in _GLOO_FAMILIES:
        # torch docs/source/distributed.md: on CPUs the backend is Gloo, which uses TCP only.
        message = f"`{runtime.family.name}` uses TCP on CPUs, and ignores fabric `{fabric.name}`"
        yield Mistake(path, message, "add `fabric: none`")
    requested = {
        resource: runtime.resources.get(resource, Quantity(Fraction(count)))
        for resource, count in fabric.requests.items()
    }
    if requested and not any(amount.value for amount in requested.values()):
        message = f"pods of this runtime request no device of fabric `{fabric.name}`, so ranks find no device and fail"
        yield Mistake((*path, "resources"), message, "write `fabric: none`, or request a device of the fabric")
    for resource, count in fabric.requests.items():
        if fabric.attached == "dra" and requested[resource].value != count:
            amount = requested[resource]
            message = f"`{amount}` differs from the {count} devices that a claim of fabric `{fabric.name}` requests"
            yield Mistake((*path, "resources", resource), message, "remove this entry")


@family_rule
def _memlock_of_family(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report the capability IPC_LOCK for a family that cannot pass it to its ranks.

    Open MPI starts each rank through a program that sets the capability. Hydra has no such hook.
    """
    del pool
    if runtime.locks_memory and runtime.family.mpi != "openmpi":
        message = f"`capability` has no effect: {runtime.family.title} cannot pass the capability IPC_LOCK to its ranks"
        yield Mistake(
            (*path, "memlock"), message, "raise the limit of locked memory on the nodes, and remove this field"
        )


@runtime_rule
def _one_process_for_many_gpus(path: Steps, runtime: Runtime, pool: Pool) -> Iterator[Mistake]:
    """Report one process per node on several GPUs, which Trainer replaces by one process per GPU.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy.
    """
    devices = {**pool.offered, **runtime.resources}.get(pool.accelerator, ZERO)
    if runtime.processes_per_node == 1 and "gpu" in pool.accelerator.lower() and devices.value > 1:
        message = f"Trainer replaces `1` by {devices}, one process for each {pool.accelerator} of the pod"
        yield Mistake((*path, "processesPerNode"), message, "request one device in `resources`, or remove this field")
