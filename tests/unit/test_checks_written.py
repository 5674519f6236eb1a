"""What Kueue cannot write of a TrainJob is told; tests/cluster/test_trainjob_checks.py shows the same to Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from generator.checks.trainjob import empty_value
from generator.objects.training import TrainJob
from tests.cluster.queued import EMPTY, train_job


@pytest.mark.parametrize("name", EMPTY["stuck"])
def test_what_keeps_a_job_from_running_is_found_where_it_stands(name: str) -> None:
    body = train_job(name, "plain", EMPTY["stuck"][name])
    (breach,) = empty_value(TrainJob(body))
    node: Any = body
    for step in breach.path:
        node = node[step]
    assert node in ([], {}, "", False)


@pytest.mark.parametrize("name", EMPTY["runs"])
def test_what_is_written_or_may_go_is_passed(name: str) -> None:
    assert list(empty_value(TrainJob(train_job(name, "plain", EMPTY["runs"][name])))) == []
