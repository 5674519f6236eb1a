"""Test the smoke test of each family: one launcher, two workers, and a verdict that cannot pass by chance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from generator import Runtime
from generator.facts.devices import DeviceKind
from generator.facts.families import FamilyName
from generator.jobs.smoke import smoke_nodes
from generator.runtimes.hosts import node_size
from generator.runtimes.pod_scripts import script
from tests.offers import offered_alone, smoke_of
from tests.unit.test_runtimes import CATALOGUE, CPU, POOLS

ALONE = ("1", "1")
"""A single host with a single rank."""
STUBS = {
    "torch/__init__.py": (
        "class Tensor(list):\n"
        "    tolist = list.copy\n"
        "def full(shape, value, device): print('tensor', device); return Tensor([value] * shape[0])\n"
        "class cuda:\n"
        "    def set_device(number): print('device', number)\n"
        "xpu = cuda\n"
        "from torch import distributed\n"
    ),
    "torch/distributed.py": (
        "def init_process_group(backend): print('backend', backend)\n"
        "def get_rank(): return 0\n"
        "def get_world_size(): return 1\n"
        "def all_reduce(tensor): pass\n"
        "def all_gather_object(objects, mine): objects[0] = mine\n"
        "def destroy_process_group(): pass\n"
    ),
    "habana_frameworks/__init__.py": "",
    "habana_frameworks/torch/__init__.py": "",
    "habana_frameworks/torch/distributed/__init__.py": "",
    "habana_frameworks/torch/distributed/hccl.py": "print('hccl')\n",
    "deepspeed/__init__.py": "from torch import distributed as comm\ndef init_distributed(): print('deepspeed')\n",
    "deepspeed/accelerator.py": (
        "class Accelerator:\n"
        "    def set_device(self, number): print('device', number)\n"
        "    def current_device_name(self): return 'its own'\n"
        "get_accelerator = Accelerator\n"
    ),
    "horovod/__init__.py": "",
    "horovod/torch.py": (
        "Sum = 'sum'\n"
        "def init(): print('horovod')\n"
        "def rank(): return 0\n"
        "local_rank = rank\n"
        "def size(): return 1\n"
        "def allreduce(tensor, op): assert op == Sum; return tensor\n"
        "def allgather_object(mine): return [mine]\n"
        "def shutdown(): pass\n"
    ),
    "horovod/tensorflow.py": "from horovod.torch import *\n",
    "tensorflow.py": (
        "from contextlib import nullcontext\n"
        "class Tensor(list):\n"
        "    numpy = lambda self: self\n"
        "    tolist = list.copy\n"
        "def fill(shape, value): return Tensor([value] * shape[0])\n"
        "def device(name): print('device', name); return nullcontext()\n"
        "class config:\n"
        "    def list_physical_devices(kind): return ['gpu 0']\n"
        "    def set_visible_devices(gpu, kind): print('sees', gpu)\n"
    ),
}
"""Frameworks that know one rank: what is left to test is what the programs ask of them."""


def command(family: FamilyName, device: DeviceKind) -> list[str]:
    runtime = Runtime(name="r", use=family, pool=POOLS[device].name, image="quay.io/acme/mpi:1")
    return smoke_of(runtime, POOLS[device], 3)


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("family", "device"), CATALOGUE, ids=lambda value: value)
def test_every_family_starts_python_on_every_rank_with_the_expected_count(
    family: FamilyName, device: DeviceKind
) -> None:
    words = command(family, device)
    assert words[:3] == ["mpirun", "python3", "-c"]
    compile(words[3], family, "exec")
    slots = node_size(Runtime(name="r", use=family, pool="any", image="i"), POOLS[device]).slots
    assert words[4:6] == ["3", str(3 * slots)]


@pytest.mark.parametrize(("family", "device"), CATALOGUE, ids=lambda value: value)
def test_programs_contain_no_variables_that_kubernetes_would_expand(family: FamilyName, device: DeviceKind) -> None:
    """Kubernetes would replace `$(NAME)`, and two dollars by one."""
    assert not any("$(" in word or "$$" in word for word in command(family, device))


def test_smoke_tests_have_two_workers_with_any_launcher() -> None:
    assert smoke_nodes(offered_alone(Runtime(name="r", pool="cpu"), CPU)) == 3
    assert smoke_nodes(offered_alone(Runtime(name="r", pool="cpu", launcher="separate"), CPU)) == 2
    assert smoke_nodes(offered_alone(Runtime(name="r", pool="cpu", use="deepspeed", image="i"), CPU)) == 2


@pytest.mark.parametrize(
    ("family", "device", "asked"),
    [
        ("pytorch-mpi", "cpu", "backend gloo,tensor cpu"),
        ("pytorch-mpi", "nvidia-mig", "device 0,backend nccl,tensor cuda"),
        ("pytorch-mpi", "intel", "device 0,backend xccl,tensor xpu"),
        ("pytorch-mpi", "gaudi", "hccl,backend hccl,tensor hpu"),
        ("megatron", "amd", "device 0,backend nccl,tensor cuda"),
        ("deepspeed", "cpu", "device 0,deepspeed,tensor its own"),
        ("horovod-pytorch", "cpu", "horovod,tensor cpu"),
        ("horovod-pytorch", "nvidia", "horovod,device 0,tensor cuda"),
        ("horovod-tensorflow", "cpu", "horovod,device /CPU:0"),
        ("horovod-tensorflow", "nvidia", "horovod,sees gpu 0,device /GPU:0"),
    ],
)
def test_frameworks_use_the_device_of_the_pool(
    family: FamilyName, device: DeviceKind, asked: str, tmp_path: Path
) -> None:
    for name, text in STUBS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    _, _, _, program, _, _, *arguments = command(family, device)
    ran = run(program, *ALONE, *arguments, PYTHONPATH=str(tmp_path), LOCAL_RANK="0")
    *said, verdict = ran.stdout.splitlines()
    assert (said, ran.stderr) == (asked.split(","), "")
    assert verdict.startswith("PASS: allreduce over 1 ranks on 1 hosts: ")


def test_an_image_without_the_mpi_of_its_family_fails_with_a_message() -> None:
    program = command("openmpi", "cpu")[3]
    ran = run(program, "3", "6", "libnothing.so.1", "libnowhere.so.2")
    assert ran.returncode == 1
    assert ran.stderr.startswith("FAIL: the image has no libnothing.so.1 or libnowhere.so.2, so the test cannot")


WORLD = "import sys\nrank, hosts, sums, stop = {rank}, ['a', 'a', 'b', 'b'], {sums}, lambda: None\n"


@pytest.mark.parametrize(
    ("rank", "sums", "expected", "code", "told"),
    [
        (0, {6}, "2 4", 0, "PASS: allreduce over 4 ranks on 2 hosts: a, b\n"),
        (1, {6}, "2 4", 0, ""),
        (0, {6.0}, "2 4", 0, "PASS: allreduce over 4 ranks on 2 hosts: a, b\n"),
        (
            0,
            {6},
            "3 6",
            1,
            "FAIL: allreduce over 4 ranks on 2 hosts: a, b, instead of 6 ranks on 3 hosts, so jobs would",
        ),
        (
            0,
            {6},
            "1 4",
            1,
            "FAIL: allreduce over 4 ranks on 2 hosts: a, b, instead of 4 ranks on 1 hosts, so jobs would",
        ),
        (1, {6}, "3 6", 0, ""),
        (
            2,
            {6, 5},
            "2 4",
            1,
            "FAIL: allreduce over 4 ranks on 2 hosts: a, b. Rank 2 got [5, 6] instead of 6, so jobs would",
        ),
        (0, {0}, "2 4", 1, "FAIL: allreduce over 4 ranks on 2 hosts: a, b. Rank 0 got [0] instead of 6, so jobs would"),
    ],
)
def test_the_verdict_requires_all_ranks_hosts_and_the_right_sum(
    rank: int, sums: set[float], expected: str, code: int, told: str
) -> None:
    ending = script("smoke/verdict") + script("smoke/pass")
    ran = run(WORLD.format(rank=rank, sums=sums) + ending, *expected.split())
    message, consequence, _ = (ran.stdout + ran.stderr).partition("so jobs would")
    assert (ran.returncode, message + consequence) == (code, told)


@pytest.mark.parametrize(
    ("started", "code", "told"),
    [
        (
            "a a b b c c",
            0,
            "PASS: mpirun started 6 ranks on 3 hosts. The image has no program that calls MPI, so no allreduce",
        ),
        (
            "a a a a a a",
            1,
            "FAIL: mpirun started 6 ranks on 1 hosts instead of 6 ranks on 3 hosts, so jobs would leave",
        ),
        ("a a b b c", 1, "FAIL: mpirun started 5 ranks on 3 hosts instead of 6 ranks on 3 hosts, so jobs would leave"),
    ],
)
def test_an_image_without_an_mpi_binding_only_tests_that_ranks_start(
    started: str, code: int, told: str, tmp_path: Path
) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(f"#!/bin/sh\nprintf '%s\\n' {started}\n")
    mpirun.chmod(0o755)
    words = smoke_of(Runtime(name="r", pool="cpu", processes_per_node=2), CPU, 3)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1][: len(told)]) == (code, told)


def test_a_failed_launch_fails_the_smoke_test(tmp_path: Path) -> None:
    (tmp_path / "mpirun").write_text("#!/bin/sh\nprintf '%s\\n' a a b b c c\nexit 1\n")
    (tmp_path / "mpirun").chmod(0o755)
    words = smoke_of(Runtime(name="r", pool="cpu", processes_per_node=2), CPU, 3)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    message = "FAIL: mpirun ended with an error, so jobs on this runtime fail too. Read its message above.\n"
    assert (ran.returncode, ran.stdout) == (1, message)
