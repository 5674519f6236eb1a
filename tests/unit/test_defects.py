"""Test that rows of upstream defects are complete: every supported release, check and test is resolved."""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest
import yaml

from generator.checks import registry
from generator.config.load import load_platform
from generator.errors import ConfigError
from generator.facts.defects import Defect, Range, defects, inapplicable_checks, parse_release, sound_minors
from generator.facts.versions import SUPPORTED
from tests.conftest import ROOT
from tests.upstream.citations import find_citations

FACTS = ROOT / "generator" / "facts"
SCHEMA = json.loads((FACTS / "defects.schema.json").read_text())
ROWS = yaml.safe_load((FACTS / "defects.yaml").read_text())
CHECKS = {each.id for each in registry.checks()}
EVERY = pytest.mark.parametrize("defect", defects().values(), ids=defects())
OLD = {"kubernetes": "1.34", "trainer": "2.2", "jobset": "0.11", "kueue": "0.18"}
REFUSED: Mapping[str, dict[str, Any]] = {
    "runtimes[].ttlSecondsAfterFinished": {"runtimes": [{"ttlSecondsAfterFinished": 60}]},
    "pools[].topology": {"pools": [{"topology": ["example.com/rack"], "labels": {"pool": "cpu"}}]},
    "tenants[].multiKueue": {
        "tenants": [{"multiKueue": True}],
        "queues": {"multiKueue": {"clusters": [{"name": "west", "kubeConfigSecret": "west"}]}},
    },
    "queues.waitForPodsReady": {
        "queues": {"waitForPodsReady": {"timeout": "1h"}},
        "cluster": {"distribution": "openshift"},
    },
}
"""Field → the smallest platform below, changed so that it sets the field."""


def test_the_rows_match_their_schema() -> None:
    jsonschema.validate(ROWS, SCHEMA)
    assert len(defects()) == len(ROWS["defects"]) >= 10


@pytest.mark.parametrize(
    "change",
    [
        {"affected": {"trainer": [{"introduced": "2.2.0"}]}},
        {"affected": {"trainer": [{"introduced": "2.2.0", "fixed": "2.3.0", "lastAffected": "2.2.1"}]}},
        {"affected": {"trainer": [{"introduced": "v2", "fixed": "2.3.0"}]}},
        {"affected": {}},
        {"checks": {"mpi/jobs": "sometimes"}},
        {"report": "https://example.com/1"},
        {"tests": []},
        {"more": 1},
    ],
    ids=str,
)
def test_the_schema_rejects_incomplete_rows(change: dict[str, Any]) -> None:
    rows = copy.deepcopy(ROWS)
    rows["defects"][0] |= change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(rows, SCHEMA)


@EVERY
def test_every_supported_release_is_decided(defect: Defect) -> None:
    """A newer release is undecided until a maintainer has read its source."""
    for component in defect.affected:
        releases = [each.version for each in SUPPORTED if each.name == component]
        assert releases
        assert {
            version: defect.is_in(component, version)
            for version in releases
            if defect.is_in(component, version) is None
        } == {}
    targets = [{each.name: each.minor for each in SUPPORTED[::-1]}, OLD]
    assert any(defect.affects(each) for each in targets), "no supported set has it: remove the row"


@EVERY
def test_every_check_and_every_rejected_field_exists(defect: Defect) -> None:
    assert set(defect.checks) <= CHECKS
    assert set(defect.refuses) <= set(REFUSED)


@EVERY
def test_every_test_exists_and_defects_verified_on_controllers_have_a_cluster_test(defect: Defect) -> None:
    for name in defect.tests:
        file, function = name.split("::")
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
    assert defect.verified != "controllers" or any(each.startswith("tests/cluster/") for each in defect.tests)


@EVERY
def test_every_source_cites_a_pinned_release(defect: Defect) -> None:
    """For a component without a pinned release, the source cites a commit."""
    pinned = {each.version for each in SUPPORTED}
    for source in defect.sources:
        (citation,) = find_citations(source, "defects.yaml")
        assert str(citation.version) in pinned or re.fullmatch("[0-9a-f]{40}", citation.version)


def test_every_rejected_field_has_a_row() -> None:
    assert {field for defect in defects().values() for field in defect.refuses} == set(REFUSED)


def merged(base: Any, change: Any) -> Any:
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}
    if isinstance(base, list) and isinstance(change, list) and base and isinstance(base[0], dict):
        return [merged(base[0], change[0]), *base[1:]]
    return change


@pytest.mark.parametrize("field", REFUSED)
@pytest.mark.parametrize("targets", [{}, OLD, {"kueue": "0.18"}], ids=["newest", "previous", "old Kueue"])
def test_rejections_apply_only_to_affected_releases(field: str, targets: Mapping[str, str], tmp_path: Any) -> None:
    base = {
        "platform": "small",
        "release": "1.0.0",
        "cluster": {"versions": dict(targets)},
        "pools": [{"name": "cpu", "nodes": 3, "allocatable": {"cpu": 16, "memory": "64Gi"}}],
        "runtimes": [{"name": "openmpi", "use": "openmpi", "pool": "cpu"}],
        "tenants": [{"name": "team-a", "quota": {"cpu": 3}, "access": {"edit": ["group:a"]}}],
    }
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(merged(base, REFUSED[field])))
    place = field.replace("[]", "[0]")
    messages = []
    try:
        load_platform(file)
    except ConfigError as error:
        messages = [str(problem) for problem in error.problems if place in str(problem)]
    because = [each for each in defects().values() if field in each.refuses and each.affects(targets)]
    assert [any(each.note in message for message in messages) for each in because] == [True] * len(because)
    if not because:
        assert not any("defect of" in message for message in messages)


def test_a_runtime_cannot_expire_job_sets() -> None:
    """Every supported Trainer runs failed jobs again."""
    assert sound_minors(defects()["trainer-failed-jobs-run-again"], {}) == {}


@pytest.mark.parametrize(
    ("ranges", "release", "expected"),
    [
        ([Range("0.18.0", "0.18.5"), Range("0.19.0", "0.19.1")], "v0.18.3", True),
        ([Range("0.18.0", "0.18.5"), Range("0.19.0", "0.19.1")], "v0.18.5", False),
        ([Range("0.18.0", "0.18.5"), Range("0.19.0", "0.19.1")], "0.19.0", True),
        ([Range("0.18.0", "0.18.5"), Range("0.19.0", "0.19.1")], "0.20.0", False),
        ([Range("2.2.0", last_affected="2.3.0")], "2.3.0", True),
        ([Range("2.2.0", last_affected="2.3.0")], "2.3.1", None),
        ([Range("2.3.0", last_affected="2.3.0")], "2.2.1", False),
        ([Range("0.9.0", "0.10.0")], "0.10.0", False),
    ],
)
def test_ranges_compare_numbers(ranges: list[Range], release: str, expected: bool | None) -> None:
    found = {each.covers(parse_release(release)) for each in ranges}
    assert (True if True in found else None if None in found else False) is expected


def test_checks_of_defects_are_silent_for_unaffected_releases() -> None:
    assert {"runtime/grouped-placement", "quota/runs-twice", "quota/no-candidates"} <= inapplicable_checks({})
    assert not {"runtime/grouped-placement", "quota/runs-twice", "quota/no-candidates"} & inapplicable_checks(OLD)
    assert {"trainjob/dropped-field", "trainjob/uncounted-resources"} <= inapplicable_checks(OLD)
    for targets in ({}, OLD):
        assert not inapplicable_checks(targets) & {
            check for each in defects().values() for check, only in each.checks.items() if only != "affected"
        }
