"""Test that `mpigen diagnose` names the cause of failures of real MPI jobs from the logs of their pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from generator import Manifest
from generator.diagnose.answer import Confidence, Diagnosis, decide
from generator.diagnose.scan import Scan
from generator.facts.causes.table import Rank
from tests.cluster.client import Body
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.offline import OfflineJob

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
HOST = "job-node-0-1"
KILL = """\
import os, time
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK")
if rank == "1": os.kill(os.getpid(), SIGNAL)
time.sleep(20)
"""


def _unchanged(pod: Body) -> Body:
    return pod


def _replacing(old: str, new: str, name: str = "") -> Callable[[Body], Body]:
    """Return the function that replaces a text in the script of `prepare`, of all pods or of one."""

    def change(pod: Body) -> Body:
        pod = deepcopy(pod)  # the pods of a job share their containers
        prepare = pod["spec"]["initContainers"][0]
        if name in ("", pod["spec"]["hostname"]):
            assert old in prepare["command"][2]
            prepare["command"][2] = prepare["command"][2].replace(old, new)
        return pod

    return change


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that fails, and the expected diagnosis.

    Attributes:
        cause: the name of the cause; empty for none.
        command: the command of the launcher.
        runtime: the runtime.
        variables: variables of the job.
        change: the change of each pod.
    """

    cause: str
    command: Sequence[str]
    runtime: str = "openmpi-5"
    variables: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[Body], Body] = _unchanged


def _python(program: str) -> tuple[str, ...]:
    return ("mpirun", "python3", "-c", program)


FAILURES = {
    **{
        f"{name} {runtime}": Failure(cause, command, runtime)
        for runtime in ("openmpi-4", "openmpi-5", "mpich", "intel-mpi")
        for name, cause, command in (
            ("killed rank", "rank-killed", _python(KILL.replace("SIGNAL", "9"))),
            ("crashed rank", "rank-crashed", _python(KILL.replace("SIGNAL", "11"))),
            ("missing program", "program-not-executable", ("mpirun", "./no-such-program")),
            ("missing module", "python-module-missing", _python("import no_such_module")),
            ("full volume", "volume-full", _python("print('x' * 9999, file=open('/dev/full', 'w'), flush=True)")),
            ("odd error", "", _python("raise ValueError('odd')")),
        )
    },
    "slots": Failure("not-enough-slots", ("mpirun", "-np", "99", "hostname")),
    "slots of Open MPI 4": Failure("not-enough-slots", ("mpirun", "-np", "99", "hostname"), "openmpi-4"),
    "option": Failure("mpirun-option-unknown", ("mpirun", "--no-such-option", "hostname")),
    "time limit": Failure("mpirun-time-limit", ("mpirun", "--timeout", "2", "sleep", "60")),
    "component": Failure(
        "open-mpi-component-missing", ("mpirun", "python3", "/opt/smoke/allreduce.py"), variables={"OMPI_MCA_pml": "no"}
    ),
    "read-only files": Failure("file-system-read-only", _python("open('/etc/passwd', 'a')")),
    "other processor": Failure("image-for-other-cpu", _python(KILL.replace("SIGNAL", "4")), "openmpi-4"),
    "keys": Failure("ssh-key-refused", ("mpirun", "hostname"), change=_replacing("authorized_keys", "no_keys", HOST)),
}


@pytest.mark.parametrize("name", FAILURES)
def test_the_cause_of_a_real_failure_is_named(
    name: str, images: Callable[[str], Image], ends_platform: list[Manifest], tmp_path: Path
) -> None:
    failure = FAILURES[name]
    answer, logs = diagnose(failure, images, ends_platform, tmp_path)
    assert (answer.cause.cause if answer.cause else "") == failure.cause, logs
    is_certain = answer.cause is not None and answer.cause.rank is Rank.ROOT
    expected = Confidence.HIGH if is_certain else Confidence.LOW if answer.cause else Confidence.UNKNOWN
    assert answer.confidence is expected, logs


def diagnose(
    failure: Failure, images: Callable[[str], Image], manifests: list[Manifest], folder: Path
) -> tuple[Diagnosis, str]:
    """Return the diagnosis of the logs of all pods of a failed job, and the logs."""
    job = OfflineJob.on(failure.runtime, failure.command, manifests, variables=failure.variables)
    (folder / "claim").mkdir(mode=0o777)
    (folder / "logs").mkdir()
    outcome = job.run(images, folder / "logs", failure.change, claims={"checkpoints": folder / "claim"})
    assert outcome.codes.get(("job-launcher-0-0", "node")) != 0, str(outcome)
    scan = Scan()
    for file in sorted((folder / "logs").glob("*.log")):
        with file.open("rb") as stream:
            scan.read_log(file.name, stream)
    return decide(scan), str(outcome)
