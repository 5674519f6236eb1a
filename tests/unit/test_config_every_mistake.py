"""Test that every mistake of a platform file is reported at once: several of one section, and between sections."""

from __future__ import annotations

import copy
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from generator.config.load import load_platform
from generator.errors import ConfigError, Problem
from tests.conftest import Run
from tests.update_broken import BROKEN, FILE

BASE = """
platform: prod
release: 1.0.0
cluster: {network: standard}
fabrics:
- {name: ib, type: infiniband, attach: sriov, nics: {vendor: "15b3"}, nodes: {pluginVersion: null}}
- {name: roce, type: roce, attach: sriov, nics: {ports: [ens1f0]}, addresses: {range: 192.168.0.0/16}}
pools:
- {name: cpu, nodes: 4, allocatable: {cpu: 64, memory: 256Gi}, labels: {pool: cpu}}
- {name: h100, nodes: 8, allocatable: {cpu: 96, memory: 1Ti, nvidia.com/gpu: 8}, labels: {pool: h100}, fabric: ib}
- {name: roce, nodes: 8, allocatable: {cpu: 96, memory: 1Ti, amd.com/gpu: 8}, labels: {pool: roce}, fabric: roce}
runtimes:
- {name: openmpi, pool: cpu, volumes: [{name: data, mountPath: /data, claim: data}]}
- {name: h100, pool: h100, image: quay.io/acme/mpi:1}
tenants:
- name: team-a
  quota: {cpu: 1, h100: 2}
  egress: [{name: s3, cidr: 10.0.0.0/8, ports: [443]}]
  volumes: [{name: datasets, size: 1Ti}]
- name: team-b
  quota: {cpu: 1}
  relax: [{rule: images, reason: test, until: 2099-01-01}]
- name: team-c
  quota: {cpu: 1}
  renamedFrom: team-old
  namespaces: [team-c-dev]
  retired: {reason: test, until: 2099-01-01}
cohorts: [{name: physics}]
policies: {admission: {default: deny}}
access:
  admin: ["group:admins"]
  roles:
  - {name: steward, description: test, rules: [{apiGroups: [""], resources: [persistentvolumeclaims], verbs: [get]}]}
isolation: {unit: namespace}
queues: {slack: true}
gitops: {repository: "https://git.example.com/platform.git"}
"""


class Change(NamedTuple):
    """A change of BASE that makes one mistake.

    Attributes:
        path: the field that changes.
        value: its new value; None removes it.
        reads: the other fields from which the mistake follows.
    """

    path: tuple[str | int, ...]
    value: Any
    reads: tuple[tuple[str | int, ...], ...] = ()


POOL, FABRIC, ROCE, RUNTIME, TENANT, TEAM_B, TEAM_C = (
    ("pools", 1),
    ("fabrics", 0),
    ("fabrics", 1),
    ("runtimes", 0),
    ("tenants", 0),
    ("tenants", 1),
    ("tenants", 2),
)
ROLE = ("access", "roles", 0)
SHAPE = tuple(("fabrics", 0, field) for field in ("type", "attach", "operator"))
ROCE_SHAPE = tuple(("fabrics", 1, field) for field in ("type", "attach", "operator"))
CHANGES = {
    "the release is a number": Change(("release",), 1.0),
    "the platform has no name": Change(("platform",), None),
    "an unknown mesh": Change(("cluster", "mesh"), "linkerd"),
    "an unknown distribution": Change(("cluster", "distribution"), "k3s"),
    "an unknown network": Change(("cluster", "network"), "flannel"),
    "a version as a number": Change(("cluster", "versions"), {"kueue": 0.19}),
    "a VLAN on InfiniBand": Change((*FABRIC, "vlan"), 7, SHAPE),
    "a text for gpuDirect": Change((*FABRIC, "gpuDirect"), "yes please"),
    "an MTU beyond InfiniBand": Change((*FABRIC, "mtu"), 9000, SHAPE),
    "a DeviceClass without DRA": Change((*FABRIC, "deviceClass"), "x.example.com", SHAPE),
    "a short set of cores": Change((*FABRIC, "nodes", "reservedCpus"), "3-0"),
    "a plugin that is not used": Change((*FABRIC, "nodes", "pluginRepository"), "registry.example.com/a", SHAPE),
    "an unknown attachment": Change((*FABRIC, "attach"), "sr-iov"),
    "a partition key on RoCE": Change((*ROCE, "pkey"), "0x101", ROCE_SHAPE),
    "a gateway outside of the range": Change(
        (*ROCE, "addresses", "gateway"), "10.0.0.1", (*ROCE_SHAPE, (*ROCE, "addresses", "range"))
    ),
    "NICs that are not listed": Change((*ROCE, "perNode"), 2, (*ROCE_SHAPE, (*ROCE, "nics"))),
    "a negative number of nodes": Change((*POOL, "nodes"), -1),
    "memory without a unit": Change((*POOL, "allocatable", "memory"), 1024, ((*POOL, "allocatable"),)),
    "no cpu": Change((*POOL, "allocatable", "cpu"), None, ((*POOL, "allocatable"),)),
    "GPUs in parts": Change((*POOL, "allocatable", "nvidia.com/gpu"), "7500m", ((*POOL, "allocatable"),)),
    "a topology with one level twice": Change((*POOL, "topology"), ["example.com/rack", "example.com/rack"]),
    "groups of no device": Change(("pools", 0, "deviceGroups"), [109], (("pools", 0, "allocatable"),)),
    "daemons beyond the node": Change(("pools", 0, "daemons"), {"cpu": 64}, (("pools", 0, "allocatable"),)),
    "an unknown fabric": Change((*POOL, "fabric"), "nvlink", (("fabrics",),)),
    "a pool of the same name": Change(("pools", 2, "name"), "h100"),
    "an unknown pool": Change((*RUNTIME, "pool"), "gpu", (("pools",),)),
    "an unknown family": Change((*RUNTIME, "use"), "openmp"),
    "a volume with two sources": Change((*RUNTIME, "volumes", 0, "scratch"), "10Gi"),
    "a relative mount path": Change((*RUNTIME, "volumes", 0, "mountPath"), "data"),
    "a request that no node has": Change(
        (*RUNTIME, "resources"), {"nvidia.com/gpu": 1}, (("pools", 0), (*RUNTIME, "pool"))
    ),
    "requests beyond the node": Change(
        ("runtimes", 1, "resources"), {"cpu": 1000}, (("pools", 1), ("runtimes", 1, "pool"))
    ),
    "an image without a name": Change(("runtimes", 1, "image"), "quay.io/"),
    # A fabric with several mistakes may have the resource.
    "an unknown resource": Change((*TENANT, "quota", "example.com/fpga"), 3, (("pools",), ("fabrics",))),
    "a quota of an unknown pool": Change((*TEAM_B, "quota", "h200"), 3, (("pools",),)),
    "a quota beyond the pool": Change((*TENANT, "quota", "h100"), 20, (("pools", 1),)),
    "an invalid quota": Change((*TENANT, "quota", "cpu"), -1),
    "an unknown cohort": Change((*TENANT, "cohort"), "biology", (("cohorts",),)),
    "a name that Cilium matches": Change(
        (*TENANT, "egress", 0), {"name": "s3", "fqdn": "s3.example.com", "ports": [443]}, (("cluster", "network"),)
    ),
    "egress to a port of 0": Change((*TENANT, "egress", 0, "ports"), [0]),
    "egress without a destination": Change((*TENANT, "egress", 0, "cidr"), None),
    "a volume without a size": Change((*TENANT, "volumes", 0, "size"), 0),
    "a limit below the volumes": Change((*TENANT, "limits"), {"storage": "1Gi"}, ((*TENANT, "volumes", 0, "size"),)),
    "a subject without a kind": Change((*TENANT, "access"), {"edit": ["ada"]}),
    "workers without clusters": Change((*TEAM_B, "multiKueue"), True, (("queues", "multiKueue"),)),
    "a weight without fair sharing": Change((*TEAM_B, "weight"), 3, (("queues", "fairSharing"),)),
    "a rule without a level": Change((*TEAM_B, "relax", 0, "to"), "baseline", ((*TEAM_B, "relax", 0, "rule"),)),
    "a relaxation until a word": Change((*TEAM_B, "relax", 0, "until"), "tomorrow"),
    "a relaxation of an audited rule": Change(
        ("policies", "admission"), {"default": "off"}, ((*TEAM_B, "relax", 0, "rule"), (*TEAM_B, "relax", 0, "to"))
    ),
    "a stop of a retired team": Change((*TEAM_C, "stop"), "hold", ((*TEAM_C, "retired"),)),
    "a retirement without a day": Change((*TEAM_C, "retired"), {"reason": "test"}),
    "an earlier name of the platform that is its name": Change(("renamedFrom",), "prod", (("platform",),)),
    "an invalid earlier name of the platform": Change(("renamedFrom",), "Prod East"),
    "an earlier name of a team that stays": Change((*TENANT, "renamedFrom"), "team-b"),
    "an earlier name of two teams": Change((*TEAM_B, "renamedFrom"), "team-old", ((*TEAM_C, "renamedFrom"),)),
    "an invalid earlier name": Change((*TEAM_C, "renamedFrom"), "Team C"),
    "an acknowledgement of a team that stays": Change(("removed", "team-b"), {"reason": "test", "until": "2099-01-01"}),
    "an acknowledgement of a namespace that stays": Change(
        ("removed", "team-c-dev"), {"reason": "test", "until": "2099-01-01"}
    ),
    "an acknowledgement without a reason": Change(("removed", "gone"), {"until": "2099-01-01"}),
    "an acknowledgement until a word": Change(("removed", "left"), {"reason": "test", "until": "soon"}),
    "an acknowledgement of an invalid name": Change(("removed", "Team A"), {"reason": "test", "until": "2099-01-01"}),
    "a cohort that is its own parent": Change(("cohorts", 0, "parent"), "physics"),
    "an invalid registry": Change(("policies", "images"), {"registries": ["acme"]}),
    "an invalid retention": Change(("policies", "retention"), {"jobs": 0}),
    "a platform admin without a kind": Change(("access", "admin"), ["ada"]),
    "a role of a word": Change((*ROLE, "like"), "editor"),
    "a role that reads Secrets": Change((*ROLE, "rules", 0, "resources"), ["secrets"]),
    "a role for a misspelt resource": Change((*ROLE, "rules", 0, "resources"), ["persistentvolumeclaim"]),
    "a role that writes another kind": Change(
        (*ROLE, "rules", 0),
        {"apiGroups": ["kubeflow.org"], "resources": ["notebooks"], "verbs": ["create"]},
        (("policies",), (*TENANT, "workloads"), (*TEAM_B, "workloads"), (*TEAM_C, "workloads")),
    ),
    "a subject of an unknown role": Change(
        (*TEAM_B, "access"), {"roles": {"stewart": ["user:ada"]}}, (("access", "roles"),)
    ),
    "a cache without an address": Change(("isolation", "dnsCache"), "localhost"),
    "a guard without OVN": Change(("isolation", "guard"), {"priority": 3}, (("cluster", "network"),)),
    "a priority of the same name": Change(
        ("queues", "priorities"), [{"name": "a", "value": 1, "description": "x"}, {"name": "a", "value": 2}]
    ),
    "a text for fair sharing": Change(("queues", "fairSharing"), "yes"),
    "a cluster by its name": Change(("gitops", "destination"), "prod-eu"),
    "an unknown engine": Change(("gitops", "engine"), "fleet"),
    "a login for Argo CD": Change(("gitops", "secret"), "login", (("gitops", "engine"),)),
}


def mistakes_of(data: Any, folder: Path) -> tuple[Problem, ...]:
    """Return the problems of a platform file; empty for a valid file."""
    file = folder / FILE
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    try:
        load_platform(file)
    except ConfigError as error:
        return error.problems
    return ()


def changed(*changes: Change) -> Any:
    """Return BASE with changes."""
    data = yaml.safe_load(BASE)
    for path, value, _ in changes:
        parent = data
        for step in path[:-1]:
            parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
        if value is None:
            del parent[path[-1]]
        else:
            parent[path[-1]] = copy.deepcopy(value)
    return data


def overlap(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> bool:
    """Return True if one of two values contains the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


def are_independent(one: Change, other: Change) -> bool:
    """Return True if neither of two changes affects the mistake of the other."""
    return not any(
        overlap(first.path, place)
        for first, second in ((one, other), (other, one))
        for place in (second.path, *second.reads)
    )


def test_the_unchanged_platform_is_valid(tmp_path: Path) -> None:
    assert mistakes_of(changed(), tmp_path) == ()


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_makes_a_mistake_with_a_place_and_a_fix(name: str, tmp_path: Path) -> None:
    problems = mistakes_of(changed(CHANGES[name]), tmp_path)
    assert problems
    assert all(problem.line and problem.path and problem.message and problem.fix for problem in problems)


PAIRS = [pair for pair in combinations(sorted(CHANGES), 2) if are_independent(*(CHANGES[name] for name in pair))]


@given(st.sampled_from(PAIRS))
def test_two_independent_mistakes_are_both_reported(
    tmp_path_factory: pytest.TempPathFactory, pair: tuple[str, str]
) -> None:
    assert_all_reported(*pair, folder=tmp_path_factory.getbasetemp())


@given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=4, max_size=8, unique=True))
def test_four_to_eight_independent_mistakes_are_all_reported(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    assume(all(are_independent(CHANGES[one], CHANGES[other]) for one, other in combinations(names, 2)))
    assert_all_reported(*names, folder=tmp_path_factory.getbasetemp())


def assert_all_reported(*names: str, folder: Path) -> None:
    alone = {
        (problem.path, problem.message) for name in names for problem in mistakes_of(changed(CHANGES[name]), folder)
    }
    together = {(problem.path, problem.message) for problem in mistakes_of(changed(*map(CHANGES.get, names)), folder)}  # type: ignore[arg-type]
    assert not alone - together, names


MANY = sorted(BROKEN.glob("many-*.yaml"))


@pytest.mark.parametrize("case", MANY, ids=lambda case: case.stem)
def test_the_command_reports_every_mistake_and_exits_with_2(case: Path, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / FILE).write_bytes(case.read_bytes())
    ran = mpigen("synth", FILE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Traceback" not in ran.stderr
    assert ran.stderr.splitlines() == [f"error: {line}" for line in case.with_suffix(".txt").read_text().splitlines()]
