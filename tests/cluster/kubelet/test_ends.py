"""Test with a real kubelet that the ranks of stopped jobs save, and that the jobs do not complete but resume."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from generator import Platform
from generator.runtimes.pod_scripts import STOPPED
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.kubelet.history import History, terminated, time_of
from tests.cluster.kubelet.jobs import HOSTS, Submitter, end_of, jobset_of, pods_of, report_of
from tests.cluster.kubelet.node import Node
from tests.cluster.kubelet.stops import STOPS
from tests.cluster.mpi.gangs import Gang
from tests.cluster.training import ROLE
from tests.conftest import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
RUNTIMES = ("openmpi-5", "intel-mpi")
TRAIN = ("mpirun", "python3", "-c", (ROOT / "examples/checkpoint/train.py").read_text())
IGNORE = ("mpirun", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
STEPS = 60
SAVING = 4  # seconds: longer than mpirun gives ranks after TERM
GRACE = timedelta(seconds=20)  # as in platform.yaml
SLOW = timedelta(seconds=5)  # for the kubelet to end the containers and to report it
VARIABLES = {"STEPS": str(STEPS), "SECONDS_PER_STEP": "0.1", "SECONDS_TO_SAVE": str(SAVING)}
CLAIM = "checkpoints"
HOME = "team-small"
"""The namespace of a tenant whose quota is one job."""


@pytest.fixture(scope="module", autouse=True)
def claim(admin: Client, real_platform: Platform, real_node: Node) -> Iterator[Path]:
    """Create the claim for checkpoints on the node, and return its folder."""
    assert real_platform.tenants
    folder = real_node.folder / CLAIM
    folder.mkdir()
    folder.chmod(0o777)  # the kubelet changes the owner of no hostPath
    size, modes, name = {"storage": "1Gi"}, ["ReadWriteMany"], f"{HOME}-{CLAIM}"
    bound = {"kind": "PersistentVolumeClaim", "namespace": HOME, "name": CLAIM}
    spec = {"capacity": size, "accessModes": modes, "hostPath": {"path": str(folder)}, "claimRef": bound}
    wanted = {"resources": {"requests": size}, "accessModes": modes, "storageClassName": "", "volumeName": name}
    volume: Body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    metadata = {"name": CLAIM, "namespace": HOME}
    admin.create(volume)
    admin.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": wanted})
    yield folder
    admin.delete(volume)


def running_launcher(gang: Gang, history: History) -> Body:
    """Wait until the launcher of a job runs."""

    def found() -> Body | None:
        launchers = [pod for pod in pods_of(history.admin, gang) if pod["metadata"]["labels"][ROLE] == "launcher"]
        return next((pod for pod in launchers if pod["status"]["phase"] == "Running"), None)

    return wait_for(f"the launcher of {gang.name} runs", found)


def stopped_pods(gang: Gang, history: History) -> list[Body]:
    """Wait until all pods of a stopped job have ended, and return their last states, without pods of a restart."""

    def ended() -> list[Body] | None:
        pods = history.pods(gang)[: gang.size]
        return pods if len(pods) == gang.size and all(map(terminated, pods)) else None

    return wait_for(f"all pods of {gang.name} have ended", ended, 60)


def assert_stopped(pod: Body) -> timedelta:
    """Assert the exit code of a stopped pod, and return the time from its deletion, if there was one, to its end."""
    assert terminated(pod)["exitCode"] == STOPPED, terminated(pod)
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return timedelta()
    since = time_of(metadata["deletionTimestamp"]) - timedelta(seconds=metadata["deletionGracePeriodSeconds"])
    return time_of(terminated(pod)["finishedAt"]) - since


@pytest.mark.parametrize("kind", STOPS)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_stopped_job_saves_and_resumes_with_the_result_of_an_undisturbed_job(
    runtime: str, kind: str, submitter: Submitter, history: History, admin: Client, claim: Path
) -> None:
    gang = submitter.submit(f"{kind}-{runtime}", f"resilient-{runtime}", *TRAIN, variables=VARIABLES, home=HOME)
    way = STOPS[kind](gang, history.node, submitter)
    with history.following(running_launcher(gang, history)) as lines:
        wait_until("it trains", lambda: any("is at step 10" in line for line in lines))
        way.stop()
        pods = stopped_pods(gang, history)
    assert {line.partition(" saved")[0] for line in lines if " saved step " in line} == {
        f"rank {rank}" for rank in range(HOSTS)
    }, lines
    assert not any(line.startswith("result") for line in lines)
    assert max(map(assert_stopped, pods)) <= GRACE
    step = int((claim / gang.name / "latest").read_text())
    assert 10 <= step < STEPS
    assert kind == "deleted" or gang.outcome(admin) is None
    way.resume()
    assert end_of(gang, admin) == "Complete", report_of(history, gang)
    launcher = history.pods(gang, "launcher")[-1]
    log = [line for _, line in history.log(launcher)]
    assert {f"rank {rank} of {HOSTS} begins at step {step}" for rank in range(HOSTS)} <= {*log}
    assert f"result {undisturbed()}" in log
    assert jobset_of(gang, admin)["status"].get("restartsCountTowardsMax", 0) == 0


def undisturbed() -> int:
    """Return the result of train.py without MPI and without an interruption."""
    values = [*range(HOSTS)]
    for _ in range(STEPS):
        total = sum(value * (rank + 1) for rank, value in enumerate(values)) % 1_000_003
        values = [total + rank for rank in range(HOSTS)]
    return sum(values)


def test_ranks_that_do_not_end_have_the_declared_grace(submitter: Submitter, history: History) -> None:
    gang = submitter.submit("ignores", "resilient-openmpi-5", *IGNORE, home=HOME)
    with history.following(running_launcher(gang, history)) as lines:
        wait_until("all ranks run", lambda: lines.count("ready") == HOSTS)
        STOPS["deleted"](gang, history.node, submitter).stop()
        pods = stopped_pods(gang, history)
    times = [assert_stopped(pod) for pod in pods]
    assert all(GRACE - SLOW <= time <= GRACE + SLOW for time in times), times


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_failure_of_the_program_counts_as_a_restart(
    runtime: str, submitter: Submitter, history: History, admin: Client
) -> None:
    gang = submitter.submit(f"counts-{runtime}", f"resilient-{runtime}", "mpirun", "sh", "-c", "exit 3", home=HOME)
    assert end_of(gang, admin) == "Failed"
    launchers = history.pods(gang, "launcher")
    assert [terminated(pod)["exitCode"] for pod in launchers] == [3, 3]
    assert jobset_of(gang, admin)["status"]["restartsCountTowardsMax"] == 1
