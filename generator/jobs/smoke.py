"""The commands of test jobs: a smoke test proves that a runtime works, and a benchmark measures its fabric.

In the smoke test, every rank takes part in an allreduce with a known result. The image needs the programs of the family
and Python: the test calls MPI through ctypes, because no MPI ships such a program. (Run with Open MPI 4.1.4 and 5.0.11,
MPICH 5.0.2 and Intel MPI 2021.19.) If the runtime names no image, the test only starts all ranks.

In the benchmark of a plain MPI family, ranks send data from host memory. Training frameworks measure an allreduce of
device memory in the bus bandwidth of NVIDIA/nccl-tests (doc/PERFORMANCE.md), which does not depend on the number of
ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from generator.errors import Problem
from generator.facts.devices import OTHER, DeviceKind
from generator.facts.families import MPI
from generator.facts.names import GPU_CLIQUE
from generator.facts.nodes import SERVERS, SOUND_SHARE, sound_bandwidth
from generator.jobs.catalogue import OfferedRuntime
from generator.objects.contract import Contract, FabricContract
from generator.runtimes.pod_scripts import script

SMOKE_WORKERS = 2
_TORCH: Mapping[DeviceKind, tuple[str, str]] = {
    "cpu": ("gloo", "cpu"),
    "nvidia": ("nccl", "cuda"),
    "nvidia-mig": ("nccl", "cuda"),
    "amd": ("nccl", "cuda"),  # ROCm's PyTorch uses the names of CUDA
    "intel": ("xccl", "xpu"),
    "gaudi": ("hccl", "hpu"),
    "other": ("gloo", "cpu"),  # how PyTorch names the device is unknown
}


def smoke_nodes(runtime: OfferedRuntime) -> int:
    """Return `numNodes` of a job with a launcher pod and two worker pods. It includes the launcher if that runs ranks.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy.
    """
    return SMOKE_WORKERS if runtime.has_separate_launcher else SMOKE_WORKERS + 1


def smoke_command(runtime: OfferedRuntime, contract: Contract, nodes: int) -> list[str]:
    """Return the command of the smoke test. It prints PASS with ranks and hosts, or prints FAIL and exits with 1."""
    if runtime.has_default_image:
        return ["sh", "-c", script("smoke/launch.sh"), "smoke", *_size_arguments(runtime, nodes)]
    return python_command(runtime, contract, nodes, "smoke/pass")


def python_command(
    runtime: OfferedRuntime, contract: Contract, nodes: int, verdict: str, *more: str, header: str = ""
) -> list[str]:
    """Return a command that runs a Python program on every rank. It checks the sum of an allreduce.

    Args:
        runtime: the runtime of the ranks.
        contract: its contract.
        nodes: `numNodes`.
        verdict: the script that prints the result if the sum is right.
        more: scripts between the sum and the verdict.
        header: text before all scripts.
    """
    start, arguments = started_by(contract)
    parts = (f"smoke/{start}", "smoke/sum", *more, "smoke/verdict", verdict)
    text = header + "".join(map(script, parts))
    return ["mpirun", "python3", "-c", text, *_size_arguments(runtime, nodes), *arguments]


def _size_arguments(runtime: OfferedRuntime, nodes: int) -> list[str]:
    return [str(nodes), str(nodes * runtime.slots)]


def started_by(contract: Contract) -> tuple[str, tuple[str, ...]]:
    """Return the name of the script that initializes the runtime's framework in each rank, and its further arguments.

    Its first two arguments are the numbers of hosts and ranks.
    """
    family, (backend, device) = contract.known_family, _TORCH[contract.device]
    if family.framework == "mpi":
        return "mpi", MPI[family.mpi].libraries
    if family.framework == "horovod":
        return family.name, (device,)
    return ("deepspeed", ()) if family.name == "deepspeed" else ("torch", (backend, device))


BENCHMARK_HOSTS = 2
"""The number of hosts in most published measurements."""
_TOO_SLOW = 10
"""Microseconds. A small message takes about two by RDMA, and more than this by TCP.

https://blogs.oracle.com/cloud-infrastructure/zettascale-osu-nccl-benchmark-h100-ai-workloads
"""
_REPAIRS = {
    "low": "Ranks use TCP or find no RDMA device. Set NCCL_DEBUG=INFO or UCX_LOG_LEVEL=info, and read the log",
    "slow": "Ranks use TCP, find no RDMA device, or cannot lock memory. Check `ulimit -l` in the pods",
    "part": "Some NICs carry no data, or data passes through host memory. Check rails, NUMA nodes and GPUDirect",
    "loss": "All NICs carry data, but packets are lost or delayed. Check cables, PFC and ECN of RoCE, and other jobs",
}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark of a fabric. `link` is Gbit/s of each NIC, 0 if unknown; `nodes` is `numNodes` of the TrainJob."""

    runtime: OfferedRuntime
    contract: Contract
    fabric: FabricContract
    link: int
    nodes: int

    @property
    def is_of_devices(self) -> bool:
        """Return True if ranks send data from the memory of devices, not from host memory."""
        return self.contract.known_family.framework != "mpi"

    @property
    def at_least(self) -> float:
        """Return the lowest result with which the benchmark passes.

        If ranks send from device memory, this is a bus bandwidth in GB/s, else the Gbit/s between two hosts.
        """
        return self.bus_bandwidth if self.is_of_devices else round(self.link * SOUND_SHARE, 2)

    @property
    def bus_bandwidth(self) -> float:
        """Return the bus bandwidth in GB/s that an allreduce of all devices must reach."""
        return sound_bandwidth(self.fabric.nics * self.link)

    @property
    def has_rdma_latency(self) -> bool:
        """Return True if small messages take about two microseconds on this fabric. EFA takes longer."""
        return self.fabric.type in ("infiniband", "roce")


def benchmark_command(measured: Benchmark) -> list[str]:
    """Return the launcher's command of the benchmark."""
    expected = {
        "fabric": measured.fabric.name,
        "atLeast": measured.at_least,
        "gigabits": measured.link,
        "nics": measured.fabric.nics,
        "microseconds": _TOO_SLOW if measured.has_rdma_latency else None,
        **_REPAIRS,
    }
    start, _ = started_by(measured.contract)
    parts = ("measure/pairs",) if start == "mpi" else (f"measure/{start}", "measure/allreduce")
    header = "".join(["EXPECTED = {\n", *(f"    {key!r}: {value!r},\n" for key, value in expected.items()), "}\n"])
    verdict = f"{parts[-1]}-verdict"
    return python_command(measured.runtime, measured.contract, measured.nodes, verdict, *parts, header=header)


def benchmark_problems(measured: Benchmark, *, has_own_command: bool) -> Iterator[Problem]:
    """Yield the reasons why the benchmark would not run, or not measure the fabric."""
    runtime = measured.runtime
    if measured.nodes < BENCHMARK_HOSTS:
        yield Problem(f"`{measured.nodes}` is too few: one pod uses no fabric", "pass 2 or more", path="--nodes")
    if has_own_command:
        return
    if not measured.link:
        message = f"the speed of a NIC of `{measured.fabric.name}` is unknown"
        yield Problem(message, "pass --link GBIT, or name the `server` of the fabric", path="--link")
    if measured.is_of_devices and measured.contract.device in ("cpu", OTHER):
        message = (
            f"ranks of `{runtime.name}` sum on CPUs, which takes longer than sending, so the fabric is not measured"
        )
        yield Problem(message, "name a runtime of openmpi, mpich or intel-mpi", path="--runtime")
    if runtime.has_default_image:
        message = f"{runtime.image} has no program that calls MPI, so the job cannot measure the fabric"
        fix = "set `image` of the runtime to an image with python3, or pass a command after `--`"
        yield Problem(message, fix, path="--runtime")


def benchmark_notes(measured: Benchmark) -> Iterator[str]:
    """Yield notes for the user: the expected result, published results, and other programs that measure a fabric."""
    if measured.link:
        unit = "GB/s of bus bandwidth" if measured.is_of_devices else "Gbit/s from one host to another"
        is_timed = measured.has_rdma_latency and not measured.is_of_devices
        small = f", and less than {_TOO_SLOW} us for a small message" if is_timed else ""
        yield f"expected of `{measured.fabric.name}`: {measured.at_least:g} {unit} or more{small}"
    if measured.contract.device not in ("cpu", OTHER):
        yield from _of_devices(measured)
    if not measured.is_of_devices:
        mpi = MPI[measured.contract.known_family.mpi]
        yield f"if the image has this program, pass `-- {mpi.bandwidth_test}` to run it"
    yield "explanation of low numbers: docs/tasks/measure-a-fabric.md"


def _of_devices(measured: Benchmark) -> Iterator[str]:
    server = SERVERS.get(measured.fabric.server)
    expected = f": {measured.bus_bandwidth:g} GB/s of busbw or more for 8 GiB" if measured.link else ""
    perf = "mpirun all_reduce_perf -b 8 -e 8G -f 2 -g 1"
    yield f"if the image has nccl-tests or rccl-tests, pass `-- {perf}` to run them{expected}"
    for measurement in server.measured if server else ():
        yield f"published: {measurement.gigabytes} GB/s on {measurement.how}: {measurement.source}"
    if server and GPU_CLIQUE in server.topology:
        yield "NCCL connects pods in one rack by NVLink and does not use the fabric: place the pods in two racks"
