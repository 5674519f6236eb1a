"""Record the manifests of each family and each option of `runtimes` again: `python -m tests.update_runtimes`.

A family on CPUs is a whole file; another device, and an option, is what it changes, as a diff to read in review.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from generator import App, Cluster, MpiRuntime, Platform, Pool, Runtime
from generator.config.model.devices import DeviceType
from generator.config.model.fabrics import Fabric
from generator.documents.emit import Emitter
from generator.facts.devices import DeviceKind
from generator.facts.families import FAMILIES, FamilyName
from generator.runtimes.training_runtime import training_runtimes
from tests.conftest import ROOT
from tests.hooked import AllHooks

FOLDER = ROOT / "tests/fixtures/runtimes"
OWN = DeviceType(name="acme-npu", resource="acme.example.com/npu", environment={"ACME_NPU_RUNTIME": "mpi"})
POOLS: dict[str, Pool] = {
    pool.device: pool
    for pool in (
        Pool(name="cpu", nodes=4, allocatable={"cpu": 64, "memory": "256Gi"}),
        Pool(name="nvidia", nodes=4, allocatable={"cpu": 192, "memory": "2Ti", "nvidia.com/gpu": 8}),
        Pool(name="mig", nodes=4, allocatable={"cpu": 112, "memory": "1Ti", "nvidia.com/mig-1g.10gb": 56}),
        Pool(name="amd", nodes=4, allocatable={"cpu": 192, "memory": "2Ti", "amd.com/gpu": 8}),
        Pool(name="intel", nodes=4, allocatable={"cpu": 96, "memory": "1Ti", "gpu.intel.com/xe": 4}),
        Pool(name="gaudi", nodes=4, allocatable={"cpu": 152, "memory": "1Ti", "habana.ai/gaudi": 8}),
        Pool(name="own", nodes=4, allocatable={"cpu": 96, "memory": "1Ti", OWN.resource: 4}).with_devices([OWN.device]),
    )
}
RACKS = Pool(
    name="racks",
    nodes=4,
    allocatable={"cpu": 64, "memory": "256Gi"},
    labels={"example.com/pool": "racks"},
    topology=("example.com/block", "example.com/rack", "kubernetes.io/hostname"),
)
FABRICS = {
    fabric.name: fabric
    for fabric in (
        Fabric(name="ib", type="infiniband", per_node=8, nics={"vendor": "15b3"}),
        Fabric(name="ib-claims", type="infiniband", attach="dra", per_node=8, device_class="ib"),
        Fabric(name="ib-or-tcp", type="infiniband", attach="rdma-shared", nics={"ports": ["ib0"]}, fallback=True),
        Fabric(
            name="roce",
            type="roce",
            per_node=2,
            nics={"ports": ["ens1f0np0", "ens2f0np0"]},
            addresses={"range": "192.168.0.0/16"},
            gpu_direct=False,
        ),
        Fabric(name="efa", type="efa", per_node=32),
        Fabric(
            name="ethernet",
            type="ethernet",
            per_node=2,
            nics={"ports": ["ens1f0np0", "ens2f0np0"]},
            addresses={"range": "192.168.0.0/16"},
        ),
    )
}
IMAGE = "registry.example.com/mpi:1"
OPTIONS: dict[str, Any] = {
    "tenants": ["team-a", "team-b"],
    "sshImage": "registry.example.com/mpi/openssh:1",
    "nodes": 8,
    "processesPerNode": 4,
    "resources": {"cpu": 32, "memory": "128Gi"},
    "launcher": "separate",
    "launcherResources": {"cpu": 4},
    "binding": "numa",
    "placement": {"required": "example.com/rack"},
    "gang": "coscheduling",
    "scheduler": "bin-packing",
    "interface": "ens5",
    "sharedMemory": "64Gi",
    "environment": {"NCCL_DEBUG": "INFO"},
    "volumes": [
        {"name": "dataset", "mountPath": "/data", "claim": "imagenet", "readOnly": True},
        {"name": "checkpoints", "mountPath": "/checkpoints", "claim": "checkpoints"},
        {"name": "scratch", "mountPath": "/scratch", "scratch": "500Gi"},
        {"name": "company-ca", "mountPath": "/etc/company-ca", "configMap": "company-ca"},
        {"name": "license", "mountPath": "/etc/license", "secret": "license"},
    ],
    "labels": {"example.com/cost-centre": "4711"},
    "annotations": {"karpenter.sh/do-not-disrupt": "true"},
    "tolerations": [
        {"key": "example.com/maintenance", "effect": "NoExecute", "tolerationSeconds": 600},
        {"key": "example.com/class", "value": "spot"},
        {"key": "example.com/reserved", "operator": "Exists"},
    ],
    "nodeAffinity": {
        "required": [
            {"key": "node.kubernetes.io/instance-type", "values": ["p5.48xlarge", "p5e.48xlarge"]},
            {"key": "example.com/broken", "operator": "DoesNotExist"},
        ],
        "preferred": [{"key": "example.com/disk", "values": ["nvme"], "weight": 10}],
    },
    "imagePullPolicy": "Always",
    "images": ["registry.example.com/mpi/*"],
    "readOnlyRootFilesystem": True,
    "fabric": "none",
    "memlock": "capability",
    "restarts": 3,
    "activeDeadlineSeconds": 86400,
    "terminationGracePeriodSeconds": 120,
    "resilience": {"checkpoint": {"claim": "checkpoints"}},
    "ttlSecondsAfterFinished": 3600,
    "deprecated": True,
}
"""Every option except names, with a value other than its default."""
ON: dict[str, Pool] = {
    "placement": RACKS,
    "fabric": POOLS["cpu"].model_copy(update={"fabric": "ib"}).wired(FABRICS.values()),
}
NEEDS: dict[str, dict[str, Any]] = {"launcherResources": {"launcher": "separate"}}

ON_FABRICS: tuple[tuple[FamilyName, DeviceKind], ...] = (
    ("openmpi", "cpu"),
    ("intel-mpi", "cpu"),
    ("mpich", "nvidia"),
    ("pytorch-mpi", "nvidia"),
    ("horovod-pytorch", "cpu"),
    ("openmpi", "nvidia-mig"),
    ("megatron", "amd"),
    ("pytorch-mpi", "intel"),
)


def goldens() -> Iterator[tuple[str, str]]:
    """Return file name → content."""
    for name, family in FAMILIES.items():
        base = rendered(family.devices[0], use=name)
        yield f"families/{name}-{family.devices[0]}.yaml", base
        for device in family.devices[1:]:
            yield f"devices/{name}-{device}.diff", diff(base, rendered(device, use=name))
    openmpi = rendered("cpu")
    yield "openshift.diff", diff(openmpi, rendered("cpu", Cluster(distribution="openshift")))
    yield "options/gang-volcano.diff", diff(openmpi, rendered("cpu", gang="volcano"))
    yield from on_fabrics()
    yield "hooks.diff", on_hooks()
    for option, value in OPTIONS.items():
        needed: dict[str, Any] = NEEDS.get(option, {})
        pool = ON.get(option, POOLS["cpu"])
        before = rendered(pool, **needed)
        yield f"options/{option}.diff", diff(before, rendered(pool, **(needed | {option: value})))


def on_fabrics() -> Iterator[tuple[str, str]]:
    """Yield the changes of each fabric on CPUs and GPUs; for other families and devices only one fabric."""
    for name in FABRICS:
        for use, device in ON_FABRICS if name == "ib" else ON_FABRICS[:4]:
            on, without = wired(POOLS[device], name), rendered(device, use=use)
            yield f"fabrics/{name}-{use}-{device}.diff", diff(without, rendered(on, use=use))


def on_hooks() -> str:
    """Return the changes of a runtime that overrides all hooks of MpiRuntime."""
    base = Platform(platform="hooks", release="1.0.0", pools=[POOLS["cpu"]])
    runtime = Runtime(name="runtime", pool="cpu", image=IMAGE, launcher="separate")
    plain, hooked = (cls(App(base), "runtime", runtime=runtime) for cls in (MpiRuntime, AllHooks))
    before, after = (Emitter().emit([one.body for one in component.manifests]) for component in (plain, hooked))
    return diff(before, after)


def wired(pool: Pool, fabric: str) -> Pool:
    """Return the pool with a fabric."""
    return pool.model_copy(update={"fabric": fabric}).wired(FABRICS.values())


def rendered(on: Pool | str, cluster: Cluster | None = None, **options: Any) -> str:
    """Return a runtime as YAML."""
    pool = POOLS[on] if isinstance(on, str) else on
    runtime = Runtime.model_validate({"name": "runtime", "pool": pool.name, "image": IMAGE, **options})
    return Emitter().emit(training_runtimes(runtime, pool, cluster or Cluster()))


def diff(before: str, after: str) -> str:
    """Return the changes with a little context."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=2)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Update every file, and remove obsolete ones."""
    wanted = dict(goldens())
    for file in FOLDER.rglob("*.*"):
        if str(file.relative_to(FOLDER)) not in wanted:
            file.unlink()
    for name, content in wanted.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
