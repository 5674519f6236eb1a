"""Test the permissions that ranks need for devices, and combinations in which no rank would run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from generator import Cluster, Platform, Pool, Runtime
from generator.errors import ConfigError
from generator.facts.families import FAMILIES
from generator.facts.nodes import SERVERS
from generator.manifests import Body
from generator.runtimes.hosts import node_size
from generator.runtimes.pod_scripts import devices_script
from generator.runtimes.training_runtime import launcher_environment, training_runtimes
from tests.unit.test_runtimes_scripts import SHELLS
from tests.update_runtimes import POOLS

CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
IMAGE = "registry.example.com/mpi:1"


def variables(device: str, **options: Any) -> dict[str, str]:
    pool = POOLS[device]
    runtime = Runtime.model_validate({"name": "r", "pool": pool.name, **options})
    return launcher_environment(runtime, node_size(runtime, pool), pool.device)


@pytest.mark.parametrize("device", FAMILIES["megatron"].devices)
def test_megatron_sets_the_connections_that_tensor_parallelism_requires(device: str) -> None:
    assert variables(device, use="megatron")[CONNECTIONS] == "1"
    assert variables(device, use="megatron", environment={CONNECTIONS: "8"})[CONNECTIONS] == "8"


def test_other_families_do_not_set_device_connections() -> None:
    """FSDP of PyTorch overlaps less with one connection."""
    for family in FAMILIES.values():
        for device in family.devices if family.name != "megatron" else ():
            assert CONNECTIONS not in variables(device, use=family.name)


def pods(pool: Pool, cluster: Cluster | None = None, **options: Any) -> dict[str, Body]:
    """Return job → the spec of its pods."""
    runtime = Runtime.model_validate({"name": "r", "pool": pool.name, "image": IMAGE, **options})
    (body,) = training_runtimes(runtime, pool, cluster or Cluster())
    jobs = body["spec"]["template"]["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"]["spec"] for job in jobs}


@pytest.mark.parametrize("distribution", ["kubernetes", "openshift"])
@pytest.mark.parametrize("launcher", ["node", "separate"])
def test_hosts_join_the_groups_of_device_files(distribution: Any, launcher: str) -> None:
    pool = Pool(name="amd", nodes=2, allocatable=POOLS["amd"].allocatable, device_groups=(109, 44, 44))
    found = pods(pool, Cluster(distribution=distribution), launcher=launcher)
    groups = {name: pod["securityContext"].get("supplementalGroups") for name, pod in found.items()}
    assert groups == {"node": [44, 109], "launcher": None if launcher == "separate" else [44, 109]}


@pytest.mark.parametrize("device", POOLS)
def test_hosts_open_device_files_that_belong_to_a_group(device: Any) -> None:
    found = pods(POOLS[device])
    checks = {name: [each["name"] for each in pod["initContainers"]] for name, pod in found.items()}
    is_owned = device in ("amd", "intel")
    assert all(("devices" in names) == is_owned for names in checks.values())
    if is_owned:
        (check,) = [each for each in found["node"]["initContainers"] if each["name"] == "devices"]
        accelerator = POOLS[device].accelerator
        asked = found["node"]["containers"][0]["resources"]["limits"][accelerator]
        assert check["resources"]["limits"][accelerator] == asked
        assert found["node"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"device_groups": (0,)}, "`0` is too small"),
        ({"device_groups": (109,), "allocatable": {"cpu": 16, "memory": "64Gi"}}, "nodes without accelerators"),
    ],
)
def test_device_groups_without_an_effect_are_rejected(changes: dict[str, Any], what: str) -> None:
    pool = {"name": "amd", "nodes": 2, "allocatable": POOLS["amd"].allocatable, **changes}
    with pytest.raises(ConfigError, match=what):
        Platform.model_validate({"platform": "prod", "release": "1.0.0", "pools": [pool]})


@pytest.fixture(params=SHELLS)
def sh(request: pytest.FixtureRequest) -> list[str]:
    shell: str = request.param
    return [*shell.split(), "-c"]


def look(folder: Path, sh: list[str]) -> tuple[int, str, str]:
    """Run the script on a folder instead of /dev; a folder in it stands for a device that cannot be opened."""
    text = devices_script(POOLS["amd"]).replace("/dev/", f"{folder}/dev/")
    ran = subprocess.run([*sh, text], capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    return ran.returncode, ran.stdout.strip(), ran.stderr.replace(str(folder), "").strip()


def test_ranks_start_if_all_devices_open(tmp_path: Path, sh: list[str]) -> None:
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name in ("kfd", "dri/renderD128", "dri/renderD129"):
        (tmp_path / "dev" / name).write_text("")
    assert look(tmp_path, sh) == (0, f"devices: user {os.getuid()} can open all 3 files of GPUs", "")


def test_a_device_that_does_not_open_is_reported_with_its_group(tmp_path: Path, sh: list[str]) -> None:
    (tmp_path / "dev/dri/renderD128").mkdir(parents=True)
    (tmp_path / "dev/kfd").write_text("")
    code, out, said = look(tmp_path, sh)
    group = (tmp_path / "dev/dri/renderD128").stat().st_gid
    assert (code, out) == (1, "")
    assert f"cannot open `/dev/dri/renderD128` of group {group} (d" in said
    assert said.endswith(f"Add group {group} to `deviceGroups` of pool `amd` in platform.yaml.")
    assert len(said.splitlines()) == 1
    assert "/dev/kfd" not in said


def test_missing_devices_are_reported(tmp_path: Path, sh: list[str]) -> None:
    assert "this pod has neither `/dev/kfd` nor `/dev/dri/renderD*`. Ranks would find no GPU" in look(tmp_path, sh)[2]


def platform(pool: dict[str, Any], runtime: dict[str, Any], **sections: Any) -> Platform:
    """Return a platform with one pool and one runtime."""
    return Platform.model_validate(
        {
            "platform": "p",
            "release": "1.0.0",
            "pools": [{"name": "gpu", "nodes": 4, "labels": {"example.com/pool": "gpu"}, **pool}],
            "runtimes": [{"name": "r", "pool": "gpu", "image": IMAGE, **runtime}],
            "tenants": [{"name": "team", "quota": {"gpu": 1}}],
            **sections,
        }
    )


SHARED = {"allocatable": {"cpu": 64, "memory": "512Gi", "nvidia.com/gpu.shared": 32}}


@pytest.mark.parametrize(
    ("runtime", "what"),
    [
        ({"use": "pytorch-mpi"}, "the `32` GPU shares of a pod"),
        ({"use": "deepspeed", "resources": {"nvidia.com/gpu.shared": 2}}, "the `2` GPU shares of a pod"),
        (
            {"use": "horovod-pytorch", "resources": {"nvidia.com/gpu.shared": 1}, "processesPerNode": 2},
            "`2` ranks would use one share of a GPU",
        ),
    ],
)
def test_nccl_ranks_do_not_share_a_gpu(runtime: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        platform(SHARED, runtime)


@pytest.mark.parametrize(
    "runtime", [{"use": "pytorch-mpi", "resources": {"nvidia.com/gpu.shared": 1}}, {"use": "openmpi"}]
)
def test_one_gpu_share_per_pod_is_allowed(runtime: dict[str, Any]) -> None:
    """MPI alone sends through host memory, so its ranks can share a GPU."""
    assert platform(SHARED, runtime).runtimes


def on_server(server: str | None, numa: str, devices: int | None) -> Platform:
    fabric = {
        "name": "ib",
        "type": "infiniband",
        "perNode": 8,
        "nics": {"vendor": "15b3", "device": "1021"},
        "nodes": {"numa": numa},
        **({"server": server} if server else {}),
    }
    asked = {"resources": {"nvidia.com/gpu": devices}} if devices else {}
    gpus = {"allocatable": {"cpu": 192, "memory": "2Ti", "nvidia.com/gpu": 8}, "fabric": "ib"}
    sections = {"fabrics": [fabric], "cluster": {"distribution": "openshift"}}
    return platform(gpus, {"use": "openmpi", **asked}, **sections)


@pytest.mark.parametrize("devices", [None, 8, 5])
def test_a_host_with_devices_of_two_sockets_is_rejected_on_single_numa_nodes(devices: int | None) -> None:
    words = (
        f"a worker pod requests {devices or 8} of the 8 nvidia.com/gpu on 2 sockets of a node.*TopologyAffinityError"
    )
    with pytest.raises(ConfigError, match=words):
        on_server("hgx-h100", "single-numa-node", devices)


@pytest.mark.parametrize(
    ("server", "numa", "devices"),
    [
        ("hgx-h100", "single-numa-node", 4),
        ("hgx-h100", "restricted", None),
        ("hgx-h100", "best-effort", None),
        (None, "single-numa-node", None),
    ],
)
def test_valid_numa_combinations_are_allowed(server: str | None, numa: str, devices: int | None) -> None:
    assert on_server(server, numa, devices).runtimes


def test_a_number_of_sockets_has_its_own_source() -> None:
    known = [server for server in SERVERS.values() if server.sockets]
    assert len(known) >= 6
    assert all(len(server.sources) > 1 for server in known)
