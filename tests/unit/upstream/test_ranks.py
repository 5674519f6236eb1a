"""Test that the ranks of a command equal the ranks that real MPI implementations started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator.facts.launchers import launchers
from generator.facts.names import HOSTFILE
from generator.manifests import Manifest
from generator.upstream.compile import compile_job
from generator.upstream.mpi.commands import is_known, read_commands
from generator.upstream.mpi.launch import Launch, find_launches
from generator.upstream.mpi.world import Ranks, Started
from tests.conftest import ROOT

BASES = ROOT / "tests/checks/bases"
RUNS = yaml.safe_load((ROOT / "tests/fixtures/launches.yaml").read_text())["launches"]
RELEASES = {"openmpi": ("openmpi-4", "openmpi-5"), "hydra": ("mpich", "intel-mpi")}
"""Launcher → the implementations that were run."""
UNKNOWN = {
    "openmpi": {
        *("--map-by node", "--map-by slot:PE=2", "-np 1 hostname : -np 2", "-np 2 -np 3", "--host h1,h2"),
        *("--mca rmaps_base_oversubscribe 1 -np 5",),
    },
    "hydra": {"-N 1", "-np 1 hostname : -np 2", "-np 2 -np 3", "-hosts h1,h2 -n 3", "--host h1,h2"},
}
"""Commands that start ranks, but whose number mpigen does not compute."""


def start(command: Sequence[str], variables: Mapping[str, str], **trainer: Any) -> Started:
    """Return a TrainJob with two pods of two slots, whose launcher has some variables."""
    runtime, job = (yaml.safe_load((BASES / name).read_text()) for name in ("runtime.yaml", "trainjob.yaml"))
    runtime["spec"]["mlPolicy"]["mpi"]["numProcPerNode"] = 2
    launcher = runtime["spec"]["template"]["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
    launcher["containers"][0]["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    job["spec"]["trainer"] = {"numNodes": 2, "command": list(command), **trainer}
    return Started(compile_job(Manifest(job, ""), Manifest(runtime, ""), {}))


def read(command: str, launcher: str) -> tuple[Started, Launch | None]:
    """Return the launch of a command line on a runtime for Open MPI or Hydra; None if it is unknown."""
    variable = "HYDRA_HOST_FILE" if launcher == "hydra" else "PRTE_MCA_prte_default_hostfile"
    path = "/etc/mpi/hydra" if launcher == "hydra" else HOSTFILE
    started = start(shlex.split(command), {variable: path})
    readings = started.launches.only if started.launches else ()
    return started, next((reading for reading in readings if reading.launcher.name == launcher), None)


@pytest.mark.parametrize("launcher", RELEASES)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["command"])
def test_a_command_starts_the_same_ranks_as_in_real_runs(run: Mapping[str, Any], launcher: str) -> None:
    real = [run[release] for release in RELEASES[launcher] if run[release] != "fails"]
    started, launch = read(run["command"], launcher)
    ranks = started.count(launch) if launch else None
    if ranks is None:
        words = run["command"].removeprefix("mpirun ").removesuffix(" hostname")
        is_listed = words in UNKNOWN[launcher]
        assert is_listed or not real
    else:
        assert all(sum(counts) == ranks.size for counts in real)
        assert ranks.counts is None or all(counts == [*ranks.counts.values()] for counts in real)
        assert real or "/missing" in run["command"]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["command"])
def test_open_mpi_fails_if_and_only_if_the_slots_do_not_suffice(run: Mapping[str, Any]) -> None:
    started, launch = read(run["command"], "openmpi")
    if launch and started.excess(launch):
        assert {run[release] for release in RELEASES["openmpi"]} == {"fails"}


@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("deepspeed --hostfile /etc/mpi/hostfile train.py", 4),
        ("deepspeed -H /etc/mpi/hostfile --num_nodes 1 train.py --num_gpus 7", 2),
        ("deepspeed -H /etc/mpi/hostfile --num_gpus=1 --num_nodes 9 train.py", 2),
        ("deepspeed train.py", None),
        ("deepspeed -H /etc/mpi/hostfile --include a@b train.py", None),
        ("horovodrun -np 3 --hostfile /etc/mpi/hostfile python train.py", 3),
        ("horovodrun -np 5 --hostfile /etc/mpi/hostfile python train.py", None),
        ("horovodrun -np 2 -H a:2 python train.py", None),
        ("torchrun --nproc_per_node 4 train.py", 4),
        ("torchrun train.py", 1),
        ("torchrun --nproc-per-node=gpu train.py", None),
        ("python -m torch.distributed.run --nproc-per-node 3 train.py", 3),
        ("torchrun --nnodes 2 --nproc-per-node 3 train.py", None),
        ("torchrun --frobnicate train.py", None),
        ("deepspeed -H /etc/mpi/hostfile --num_gpus 0 train.py", None),
        ("mpirun --map-by ppr:1:node torchrun --nproc-per-node 2 train.py", None),
        ("mpirun --map-by ppr:0:node a", None),
        ("mpirun -np ² a", None),
    ],
)
def test_launchers_of_frameworks(command: str, size: int | None) -> None:
    """Source: the sources of launchers.yaml."""
    started = start(shlex.split(command), {"PRTE_MCA_prte_default_hostfile": HOSTFILE})
    assert started.launches
    ranks = [started.count(launch) for launch in started.launches.only]
    assert [one and one.size for one in ranks] == ([] if "frobnicate" in command else [size])
    assert started.ranks is None or started.ranks.size == size


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("cd /data && exec mpirun -np 4 a", [["cd", "/data"], ["mpirun", "-np", "4", "a"]]),
        ("N=4\nmpirun -np $N a  # comment", [["mpirun", "-np", "4", "a"]]),
        ("mpirun -np ${N} a", [["mpirun", "-np", "2", "a"]]),
        ("mpirun \\\n -np 4 'a b' \"$N c\" d\\ e", [["mpirun", "-np", "4", "a b", "2 c", "d e"]]),
        ("mpirun a > log 2>&1", [["mpirun", "a"]]),
        ("mpirun a 2>&1 | tee -a log", [["mpirun", "a"], ["tee", "-a", "log"]]),
        ("env A=b mpirun a", [["mpirun", "a"]]),
        ("sh -c 'exec mpirun a'", [["mpirun", "a"]]),
        ("export X=1; mpirun -np $X a", [["mpirun", "-np", "1", "a"]]),
        ('X=1 | mpirun -np "$N" a', [["mpirun", "-np", "2", "a"]]),
        ("echo 'a && b' \"c; d\" '#' e#f '' \"\"", [["echo", "a && b", "c; d", "#", "e#f", "", ""]]),
        ('echo \'$N\' "\\$N" a$ "{}"', [["echo", "$N", "$N", "a$", "{}"]]),
        *(
            (script, None)
            for script in (
                *("mpirun -np $(nproc) a", "mpirun -np `nproc` a", "mpirun a || b", "mpirun a &", "(mpirun a)"),
                *("if true; then mpirun a; fi", "for i in 1; do mpirun a; done", "f() { mpirun a; }", "mpirun <a"),
                *("cat <<E\nmpirun a\nE", ". /env; mpirun a", "eval mpirun a", "export $X; mpirun a", "mpirun 'a"),
                *("$LAUNCHER a", "X=${Y:-1} mpirun a", "set -- a; mpirun a", "mpirun a > $LOG", "sh script.sh"),
            )
        ),
    ],
)
def test_commands_of_a_script(script: str, words: list[list[str]] | None) -> None:
    commands = read_commands(["bash", "-c", script], {"N": "2"})
    assert (None if commands is None else [list(command.words) for command in commands]) == words


@pytest.mark.parametrize("word", ["$ARGS", '"$@"', "*.py", "{a,b}", "$@"])
def test_a_word_that_can_become_several_words_hides_the_options_after_it(word: str) -> None:
    for script, is_read in ((f"mpirun {word} -np 4 a", False), (f"mpirun -np 4 a {word}", True)):
        commands = read_commands(["sh", "-c", script], {})
        assert commands
        assert bool(find_launches(commands, {}).only) is is_read


def test_an_unknown_number_of_ranks_is_unknown() -> None:
    started = start(["sh", "-c", 'mpirun -np "$N" a'], {"PRTE_MCA_prte_default_hostfile": HOSTFILE})
    assert started.launches
    (launch,) = started.launches.only
    assert not is_known(launch.find("processes")[0].words[0])
    assert started.count(launch) is None


def test_variables_of_a_launcher_have_the_values_that_ranks_get() -> None:
    script = "export A=1; B=2 mpirun -x C=3 -x A --mca pml ob1 a"
    started = start(["sh", "-c", script], {"PRTE_MCA_prte_default_hostfile": HOSTFILE})
    assert started.launches
    (launch,) = started.launches.only
    environment = launch.command.environment
    assert (environment["A"], environment["B"]) == ("1", "2")
    assert [(name, value) for _, name, value in launch.variables] == [("C", "3"), ("OMPI_MCA_pml", "ob1")]


def test_a_variable_from_another_object_is_unknown() -> None:
    source = {"configMapKeyRef": {"name": "a", "key": "b"}}
    started = start(["mpirun", "-np", "$(N)", "a"], {}, env=[{"name": "N", "valueFrom": source}])
    assert started.launches
    assert [started.count(launch) for launch in started.launches.only] == [None] * len(started.launches.only)


def test_ranks_fill_the_pods_in_the_order_of_the_hostfile() -> None:
    started = start(["mpirun", "-np", "3", "a"], {"PRTE_MCA_prte_default_hostfile": HOSTFILE})
    assert started.launches
    (ranks,) = [started.count(launch) for launch in started.launches.only]
    assert ranks == Ranks(3, dict(zip(started.hosts, (2, 1), strict=True)))


@pytest.mark.parametrize("slots", [0, -1])
def test_a_hostfile_without_slots_starts_no_rank(slots: int) -> None:
    started = start(["mpirun", "a"], {"PRTE_MCA_prte_default_hostfile": HOSTFILE}, numProcPerNode=slots)
    assert (started.ranks, started.slot_numbers) == (None, {})


def test_no_option_has_two_meanings() -> None:
    for launcher in launchers():
        names = [name for field in vars(launcher).values() if isinstance(field, tuple) for name in field]
        assert len(names) == len(set(names)), launcher.name


STARTED = [start(["a"], {name: "/etc/mpi/hostfile"}) for name in ("PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE")]
WORDS = st.sampled_from(
    [
        *("mpirun", "sh", "-c", "env", "A=b", "-np", "4", "deepspeed", "torchrun", "horovodrun", "python", "-m", "--"),
        *(
            "torch.distributed.run",
            "export",
            "exec",
            "'",
            '"',
            "$",
            "$(",
            "`",
            "\\",
            "\n",
            "&&",
            "|",
            ">",
            "#",
            "{",
            "~",
        ),
        *("${A}", "\ue000", "\ue1ff", "\0", "--mca", "-x", "ppr:1:node", "--map-by", "=", ":", "²"),
    ]
)


@given(st.lists(st.one_of(WORDS, st.text()), max_size=12), st.booleans())
def test_no_text_raises_an_error(words: list[str], is_script: bool) -> None:
    items = ["sh", "-c", " ".join(words)] if is_script else words
    commands = read_commands(items, {"A": "b", "B": None})
    for command in commands or ():
        for launch in [one for readings in find_launches([command], {}).launches for one in readings]:
            for started in STARTED:
                ranks = started.count(launch)
                assert ranks is None or ranks.counts is None or sum(ranks.counts.values()) == ranks.size > 0
                assert ranks is None or launch.launcher.name == "hydra" or not started.excess(launch)
            numbers = (launch.per_host, launch.number("processes"), launch.number("host_count"))
            assert all(number is None or number > 0 for number in numbers)
            assert all(isinstance(name, str) for _, name, _ in launch.variables)
            assert isinstance(launch.hostfile, str)
