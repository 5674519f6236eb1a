"""Test the check of empty TrainJob fields; tests/cluster/test_trainjob_checks.py compares it with Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from generator.checks.trainjob import empty_value
from generator.objects.training import TrainJob
from tests.cluster.queued import EMPTY, train_job


@pytest.mark.parametrize("name", EMPTY["stuck"])
def test_a_value_that_blocks_the_job_is_reported_at_its_path(name: str) -> None:
    body = train_job(name, "plain", EMPTY["stuck"][name])
    (breach,) = empty_value(TrainJob(body))
    node: Any = body
    for step in breach.path:
        node = node[step]
    assert node in ([], {}, "", False)


@pytest.mark.parametrize("name", EMPTY["runs"])
def test_values_that_kueue_can_write_have_no_finding(name: str) -> None:
    assert list(empty_value(TrainJob(train_job(name, "plain", EMPTY["runs"][name])))) == []
