"""Test device types of the platform file: the pools, families and runtimes that have them.

tests/fixtures/broken/devices*.txt have the messages of all mistakes.
"""

from __future__ import annotations

from typing import Any

import pytest

from generator import DeviceType, MpiFamily, Platform, Pool, Runtime
from generator.facts.devices import DeviceKind, devices
from generator.jobs import contract
from generator.jobs.request import JobRequest
from generator.jobs.smoke import started_by
from generator.manifests import Body
from generator.runtimes.hosts import node_size
from generator.runtimes.training_runtime import training_runtimes
from tests.conftest import small_platform
from tests.offers import job_of, offered, offered_alone
from tests.unit.test_runtimes import containers, variables

NPU: dict[str, Any] = {"name": "npu", "resource": "acme.example.com/npu", "environment": {"ACME": "of the device"}}
RESOURCE = str(NPU["resource"])
TORCH = {"name": "acme-torch", "like": "pytorch-mpi", "devices": ["npu"], "environment": {"ACME_TORCH": "1"}}


def platform(device: dict[str, Any], /, *families: dict[str, Any], **runtime: Any) -> Platform:
    """Return the small platform with a device type, a pool of it, and one runtime on this pool."""
    data = small_platform()
    pool = {"name": "own", "nodes": 8, "allocatable": {"cpu": 64, "memory": "512Gi", device["resource"]: 8}}
    data["devices"], data["families"] = [device], [*families]
    data["pools"] = [{**entry, "labels": {"example.com/pool": entry["name"]}} for entry in (*data["pools"], pool)]
    data["tenants"] = [{**tenant, "quota": {"cpu": 3, "own": 4}} for tenant in data["tenants"]]
    data["runtimes"] = [{"name": "own", "pool": "own", "image": "registry.example.com/own:1", **runtime}]
    return Platform.model_validate(data)


def built(declared: Platform) -> Body:
    """Return the manifest of the runtime of a platform."""
    (runtime,) = declared.runtimes
    (body,) = training_runtimes(runtime, declared.pool(runtime.pool), declared.cluster)
    return body


def test_ranks_run_on_devices_and_get_their_variables() -> None:
    body = built(platform(NPU))
    assert body["spec"]["mlPolicy"]["mpi"]["numProcPerNode"] == 8
    node, launcher = containers(body)
    assert (node["resources"]["limits"][RESOURCE], launcher["resources"]["limits"][RESOURCE]) == ("8", "8")
    assert variables(body)["ACME"] == "of the device"


def test_a_family_and_a_runtime_override_the_variables_of_a_device() -> None:
    family = {"name": "own", "like": "openmpi", "environment": {"ACME": "of the family"}}
    assert variables(built(platform(NPU, family, use="own")))["ACME"] == "of the family"
    override = {"ACME": "of the runtime"}
    assert variables(built(platform(NPU, family, use="own", environment=override)))["ACME"] == "of the runtime"


def test_a_framework_on_an_unknown_device_gets_no_variables_of_a_library() -> None:
    names = variables(built(platform(NPU, TORCH, use="acme-torch")))
    assert {"ACME", "ACME_TORCH"} <= names.keys()
    assert not [name for name in names if name.startswith(("NCCL_", "CCL_", "HCCL_", "DS_"))]


@pytest.mark.parametrize("like", [device.kind for device in devices()])
def test_a_device_like_another_gets_the_same_pods_under_its_own_resource(like: DeviceKind) -> None:
    known = {"nvidia": "nvidia.com/gpu", "nvidia-mig": "nvidia.com/mig-1g.10gb", "amd": "amd.com/gpu"}
    known |= {"intel": "gpu.intel.com/xe", "gaudi": "habana.ai/gaudi"}
    own = {"name": "own", "resource": RESOURCE, "like": like, "most": 8}
    of_own = Pool.model_validate({"name": "p", "nodes": 2, "allocatable": {"cpu": 64, "memory": "1Ti", RESOURCE: 8}})
    of_own = of_own.with_devices([DeviceType.model_validate(own).device])
    of_known = Pool.model_validate({**of_own.declared.model_dump(exclude={"allocatable", "labels"}, by_alias=True)} | {
        "allocatable": {"cpu": 64, "memory": "1Ti", known[like]: 8}
    })  # fmt: skip
    assert (of_own.device, of_own.device_name, of_known.device) == (like, "own", like)
    runtime = Runtime(name="r", use="pytorch-mpi", pool="p", image="i")
    sizes = [node_size(runtime, pool) for pool in (of_own, of_known)]
    assert sizes[0].slots == sizes[1].slots
    ours, theirs = (offered_alone(runtime, pool).contract for pool in (of_own, of_known))
    assert ours is not None
    assert theirs is not None
    assert started_by(ours) == started_by(theirs)


def test_a_pool_without_its_platform_has_no_device_of_the_platform() -> None:
    (pool,) = [pool for pool in platform(NPU).pools if pool.name == "own"]
    assert (pool.accelerator, pool.declared.accelerator) == (RESOURCE, "")
    bare = platform(NPU).replace(devices=(), runtimes=())
    assert bare.pool("own").accelerator == ""


def test_yaml_and_python_give_the_same_platform() -> None:
    parsed = platform(NPU, TORCH, use="acme-torch")
    device = DeviceType(name="npu", resource=RESOURCE, environment=NPU["environment"])
    family = MpiFamily(name="acme-torch", like="pytorch-mpi", devices=("npu",), environment={"ACME_TORCH": "1"})
    python = parsed.replace(devices=(device,), families=(family,))
    assert python == parsed
    assert python.digest() == parsed.digest()
    assert built(python) == built(parsed)


def test_a_smoke_test_notes_that_it_uses_no_unknown_device() -> None:
    declared = platform(NPU, TORCH, use="acme-torch")
    job = job_of(declared, JobRequest("own", "team-a", is_smoke=True))
    assert job.body["spec"]["trainer"]["command"][-2:] == ["gloo", "cpu"]
    title = declared.runtimes[0].family.title
    assert f"the ranks sum on CPUs, because mpigen does not know how {title} uses `npu`" in job.notes
    assert not [
        note
        for note in job_of(platform(NPU), JobRequest("own", "team-a", is_smoke=True)).notes
        if "sum on CPUs" in note
    ]


def test_facts_name_the_device_type() -> None:
    declared = platform(NPU, TORCH, use="acme-torch")
    assert contract.runtime_facts(*offered(declared, declared.runtimes[0]))["device"] == "npu"
    assert contract.device_facts(declared.devices[0]) == {
        "name": "npu",
        "title": "npu",
        "resource": RESOURCE,
        "like": "",
        "most": 0,
        "environment": {"ACME": "of the device"},
    }
