"""Test the benchmark of a fabric: expected values, computed bandwidth, and messages about low numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from generator import Fabric, Platform, Runtime
from generator.checks.run import check_text
from generator.config.model.runtimes import fabric_of
from generator.documents.emit import BriefEmitter
from generator.facts.devices import DeviceKind
from generator.facts.families import FAMILIES, FamilyName
from generator.jobs.job import NewJob
from generator.jobs.reach import JobError
from generator.jobs.request import JobRequest
from generator.jobs.smoke import Benchmark, benchmark_command, benchmark_notes, benchmark_problems
from generator.runtimes.pod_scripts import script
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.stages.loading import load_declared
from tests.conftest import EXAMPLES, small_platform
from tests.offers import benchmark_of, job_of
from tests.unit.test_runtimes import CATALOGUE, POOLS

INFINIBAND: dict[str, Any] = {"name": "ib", "server": "hgx-h100"}
FRAMEWORK = (
    "import sys\n"
    "from types import SimpleNamespace\n"
    "clock = [0.0]\n"
    "GIGABYTES = {gigabytes}\n"
    "class Tensor(list):\n"
    "    tolist = list.copy\n"
    "def full(shape, value, device): return Tensor([value] * shape[0])\n"
    "cuda = SimpleNamespace(\n"
    "    set_device=lambda number: None, synchronize=lambda: None, mem_get_info=lambda: (1 << 25, 1 << 30)\n"
    ")\n"
    "def init_process_group(backend): pass\n"
    "def get_rank(): return 0\n"
    "def get_world_size(): return 16\n"
    "def all_reduce(tensor):\n"
    "    clock[0] += 4 * len(tensor) * 2 * 15 / 16 / GIGABYTES / 1e9\n"
    "    tensor[:] = [120.0] * len(tensor)\n"
    "def all_gather_object(objects, mine):\n"
    "    objects[:] = [f'host-{{number // 8}}' if isinstance(mine, str) else mine for number in range(16)]\n"
    "def destroy_process_group(): pass\n"
)
"""PyTorch on sixteen devices of two hosts, whose clock goes on while they talk and at no other time."""


def platform(**changes: Any) -> Platform:
    """Return the small platform with InfiniBand on its GPU nodes, and `changes` of the runtime."""
    data = small_platform()
    data["fabrics"] = [INFINIBAND]
    data["pools"][0]["fabric"] = "ib"
    data["runtimes"][0] |= changes
    return Platform.model_validate(data)


def job(*, changes: dict[str, Any] | None = None, **wanted: Any) -> NewJob:
    return job_of(platform(**(changes or {})), JobRequest("", "team-a", is_smoke=True, fabric="ib", **wanted))


def measured(family: str, device: DeviceKind, **fabric: Any) -> Benchmark:
    runtime = Runtime(name="r", use=family, pool=POOLS[device].name, image="quay.io/acme/mpi:1")
    found = Fabric.model_validate({**INFINIBAND, **fabric})
    return benchmark_of(runtime, POOLS[device], found, 400, 2)


@pytest.mark.parametrize(("family", "device"), CATALOGUE, ids=lambda value: value)
def test_every_family_runs_a_program_with_the_expected_values(family: FamilyName, device: DeviceKind) -> None:
    words = benchmark_command(measured(family, device))
    assert words[:3] == ["mpirun", "python3", "-c"]
    compile(words[3], family, "exec")
    assert "    'fabric': 'ib',\n" in words[3]
    assert not any("$(" in word or "$$" in word for word in words)


def test_a_fabric_is_measured_on_its_only_runtime_with_two_hosts() -> None:
    body = job().body
    assert body["metadata"]["name"] == "openmpi-gpu-bench"
    assert body["spec"]["runtimeRef"] == {"name": "openmpi-gpu"}
    assert body["spec"]["trainer"]["numNodes"] == 2
    assert job(nodes=3).body["spec"]["trainer"]["command"][4:6] == ["3", "24"]


def test_benchmarks_of_every_fabric_of_the_examples_pass_the_checks() -> None:
    texts = []
    for theirs in map(load_declared, EXAMPLES.values()):
        for runtime in theirs.runtimes:
            fabric = fabric_of(runtime, theirs.pool(runtime.pool))
            if fabric is not None:
                asked = [
                    JobRequest(runtime.name, each.name, is_smoke=True, fabric=fabric.name) for each in theirs.tenants
                ]
                texts += [job_of(theirs, replace(each, nodes=2, link=400)).body for each in asked]
    checked = check_text(BriefEmitter().emit(texts).encode(), "jobs.yaml", Engine(Catalog.bundled()))
    assert texts
    assert (checked.findings, checked.objects) == ([], len(texts))


def test_a_fabric_selects_the_runtime_of_other_jobs() -> None:
    found = job_of(platform(), JobRequest("", "team-a", fabric="ib", command=("mpirun", "./a.out")))
    assert (found.body["spec"]["runtimeRef"], found.notes) == ({"name": "openmpi-gpu"}, ())


def test_mpi_is_expected_to_reach_one_nic_and_frameworks_all_nics() -> None:
    assert job().notes[0] == (
        "expected of `ib`: 320 Gbit/s from one host to another or more, and less than 10 us for a small message"
    )
    changes = {"use": "pytorch-mpi", "image": "quay.io/acme/torch:1"}
    assert job(changes=changes).notes[0] == "expected of `ib`: 320 GB/s of bus bandwidth or more"
    assert "published: 386 GB/s on 12 servers, 8 GiB: https://" in "\n".join(job(changes=changes).notes)


def test_half_of_the_devices_of_a_node_can_use_half_of_its_nics() -> None:
    changes = {"use": "pytorch-mpi", "image": "quay.io/acme/torch:1", "resources": {"nvidia.com/gpu": 4}}
    assert job(changes=changes).notes[0] == "expected of `ib`: 160 GB/s of bus bandwidth or more"


def test_small_messages_on_efa_and_tcp_have_no_expected_latency() -> None:
    for fabric in ({"name": "efa", "server": "p5.48xlarge"}, {"name": "eth", "type": "ethernet"}):
        more = {"nics": {"ports": ["eth1"]}, "addresses": {"range": "10.0.0.0/16"}} if fabric["name"] == "eth" else {}
        found = Fabric.model_validate({**fabric, **more})
        runtime = Runtime(name="r", pool="cpu", image="quay.io/acme/mpi:1")
        asked = benchmark_of(runtime, POOLS["cpu"], found, 100, 2)
        assert "    'microseconds': None,\n" in benchmark_command(asked)[3]
        assert "us for a small message" not in "\n".join(benchmark_notes(asked))


def test_hosts_connected_by_nvlink_do_not_measure_the_fabric() -> None:
    told = "\n".join(benchmark_notes(measured("pytorch-mpi", "nvidia", server="gb200-nvl72")))
    assert "NCCL connects pods in one rack by NVLink and does not use the fabric: place the pods in two racks" in told


def test_a_custom_program_is_used_and_expected_values_are_noted() -> None:
    found = job(command=("mpirun", "all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "1"))
    assert found.body["spec"]["trainer"]["command"][:2] == ["mpirun", "all_reduce_perf"]
    assert (
        "if the image has nccl-tests or rccl-tests, pass `-- mpirun all_reduce_perf -b 8 -e 8G -f 2 -g 1` to run them: "
        "320 GB/s of busbw or more for 8 GiB"
    ) in found.notes


@pytest.mark.parametrize(
    ("family", "other"),
    [
        ("openmpi", "mpirun --map-by ppr:1:node -np 2 osu_bw"),
        ("mpich", "mpirun -ppn 1 -n 2 osu_bw"),
        ("intel-mpi", "mpirun -ppn 1 -n 2 IMB-MPI1 PingPong"),
    ],
)
def test_every_mpi_has_a_suggested_benchmark(family: FamilyName, other: str) -> None:
    assert f"if the image has this program, pass `-- {other}` to run it" in benchmark_notes(measured(family, "cpu"))


@pytest.mark.parametrize(
    ("changes", "wanted", "told"),
    [
        ({}, {"fabric": "ibs"}, "--fabric: no runtime uses the fabric `ibs`; did you mean `ib`?"),
        (
            {},
            {"runtime": "openmpi-cpu"},
            "--runtime: ranks of runtime `openmpi-cpu` do not use the fabric `ib`; name one of: openmpi-gpu",
        ),
        (
            {"fabric": "none"},
            {},
            "--fabric: no runtime uses the fabric `ib`; declare a runtime on a pool with this fabric",
        ),
        (
            {"fabric": "none"},
            {"runtime": "openmpi-gpu"},
            "--fabric: no runtime uses the fabric `ib`; declare a runtime on a pool with this fabric",
        ),
        (
            {"launcher": "separate"},
            {"nodes": 1},
            "--nodes: `1` is too few: one pod uses no fabric; pass 2 or more",
        ),
    ],
    ids=["fabric", "runtime", "none", "off", "alone"],
)
def test_impossible_measurements_are_rejected(changes: dict[str, Any], wanted: dict[str, Any], told: str) -> None:
    asked = {"runtime": "", "tenant": "team-a", "is_smoke": True, "fabric": "ib", **wanted}
    with pytest.raises(JobError) as refused:
        job_of(platform(**changes), JobRequest(**asked))
    assert list(map(str, refused.value.problems)) == [told]


def test_two_pods_are_enough_for_a_benchmark() -> None:
    two = measured("openmpi", "nvidia")
    assert two.nodes == 2
    assert not list(benchmark_problems(two, has_own_command=True))


def test_several_runtimes_on_a_fabric_require_a_choice() -> None:
    data = platform().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["runtimes"].append({"name": "torch", "use": "pytorch-mpi", "pool": "gpu", "image": "quay.io/acme/torch:1"})
    with pytest.raises(JobError, match="several runtimes are on the fabric `ib`; name one of: openmpi-gpu, torch"):
        job_of(Platform.model_validate(data), JobRequest("", "team-a", is_smoke=True, fabric="ib"))


def test_images_without_programs_and_unknown_link_speeds_are_rejected() -> None:
    data = small_platform()
    data["fabrics"] = [{"name": "ib", "type": "infiniband", "nics": {"vendor": "15b3"}}]
    data["pools"][1] |= {"fabric": "ib", "labels": {"example.com/pool": "cpu"}}
    with pytest.raises(JobError) as refused:
        job_of(Platform.model_validate(data), JobRequest("", "team-a", is_smoke=True, fabric="ib"))
    assert [each.path for each in refused.value.problems] == ["--link", "--runtime"]
    assert "has no program that calls MPI, so the job cannot measure the fabric" in str(refused.value)


def test_a_cpu_reduction_cannot_measure_a_fabric() -> None:
    data = small_platform()
    data["fabrics"] = [{"name": "ib", "type": "infiniband", "nics": {"vendor": "15b3"}}]
    data["pools"][1] |= {"fabric": "ib", "labels": {"example.com/pool": "cpu"}}
    data["runtimes"][1] |= {"use": "horovod-pytorch", "image": "quay.io/acme/horovod:1"}
    with pytest.raises(JobError, match=r"^--runtime: ranks of `openmpi-cpu` sum on CPUs, which takes longer"):
        job_of(Platform.model_validate(data), JobRequest("", "team-a", is_smoke=True, fabric="ib", link=100))


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("gigabytes", "code", "told"),
    [
        (357.0, 0, "PASS: fabric ib: 357.0 of 400 GB/s that 8 NICs carry; expected at least 320"),
        (
            250.0,
            1,
            "FAIL: fabric ib: 250.0 of 400 GB/s that 8 NICs carry; expected at least 320. All NICs carry data, but",
        ),
        (
            99.5,
            1,
            "FAIL: fabric ib: 99.5 of 400 GB/s that 8 NICs carry; expected at least 320. Some NICs carry no data",
        ),
        (2.5, 1, "FAIL: fabric ib: 2.5 of 400 GB/s that 8 NICs carry; expected at least 320. Ranks use TCP or find no"),
    ],
    ids=["sound", "loss", "part", "tcp"],
)
def test_an_allreduce_is_judged_by_its_bus_bandwidth(gigabytes: float, code: int, told: str, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    text = FRAMEWORK.format(gigabytes=gigabytes)
    (tmp_path / "torch" / "__init__.py").write_text(f"{text}from torch import distributed\n")
    (tmp_path / "torch" / "distributed.py").write_text(
        "from torch import all_gather_object, all_reduce, destroy_process_group, get_rank, get_world_size\n"
        "from torch import init_process_group\n"
    )
    _, _, _, program, *arguments = benchmark_command(measured("pytorch-mpi", "nvidia"))
    stopped = "import time, torch\ntime.perf_counter = lambda: torch.clock[0]\n"
    ran = run(f"{stopped}{program}", *arguments, PYTHONPATH=str(tmp_path), LOCAL_RANK="0")
    said = (ran.stdout if code == 0 else ran.stderr).splitlines()
    assert (ran.returncode, said[-1][: len(told)]) == (code, told)
    rows = [line.split() for line in ran.stdout.splitlines() if line.split()[0].isdigit()]
    assert [(row[0], row[2]) for row in rows] == [
        ("1048576", f"{gigabytes:.2f}"),
        ("8388608", f"{gigabytes:.2f}"),
    ]


PAIRS = (
    "import sys\nrank, best, latency, spoiled = {rank}, {best}, {latency}, {spoiled}\n"
    "EXPECTED = {{'fabric': 'ib', 'atLeast': 320.0, 'gigabits': 400, 'nics': 8, 'microseconds': {limit},"
    " 'low': 'LOW', 'slow': 'SLOW'}}\n"
)


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (
            {"best": 390.0},
            0,
            "PASS: fabric ib: a host sent 390.0 Gbit/s; each of its 8 NICs carries 400; expected at least 320",
        ),
        (
            {"best": 21.0},
            1,
            "FAIL: fabric ib: a host sent 21.0 Gbit/s; each of its 8 NICs carries 400; expected at least 320. LOW",
        ),
        (
            {"best": 390.0, "latency": 31.0},
            1,
            (
                "FAIL: fabric ib: a host sent 390.0 Gbit/s; each of its 8 NICs carries 400. "
                "A small message takes 31.0 us; expected less than 10. SLOW"
            ),
        ),
        (
            {"best": 390.0, "latency": 31.0, "limit": None},
            0,
            "PASS: fabric ib: a host sent 390.0 Gbit/s; each of its 8 NICs carries 400; expected at least 320",
        ),
        ({"best": 21.0, "rank": 1}, 0, ""),
        (
            {"best": 390.0, "rank": 1, "spoiled": True},
            1,
            (
                "FAIL: rank 1 received data that differs from what its peer sent, so jobs would compute wrong results. "
                "Repeat the test on a runtime with `fabric: none`: if it passes, check the fabric, else the image."
            ),
        ),
    ],
    ids=["sound", "tcp", "slow", "amazon", "others", "spoiled"],
)
def test_the_first_rank_judges_the_bandwidth_between_hosts(given: dict[str, Any], code: int, told: str) -> None:
    values = {"rank": 0, "best": 0.0, "latency": 1.9, "spoiled": False, "limit": 10, **given}
    ran = run(PAIRS.format(**values) + script("measure/pairs-verdict"))
    assert (ran.returncode, (ran.stdout + ran.stderr).strip()) == (code, told)


def test_every_family_with_devices_waits_for_them() -> None:
    for family in FAMILIES.values():
        if family.framework != "mpi" and "nvidia" in family.devices:
            text = benchmark_command(measured(family.name, "nvidia"))[3]
            assert "def room():" in text
            assert "def wait(data):" in text
