"""Test each limit of `platform.yaml` on both sides: the last accepted value, and the first refused one."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.config.load import load_platform
from generator.errors import ConfigError

BASE = {
    "platform": "platform: prod",
    "release": "release: 1.0.0",
    "pools": "pools: [{name: gpu, nodes: 4, allocatable: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}]",
}
FABRIC = (
    "fabrics: [{name: ib, type: infiniband, nics: {vendor: 15b3}}]\n"
    "pools: [{name: gpu, nodes: 2, allocatable: {cpu: 64, memory: 256Gi}, labels: {example.com/p: x}, fabric: ib}]"
)
PARTITION = FABRIC.replace("nics", "pkey: 'VALUE', nics")
IMAGE = "runtimes: [{name: r, pool: gpu, image: 'quay.io:VALUE/acme/mpi:1'}]"
POOL = "pools: [{name: gpu, nodes: 4, allocatable: {cpu: 64, memory: 256Gi}, "
TENANT = "tenants: [{name: team-a, quota: {cpu: 8}"
KEEP = "policies: {retention: {jobs: 2}}\n"
LEVELS = "".join(f"example.com/l{level}, " for level in range(15))
PARAMETERS = "".join(f"p{number}: x, " for number in range(100))
CLUSTERS = "".join(f"{{name: c{number}, kubeConfigSecret: c{number}}}, " for number in range(20))
LABELS = "".join(f"example.com/l{label}: x, " for label in range(7))
# The section with the place of the value, the last accepted value, the first refused one, and the message about it.
LIMITS = {
    "the lowest port of an image": (IMAGE, "1", "0", "`quay.io:0/acme/mpi:1`: 0 is not a port"),
    "the highest port of an image": (IMAGE, "65535", "65536", "`quay.io:65536/acme/mpi:1`: 65536 is not a port"),
    "the number of levels of a topology": (
        POOL + "labels: {example.com/p: x}, topology: [VALUEkubernetes.io/hostname]}]",
        LEVELS,
        LEVELS + "example.com/l15, ",
        "17 levels, but a Topology can have at most 16",
    ),
    "the number of labels of a pool": (
        POOL + "labels: {VALUEexample.com/last: x}}]",
        LABELS,
        LABELS + "example.com/l7: x, ",
        "9 labels, but a ResourceFlavor can have at most 8",
    ),
    "the length of a fabric's name": (
        FABRIC.replace("name: ib", "name: VALUE").replace("fabric: ib", "fabric: VALUE"),
        "f" * 40,
        "f" * 41,
        f"`{'f' * 41}` is too long",
    ),
    "the lowest partition key": (PARTITION, "0x1", "0x0", "`0x0` is not a partition key"),
    "the lowest key of full members": (PARTITION, "0x8001", "0x8000", "`0x8000` is not a partition key"),
    "the highest partition key": (PARTITION, "0x7ffe", "0x7fff", "`0x7fff` is the key of the default partition"),
    "the highest key of full members": (PARTITION, "0xfffe", "0x10001", "`0x10001` is not a partition key"),
    "the MTU of InfiniBand": (
        FABRIC.replace("nics", "mtu: VALUE, nics"),
        "4092",
        "4093",
        "`mtu: 4093` exceeds 4092, the maximum of InfiniBand",
    ),
    "the addresses of a fabric": (
        FABRIC.replace("nics", "perNode: 4, addresses: {range: 10.0.0.0/VALUE}, nics"),
        "28",
        "29",
        "10.0.0.0/29 is too small for 4 NICs per node",
    ),
    "the lifetime of Workloads": (
        KEEP + "queues: {retainFinished: VALUE}",
        "48h",
        "47h59m59s",
        "`47h59m59s` is less than the 2 days of `policies.retention.jobs`",
    ),
    "the quota of a pool": (
        "tenants: [{name: team-a, quota: {nvidia.com/gpu: 'VALUE'}}]",
        "32",
        "33",
        "`33` is more than the 32 nvidia.com/gpu that pool `gpu` offers to jobs",
    ),
    "lent quota": (
        TENANT + ", lend: {cpu: VALUE}}]",
        "'8'",
        "8001m",
        "the team lends 8001m cpu of pool `gpu`, but its quota is 8",
    ),
    "a ResourceQuota": (
        TENANT + ", limits: {resources: {cpu: VALUE}}}]",
        "8",
        "7999m",
        "`7999m` is less than the 8 that Kueue admits for tenant `team-a`, so the API server rejects pods",
    ),
    "the number of volumes": (
        TENANT + ", limits: {volumes: VALUE}, volumes: [{name: a, size: 1Gi}, {name: b, size: 2Gi}]}]",
        "2",
        "1",
        "`1` is less than the 2 `volumes` of the team",
    ),
    "the size of volumes": (
        TENANT + ", limits: {storage: VALUE}, volumes: [{name: a, size: 1Gi}, {name: b, size: 2Gi}]}]",
        "3Gi",
        "3071Mi",
        "`3071Mi` is less than the 3Gi that the `volumes` of the team request",
    ),
    "the devices of a node": (
        "pools: [{name: gpu, nodes: 4, allocatable: {cpu: 64, memory: 256Gi, nvidia.com/gpu: VALUE}}]",
        "1000",
        "1001",
        "`1001` of nvidia.com/gpu is more than any node offers",
    ),
    "the MIG instances of a node": (
        "fabrics: [{name: ib, server: hgx-h100}]\n"
        + POOL.replace("256Gi}", "256Gi, nvidia.com/mig-1g.10gb: VALUE}")
        + "labels: {example.com/p: x}, fabric: ib}]",
        "56",
        "57",
        "a node cannot have `57` MIG instances: its 8 GPUs hold at most 56 of the profile `1g.10gb`",
    ),
    "the MIG slices of a pod": (
        POOL.replace("256Gi", "256Gi, nvidia.com/mig-1g.10gb: 8") + "labels: {example.com/p: x}}]\n"
        "runtimes: [{name: r, use: pytorch-mpi, image: a, pool: gpu, resources: {nvidia.com/mig-1g.10gb: VALUE}}]",
        "1",
        "2",
        "a pod gets `2` MIG slices, but a CUDA process uses only one",
    ),
    "the GPU shares of a pod": (
        POOL.replace("256Gi", "256Gi, nvidia.com/gpu.shared: 8") + "labels: {example.com/p: x}}]\n"
        "runtimes: [{name: r, use: pytorch-mpi, image: a, pool: gpu, resources: {nvidia.com/gpu.shared: VALUE}}]",
        "1",
        "2",
        "the `2` GPU shares of a pod can belong to the same GPU, and NCCL then rejects the ranks",
    ),
    "the ranks on a MIG slice": (
        POOL.replace("256Gi", "256Gi, nvidia.com/mig-1g.10gb: 8") + "labels: {example.com/p: x}}]\n"
        "runtimes: [{name: r, use: pytorch-mpi, image: a, pool: gpu, processesPerNode: VALUE}]",
        "1",
        "2",
        "`2` ranks would use one MIG slice, which NCCL rejects",
    ),
    "the ranks on a share of a GPU": (
        POOL.replace("256Gi", "256Gi, nvidia.com/gpu.shared: 1") + "labels: {example.com/p: x}}]\n"
        "runtimes: [{name: r, use: pytorch-mpi, image: a, pool: gpu, processesPerNode: VALUE}]",
        "1",
        "2",
        "`2` ranks would use one share of a GPU, which NCCL rejects",
    ),
    "the least cores of a node": (
        "pools: [{name: gpu, nodes: 4, allocatable: {cpu: VALUE, memory: 256Gi}}]",
        "500m",
        "499m",
        "`499m` of cpu is less than any node offers",
    ),
    "the least memory of a node": (
        "pools: [{name: gpu, nodes: 4, allocatable: {cpu: 64, memory: VALUE}}]",
        "256Mi",
        "255Mi",
        "`255Mi` of memory is less than any node offers",
    ),
    "the most memory of a node": (
        "pools: [{name: gpu, nodes: 4, allocatable: {cpu: 64, memory: VALUE}}]",
        "64Ti",
        "67108865Mi",
        "`67108865Mi` of memory is more than any node offers",
    ),
    "the size of a volume": (
        TENANT + ", volumes: [{name: a, size: VALUE}]}]",
        "1Mi",
        "1048575",
        "`1048575` is less than 1Mi: the unit is missing or too small",
    ),
    "the length of a reason": (
        TENANT + ", relax: [{rule: images, reason: VALUE, until: '9999-12-31'}]}]",
        "r" * 1000,
        "r" * 1001,
        "`reason` is longer than 1000 characters",
    ),
    "the number of parameters of a provisioning class": (
        POOL + "provisioning: {class: a.b, parameters: {VALUE}}}]",
        PARAMETERS,
        PARAMETERS + "last: x, ",
        "`parameters` has more than 100 entries",
    ),
    "the number of worker clusters": (
        "queues: {multiKueue: {clusters: [VALUE]}}",
        CLUSTERS,
        CLUSTERS + "{name: last, kubeConfigSecret: last}, ",
        "`clusters` has more than 20 entries",
    ),
    "the most cores of a node": (
        "pools: [{name: gpu, nodes: 4, allocatable: {cpu: VALUE, memory: 256Gi}}]",
        "8192",
        "8193",
        "`8193` of cpu is more than any node offers",
    ),
}


def load_with(sections: str, folder: Path) -> None:
    """Load the base with some sections added or replaced."""
    file = folder / "platform.yaml"
    added = {section.partition(":")[0]: section for section in sections.splitlines()}
    file.write_text("\n".join({**BASE, **added}.values()), "utf-8")
    load_platform(file)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_accepts_its_last_value_and_refuses_the_next_one(limit: str, tmp_path: Path) -> None:
    sections, accepted, refused, message = LIMITS[limit]
    load_with(sections.replace("VALUE", accepted), tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_with(sections.replace("VALUE", refused), tmp_path)
    (problem,) = caught.value.problems
    assert problem.message == message
    assert problem.fix
