"""Stop pods of running jobs, with real processes: ranks save in their grace period, and no stopped job is Complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace

import pytest

from generator.runtimes.pod_scripts import STOPPED
from tests.cluster.client import Body
from tests.cluster.mpi import layers
from tests.cluster.mpi.conftest import MPIS
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.runner import Outcome
from tests.cluster.mpi.stage import LAUNCHER, Stage, code, log
from tests.cluster.mpi.test_trees import CHAINS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
RANKS = ("mpirun", "python3", "/opt/smoke/ends.py")
TRAINING = ("mpirun", "python3", "/checkpoint/train.py")
SAVING = 2  # seconds, in ends.py
LATE = 4  # seconds: a rank of another pod gets its signal by ssh, on a busy machine
GRACE = 15  # seconds, in ends.yaml
STEPS = 60
HOSTS = ("job-node-0-0", "job-node-0-1")
DELETED = {"a host": HOSTS[:1], "the launcher": (LAUNCHER,), "all pods": (*HOSTS, LAUNCHER)}
NO_RANKS = "-separate"  # on the launcher


def assert_stopped(outcome: Outcome, deleted: Sequence[str]) -> None:
    """Assert the exit code of the launcher and of all deleted pods, and the message that the platform admin reads."""
    stopped = {(pod, "node"): STOPPED for pod in (*deleted, LAUNCHER)}
    assert stopped == {pod: outcome.codes.get(pod) for pod in stopped}, str(outcome)
    assert outcome.messages[LAUNCHER, "node"].startswith("Kubernetes stopped pods of this job"), str(outcome)
    assert max(outcome.stopped_in.values()) < GRACE


@pytest.mark.parametrize("stopped", DELETED)
@pytest.mark.parametrize("form", ["", NO_RANKS])
@pytest.mark.parametrize("runtime", MPIS)
def test_every_rank_of_the_job_gets_term_once_and_its_time_to_save(
    runtime: str, form: str, stopped: str, stage: Stage
) -> None:
    outcome = stage.run(f"{runtime}{form}", RANKS, DELETED[stopped])
    assert_stopped(outcome, DELETED[stopped])
    times = stage.saved
    assert times, str(outcome)
    assert len(times) == int(next(iter(times)).rpartition("-")[2]), str(outcome)
    assert {len(received) for received in times.values()} == {1}, f"a rank got TERM twice: {times}"
    signals = [received for (received,) in times.values()]
    assert max(signals) - min(signals) < LATE, times


@pytest.mark.parametrize("stopped", ["a host", "the launcher"])
def test_the_openssh_of_the_runtime_reaches_all_ranks(stopped: str, stage: Stage) -> None:
    outcome = stage.run("openmpi-5-ssh", RANKS, DELETED[stopped])
    assert_stopped(outcome, DELETED[stopped])
    assert [len(received) for received in stage.saved.values()] == [1] * len(DELETED["all pods"]), str(outcome)


@pytest.mark.parametrize("runtime", [mpi for mpi, variables in CHAINS.items() if variables])
def test_a_stopped_host_behind_another_host_reaches_all_ranks(runtime: str, stage: Stage) -> None:
    """The launcher starts one host, which starts the other."""
    outcome = stage.run(runtime, RANKS, HOSTS[1:], variables=CHAINS[runtime])
    assert_stopped(outcome, HOSTS[1:])
    assert [len(received) for received in stage.saved.values()] == [1] * len(DELETED["all pods"]), str(outcome)


@pytest.mark.parametrize("runtime", MPIS)
def test_hosts_pass_the_signal_on(runtime: str, stage: Stage) -> None:
    """The launcher of a large job signals some hosts, and these signal the others: here one after another."""
    outcome = stage.run(runtime, RANKS, HOSTS[:1], change=replacing("\nwidth=32\n", "\nwidth=1\n"), hosts=5)
    assert_stopped(outcome, HOSTS[:1])
    assert [len(received) for received in stage.saved.values()] == [1] * 5, str(outcome)


def test_a_host_without_an_answer_does_not_keep_the_signal_from_others(stage: Stage) -> None:
    def change(pod: Body) -> Body:
        pod = replacing("\nwidth=32\n", "\nwidth=1\n")(pod)
        return replacing("  signal) shift", "  signal) exit 1")(pod) if pod["spec"]["hostname"] == HOSTS[0] else pod

    outcome = stage.run("openmpi-5", RANKS, HOSTS[1:], change=change, hosts=5)
    assert_stopped(outcome, HOSTS[1:])
    (silent,) = {f"saved-{rank}-of-5" for rank in range(5)} - {*stage.saved}
    assert silent != "saved-0-of-5"  # of the launcher


def replacing(old: str, new: str) -> Callable[[Body], Body]:
    """Return the function that replaces a text in the script of `prepare`."""

    def change(pod: Body) -> Body:
        pod = deepcopy(pod)  # the pods of a job share their containers
        prepare = pod["spec"]["initContainers"][0]
        assert old in prepare["command"][2]
        prepare["command"][2] = prepare["command"][2].replace(old, new)
        return pod

    return change


@pytest.mark.parametrize("runtime", MPIS)
def test_a_stopped_job_resumes_and_ends_with_the_result_of_an_undisturbed_job(runtime: str, stage: Stage) -> None:
    variables = {"STEPS": str(STEPS), "SECONDS_TO_SAVE": "2"}
    outcome = stage.run(runtime, TRAINING, DELETED["all pods"], "is at step 10", variables=variables)
    assert_stopped(outcome, DELETED["all pods"])
    assert "result" not in log(outcome)
    step = int((stage.claim / "job/latest").read_text())
    assert 10 <= step < STEPS
    resumed = stage.run(runtime, TRAINING, variables={"STEPS": str(STEPS), "SECONDS_PER_STEP": "0"})
    assert code(resumed) == 0, str(resumed)
    ranks = len([*(stage.claim / "job").glob(f"{step}-*.txt")])
    for rank in range(ranks):
        assert f"rank {rank} of {ranks} begins at step {step}" in log(resumed)
    assert f"result {undisturbed(ranks)}" in log(resumed).splitlines()


def undisturbed(ranks: int) -> int:
    """Return the result of train.py without MPI and without an interruption."""
    values = [*range(ranks)]
    for _ in range(STEPS):
        total = sum(value * (rank + 1) for rank, value in enumerate(values)) % 1_000_003
        values = [total + rank for rank in range(ranks)]
    return sum(values)


@pytest.mark.parametrize("runtime", ["openmpi-5", "mpich", "intel-mpi"])
@pytest.mark.parametrize(("program", "expected"), [("exit 0", 0), ("exit 3", 3), (f"exit {STOPPED}", 1)])
def test_the_code_of_a_job_that_runs_to_its_end_is_the_code_of_its_program(
    runtime: str, program: str, expected: int, stage: Stage
) -> None:
    """Only stopped jobs end with the code that does not count as a restart."""
    outcome = stage.run(runtime, ("mpirun", "sh", "-c", program))
    assert code(outcome) == expected, str(outcome)
    assert outcome.messages[LAUNCHER, "node"] == ""


@pytest.mark.parametrize("stopped", ["a host", "all pods"])
def test_ranks_that_do_not_end_are_ended_within_the_grace_period(stopped: str, stage: Stage) -> None:
    outcome = stage.run("openmpi-5", RANKS, DELETED[stopped], variables={"SECONDS_TO_SAVE": "600"})
    assert_stopped(outcome, DELETED[stopped])
    assert not stage.saved


def test_a_shell_around_mpirun_passes_on_its_code(stage: Stage) -> None:
    script = f"{' '.join(RANKS)} | cat; exit ${{PIPESTATUS[0]}}"
    outcome = stage.run("openmpi-5", ("bash", "-c", script), DELETED["all pods"])
    assert_stopped(outcome, DELETED["all pods"])
    assert stage.saved


def test_the_programs_of_a_rank_that_is_a_shell_save(stage: Stage) -> None:
    """A shell without a trap would end at once."""
    ranks = ("mpirun", "sh", "-c", "true; python3 /opt/smoke/ends.py; echo saved with $?")
    outcome = stage.run("openmpi-5", ranks, DELETED["a host"])
    assert_stopped(outcome, DELETED["a host"])
    assert [len(received) for received in stage.saved.values()] == [1] * len(DELETED["all pods"]), str(outcome)
    assert log(outcome).splitlines().count("saved with 0") == len(DELETED["all pods"])


def test_a_rank_that_is_a_shell_with_a_trap_gets_the_signal_itself(stage: Stage) -> None:
    text = "trap 'echo trapped; exit 0' TERM; echo all ranks run; while :; do sleep 0.1; done"
    outcome = stage.run("openmpi-5", ("mpirun", "sh", "-c", text), DELETED["a host"])
    assert_stopped(outcome, DELETED["a host"])
    assert log(outcome).splitlines().count("trapped") == len(DELETED["all pods"])


def test_a_launcher_that_stops_starts_no_ranks(stage: Stage) -> None:
    script = f"echo ready; until [ -e /run/mpi/stopping ]; do sleep 0.1; done; {' '.join(RANKS)}; exit $?"
    outcome = stage.run("openmpi-5", ("sh", "-c", script), (LAUNCHER,), "ready")
    assert_stopped(outcome, (LAUNCHER,))
    assert "all ranks run" not in log(outcome)


def test_programs_find_mpirun_first_and_otherwise_the_path_of_the_image(stage: Stage) -> None:
    """The PATH of the image, /opt/mpi/bin:…, precedes the usual folders, also for commands that a TrainJob names."""
    script = 'command -v mpirun; echo "ranks: $(mpirun -np 1 printenv PATH)"'
    outcome = stage.run("openmpi-5", ("sh", "-c", script))
    first, ranks = log(outcome).splitlines()
    assert first == "/run/mpi/bin/mpirun"
    assert ranks.startswith("ranks: /opt/mpi/bin:/usr/local/sbin:")
    assert code(stage.run("openmpi-5", ("ompi_info", "--version"))) == 0


def test_ends_need_no_bash_no_known_user_and_no_writable_image(stage: Stage) -> None:
    def bare(reference: str) -> Image:
        image = stage.images(reference)
        return replace(image, layers=(layers.without("/usr/bin/bash"), *image.layers))

    def strict(pod: Body) -> Body:
        pod["spec"]["securityContext"].update(runAsUser=1234560000, runAsGroup=0, fsGroup=1234560000)
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            container["securityContext"]["readOnlyRootFilesystem"] = True
        return pod

    outcome = replace(stage, images=bare).run("openmpi-5", RANKS, DELETED["a host"], change=strict)
    assert_stopped(outcome, DELETED["a host"])
    assert len(stage.saved) == len(DELETED["all pods"])
