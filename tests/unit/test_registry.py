"""Test that registered checks are complete, and that every finding of a fixture comes from a registered check."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from generator.checks import registry
from generator.checks.finding import Severity
from generator.checks.objects import Objects
from generator.checks.registry import Breach, Check, Profile, Stage, Suite, check, declare
from generator.checks.run import judge_together
from generator.manifests import Manifest, read
from tests.checks import CASES, FOLDER
from tests.conftest import ROOT
from tests.unit.test_check_cases import WORDS

CHECKS = {each.id: each for each in registry.checks()}
PAGES = ROOT / "docs/checks"
_REPORTED = re.compile(r"^\S+: (error|warning|info): ([\w-]+/[\w-]+): ", re.MULTILINE)
_SOURCE = re.compile(
    r"\w+\.(go|py|yaml|json|md|rst|c)\b|https://|^mpigen: \w|issue \d|cni_schemas|\w\(\d\)|pkg/|plugins/"
)
_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@pytest.mark.parametrize("each", CHECKS.values(), ids=CHECKS)
def test_every_check_has_a_summary_and_a_reason(each: Check) -> None:
    assert each.text.startswith("Report ")
    assert each.summary
    assert each.why
    assert "Source:" not in each.why


@pytest.mark.parametrize("each", CHECKS.values(), ids=CHECKS)
def test_every_check_names_its_source(each: Check) -> None:
    """A rule about upstream names a file or a page, and a rule of mpigen alone begins with `mpigen:`."""
    assert _SOURCE.search(each.source)


def test_findings_of_fixtures_have_at_most_the_registered_severity() -> None:
    for severity, name in _REPORTED.findall("\n".join(WORDS.values())):
        assert _ORDER.index(Severity(severity)) >= _ORDER.index(CHECKS[name].severity), name


def test_checks_cases_and_pages_correspond() -> None:
    folders = {"/".join(file.parent.relative_to(FOLDER).parts) for file in FOLDER.glob("*/*/cases.yaml")}
    pages = {"/".join(page.relative_to(PAGES).with_suffix("").parts) for page in PAGES.glob("*/*.md")}
    assert CHECKS.keys() == folders == pages
    assert {case.check for case in CASES.values()} == folders


def test_a_rule_function_has_the_name_of_its_check_and_a_unique_id() -> None:
    def right(_: Objects) -> Iterator[Breach]:
        yield from ()

    with pytest.raises(ValueError, match="must have the name `wrong`, not `right`"):
        check("quota/wrong", severity=Severity.ERROR, needs=Objects)(right)

    with pytest.raises(ValueError, match="must have the name `wrong`, not `right`"):
        declare("schema/wrong", severity=Severity.ERROR, text=right)
    with pytest.raises(ValueError, match="two checks are called schema/null"):
        declare("schema/null", severity=Severity.ERROR, text="Report anything.")
    assert len(CHECKS) == len(registry.checks())


def test_a_repeated_id_of_a_rule_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    repeated = replace(CHECKS["quota/order"], rule=None)
    monkeypatch.setitem(vars(registry)["_declared"], "quota/order", repeated)
    registry.checks.cache_clear()
    with pytest.raises(ValueError, match="two checks are called quota/order"):
        registry.checks()


def test_a_check_sets_its_id_and_default_severity() -> None:
    place = Manifest({"kind": "X"}, "x.yaml")

    def rule(_: object) -> Iterator[Breach]:
        yield from [
            Breach(("a",), "m", "w", "f", place),
            Breach(("b",), "m", "w", "f", place, severity=Severity.INFO),
        ]

    found = Suite().run(Check("x/y", Severity.WARNING, Objects, "", "", rule), Objects((), {}))
    assert found == [
        (place, Breach(("a",), "m", "w", "f", place, Severity.WARNING, check="x/y")),
        (place, Breach(("b",), "m", "w", "f", place, Severity.INFO, check="x/y")),
    ]


@pytest.mark.parametrize(("targets", "holds"), [({"trainer": "2.2"}, False), ({"trainer": "2.3"}, True), ({}, True)])
def test_a_check_applies_since_its_version(targets: dict[str, str], holds: bool) -> None:
    assert CHECKS["trainjob/reserved-variable"].holds_for(targets) is holds


def test_the_profile_measures_every_rule() -> None:
    case = CASES["quota/lends-nobody"]
    ticks = itertools.count()
    profile = Profile(lambda: next(ticks))
    list(judge_together(list(read(case.bad, case.file)), {}, suite=Suite(profile=profile)))
    assert profile.seconds["quota/lends-nobody"] == 1
    assert profile.seconds.keys() <= CHECKS.keys()
    assert all(each.stage is Stage.ENGINE or each.rule for each in CHECKS.values())
