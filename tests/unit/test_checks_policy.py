"""Test that every policy check finds its case, and passes similar good policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from generator.checks import policy
from generator.checks.finding import Finding
from generator.checks.run import check_text
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.checks import FOLDER

_SOUND = (FOLDER / "policy/policy.yaml").read_text("utf-8")
_ODD: tuple[Any, ...] = (None, True, 0, -1.5, "", "x", [], {}, [None], ["x", 1], {"expression": 1}, {"x": []})
_TARGETS = {"kubernetes": "1.34"}


def _found(text: str, kubernetes: str = "1.34") -> list[Finding]:
    return check_text(text.encode(), "policy.yaml", Engine(Catalog.bundled({"kubernetes": kubernetes}))).in_order()


def test_a_valid_policy_has_no_findings() -> None:
    assert _found(_SOUND) == []


def test_policies_may_use_functions_from_the_release_after_their_introduction() -> None:
    text = _SOUND.replace("'team' in variables.labels", "['team'].exists(i, v, v in variables.labels)")
    assert _found(text, "1.34") == []
    text = _SOUND.replace("'team' in variables.labels", "isSemver('1.0.0')")  # since 1.33
    assert _found(text, "1.34") == []
    text = _SOUND.replace("'team' in variables.labels", "['team'].includes('team')")  # since 1.37
    assert [each.check for each in _found(text, "1.37")] == ["policy/too-new"]


@pytest.mark.parametrize("odd", _ODD, ids=repr)
def test_policies_with_malformed_fields_are_checked(odd: Any) -> None:
    for manifest in read(_SOUND, "policy.yaml"):
        for key, value in {"spec": odd, **dict.fromkeys(manifest.body["spec"], odd)}.items():
            body = {**manifest.body, "spec": value if key == "spec" else {**manifest.body["spec"], key: value}}
            list(policy.policy_breaches(replace(manifest, body=body), _TARGETS))
            inner = {**manifest.body["spec"], key: [odd]}
            list(policy.policy_breaches(Manifest({**manifest.body, "spec": inner}, ""), _TARGETS))
