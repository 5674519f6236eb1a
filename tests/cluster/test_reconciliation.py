"""Test that Trainer, JobSet, Kueue and the scheduler run the jobs of every example as the platform declares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster import judges
from tests.cluster.client import Client
from tests.cluster.control_plane import Cluster
from tests.cluster.over_quota import reasons
from tests.cluster.runs import Ran, run
from tests.cluster.shortages import in_recorded_words
from tests.cluster.training import trainings
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
RECORDED = Path(__file__).parent / "fixtures" / "over-quota"


@pytest.fixture(scope="module")
def everything(deployed: Deployed, admin: Client) -> list[Ran]:
    """Run a TrainJob of each tenant on each runtime, as its members submit them."""
    return run(admin, list(trainings(deployed.platform)))


def test_queues_are_active(deployed: Deployed, admin: Client) -> None:
    assert judges.inactive_queues(deployed, admin) == []


def test_every_tenant_completes_a_job_on_every_runtime(everything: list[Ran]) -> None:
    assert judges.never_complete(everything) == []


def test_kueue_admits_every_job(everything: list[Ran]) -> None:
    assert judges.unknown_to_kueue(everything) == []


def test_pods_run_on_the_flavor_that_kueue_charged(everything: list[Ran]) -> None:
    assert judges.on_another_pool(everything) == []


def test_no_two_hosts_of_a_job_share_a_node(everything: list[Ran]) -> None:
    assert judges.sharing_a_node(everything) == []


def test_the_hostfile_has_every_host_with_its_slots(everything: list[Ran]) -> None:
    assert judges.given_other_hosts(everything) == []


def test_only_the_launcher_runs_the_command(everything: list[Ran]) -> None:
    assert judges.running_another_command(everything) == []


def test_a_job_over_quota_waits_with_a_reason_from_kueue(
    deployed: Deployed, cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    """`pytest -m cluster --record` records the reasons of the default set; review the diff."""
    said = reasons(cluster.admin, deployed.platform)
    file = RECORDED / f"default-{deployed.platform.platform}.json"
    if request.config.getoption("--record") and cluster.versions.name == "default":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(said, indent=2) + "\n")
    recorded = json.loads(file.read_text())
    assert in_recorded_words(said, recorded, cluster.versions["kueue"].version) == recorded
