"""Stop pods of running jobs, with real processes: ranks save in their grace period, and no stopped job is Complete."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from generator import Manifest
from generator.runtimes.pod_scripts import STOPPED
from tests.cluster.client import Body
from tests.cluster.mpi import layers
from tests.cluster.mpi.conftest import MPIS, PLATFORMS
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.offline import OfflineJob, manifests_of
from tests.cluster.mpi.plans import Deletion
from tests.cluster.mpi.runner import Outcome, Surroundings
from tests.cluster.mpi.test_trees import CHAINS
from tests.conftest import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
RANKS = ("mpirun", "python3", "/opt/smoke/ends.py")
TRAINING = ("mpirun", "python3", "/checkpoint/train.py")
SAVING = 2  # seconds, in ends.py
LATE = 4  # seconds: a rank of another pod gets its signal by ssh, on a busy machine
GRACE = 15  # seconds, in ends.yaml
STEPS = 60
HOSTS = ("job-node-0-0", "job-node-0-1")
LAUNCHER = "job-launcher-0-0"
DELETED = {"a host": HOSTS[:1], "the launcher": (LAUNCHER,), "all pods": (*HOSTS, LAUNCHER)}
NO_RANKS = "-separate"  # on the launcher
Images = Callable[[str], Image]


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    return manifests_of(PLATFORMS / "ends.yaml")


@dataclass(frozen=True)
class Stage:
    """Runs jobs that share a claim.

    Attributes:
        images: the function that resolves images.
        manifests: the platform.
        folder: the folder of the test.
    """

    images: Images
    manifests: list[Manifest]
    folder: Path

    @property
    def claim(self) -> Path:
        """Return the folder of the claim, to which the users of the pods can write."""
        folder = self.folder / "claim"
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o777)
            shutil.copy(ROOT / "examples/checkpoint/train.py", folder)
        return folder

    @property
    def saved(self) -> dict[str, list[float]]:
        """Return rank of ends.py → the times at which it got SIGTERM."""
        files = sorted((self.claim / "job").glob("saved-*"))
        return {file.name: [float(line) for line in file.read_text().splitlines()] for file in files}

    def run(
        self,
        runtime: str,
        command: Sequence[str],
        deleted: Sequence[str] = (),
        after: str = "all ranks run",
        change: Callable[[Body], Body] = lambda pod: pod,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Outcome:
        """Run a job, delete some of its pods after the launcher has logged a text, and return the outcome."""
        job = OfflineJob(runtime, command, self.manifests, variables=variables)
        deletions: list[Deletion] = [{"pods": [*deleted], "of": LAUNCHER, "text": after}] if deleted else []
        logs = self.folder / f"logs-{len([*self.folder.iterdir()])}"
        logs.mkdir()
        around = Surroundings(deletions=deletions)
        return job.run(self.images, logs, change, seconds=90, around=around, claims={"checkpoints": self.claim})


@pytest.fixture
def stage(images: Images, manifests: list[Manifest], tmp_path: Path) -> Stage:
    return Stage(images, manifests, tmp_path)


def code(outcome: Outcome) -> int | None:
    return outcome.codes.get((LAUNCHER, "node"))


def log(outcome: Outcome) -> str:
    return (outcome.folder / f"{LAUNCHER}.node.log").read_text()


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
