"""Test that ranks see a fabric's variables, send over the fabric, and do not start without it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from generator.config.model.fabrics import Fabric
from generator.facts.names import FABRIC, NETWORKS
from tests.cluster import trees
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.mpi.conftest import MPIS, PLATFORMS, Change, Play, World
from tests.cluster.mpi.gangs import Gang, deploy
from tests.cluster.mpi.test_environment import of_rich_image
from tests.cluster.mpi.test_worlds import assert_is_one_world, command
from tests.cluster.trees import Deployed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
ALLREDUCE = ("mpirun", "python3", "/opt/smoke/allreduce.py")
MEGABYTE = 1 << 20  # what each rank adds
EXPECTED: dict[str, dict[str, str | None]] = {
    "openmpi-4": {"OMPI_MCA_pml": "ucx", "UCX_TLS": "^tcp", "UCX_NET_DEVICES": None},
    "openmpi-5": {"OMPI_MCA_pml": "ucx", "UCX_TLS": "^tcp", "UCX_NET_DEVICES": None},
    "mpich": {"UCX_TLS": "^tcp", "FI_PROVIDER": "verbs", "UCX_NET_DEVICES": None},
    "intel-mpi": {"UCX_TLS": "^tcp", "FI_PROVIDER": "mlx"},
}
REFUSALS = {
    "openmpi-4": "No components were able to be opened in the pml framework",
    "openmpi-5": "No components were able to be opened in the pml framework",
    "mpich": "Destination is unreachable",
    "intel-mpi": "fi_getinfo() failed",
}


@pytest.fixture(scope="module")
def on_fabrics(admin: Client, on_the_cluster: list[Deployed]) -> Iterator[dict[str, Gang]]:
    """A TrainJob on each runtime of the platform; none of them holds its queue afterwards."""
    trees.remove_all(admin, on_the_cluster)
    on_the_cluster.append(deploy(admin, PLATFORMS / "fabrics.yaml"))
    platform = on_the_cluster[-1].platform
    found = {runtime.name: Gang(platform, runtime.name, ALLREDUCE, runtime.name) for runtime in platform.runtimes}
    for gang in found.values():
        gang.submit(admin)
    yield found
    for gang in found.values():
        admin.delete(gang.body)
    for gang in found.values():
        wait_until(f"{gang.name} is gone", partial(trees.is_gone, admin, gang.body))


def fabric_of(gang: Gang) -> Fabric:
    fabric = gang.platform.pool(gang.declared.pool).wiring
    assert fabric
    return fabric


def lines(world: World) -> list[dict[str, str | None]]:
    """Return the JSON lines that ranks printed."""
    said = world.outcome.log(world.launcher, "node").splitlines()
    return [json.loads(line) for line in said if line.startswith("{")]


def assert_no_rank_starts(world: World, mpi: str) -> None:
    """Fail if the launcher succeeds, does not name the reason, or shows the output of a rank.

    On a loaded machine, the launcher of MPICH does not always end after a rank has failed. Its code is then None.
    """
    assert world.code != 0, str(world.outcome)
    assert REFUSALS[mpi] in world.outcome.log(world.launcher, "node"), str(world.outcome)
    assert lines(world) == []


@pytest.mark.parametrize("mpi", MPIS)
def test_ranks_on_all_hosts_have_the_variables_of_the_fabric(mpi: str, play: Play, on_fabrics: dict[str, Gang]) -> None:
    asked = ("mpirun", "python3", "/opt/smoke/variables.py", *EXPECTED[mpi])
    world = play(on_fabrics[f"ib-{mpi}"], command(*asked))
    assert world.code == 0, str(world.outcome)
    ranks = lines(world)
    assert sorted(Counter(rank.pop("host") for rank in ranks).values()) == [2, 2, 2]
    assert ranks == [EXPECTED[mpi]] * 6


@pytest.mark.parametrize("mpi", MPIS)
def test_ranks_without_rdma_devices_do_not_start(mpi: str, play: Play, on_fabrics: dict[str, Gang]) -> None:
    assert_no_rank_starts(play(on_fabrics[f"ib-{mpi}"]), mpi)


@pytest.mark.parametrize("mpi", MPIS)
def test_ranks_of_an_image_with_200_variables_do_not_start_without_rdma(
    mpi: str, play: Play, on_fabrics: dict[str, Gang]
) -> None:
    """The image sets UCX_TLS too. If its value won, or variables were lost, the ranks would use TCP."""
    assert_no_rank_starts(play(on_fabrics[f"ib-{mpi}"], of_rich_image), mpi)


@pytest.mark.parametrize("mpi", MPIS)
def test_ranks_without_the_fabric_variables_fall_back_to_tcp_silently(
    mpi: str, play: Play, on_fabrics: dict[str, Gang]
) -> None:
    world = play(on_fabrics[f"ib-{mpi}"], forgetting({*EXPECTED[mpi]}))
    assert_is_one_world(world)


def forgetting(names: set[str]) -> Change:
    def change(pod: Body) -> Body:
        for container in pod["spec"]["containers"]:
            container["env"] = [one for one in container.get("env", []) if one["name"] not in names]
        return pod

    return change


@pytest.mark.parametrize("mpi", MPIS)
def test_ranks_on_a_secondary_network_send_over_it_and_connect_over_eth0(
    mpi: str, play: Play, on_fabrics: dict[str, Gang]
) -> None:
    """An init container checks the network on each host first."""
    world = play(on_fabrics[f"storm-{mpi}"])
    assert_is_one_world(world)
    said = "fabric storm: 0 of 0 devices have an active link; interfaces: net1\n"
    assert world.outcome.log(world.launcher, "fabric") == said
    sent = [rank["sent"] for rank in world.ranks]
    assert min(host["net1"] for host in sent) > MEGABYTE > max(host["eth0"] for host in sent), sent


def test_pods_request_the_devices_and_networks_of_the_fabric(admin: Client, on_fabrics: dict[str, Gang]) -> None:
    for gang in on_fabrics.values():
        fabric = fabric_of(gang)
        requests = {name: str(count) for name, count in fabric.requests.items()}
        for pod in [pod for wave in gang.waves(admin) for pod in wave]:
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            assert requests == {name: limits[name] for name in limits.keys() - {"cpu", "memory"}}
            marks = {name: pod["metadata"]["annotations"].get(name) for name in (FABRIC, NETWORKS)}
            assert marks == {FABRIC: fabric.name, NETWORKS: fabric.all_rails[0].network}


def test_a_host_without_fabric_devices_fails_before_ranks_start(play: Play, on_fabrics: dict[str, Gang]) -> None:
    """The host has no devices and the usual limit of locked memory, but the network exists."""
    world = play(on_fabrics["looked-at"])
    assert "init container fabric of looked-at-node-0-0" in world.outcome.problem
    assert world.code is None
    [pod] = {pod for pod, container in world.outcome.codes if container == "fabric"}
    said = world.outcome.log({"metadata": {"name": pod}}, "fabric").splitlines()
    assert [line.partition(": ")[2].partition(". Ranks would")[0] for line in said] == [
        "the pod has 0 of 1 devices in `/dev/infiniband`",
        "ranks can lock 8388608 bytes of memory, and RDMA needs up to 3221225472",
    ]


def test_a_failed_fabric_check_fails_the_trainjob(admin: Client, on_fabrics: dict[str, Gang]) -> None:
    gang = on_fabrics["looked-at"]
    [pod, *_], _ = gang.waves(admin)
    ended = {"exitCode": 1, "reason": "Error", "message": "fabric looked-at: 0 of 1 devices"}
    look = {"name": "fabric", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Failed", "initContainerStatuses": [{**look, "state": {"terminated": ended}}]}
    identity = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
    merge = "application/merge-patch+json"
    admin.request("PATCH", f"{admin.path_of(identity)}/status", {"status": status}, merge)

    def failed() -> bool:
        conditions = admin.read(gang.body).get("status", {}).get("conditions") or []
        return any(one["type"] == "Failed" and one["status"] == "True" for one in conditions)

    wait_until("the TrainJob has failed", failed)
