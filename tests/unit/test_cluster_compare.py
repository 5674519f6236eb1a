"""Test the comparison of the acceptance tests, because an ineffective judge would accept everything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.compare import additions, changed

WRITTEN: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"hard": {"pods": "1000"}, "list": [{"a": 1}, {"a": 2}]}}


def stored(**spec: object) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "1"}, "spec": {**WRITTEN["spec"], **spec}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"hard": {"pods": "1k"}}, ["spec.hard.pods: we wrote '1000', '1k' is stored"]),
        ({"hard": {"pods": 1000}}, ["spec.hard.pods: we wrote '1000', 1000 is stored"]),
        ({"hard": {}}, ["spec.hard.pods: '1000' is not stored"]),
        ({"list": [{"a": 1}]}, ["spec.list: we wrote [{'a': 1}, {'a': 2}], [{'a': 1}] is stored"]),
        ({"list": [{"a": 2}, {"a": 2}]}, ["spec.list[0].a: we wrote 1, 2 is stored"]),
        ({"list": [{"a": True}, {"a": 2}]}, ["spec.list[0].a: we wrote 1, True is stored"]),
        ({"more": 1}, []),
    ],
)
def test_every_change_is_detected(spec: dict[str, Any], said: list[str]) -> None:
    assert list(changed(WRITTEN, stored(**spec))) == said


def test_every_addition_is_detected() -> None:
    found = additions(WRITTEN, stored(more={"b.c": 1}, list=[{"a": 1, "z": 0}, {"a": 2}, {"a": 3}]))
    assert found == {"spec.more": {"b.c": 1}, "spec.list[].z": 0, "spec.list[]": {"a": 3}}


def test_fields_of_the_api_server_are_not_additions() -> None:
    assert additions(WRITTEN, stored()) == {}
