"""Test TrainJobs whose pods a real kubelet runs: its processes decide start, exit codes, messages and limits."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from tests.cluster.client import Client, wait_for
from tests.cluster.kubelet.history import History, ready_since, status_of, terminated, time_of, writers
from tests.cluster.kubelet.jobs import HOSTS, Submitter, end_of, jobset_of, ranks_of, report_of
from tests.cluster.mpi.conftest import MPIS, SMOKE

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
MANY = 32  # hosts
AT_MOST = timedelta(seconds=120)  # from the start of the launcher until all ranks communicate
FAILS_WITHIN = timedelta(seconds=30)


@pytest.mark.parametrize("runtime", MPIS)
def test_a_job_completes_with_the_declared_ranks(
    runtime: str, submitter: Submitter, history: History, admin: Client
) -> None:
    gang = submitter.submit(f"ranks-{runtime}", runtime, *SMOKE)
    assert end_of(gang, admin) == "Complete", report_of(history, gang)
    [launcher], workers = history.pods(gang, "launcher"), history.pods(gang, "node")
    _, ranks = ranks_of(history, launcher)
    assert set(Counter(rank["host"] for rank in ranks).values()) == {1}
    assert [rank["sums"] for rank in ranks] == [[sum(range(HOSTS))]] * HOSTS
    assert len(workers) == gang.size - 1
    for pod in (launcher, *workers):
        assert terminated(pod, "prepare")["exitCode"] == 0
        assert pod["spec"]["nodeName"] == history.node
    assert launcher["status"]["phase"] == "Succeeded"
    assert terminated(launcher).items() >= {"exitCode": 0, "reason": "Completed"}.items()
    assert status_of(launcher)["containerID"].startswith("containerd://")
    assert writers(launcher) == {"kubelet"}


def test_the_launcher_starts_after_the_readiness_probes_of_all_hosts_succeed(
    submitter: Submitter, history: History, admin: Client
) -> None:
    gang = submitter.submit("probes", "openmpi-5", *SMOKE)
    assert end_of(gang, admin) == "Complete", report_of(history, gang)
    [launcher] = history.pods(gang, "launcher")
    first = {
        pod["metadata"]["uid"]: ready for pod in reversed(history.states(gang, "node")) if (ready := ready_since(pod))
    }
    assert len(first) == gang.size - 1
    assert max(first.values()) <= time_of(launcher["metadata"]["creationTimestamp"])


@pytest.mark.parametrize("runtime", ["openmpi-5", "intel-mpi"])
def test_a_failed_rank_fails_the_job_with_its_exit_code(
    runtime: str, submitter: Submitter, history: History, admin: Client
) -> None:
    gang = submitter.submit(f"fails-{runtime}", runtime, "mpirun", "sh", "-c", "exit 3")
    assert end_of(gang, admin) == "Failed"
    [launcher] = history.pods(gang, "launcher")
    assert launcher["status"]["phase"] == "Failed"
    assert terminated(launcher).items() >= {"exitCode": 3, "reason": "Error"}.items()


@pytest.mark.parametrize("runtime", ["openmpi-5", "intel-mpi"])
def test_an_image_without_openssh_fails_the_job_at_once_with_one_message(
    runtime: str, submitter: Submitter, history: History, admin: Client
) -> None:
    gang = submitter.submit(f"bare-{runtime}", f"{runtime}-bare", *SMOKE)
    assert end_of(gang, admin) == "Failed"
    pods = history.pods(gang)
    assert len(pods) == gang.size - 1, "a pod was replaced, or the launcher started"
    failed = [pod for pod in pods if terminated(pod, "prepare")]
    assert failed
    for pod in failed:
        ended = terminated(pod, "prepare")
        assert ended["exitCode"] == 1
        assert ended["message"] == (
            "prepare: the image lacks `/usr/sbin/sshd` (OpenSSH server), `ssh` (OpenSSH client). The job would start "
            f"no ranks, so it fails now. Install them in the image of runtime `{runtime}-bare`, or use another image. "
            "For OpenSSH, you can set `sshImage` of the runtime in platform.yaml instead.\n"
        )
    job = admin.read(gang.body)
    [condition] = [found for found in job["status"]["conditions"] if found["type"] == "Failed"]
    assert time_of(condition["lastTransitionTime"]) - time_of(job["metadata"]["creationTimestamp"]) <= FAILS_WITHIN
    assert jobset_of(gang, admin)["status"].get("restarts", 0) == 0


def test_an_image_without_a_shell_fails_the_job_at_once(submitter: Submitter, history: History, admin: Client) -> None:
    gang = submitter.submit("no-shell", "no-shell", *SMOKE)
    assert end_of(gang, admin) == "Failed"
    pods = history.pods(gang)
    assert len(pods) == gang.size - 1, "a pod was replaced, or the launcher started"
    ended = [terminated(pod, "prepare") for pod in pods if terminated(pod, "prepare")]
    assert ended
    assert {end["reason"] for end in ended} == {"StartError"}
    assert jobset_of(gang, admin)["status"].get("restarts", 0) == 0


def test_a_rank_over_its_memory_limit_is_killed(submitter: Submitter, history: History, admin: Client) -> None:
    gang = submitter.submit("memory", "openmpi-5", "mpirun", "python3", "-c", "bytearray(3 << 30)")
    assert end_of(gang, admin) == "Failed"
    [launcher] = history.pods(gang, "launcher")
    assert terminated(launcher).items() >= {"exitCode": 137, "reason": "OOMKilled"}.items()


def test_the_kubelet_reports_an_image_that_it_cannot_pull(
    submitter: Submitter, history: History, admin: Client
) -> None:
    gang = submitter.submit("absent", "absent", *SMOKE)

    def reasons() -> set[str] | None:
        waiting = [status_of(pod, "prepare").get("state", {}).get("waiting", {}) for pod in history.states(gang)]
        found = {state.get("reason", "") for state in waiting}
        return found if "ImagePullBackOff" in found else None

    assert "ErrImagePull" in wait_for("the kubelet gives up for a while", reasons)
    assert gang.outcome(admin) is None


@pytest.mark.parametrize("runtime", MPIS)
def test_ranks_of_many_hosts_communicate_within_two_minutes(
    runtime: str, submitter: Submitter, history: History, admin: Client
) -> None:
    gang = submitter.submit(f"many-{runtime}", runtime, *SMOKE, hosts=MANY)
    assert end_of(gang, admin, 600) == "Complete", report_of(history, gang)
    [launcher] = history.pods(gang, "launcher")
    time, ranks = ranks_of(history, launcher)
    assert len({rank["host"] for rank in ranks}) == len(ranks) == MANY
    assert time - time_of(terminated(launcher)["startedAt"]) <= AT_MOST
