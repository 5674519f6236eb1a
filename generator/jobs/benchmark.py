"""A command that measures a fabric and judges what it measured: it ends with PASS, or with FAIL and what that means.

It asks of the image what the smoke test asks. Families of MPI send from the memory of the hosts, between all of their
ranks; what trains on devices measures an allreduce of those, in the bus bandwidth of NVIDIA/nccl-tests
(doc/PERFORMANCE.md): of it links carry as many bytes, however many ranks there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator import quantities
from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime
from generator.errors import Problem
from generator.facts.names import GPU_CLIQUE
from generator.jobs.servers import ENOUGH, at_least
from generator.jobs.smoke import python_command, started_by
from generator.runtimes.sizing import node_size

HOSTS = 2
"""As many as what others measured was mostly measured on."""
_TOO_SLOW = 10
"""Microseconds for a small message by which TCP is told from RDMA, which takes about two.

https://blogs.oracle.com/cloud-infrastructure/zettascale-osu-nccl-benchmark-h100-ai-workloads
"""
_WHY = {
    "low": "Less than one NIC carries: ranks use TCP, or find no device (NCCL_DEBUG=INFO or UCX_LOG_LEVEL=info tells)",
    "slow": "So long takes TCP: ranks find no device, or may not lock memory (`ulimit -l`)",
    "part": "Some NICs carry nothing, or data goes through the memory of the hosts: look at rails, NUMA and GPUDirect",
    "loss": "All NICs carry, but not enough: look for loss and congestion (PFC and ECN of RoCE, cables), other jobs",
}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is measured.

    Attributes:
        runtime: whose ranks.
        pool: on whose nodes.
        fabric: of that pool.
        link: Gbit/s of each NIC; 0 where nobody says.
        nodes: `numNodes` of the TrainJob.
    """

    runtime: Runtime
    pool: Pool
    fabric: Fabric
    link: int
    nodes: int

    @property
    def is_of_devices(self) -> bool:
        """Whether devices send, and not hosts."""
        return self.runtime.family.framework != "mpi"

    @property
    def nics(self) -> float:
        """How many NICs can carry at most: those of the devices that a host has of its node."""
        if self.pool.device == "cpu":
            return self.fabric.per_node
        there = quantities.parse(self.pool.offered.get(self.pool.accelerator, "1")).value
        mine = node_size(self.runtime, self.pool).slots
        return self.fabric.per_node * min(mine / float(there), 1.0)

    @property
    def at_least(self) -> float:
        """What passes: GB/s by all NICs where devices send; where hosts do Gbit/s by one, which TCP does not reach."""
        return self.bus_bandwidth if self.is_of_devices else round(self.link * ENOUGH, 2)

    @property
    def bus_bandwidth(self) -> float:
        """GB/s of an allreduce of all devices that pass."""
        return at_least(self.nics * self.link)

    @property
    def has_rdma_latency(self) -> bool:
        """Whether small messages take about two microseconds. Amazon's take longer."""
        return self.fabric.type in ("infiniband", "roce")


def command(measured: Benchmark) -> list[str]:
    """What the launcher runs."""
    expected = {
        "fabric": measured.fabric.name,
        "atLeast": measured.at_least,
        "gigabits": measured.link,
        "nics": measured.nics,
        "microseconds": _TOO_SLOW if measured.has_rdma_latency else None,
        **_WHY,
    }
    start, _ = started_by(measured.runtime, measured.pool)
    parts = ("measure/pairs",) if start == "mpi" else (f"measure/{start}", "measure/allreduce")
    header = "".join(["EXPECTED = {\n", *(f"    {key!r}: {value!r},\n" for key, value in expected.items()), "}\n"])
    verdict = f"{parts[-1]}-verdict"
    return python_command(measured.runtime, measured.pool, measured.nodes, verdict, *parts, header=header)


def refused(measured: Benchmark, *, has_own_command: bool) -> Iterator[Problem]:
    """Why it cannot be measured so."""
    runtime = measured.runtime
    if measured.nodes < HOSTS:
        yield Problem(f"`{measured.nodes}`, and a host alone uses no fabric", "pass 2 or more", path="--nodes")
    if has_own_command:
        return
    if not measured.link:
        what = f"nobody says how fast a NIC of `{measured.fabric.name}` is"
        yield Problem(what, "pass --link GBIT, or name the `server` of the fabric", path="--link")
    if measured.is_of_devices and measured.pool.device == "cpu":
        what = f"ranks of `{runtime.name}` add up on CPUs, which takes longer than the way there"
        yield Problem(what, "name a runtime of openmpi, mpich or intel-mpi", path="--runtime")
    if not runtime.image:
        what = f"nothing in {runtime.family.default_image} calls MPI"
        fix = "name an `image` in the runtime, with python3; or pass a command after `--`"
        yield Problem(what, fix, path="--runtime")


def notes(measured: Benchmark) -> Iterator[str]:
    """What its owner should know: what is expected, what others saw, and which programs measure more."""
    if measured.link:
        unit = "GB/s of bus bandwidth" if measured.is_of_devices else "Gbit/s from one host to another"
        is_timed = measured.has_rdma_latency and not measured.is_of_devices
        small = f", and less than {_TOO_SLOW} us for a small message" if is_timed else ""
        yield f"expected of `{measured.fabric.name}`: {measured.at_least:g} {unit} or more{small}"
    if measured.pool.device != "cpu":
        yield from _of_devices(measured)
    if not measured.is_of_devices:
        yield f"with other programs in the image pass `-- {_other_program(measured.runtime)}`"
    yield "what low numbers mean: docs/tasks/measure-a-fabric.md"


def _of_devices(measured: Benchmark) -> Iterator[str]:
    server = measured.fabric.known_server
    wanted = f": {measured.bus_bandwidth:g} GB/s of busbw or more for 8 GiB" if measured.link else ""
    perf = "mpirun all_reduce_perf -b 8 -e 8G -f 2 -g 1"
    yield f"with nccl-tests or rccl-tests in the image pass `-- {perf}`{wanted}"
    for each in server.measured if server else ():
        yield f"others measured {each.gigabytes} GB/s on {each.how}: {each.source}"
    if server and GPU_CLIQUE in server.topology:
        yield "NCCL joins hosts of one rack by NVLink, and the fabric is not used: place them in two racks"


def _other_program(runtime: Runtime) -> str:
    if runtime.family.mpi == "intel-mpi":
        return "mpirun -ppn 1 -n 2 IMB-MPI1 PingPong"
    one_each = "--map-by ppr:1:node -np 2" if runtime.family.mpi == "openmpi" else "-ppn 1 -n 2"
    return f"mpirun {one_each} osu_bw"
