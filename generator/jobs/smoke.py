"""A command that proves a runtime: every rank takes part in an allreduce, whose result each of them knows beforehand.

It asks of the image only what the family's programs need too, and Python: MPI itself is called through ctypes, since an
MPI brings no such program. (Tried with Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.19.)
"""

from __future__ import annotations

from collections.abc import Mapping

from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime
from generator.facts.devices import DeviceKind
from generator.runtimes.adapter import script
from generator.runtimes.sizing import node_size

WORKERS = 2
_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "openmpi": ("libmpi.so.40",),
    "mpich": ("libmpi.so.12", "libmpich.so.12"),  # the second is Debian's name
    "intel-mpi": ("libmpi.so.12",),
}
_TORCH: Mapping[DeviceKind, tuple[str, str]] = {
    "cpu": ("gloo", "cpu"),
    "nvidia": ("nccl", "cuda"),
    "nvidia-mig": ("nccl", "cuda"),
    "amd": ("nccl", "cuda"),  # ROCm's PyTorch calls both so
    "intel": ("xccl", "xpu"),
    "gaudi": ("hccl", "hpu"),
}


def smoke_nodes(runtime: Runtime) -> int:
    """`numNodes` for one launcher and two workers: where the launcher is a node, Trainer counts it in.

    Trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go, EnforceMLPolicy.
    """
    return WORKERS if runtime.has_separate_launcher else WORKERS + 1


def smoke_command(runtime: Runtime, pool: Pool, nodes: int) -> list[str]:
    """What the launcher runs: it prints PASS with the ranks and hosts that took part, or prints FAIL and fails."""
    if not runtime.image:
        return ["sh", "-c", script("smoke/launch.sh"), "smoke", *_size(runtime, pool, nodes)]
    return python_command(runtime, pool, nodes, "smoke/pass")


def python_command(runtime: Runtime, pool: Pool, nodes: int, verdict: str, *more: str, header: str = "") -> list[str]:
    """The command that starts a program on every rank: the family's start, a sum, more, and what is said in the end.

    Args:
        runtime: whose ranks.
        pool: its own.
        nodes: `numNodes`.
        verdict: the script that says what came out, once the sum was right.
        more: scripts between the sum and the end.
        header: what stands before all.
    """
    start, arguments = started_by(runtime, pool)
    parts = (f"smoke/{start}", "smoke/sum", *more, "smoke/verdict", verdict)
    text = header + "".join(map(script, parts))
    return ["mpirun", "python3", "-c", text, *_size(runtime, pool, nodes), *arguments]


def _size(runtime: Runtime, pool: Pool, nodes: int) -> list[str]:
    return [str(nodes), str(nodes * node_size(runtime, pool).slots)]


def started_by(runtime: Runtime, pool: Pool) -> tuple[str, tuple[str, ...]]:
    """The name of the script that starts the family, and what it is told beside the number of hosts and ranks."""
    family, (backend, device) = runtime.family, _TORCH[pool.device]
    if family.framework == "mpi":
        return "mpi", _LIBRARIES[family.mpi]
    if family.framework == "horovod":
        return family.name, (device,)
    return ("deepspeed", ()) if family.name == "deepspeed" else ("torch", (backend, device))
