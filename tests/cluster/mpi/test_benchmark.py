"""Run the benchmark of `mpigen job new --smoke --fabric` over TCP; it compares the result with the fabric's links."""

from __future__ import annotations

import re
from typing import Any

import pytest

from generator import Fabric
from generator.jobs.smoke import benchmark_command
from tests.cluster.mpi.conftest import MPIS, Play, World
from tests.cluster.mpi.gangs import Gang
from tests.cluster.mpi.test_worlds import command as running
from tests.offers import benchmark_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ETHERNET: dict[str, Any] = {
    "name": "plain",
    "type": "ethernet",
    "nics": {"ports": ["eth1"]},
    "addresses": {"range": "192.168.0.0/16"},
}
INFINIBAND: dict[str, Any] = {"name": "ib", "server": "hgx-h100"}


def measured(play: Play, gang: Gang, fabric: dict[str, Any], link: int) -> tuple[World, str]:
    """Measure the pod network as if it were a fabric."""
    pool = gang.platform.pool(gang.declared.pool)
    asked = benchmark_of(gang.declared, pool, Fabric.model_validate(fabric), link, gang.hosts)
    world = play(gang, running(*benchmark_command(asked)))
    return world, world.outcome.log(world.launcher, "node")


@pytest.mark.parametrize("runtime", MPIS)
def test_a_network_passes_at_the_speed_of_its_links(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    world, said = measured(play, gangs[runtime], ETHERNET, 1)
    assert (world.code, said.count("PASS: fabric plain: a host sent ")) == (0, 1), str(world.outcome)
    rows = re.findall(r"^ +(\d+) +([0-9.]+) +([0-9.]+)$", said, flags=re.MULTILINE)
    assert [row[0] for row in rows] == ["65536", "1048576", "4194304"], said
    best = max(float(number) for row in rows for number in row[1:])
    assert f"a host sent {best:.1f} Gbit/s; each of its 1 NICs carries 1" in said


def test_tcp_instead_of_the_fabric_fails_the_benchmark(play: Play, gangs: dict[str, Gang]) -> None:
    world, said = measured(play, gangs["openmpi-4"], INFINIBAND, 400)
    assert world.code not in {0, None}
    assert re.search(
        r"FAIL: fabric ib: a host sent [0-9.]+ Gbit/s; each of its 8 NICs carries 400; expected at least 320", said
    ), said
    assert "Ranks use TCP or find no RDMA device" in said
    assert "PASS" not in said
