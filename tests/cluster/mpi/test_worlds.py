"""Test every MPI of the catalogue with pods that the real Trainer creates from our runtimes."""

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


def test_ranks_on_all_hosts_form_one_world(world: World) -> None:
    assert_is_one_world(world)


def test_ranks_run_as_the_user_of_the_cluster(world: World) -> None:
    expected = openshift.USER if world.gang.platform.cluster.is_openshift else 1000
    assert {rank["user"] for rank in world.ranks} == {expected}


def test_variables_of_runtime_and_trainjob_reach_every_rank(world: World) -> None:
    for rank in world.ranks:
        expected = {**world.gang.declared.environment, **OF_JOB, "HOME": HOME}
        assert expected == {name: rank["environment"][name] for name in expected}


def test_only_pytorch_runtimes_set_rank_variables(world: World) -> None:
    told = [{name: rank["environment"][name] for name in OF_RANKS} for rank in world.ranks]
    if not world.gang.declared.family.rank_variables:
        assert told == [dict.fromkeys(OF_RANKS)] * len(told)
        return
    first, seen = f"{world.ranks[0]['host']}.{world.gang.name}", Counter[str]()
    for number, rank in enumerate(world.ranks):
        sizes = {"WORLD_SIZE": str(len(told)), "LOCAL_WORLD_SIZE": str(SLOTS), "MASTER_ADDR": first}
        assert told[number] == {"RANK": str(number), "LOCAL_RANK": str(seen[rank["host"]]), **sizes}
        seen[rank["host"]] += 1


def test_a_successful_trainjob_is_complete(world: World, admin: Client) -> None:
    assert world.gang.end(admin, world.code) == "Complete"


@pytest.mark.parametrize("runtime", MPIS)
def test_the_kubeflow_sdk_command_works_with_every_mpi(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    """Run the MPI_COMMAND of kubeflow 0.5.0 trainer/constants/constants.py, whose hostfile Hydra could not read."""
    world = play(
        gangs[runtime], command("mpirun", "--hostfile", "/etc/mpi/hostfile", "bash", "-c", " ".join(SMOKE[1:]))
    )
    assert_is_one_world(world)


LATE = 15  # seconds; mpirun itself tries for ten


def test_a_gang_scheduled_launcher_waits_until_sshd_listens_on_all_hosts(play: Play, gangs: dict[str, Gang]) -> None:
    """The launcher starts together with its hosts, as a random user with a read-only root filesystem."""
    assert_is_one_world(play(gangs["openmpi-5-gang"], listening(after=LATE)))


def test_a_launcher_that_does_not_wait_cannot_connect(play: Play, gangs: dict[str, Gang]) -> None:
    def change(pod: Body) -> Body:
        containers = pod["spec"]["initContainers"]
        pod["spec"]["initContainers"] = [one for one in containers if one["name"] != "hosts"]
        return listening(after=LATE)(pod)

    world = play(gangs["openmpi-5-gang"], change)
    assert world.code not in {0, None}
    assert "Connection refused" in world.outcome.log(world.launcher, "node")


def test_a_launcher_that_times_out_reports_the_missing_host(play: Play, gangs: dict[str, Gang]) -> None:
    def change(pod: Body) -> Body:
        for container in pod["spec"]["initContainers"]:
            container["command"][2] = container["command"][2].replace("patience=1800", "patience=2")
        return listening(after=60)(pod)

    world = play(gangs["openmpi-5-gang"], change)
    assert "init container hosts of" in world.outcome.problem
    said = world.outcome.log(world.launcher, "hosts")
    assert re.search(r"the launcher did not reach `openmpi-5-gang-node-0-0\..* within 2 s: .*refused", said), said


def test_a_failing_program_fails_the_trainjob(play: Play, gangs: dict[str, Gang], admin: Client) -> None:
    gang = Gang(gangs["openmpi-4"].platform, "openmpi-4", ("mpirun", "sh", "-c", "exit 3"), "failing", hosts=2)
    gang.submit(admin)
    world = play(gang)
    assert world.code == 3
    assert gang.end(admin, world.code) == "Failed"


def test_open_mpi_5_without_our_variables_runs_only_on_the_launcher_and_succeeds(
    play: Play, gangs: dict[str, Gang]
) -> None:
    """Trainer sets only variables of Open MPI 4: kubeflow/trainer#4028."""
    world = play(gangs["openmpi-5"], without("PRTE_"))
    assert world.code == 0
    assert {rank["host"] for rank in world.ranks} == {world.launcher["spec"]["hostname"]}


def test_mpich_without_our_variables_fails_on_a_secondary_network(play: Play, gangs: dict[str, Gang]) -> None:
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
    """Let the sshd of the hosts start late, without a readiness probe."""

    def change(pod: Body) -> Body:
        for container in pod["spec"]["containers"]:
            if container.pop("readinessProbe", None):
                container["command"][2] = f"sleep {after}\n{container['command'][2]}"
        return pod

    return change


def without(prefix: str) -> Change:
    """Remove the variables with this prefix."""

    def change(pod: Body) -> Body:
        for container in pod["spec"]["containers"]:
            container["env"] = [one for one in container.get("env", []) if not one["name"].startswith(prefix)]
        return pod

    return change
