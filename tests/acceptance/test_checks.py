"""`mpigen checks`, `mpigen explain` and `--profile`: every check can be listed, explained and measured."""

from __future__ import annotations

import json
import re

import pytest

from generator.checks.registry import checks
from tests.conftest import ROOT, Run

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, lables: {}}\nspec: {containers: [{name: web, image: x}]}\n"


def test_all_registered_checks_are_listed(mpigen: Run) -> None:
    listed = json.loads(mpigen("checks", "--format", "json").stdout)
    assert [each["id"] for each in listed] == [check.id for check in checks()]
    assert {"waiver/unused", "kubeconform/invalid", "platform/open-egress"} <= {each["id"] for each in listed}
    (entry,) = [each for each in listed if each["id"] == "schema/unknown-field"]
    assert (ROOT / entry["url"]).is_file()


def test_a_family_is_listed_in_a_table(mpigen: Run) -> None:
    lines = mpigen("checks", "waiver").stdout.splitlines()
    assert lines[0].split() == ["ID", "SEVERITY", "SINCE", "REPORTS"]
    assert [line.split()[0] for line in lines[1:]] == ["waiver/expired", "waiver/invalid", "waiver/unused"]
    ran = mpigen("checks", "waivers")
    assert (ran.returncode, "there is no family `waivers`; did you mean `waiver`?" in ran.stderr) == (2, True)


def test_explain_prints_the_page_of_every_check(mpigen: Run) -> None:
    assert [check.id for check in checks() if not (ROOT / "docs" / check.page).is_file()] == []
    page = (ROOT / "docs/checks/waiver/unused.md").read_text()
    (code,) = re.findall(r"^`generator/adoption/waivers.py`$", page, re.MULTILINE)
    explained = mpigen("explain", "waiver/unused").stdout
    (place,) = re.findall(r"^`generator/adoption/waivers.py:(\d+)`$", explained, re.MULTILINE)
    assert explained.replace(f":{place}`", "`") == page
    assert "declare(" in (ROOT / code.strip("`")).read_text().splitlines()[int(place) - 1]


def test_every_check_is_listed_with_the_line_of_its_function(mpigen: Run) -> None:
    for entry in json.loads(mpigen("checks", "--format", "json").stdout):
        lines = (ROOT / entry["file"]).read_text().splitlines()[entry["line"] - 1 :]
        name = entry["id"].partition("/")[2].replace("-", "_")
        if entry["function"]:
            assert entry["function"] == name
            assert any(line.startswith(f"def {name}(") for line in lines[:4])
        else:
            assert lines[0] == "declare("


@pytest.mark.parametrize("arguments", [["explain", "waiver/unusd"], ["validate", ".", "--select", "waiver/unusd"]])
def test_an_unknown_check_id_gets_a_suggestion(arguments: list[str], mpigen: Run) -> None:
    ran = mpigen(*arguments)
    assert ran.returncode == 2
    assert "there is no check `waiver/unusd`; did you mean `waiver/unused`?" in ran.stderr


def test_profile_prints_the_seconds_per_check(mpigen: Run) -> None:
    ran = mpigen("validate", "-", "--profile", stdin=POD)
    assert ran.returncode == 1
    header, *rows = [line.split() for line in ran.stderr.splitlines()]
    assert header == ["CHECK", "SECONDS"]
    assert {name for name, _ in rows} <= {check.id for check in checks()}
    assert rows
    times = [float(seconds) for _, seconds in rows]
    assert times == sorted(times, reverse=True)
