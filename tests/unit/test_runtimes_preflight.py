"""Test the init container that checks the fabric, with real shells on folders in place of hosts."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from generator import Cluster, Pool, Runtime
from generator.config.model.fabrics import Fabric
from generator.runtimes.hosts import node_size
from generator.runtimes.pod_scripts import fabric_script
from generator.runtimes.training_runtime import training_runtimes
from tests.unit.test_runtimes_scripts import SHELLS
from tests.update_runtimes import FABRICS, POOLS, wired

TERABYTE = str(2**40)


@pytest.fixture(params=SHELLS)
def sh(request: pytest.FixtureRequest) -> list[str]:
    shell: str = request.param
    return [*shell.split(), "-c"]


@dataclass(frozen=True, slots=True)
class Host:
    """The files of a host that a pod reads.

    Attributes:
        folder: an empty one.
        states: of the port of each of the pod's devices.
        interfaces: name → state.
        limit: of locked memory, as in /proc.
    """

    folder: Path
    states: tuple[str, ...] = ()
    interfaces: tuple[tuple[str, str], ...] = ()
    limit: str = "unlimited"

    def look(self, fabric: str, sh: list[str], **options: Any) -> tuple[int, str, str]:
        """Return exit code, output and errors of the container of a runtime on this fabric."""
        self._write("limits", f"Max locked memory         {self.limit}            {self.limit}            bytes\n")
        self._write("dev/infiniband/rdma_cm")
        self._write("sys/class/infiniband/another_pods/ports/1/state", "1: DOWN\n")
        for number, state in enumerate(self.states):
            self._write(f"dev/infiniband/uverbs{number}")
            self._write(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", f"mlx5_{number + 7}\n")
            self._write(f"sys/class/infiniband/mlx5_{number + 7}/ports/1/state", f"{state}\n")
        for name, state in self.interfaces:
            self._write(f"sys/class/net/{name}/operstate", f"{state}\n")
        pool = wired(POOLS["cpu"], fabric)
        runtime = Runtime.model_validate({"name": "r", "pool": pool.name, **options})
        text = fabric_script(runtime, FABRICS[fabric], node_size(runtime, pool))
        for path, here in (("/proc/self/limits", "limits"), ("/dev/infiniband", "dev/infiniband"), ("/sys/", "sys/")):
            text = text.replace(path, f"{self.folder}/{here}")
        ran = subprocess.run([*sh, text], capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
        return ran.returncode, ran.stdout.strip(), ran.stderr.replace(str(self.folder), "").strip()

    def _write(self, name: str, text: str = "") -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)


EIGHT = ("4: ACTIVE",) * 8
OF_IB = tuple((f"net{number}", "down") for number in range(1, 9))
UP = (("net1", "up"), ("net2", "unknown"))


def test_a_complete_host_passes(tmp_path: Path, sh: list[str]) -> None:
    """InfiniBand interfaces may be down, because RDMA works without IPoIB."""
    said = "fabric ib: 8 of 8 devices have an active link; interfaces: net1 net2 net3 net4 net5 net6 net7 net8"
    assert Host(tmp_path, EIGHT, OF_IB).look("ib", sh) == (0, said, "")


def test_the_number_of_missing_devices_is_reported(tmp_path: Path, sh: list[str]) -> None:
    code, _, said = Host(tmp_path, EIGHT[:6], OF_IB).look("ib", sh)
    assert (code, said.partition(". Ranks would")[0]) == (
        1,
        "fabric ib: the pod has 6 of 8 devices in `/dev/infiniband`",
    )


def test_a_host_without_devices_is_reported(tmp_path: Path, sh: list[str]) -> None:
    code, _, said = Host(tmp_path).look("efa", sh)
    assert (code, said.partition(". Ranks would")[0]) == (
        1,
        "fabric efa: the pod has 0 of 32 devices in `/dev/infiniband`",
    )


def test_devices_with_an_inactive_link_are_reported(tmp_path: Path, sh: list[str]) -> None:
    states = ("4: ACTIVE", "1: DOWN", "2: INIT", *EIGHT[3:])
    code, _, said = Host(tmp_path, states, OF_IB).look("ib", sh)
    assert (code, said.partition(". Ranks would")[0]) == (
        1,
        "fabric ib: 6 of 8 devices have an active link; inactive: mlx5_8 mlx5_9",
    )


@pytest.mark.parametrize("fabric", ["roce", "ethernet"])
def test_a_missing_or_inactive_interface_is_reported(tmp_path: Path, sh: list[str], fabric: str) -> None:
    code, _, said = Host(tmp_path, EIGHT[:2], (("net1", "lowerlayerdown"),)).look(fabric, sh)
    assert [line.partition(". Ranks would")[0] for line in said.splitlines()] == [
        f"fabric {fabric}: the interface `net1` is `lowerlayerdown`",
        f"fabric {fabric}: the pod has no interface `net2`",
    ]
    assert code == 1


def test_an_insufficient_limit_of_locked_memory_is_reported(tmp_path: Path, sh: list[str]) -> None:
    """The limit is 8 MiB, and the host has nine tenths of 256 GiB."""
    code, _, said = Host(tmp_path, EIGHT, OF_IB, limit="8388608").look("ib", sh)
    assert (code, said.partition(". Ranks would")[0]) == (
        1,
        "fabric ib: ranks can lock 8388608 bytes of memory, and RDMA needs up to 246960619520",
    )


@pytest.mark.parametrize(
    ("limit", "options"), [(TERABYTE, {}), ("8388608", {"memlock": "capability"}), ("unlimited", {})]
)
def test_a_limit_of_all_host_memory_is_sufficient(
    tmp_path: Path, sh: list[str], limit: str, options: dict[str, Any]
) -> None:
    """A capability is sufficient too; init containers lack it, and lock.sh checks it."""
    assert Host(tmp_path, EIGHT, OF_IB, limit=limit).look("ib", sh, **options)[0] == 0


def test_all_missing_parts_are_reported(tmp_path: Path, sh: list[str]) -> None:
    _, _, said = Host(tmp_path, EIGHT[:1], (), limit="65536").look("roce", sh)
    assert [line.partition(". Ranks would")[0] for line in said.splitlines()] == [
        "fabric roce: the pod has 1 of 2 devices in `/dev/infiniband`",
        "fabric roce: the pod has no interface `net1`",
        "fabric roce: the pod has no interface `net2`",
        "fabric roce: ranks can lock 65536 bytes of memory, and RDMA needs up to 246960619520",
    ]


def test_plain_ethernet_needs_neither_devices_nor_locked_memory(tmp_path: Path, sh: list[str]) -> None:
    said = "fabric ethernet: 0 of 0 devices have an active link; interfaces: net1 net2"
    assert Host(tmp_path, (), UP, limit="65536").look("ethernet", sh) == (0, said, "")


def test_a_host_that_requests_fewer_devices_needs_fewer(tmp_path: Path, sh: list[str]) -> None:
    two = {"resources": {"openshift.io/ib": 2}}
    assert Host(tmp_path, EIGHT[:2], OF_IB[:2]).look("ib", sh, **two)[0] == 0


def init_containers(pool: Pool, **options: Any) -> dict[str, list[dict[str, Any]]]:
    runtime = Runtime.model_validate({"name": "r", "pool": pool.name, "image": "i", **options})
    (body,) = training_runtimes(runtime, pool, Cluster())
    jobs = body["spec"]["template"]["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"]["spec"]["initContainers"] for job in jobs}


def test_the_check_runs_before_sshd_and_mpirun_with_the_same_devices() -> None:
    pool = wired(POOLS["nvidia"], "ib")
    for containers in init_containers(pool, gang="coscheduling").values():
        assert [container["name"] for container in containers][:2] == ["prepare", "fabric"]
        assert containers[1]["resources"]["limits"]["openshift.io/ib"] == "8"
    assert [each["name"] for each in init_containers(pool, use="megatron")["launcher"]] == ["prepare", "hosts"]


def test_claimed_devices_are_claimed_by_the_check() -> None:
    _, look = init_containers(wired(POOLS["nvidia"], "ib-claims"))["node"]
    assert look["resources"]["claims"] == [{"name": "fabric"}]
    assert set(look["resources"]["limits"]) == {"cpu", "memory"}


def test_fabrics_with_tcp_fallback_have_no_check() -> None:
    for options in ({"preflight": False}, {"fallback": True}):
        fabric = Fabric.model_validate({"name": "efa", "type": "efa", **options})
        pool = POOLS["cpu"].model_copy(update={"fabric": "efa"}).wired([fabric])
        containers = init_containers(pool)["node"]
        assert [container["name"] for container in containers] == ["prepare"]


def test_a_failed_fabric_check_ends_the_job() -> None:
    pool = wired(POOLS["nvidia"], "ib")
    (body,) = training_runtimes(Runtime(name="r", pool=pool.name, image="i"), pool, Cluster())
    node, launcher = (job["template"]["spec"] for job in body["spec"]["template"]["spec"]["replicatedJobs"])
    for job in (node, launcher):
        rules = job["podFailurePolicy"]["rules"]
        assert [rule["onExitCodes"]["containerName"] for rule in rules] == ["prepare", "fabric"]
    assert {node["template"]["spec"]["restartPolicy"], launcher["template"]["spec"]["restartPolicy"]} == {"Never"}
    assert launcher["backoffLimit"] == 0
