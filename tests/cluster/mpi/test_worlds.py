"""Every MPI of the catalogue, started by the pods that the real Trainer made of our runtimes."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from generator.config.model.runtimes import HOME
from tests.cluster.client import Body, Client
from tests.cluster.mpi import openshift
from tests.cluster.mpi.conftest import MPIS, OF_JOB, OF_RANKS, SMOKE, Change, Play, World
from tests.cluster.mpi.gangs import Gang

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SLOTS = 2


def assert_is_one_world(world: World) -> None:
    assert world.code == 0, str(world.outcome)
    hosts = Counter(rank["host"] for rank in world.ranks)
    assert len(hosts) == world.gang.hosts
    assert set(hosts.values()) == {SLOTS}
    size = SLOTS * world.gang.hosts
    assert [rank["sums"] for rank in world.ranks] == [[sum(range(size))]] * size


def test_the_ranks_of_all_hosts_form_one_world(world: World) -> None:
    assert_is_one_world(world)


def test_the_ranks_run_as_the_user_that_the_cluster_chose(world: World) -> None:
    expected = openshift.USER if world.gang.platform.cluster.is_openshift else 1000
    assert {rank["user"] for rank in world.ranks} == {expected}


def test_variables_of_runtime_and_trainjob_reach_every_rank(world: World) -> None:
    for rank in world.ranks:
        expected = {**world.gang.declared.environment, **OF_JOB, "HOME": HOME}
        assert expected == {name: rank["environment"][name] for name in expected}


def test_pytorch_learns_who_each_rank_is_and_nobody_else_is_told(world: World) -> None:
    told = [{name: rank["environment"][name] for name in OF_RANKS} for rank in world.ranks]
    if not world.gang.declared.family.rank_variables:
        assert told == [dict.fromkeys(OF_RANKS)] * len(told)
        return
    first, seen = f"{world.ranks[0]['host']}.{world.gang.name}", Counter[str]()
    for number, rank in enumerate(world.ranks):
        sizes = {"WORLD_SIZE": str(len(told)), "LOCAL_WORLD_SIZE": str(SLOTS), "MASTER_ADDR": first}
        assert told[number] == {"RANK": str(number), "LOCAL_RANK": str(seen[rank["host"]]), **sizes}
        seen[rank["host"]] += 1


def test_the_trainjob_is_complete(world: World, admin: Client) -> None:
    assert world.gang.end(admin, world.code) == "Complete"


@pytest.mark.parametrize("runtime", MPIS)
def test_the_command_of_the_kubeflow_sdk_works_with_every_mpi(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    """kubeflow 0.5.0 trainer/constants/constants.py, MPI_COMMAND; Hydra could not read that hostfile."""
    world = play(
        gangs[runtime], command("mpirun", "--hostfile", "/etc/mpi/hostfile", "bash", "-c", " ".join(SMOKE[1:]))
    )
    assert_is_one_world(world)


LATE = 15  # seconds; mpirun itself tries for ten


def test_a_launcher_that_starts_with_its_hosts_waits_until_the_last_of_them_listens(
    play: Play, gangs: dict[str, Gang]
) -> None:
    """As a scheduler of gangs starts them. It runs as a random user, and cannot write to its root filesystem."""
    assert_is_one_world(play(gangs["openmpi-5-gang"], listening(after=LATE)))


def test_a_launcher_that_does_not_wait_finds_nobody(play: Play, gangs: dict[str, Gang]) -> None:
    def change(pod: Body) -> Body:
        containers = pod["spec"]["initContainers"]
        pod["spec"]["initContainers"] = [one for one in containers if one["name"] != "hosts"]
        return listening(after=LATE)(pod)

    world = play(gangs["openmpi-5-gang"], change)
    assert world.code not in {0, None}
    assert "Connection refused" in world.outcome.log(world.launcher, "node")


def test_a_launcher_that_has_waited_for_too_long_says_for_whom(play: Play, gangs: dict[str, Gang]) -> None:
    def change(pod: Body) -> Body:
        for container in pod["spec"]["initContainers"]:
            container["command"][2] = container["command"][2].replace("patience=1800", "patience=2")
        return listening(after=60)(pod)

    world = play(gangs["openmpi-5-gang"], change)
    assert "init container hosts of" in world.outcome.problem
    said = world.outcome.log(world.launcher, "hosts")
    assert re.search(r"ssh did not connect to openmpi-5-gang-node-0-0\..* within 2 s: .*refused", said), said


def test_a_failing_program_fails_the_trainjob(play: Play, gangs: dict[str, Gang], admin: Client) -> None:
    gang = Gang(gangs["openmpi-4"].platform, "openmpi-4", ("mpirun", "sh", "-c", "exit 3"), "failing", hosts=2)
    gang.submit(admin)
    world = play(gang)
    assert world.code == 3
    assert gang.end(admin, world.code) == "Failed"


def test_without_our_variables_open_mpi_5_leaves_the_hosts_alone_and_succeeds(
    play: Play, gangs: dict[str, Gang]
) -> None:
    """What Trainer sets is for Open MPI 4: kubeflow/trainer#4028."""
    world = play(gangs["openmpi-5"], without("PRTE_"))
    assert world.code == 0
    assert {rank["host"] for rank in world.ranks} == {world.launcher["spec"]["hostname"]}


def test_without_our_variables_mpich_gets_lost_on_a_secondary_network(play: Play, gangs: dict[str, Gang]) -> None:
    world = play(gangs["mpich"], without("UCX_NET_DEVICES"))
    assert world.code not in {0, None}
    assert "Destination is unreachable" in world.outcome.log(world.launcher, "node")


def command(*words: str) -> Change:
    """Let a launcher run something else."""

    def change(pod: Body) -> Body:
        for container in pod["spec"]["containers"]:
            if container["command"][0] == "mpirun":
                container["command"] = [*words]
        return pod

    return change


def listening(after: int) -> Change:
    """Let the sshd of the hosts start late, and nobody outside ask whether it is there."""

    def change(pod: Body) -> Body:
        for container in pod["spec"]["containers"]:
            if container.pop("readinessProbe", None):
                container["command"][2] = f"sleep {after}\n{container['command'][2]}"
        return pod

    return change


def without(prefix: str) -> Change:
    """Take away the variables that begin so."""

    def change(pod: Body) -> Body:
        for container in pod["spec"]["containers"]:
            container["env"] = [one for one in container.get("env", []) if not one["name"].startswith(prefix)]
        return pod

    return change
