"""Platforms of any size, to measure with."""

from __future__ import annotations

from pathlib import Path

_HEAD = """\
platform: {name}
release: 1.0.0
cluster: {{distribution: openshift}}
fabrics:
  - {{name: ib, server: hgx-h100, nodes: {{memlock: true, numa: restricted, machineConfigPool: h100}}}}
pools:
  - name: h100
    nodes: {nodes}
    allocatable: {{cpu: 192, memory: 2Ti, nvidia.com/gpu: 8}}
    labels: {{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
    taints: [{{key: nvidia.com/gpu, effect: NoSchedule}}]
    fabric: ib
  - {{name: cpu, nodes: {nodes}, allocatable: {{cpu: 64, memory: 256Gi}}}}
runtimes:
  - {{name: openmpi-cpu, use: openmpi, pool: cpu}}
  - {{name: openmpi-h100, use: openmpi, pool: h100, image: quay.io/acme/openmpi-cuda:1}}
tenants:
"""
_TENANT = """\
  - name: team-{number:05d}
    quota: {{h100: 2, cpu: 2}}
    borrow: {{h100: 4}}
    access: {{admin: [group:leads-{number}], edit: [group:team-{number}], view: [group:all]}}
    egress: [{{name: s3, cidr: 10.20.0.0/16, ports: [443]}}]
"""
_LIMITS = """\
    priorities: [urgent]
    registries: [registry.example.com/team-{number}/]
    limits: {{hostsPerJob: 8, devicesPerHost: {{nvidia.com/gpu: 8}}, storage: 10Ti}}
"""
_PRIORITIES = """\
queues:
  priorities:
    - {name: urgent, value: 100, description: deadlines}
    - {name: research, value: 10, description: all other jobs}
"""
_TAIL = "gitops: {repository: https://git.example.com/platform.git}\n"


def platform_file(folder: Path, tenants: int, *, has_limits: bool = False) -> Path:
    """Write a platform with that many tenants, two pools, one of them on InfiniBand, and two runtimes.

    Args:
        folder: the folder of the file.
        tenants: the number of tenants.
        has_limits: True if each tenant has its own priorities, registries and limits, which add admission rules.
    """
    file = folder / f"bench-{tenants}.yaml"
    tenant = _TENANT + (_LIMITS if has_limits else "")
    teams = "".join(tenant.format(number=number) for number in range(tenants))
    head = _HEAD.format(name=f"bench-{tenants}", nodes=2 * tenants)
    file.write_text(head + teams + (_PRIORITIES if has_limits else "") + _TAIL, encoding="utf-8")
    return file


def kustomization(folder: Path) -> None:
    """Make a folder of manifests something that `kubectl kustomize` prints."""
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.yaml"))
    (folder / "kustomization.yaml").write_text("resources:\n" + "".join(f"- {file}\n" for file in files), "utf-8")
