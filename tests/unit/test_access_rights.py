"""Test the reviewed table of rights on the files of a platform."""

from __future__ import annotations

import pytest

from generator import pipeline
from generator.upstream.kubernetes.access import Access, read_access
from tests.access.rights import PERSONAS, PLATFORM, Row, rows


@pytest.fixture(scope="module")
def granted() -> Access:
    """Return the access that the rendered platform grants."""
    platform, app = pipeline.load(PLATFORM)
    return read_access(pipeline.render(platform, app))


def test_the_table_has_at_least_sixty_distinct_requests() -> None:
    requests = [row.asked for row in rows()]
    assert len(requests) >= 60
    assert len(requests) == len(set(requests))


@pytest.mark.parametrize("row", rows(), ids=str)
def test_rights_equal_the_reviewed_table(row: Row, granted: Access) -> None:
    assert {name for name, who in PERSONAS.items() if granted.allowed(who, row.asked)} == row.may


def test_every_persona_but_the_pod_and_the_stranger_has_rights(granted: Access) -> None:
    idle = {name for name, who in PERSONAS.items() if not any(granted.allowed(who, row.asked) for row in rows())}
    assert idle == {"pod", "stranger"}
