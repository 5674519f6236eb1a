"""Each check of policies finds its case, in the right words, and passes what only looks alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from generator.checks.finding import Finding, Severity
from generator.checks.policy import admission
from generator.checks.run import check_text
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.check_cases import FOLDER, changed

_SOUND = (FOLDER / "policy.yaml").read_text("utf-8")
_CASES: Mapping[str, Mapping[str, Any]] = yaml.safe_load((FOLDER / "policy-cases.yaml").read_text("utf-8"))
_ODD: tuple[Any, ...] = (None, True, 0, -1.5, "", "x", [], {}, [None], ["x", 1], {"expression": 1}, {"x": []})
_TARGETS = {"kubernetes": "1.34"}


def _found(text: str, kubernetes: str = "1.34") -> list[Finding]:
    return check_text(text.encode(), "policy.yaml", Engine(Catalog.bundled({"kubernetes": kubernetes}))).in_order()


def test_a_sound_policy_is_sound() -> None:
    assert _found(_SOUND) == []


def test_every_check_has_a_case() -> None:
    assert {case["check"] for case in _CASES.values()} == set(admission.CHECKS)


@pytest.mark.parametrize("name", _CASES)
def test_a_case_is_told_once_at_its_place(name: str) -> None:
    case = _CASES[name]
    found = _found(changed(_SOUND, case["spoil"], name))
    assert {each.check for each in found} == {case["check"]}
    assert found[0].message.startswith(case["said"])
    assert all(each.line > 1 and each.path.startswith("$.spec.") and each.why and each.fix for each in found)
    assert {each.severity for each in found} == {
        Severity.WARNING if case["check"] == "policy/absent" else Severity.ERROR
    }


@pytest.mark.parametrize("name", _CASES)
def test_what_only_looks_like_a_case_passes(name: str) -> None:
    assert _found(changed(_SOUND, _CASES[name]["fine"], name)) == []


def test_what_reads_a_variable_that_does_not_compile_is_not_told_again() -> None:
    name = "one-that-does-not-compile-and-one-that-reads-it"
    assert len(_found(changed(_SOUND, _CASES[name]["spoil"], name))) == 1


def test_what_a_release_has_its_policies_may_use_from_the_next_on() -> None:
    text = changed(_SOUND, {"'team' in variables.labels": "['team'].exists(i, v, v in variables.labels)"}, "")
    assert _found(text, "1.34") == _found(text, "1.33") == []
    text = changed(_SOUND, {"'team' in variables.labels": "isSemver('1.0.0')"}, "")
    assert (_found(text, "1.34"), [each.check for each in _found(text, "1.33")]) == ([], ["policy/too-new"])


@pytest.mark.parametrize("odd", _ODD, ids=repr)
def test_policies_of_any_shape_are_judged(odd: Any) -> None:
    for manifest in read(_SOUND, "policy.yaml"):
        for key, value in {"spec": odd, **dict.fromkeys(manifest.body["spec"], odd)}.items():
            body = {**manifest.body, "spec": value if key == "spec" else {**manifest.body["spec"], key: value}}
            list(admission.breaches(replace(manifest, body=body), _TARGETS))
            inner = {**manifest.body["spec"], key: [odd]}
            list(admission.breaches(Manifest({**manifest.body, "spec": inner}, ""), _TARGETS))
