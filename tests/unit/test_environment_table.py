"""Test that facts/environment.yaml sets each variable once, for combinations that exist."""

from __future__ import annotations

import string
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, get_args

import pytest

from generator import Runtime
from generator.config.model.fabrics import Fabric
from generator.facts.devices import OTHER
from generator.facts.env import Case, Row, data_library, job_environment
from generator.facts.families import FAMILIES, MPI
from generator.facts.table import read_rows
from generator.runtimes.hosts import node_size
from generator.runtimes.training_runtime import launcher_environment
from tests.update_runtimes import FABRICS, POOLS, wired

ROWS = read_rows("environment", "variables", Row)
LIBRARIES = read_rows("environment", "libraries", Row)
BINDINGS = get_args(Runtime.model_fields["binding"].annotation)


def fabrics() -> Iterator[dict[str, Any]]:
    """Yield the settings of every fabric: only RDMA has a fallback or GPUDirect."""
    yield {"fabric": "none", "fallback": False, "gpuDirect": False}
    for fabric, fallback, direct in product(
        get_args(Fabric.model_fields["type"].annotation), (False, True), (False, True)
    ):
        if fabric != "ethernet" or not fallback:
            yield {"fabric": fabric, "fallback": fallback, "gpuDirect": direct}


def cases() -> Iterator[Case]:
    """Yield a case for each family, device, fabric and binding.

    A family of the platform file can add a device type of the platform to each family that it is like.
    """
    for family in FAMILIES.values():
        devices = dict.fromkeys([*family.devices, OTHER])
        for device, fabric, binding, agents, ssh in product(devices, fabrics(), BINDINGS, (False, True), (False, True)):
            yield {
                "mpi": family.mpi,
                "framework": family.framework,
                "family": family.name,
                "library": data_library(family.framework, device),
                "device": device,
                "binding": binding,
                "agents": agents,
                "ownSsh": ssh,
                **fabric,
            }


CASES = [*cases()]


def name_of(row: Row) -> str:
    return f"{','.join(row.set)} {row.when}"


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_row_applies_to_some_runtime(row: Row) -> None:
    assert any(row.applies(case) for case in CASES)


@pytest.mark.parametrize("row", [row for row in ROWS if row.unless], ids=name_of)
def test_an_exception_excludes_some_runtime(row: Row) -> None:
    excluded = Row(row.source, set=row.set, when={**row.when, **row.unless})
    assert any(excluded.applies(case) for case in CASES)


@pytest.mark.parametrize("row", [*ROWS, *LIBRARIES], ids=name_of)
def test_conditions_have_values_that_exist(row: Row) -> None:
    for conditions in (row.when, row.unless):
        for condition, value in conditions.items():
            assert {*(value if isinstance(value, list) else [value])} <= {case[condition] for case in CASES}


def test_only_a_row_about_a_fabric_overrides_another_row() -> None:
    pairs = [pair for pair in combinations(ROWS, 2) if pair[0].set.keys() & pair[1].set.keys()]
    both = [pair for pair in pairs if any(pair[0].applies(case) and pair[1].applies(case) for case in CASES)]
    assert len(both) > 5
    assert [pair for pair in both if "fabric" in pair[0].when or "fabric" not in pair[1].when] == []


def test_every_library_sends_data_of_some_runtime() -> None:
    assert {case["library"] for case in CASES} == {row.library for row in LIBRARIES}


def test_every_mpi_has_families_and_variables() -> None:
    assert {family.mpi for family in FAMILIES.values()} == {*MPI}
    assert {*MPI} <= {row.when.get("mpi") for row in ROWS}


@pytest.mark.parametrize("fabric", [None, *FABRICS])
@pytest.mark.parametrize("device", POOLS)
def test_values_have_no_unknown_or_empty_name_in_braces(device: Any, fabric: str | None) -> None:
    """A name without a value would raise KeyError."""
    pool = wired(POOLS[device], fabric) if fabric else POOLS[device]
    for family in FAMILIES:
        runtime = Runtime.model_validate({"name": "r", "use": family, "pool": pool.name, "memlock": "capability"})
        variables = launcher_environment(runtime, node_size(runtime, pool), pool.device, FABRICS.get(fabric or ""))
        assert [name for name, value in variables.items() if not value.strip("=")] == []


def test_deepspeed_on_nvidia_over_infiniband() -> None:
    """The example of a reader: the whole environment, in its order."""
    names = {
        name for row in ROWS for value in row.set.values() for _, name, _, _ in string.Formatter().parse(value) if name
    }
    wanted = {"family": "deepspeed", "device": "nvidia", "fabric": "infiniband", "gpuDirect": True, "agents": True}
    case = next(case for case in CASES if wanted.items() <= case.items())
    assert [f"{name}={value}" for name, value in job_environment(case, {name: name for name in names}).items()] == [
        "HOME=home",
        "PATH=path",
        "PRTE_MCA_prte_default_hostfile=hostfile",
        "PRTE_MCA_prte_keep_fqdn_hostnames=false",
        "PRTE_MCA_prte_set_default_slots=slots",
        "OMPI_MCA_oob_tcp_if_include=interface",
        "OMPI_MCA_btl_tcp_if_include=interface",
        "PRTE_MCA_prte_if_include=interface",
        "UCX_NET_DEVICES=interface",
        "OMPI_MCA_hwloc_base_binding_policy=binding",
        "PRTE_MCA_hwloc_default_binding_policy=binding",
        "OMPI_MCA_orte_fork_agent=agents",
        "PRTE_MCA_odls_base_exec_agent=agents",
        "OMPI_MCA_pml=ob1",
        "OMP_NUM_THREADS=threads",
        "GLOO_SOCKET_IFNAME=interface",
        "NCCL_SOCKET_IFNAME==interface",
        "NCCL_NET=IB",
    ]
