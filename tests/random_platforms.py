"""Draw valid random platforms with all kinds of pools, groups, teams and runtimes, the same for the same number."""

from __future__ import annotations

from random import Random
from typing import Any

from generator import Platform

_DEVICES = ("", "", "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "gpu.intel.com/xe", "habana.ai/gaudi")
_FAMILIES = {
    "": ("openmpi", "intel-mpi", "mpich", "horovod-pytorch", "pytorch-mpi"),
    "nvidia.com/gpu": ("openmpi", "horovod-tensorflow", "deepspeed", "megatron"),
    "amd.com/gpu": ("openmpi", "deepspeed", "pytorch-mpi"),
}


def random_platform(number: int, *, slack: bool | None = None, counts_otherwise: bool = False) -> Platform:
    """Return a platform whose names begin with `r<number>`, so that many fit on one cluster without slack.

    `counts_otherwise` makes Kueue ignore some resources and transform others.
    """
    chance, name = Random(number), f"r{number}"
    pools = [_pool(chance, f"{name}-p{index}") for index in range(chance.randint(1, 3))]
    cohorts = [
        {"name": f"{name}-c{index}", **({"parent": f"{name}-c{chance.randrange(index)}"} if index else {})}
        for index in range(chance.randint(0, 3))
    ]
    left = {pool["name"]: pool["nodes"] for pool in pools}
    tenants = [_tenant(chance, f"{name}-t{index}", pools, cohorts, left) for index in range(chance.randint(1, 3))]
    has_slack = chance.random() < 0.5 if slack is None else slack
    queues = {"slack": has_slack, "fairSharing": True, **(_counting(chance) if counts_otherwise else {})}
    return Platform.model_validate(
        {
            "platform": f"{name}-platform",
            "release": "1.0.0",
            "pools": pools,
            "cohorts": cohorts,
            "queues": queues,
            "runtimes": [_runtime(chance, f"{name}-{pool['name'][-2:]}", pool) for pool in pools],
            "tenants": tenants,
        }
    )


def _counting(chance: Random) -> dict[str, Any]:
    """Draw the counting of every kind of device, and of CPU."""
    transformations = [
        {
            "input": resource,
            "strategy": chance.choice(("retain", "replace")),
            "outputs": {
                output: chance.choice((0.5, 1, 10)) for output in ("example.com/units", "cpu")[: chance.randint(0, 2)]
            },
        }
        for resource in sorted({*filter(None, _DEVICES)})
    ]
    return {"excludeResourcePrefixes": chance.choice(([], ["mem"])), "transformations": transformations}


def _pool(chance: Random, name: str) -> dict[str, Any]:
    device = chance.choice(_DEVICES)
    cpu, memory = chance.choice((8, 16, 63, 96, 192)), chance.choice((32, 64, 250, 1024))
    devices = {device: chance.choice((1, 4, 7, 8))} if device else {}
    pool: dict[str, Any] = {
        "name": name,
        "nodes": chance.randint(2, 6),
        "allocatable": {"cpu": cpu, "memory": f"{memory}Gi", **devices},
        "labels": {"example.com/pool": name},
    }
    if chance.random() < 0.3:
        pool["daemons"] = {"cpu": f"{chance.choice((500, 1500))}m", "memory": "2Gi"}
    if device and chance.random() < 0.7:
        pool["taints"] = [{"key": device, "effect": "NoSchedule"}]
    if chance.random() < 0.3:
        pool["topology"] = ["example.com/rack", "kubernetes.io/hostname"]
    return pool


def _runtime(chance: Random, name: str, pool: dict[str, Any]) -> dict[str, Any]:
    device = next((resource for resource in pool["allocatable"] if "/" in resource), "")
    runtime: dict[str, Any] = {
        "name": name,
        "pool": pool["name"],
        "use": chance.choice(_FAMILIES.get(device, ("openmpi",))),
        "image": "registry.example.com/mpi:1",
    }
    if runtime["use"] == "openmpi" and chance.random() < 0.5:
        runtime["launcher"] = "separate"
    if not device and chance.random() < 0.4:
        runtime["resources"] = {"cpu": chance.randint(1, 6), "memory": f"{chance.randint(1, 16)}Gi"}
    if chance.random() < 0.2:
        runtime["sharedMemory"] = "1Gi"
    return runtime


def _tenant(
    chance: Random, name: str, pools: list[dict[str, Any]], cohorts: list[dict[str, Any]], left: dict[str, int]
) -> dict[str, Any]:
    quota = {pool["name"]: chance.randint(0, left[pool["name"]]) for pool in pools}
    for pool, nodes in quota.items():
        left[pool] -= nodes
    tenant: dict[str, Any] = {
        "name": name,
        "quota": quota,
        "borrow": {pool["name"]: chance.randint(0, pool["nodes"]) for pool in pools if chance.random() < 0.6},
        "preemption": chance.choice(("never", "lower-priority", "reclaim")),
        "weight": chance.randint(1, 3),
        "access": {"edit": [f"group:{name}"]},
    }
    if cohorts and chance.random() < 0.8:
        tenant["cohort"] = chance.choice(cohorts)["name"]
    if chance.random() < 0.3:
        tenant["lend"] = {pool: chance.randint(0, nodes) for pool, nodes in quota.items()}
    if chance.random() < 0.5:
        tenant["limits"] = _limits(chance, pools)
    return tenant


def _limits(chance: Random, pools: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw limits; a second limit is at least the total of the pools."""
    limits: dict[str, Any] = {"trainJobs": chance.randint(1, 50)}
    devices = {
        resource: sum(int(pool["allocatable"].get(resource, 0)) * pool["nodes"] * 2 for pool in pools)
        for pool in pools
        for resource in pool["allocatable"]
        if "/" in resource
    }
    if devices and chance.random() < 0.5:
        limits["resources"] = devices
    if chance.random() < 0.3:
        limits["storage"] = "1Ti"
    return limits
