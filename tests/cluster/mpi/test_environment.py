"""Test that all ranks have the launcher's whole environment with every MPI, except variables of a host."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from generator.facts.env import host_variable_patterns
from tests.cluster.client import Body
from tests.cluster.mpi.conftest import FROM_JOB, MPIS, Change, Play, World
from tests.cluster.mpi.gangs import Gang
from tests.cluster.mpi.images import OF_RICH, RICH, image
from tests.cluster.mpi.test_worlds import command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PRINT = ("mpirun", "python3", "/opt/smoke/environment.py")
OF_MPI = re.compile(
    "(OMPI|OPAL|PMIX|PRTE|PMI|MPI|MPIR|I_MPI|HYDRA|HYDI|MPIEXEC|FI)_|(DY)?LD_LIBRARY_PATH$|(HFI|IPATH)_NO_BACKTRACE$|LC_CTYPE$"
    "|GFORTRAN_UNBUFFERED_PRECONNECTED$"
)
"""The names of variables that an MPI, its libraries or Python set for the ranks, or change."""
OF_RANKS = re.compile("(CCL_|LOCAL_)?(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_SIZE)$|MASTER_(ADDR|PORT)$")
OF_HOSTS = re.compile(f"({'|'.join(host_variable_patterns().values())})$")


def of_rich_image(pod: Body) -> Body:
    """Let all containers of a pod run an image with 200 variables more."""
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        container["image"] += RICH
    return pod


def rich(*words: str, also: Change = lambda pod: pod) -> Change:
    """Let a launcher of the rich image run a command, and change its pods."""
    return lambda pod: of_rich_image(command(*words)(also(pod)))


def declared(world: World) -> dict[str, str]:
    """Return the environment that the kubelet gives the launcher, without what belongs to a host."""
    (container,) = world.launcher["spec"]["containers"]
    written = {each["name"]: each.get("value", "") for each in container["env"]}
    everything = {**image(container["image"]).environment, **written}
    return {name: value for name, value in everything.items() if not OF_HOSTS.match(name)}


def shared(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that neither a host nor MPI sets, as a rank sees them."""
    others = (OF_HOSTS, OF_MPI, OF_RANKS)
    return {name: value for name, value in environment.items() if not any(each.match(name) for each in others)}


def assert_is_whole_and_equal(world: World, *, lost: frozenset[str] = frozenset()) -> None:
    assert world.code == 0, str(world.outcome)[:4000]
    assert len({rank["host"] for rank in world.ranks}) == world.gang.hosts
    expected = {name: value for name, value in shared(declared(world)).items() if name not in lost}
    for rank in world.ranks:
        environment = {**rank["environment"]}
        environment["PATH"] = expected["PATH"] = environment["PATH"].removeprefix("/run/mpi/bin:")
        assert shared(environment) == expected, rank["host"]
    assert len({rank["environment"]["PATH"] for rank in world.ranks}) == 1


@pytest.mark.parametrize("runtime", [*MPIS, "torch-4", "torch-5", "openmpi-4-scc", "intel-mpi-scc"])
def test_all_variables_of_an_image_with_200_reach_every_rank(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    world = play(gangs[runtime], rich(*PRINT))
    # mpirun of Intel MPI is a script for /bin/sh, which is dash here and drops this name, on all hosts.
    assert_is_whole_and_equal(world, lost=frozenset({"not.an-identifier"} if "intel" in runtime else ()))
    for rank in world.ranks:
        assert OF_RICH["FROM_IMAGE_199"] == rank["environment"]["FROM_IMAGE_199"]


@pytest.mark.parametrize("runtime", [*MPIS, "torch-4", "torch-5"])
def test_trainjob_variables_override_the_runtime_and_runtime_variables_the_image(
    runtime: str, play: Play, gangs: dict[str, Gang]
) -> None:
    world = play(gangs[runtime], rich(*PRINT))
    of_runtime = world.gang.declared.environment["FROM_RUNTIME"]
    expected = {"FROM_JOB": FROM_JOB, "FROM_BOTH": "of the job", "FROM_RUNTIME": of_runtime}
    assert len(world.ranks) == 6, str(world.outcome)
    for rank in world.ranks:
        assert expected == {name: rank["environment"][name] for name in expected}


def test_transport_variables_reach_every_rank(play: Play, gangs: dict[str, Gang]) -> None:
    chosen = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp", "UCX_TLS": "^tcp"}
    world = play(gangs["openmpi-4"], rich(*PRINT, also=declaring(lambda _: chosen, launcher_only=True)))
    assert len(world.ranks) == 6, str(world.outcome)
    for rank in world.ranks:
        assert chosen == {name: rank["environment"][name] for name in chosen}


@pytest.mark.parametrize("runtime", MPIS)
def test_host_variables_keep_their_value_on_every_host(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    def given(host: str) -> dict[str, str]:
        return {"NVIDIA_VISIBLE_DEVICES": f"GPU-{host}", "PCIDEVICE_EXAMPLE_COM_IB": f"0000:{host}", "POD_IP": host}

    world = play(gangs[runtime], rich(*PRINT, also=declaring(given)))
    assert_is_whole_and_equal(world, lost=frozenset({"not.an-identifier"} if "intel" in runtime else ()))
    for rank in world.ranks:
        index = rank["host"].rpartition("-")[2]
        expected = {**given(rank["host"]), "HOSTNAME": rank["host"], "JOB_COMPLETION_INDEX": index}
        assert expected == {name: rank["environment"].get(name) for name in expected}


@pytest.mark.parametrize("runtime", MPIS)
def test_exported_variables_of_a_script_reach_every_rank(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    script = (
        "export BYTES=$(printf 'a\\377\\001\\002b\\n\\n.'); greet() { echo hello; }; export -f greet; unset HOSTNAME"
    )
    # exec.hydra: mpirun of Intel MPI is a script for dash, which drops functions
    start = "mpiexec.hydra" if "intel" in runtime else PRINT[0]
    world = play(gangs[runtime], command("bash", "-c", f'{script}; exec "$@"', "job", start, *PRINT[1:]))
    assert world.code == 0, str(world.outcome)
    assert len(world.ranks) == 6
    for rank in world.ranks:
        assert rank["environment"]["BYTES"] == "a\udcff\1\2b\n\n."
        assert rank["environment"]["BASH_FUNC_greet%%"] == "() {  echo hello\n}"


def test_a_host_that_starts_another_host_forwards_the_environment(play: Play, gangs: dict[str, Gang]) -> None:
    """Open MPI does so by itself on more than 64 hosts; here the hosts form a chain."""
    world = play(gangs["openmpi-4"], rich("mpirun", "--mca", "routed_radix", "1", *PRINT[1:]))
    assert_is_whole_and_equal(world)


@pytest.mark.parametrize("runtime", ["openmpi-4", "mpich-scc"])
def test_an_ssh_command_gets_the_environment(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    host = f"{gangs[runtime].name}-node-0-1.{gangs[runtime].name}"
    checks = 'test "$FROM_JOB" = "$1" && test "$(env | grep -c ^FROM_IMAGE_)" = 200 && uname -n && cat && exit 7'
    script = f'echo input | ssh {host} \'sh -c "$CHECKS" x "$FROM_JOB"\'; echo ended with $?'
    change = rich("bash", "-c", script, also=declaring(lambda _: {"CHECKS": checks}, launcher_only=True))
    world = play(gangs[runtime], change)
    said = world.outcome.log(world.launcher, "node").splitlines()
    assert said == [host.partition(".")[0], "input", "ended with 7"], str(world.outcome)


@pytest.mark.parametrize("runtime", MPIS)
def test_a_host_with_another_environment_fails_the_job(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    """Change one variable on one of the hosts."""

    def change(pod: Body) -> Body:
        if pod["spec"]["hostname"].endswith("node-0-1"):
            _, *_, words = pod["spec"]["initContainers"][0]["command"]
            changed = words.replace("  shared < sent\n", "  shared < sent | sed 's/^FROM_BOTH=.*/FROM_BOTH=x/'\n", 1)
            assert changed != words
            pod["spec"]["initContainers"][0]["command"][-1] = changed
        return pod

    world = play(gangs[runtime], lambda pod: change(command(*PRINT)(pod)))
    assert world.code not in {0, None}
    said = world.outcome.log(world.launcher, "node")
    host = f"{gangs[runtime].name}-node-0-1"
    assert f"host `{host}`: the environment differs from the launcher's in `FROM_BOTH`. Ranks would run with" in said
    assert '"ranks"' not in said


def test_an_ssh_without_the_environment_starts_no_ranks(play: Play, gangs: dict[str, Gang]) -> None:
    agent = "ssh -o ProxyCommand=none"
    world = play(gangs["openmpi-4"], command("mpirun", "--mca", "plm_rsh_agent", agent, *PRINT[1:]))
    assert world.code not in {0, None}
    assert "this ssh did not send the environment of its job" in world.outcome.log(world.launcher, "node")


def declaring(given: Callable[[str], dict[str, str]], *, launcher_only: bool = False) -> Change:
    """Let pods have more variables: those for their host names."""

    def change(pod: Body) -> Body:
        host: str = pod["spec"]["hostname"]
        container: dict[str, Any] = pod["spec"]["containers"][0]
        if not launcher_only or "launcher" in host:
            more = given(host)
            kept = [each for each in container.get("env", []) if each["name"] not in more]
            container["env"] = [*kept, *({"name": name, "value": value} for name, value in more.items())]
        return pod

    return change
