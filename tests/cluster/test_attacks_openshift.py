"""Test on an OpenShift platform that every attack has its recorded result, and that the work of a normal day passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.corpus import Attack, attacks, on, work
from tests.cluster import attacking
from tests.cluster.attacking import Stage
from tests.cluster.client import Client
from tests.cluster.trees import Deployed

pytestmark = [pytest.mark.cluster, pytest.mark.attacks]
PLATFORM = "openshift"


@pytest.fixture(scope="module")
def stage(admin: Client, on_the_cluster: list[Deployed]) -> Iterator[Stage]:
    """Deploy the platform in place of an example."""
    with attacking.staged(admin, PLATFORM, on_the_cluster) as stage:
        yield stage


@pytest.mark.parametrize("attack", on(PLATFORM, attacks()), ids=str)
def test_attacks_are_stopped_or_remain_as_the_corpus_records(attack: Attack, stage: Stage) -> None:
    assert attacking.complaint(stage, attack) == ""


@pytest.mark.parametrize("request_", on(PLATFORM, work()), ids=str)
def test_the_work_of_a_day_passes(request_: Attack, stage: Stage) -> None:
    assert attacking.complaint(stage, request_) == ""
