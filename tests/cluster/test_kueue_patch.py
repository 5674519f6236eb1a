"""Test on real controllers why the admission rules protect Kueue's runtime patch and `spec.suspend` of a TrainJob.

No admission policy applies here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cluster.changing import Changing, changing
from tests.cluster.client import Client, wait_until

pytestmark = pytest.mark.cluster
_PATIENCE = 5  # seconds, in which Kueue releases the quota of any other evicted job


@pytest.fixture
def place(admin: Client, namespace: str) -> Iterator[Changing]:
    """A runtime, and a queue for its jobs."""
    yield from changing(admin, namespace)


def test_a_job_without_the_patch_of_kueue_runs_without_its_flavor_and_keeps_its_quota(place: Changing) -> None:
    place.hold("Hold")
    place.submit()
    place.workload()
    place.patch(place.job, {"runtimePatches": []})
    place.hold("None")
    wait_until("Kueue admits the job", lambda: _has(place, "Admitted"))
    time.sleep(_PATIENCE)
    assert place.admin.read(place.job)["spec"]["suspend"] is True
    place.patch(place.job, {"suspend": False})
    wait_until("pods exist", lambda: len(place.pods()) > 0)
    assert all(place.namespace not in str(pod["spec"].get("nodeSelector")) for pod in place.pods())
    place.hold("HoldAndDrain")
    wait_until("Kueue evicts the job", lambda: _has(place, "Evicted"))
    wait_until("the job has no pods", lambda: not place.pods())
    time.sleep(_PATIENCE)
    assert place.charged() != "0"


def test_an_evicted_job_releases_its_quota(place: Changing) -> None:
    place.submit()
    place.running()
    place.hold("HoldAndDrain")
    wait_until("Kueue releases the quota", lambda: place.charged() == "0")


def _has(place: Changing, condition: str) -> bool:
    found = place.workload().get("status", {}).get("conditions", [])
    return any(each["type"] == condition and each["status"] == "True" for each in found)
