"""Test that every format has the same finding, in the form that its reader accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from generator.checks.finding import Finding, Generated, Severity
from generator.errors import ExitCode, Problem
from generator.report.json import SCHEMA
from generator.report.result import RENDERERS, Result, fingerprint
from tests.conftest import ROOT

SARIF_SCHEMA = ROOT / "tests/fixtures/sarif/sarif-schema-2.1.0.json"
"""From github.com/oasis-tcs/sarif-spec, commit e0583813964ec43cea53b6b531b402866095ed1f, sarif-2.1/schema/."""
SARIF_SHA256 = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
TEXT = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  lables: {app: web}\n"
ERROR = Finding(
    file="tenants/a b/pod,1.yaml",
    line=5,
    column=3,
    path="$.metadata.lables",
    check="schema/unknown-field",
    resource="Pod team-a/web",
    message="unknown field `lables`: 100% wrong",
    why="the API server rejects it",
    fix="did you mean `labels`?",
)
WARNING = replace(
    ERROR,
    file="\udcff.yaml",
    line=0,
    column=0,
    path="$",
    resource="",
    severity=Severity.WARNING,
    generated=Generated("out/a.yaml", 3, "$.spec"),
)
CONTROL = replace(ERROR, message="\x1b[2J\x00 </failure> ::error::no", severity=Severity.INFO, line=2, column=1)
PROBLEM = Problem("`0` is too small", "write at least 1", "platform.yaml", 7, 12, "pools[0].nodes")
RESULTS = {
    "nothing": Result(),
    "findings": Result(summary={"files": 1}, findings=(ERROR, WARNING, CONTROL, ERROR)),
    "problems": Result(problems=(PROBLEM, Problem("interrupted"))),
}


def rendered(form: str, result: Result) -> Any:
    text = RENDERERS[form](result)
    text.encode()  # a file name that is not UTF-8 must not reach the reader
    return json.loads(text)


def test_the_sarif_schema_is_the_official_one() -> None:
    assert sha256(SARIF_SCHEMA.read_bytes()).hexdigest() == SARIF_SHA256


@pytest.mark.parametrize("name", RESULTS)
def test_sarif_is_valid_against_its_schema(name: str) -> None:
    schema = json.loads(SARIF_SCHEMA.read_text())
    validator = jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    assert not list(validator.iter_errors(rendered("sarif", RESULTS[name])))


@pytest.mark.parametrize("name", RESULTS)
def test_json_is_valid_against_the_published_schema(name: str) -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert not list(jsonschema.Draft202012Validator(schema).iter_errors(rendered("json", RESULTS[name])))


def test_sarif_has_rule_level_location_and_fingerprint() -> None:
    (run,) = rendered("sarif", RESULTS["findings"])["runs"]
    first, second, third, _ = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "tenants/a%20b/pod%2C1.yaml"
    assert place["region"] == {"startLine": 5, "startColumn": 3}
    assert [each["level"] for each in (first, second, third)] == ["error", "warning", "note"]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "schema/unknown-field"
    assert first["partialFingerprints"] == {"mpigen/v1": fingerprint(ERROR)}
    assert run["invocations"][0]["exitCode"] == ExitCode.FINDINGS


def test_sarif_of_problems_is_a_failed_execution() -> None:
    (run,) = rendered("sarif", RESULTS["problems"])["runs"]
    invocation = run["invocations"][0]
    assert (invocation["executionSuccessful"], invocation["exitCode"], run["results"]) == (False, 2, [])
    assert "too small" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_junit_fails_only_findings_that_fail_the_run() -> None:
    root = ET.fromstring(RENDERERS["junit"](RESULTS["findings"]))
    cases = root.findall("testsuite/testcase")
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["4", "2", "0"]
    assert [case.find("failure") is not None for case in cases] == [True, False, False, True]
    assert (cases[0].get("file"), cases[0].get("line")) == ("tenants/a b/pod,1.yaml", "5")
    strict = ET.fromstring(RENDERERS["junit"](replace(RESULTS["findings"], fail_on="info")))
    assert strict.get("failures") == "4"


def test_junit_has_a_success_case_and_an_error_per_problem() -> None:
    fine = ET.fromstring(RENDERERS["junit"](RESULTS["nothing"]))
    assert [case.get("name") for case in fine.iter("testcase")] == ["no findings"]
    wrong = ET.fromstring(RENDERERS["junit"](RESULTS["problems"]))
    assert next(case.findtext("error") for case in wrong.iter("testcase")) == str(PROBLEM)


HOSTILE = "a\x9b31m\u202eb\u2066c\x7f\u2028d"
"""A control character of C1, marks of bidirectional text, DEL and a line separator of Unicode."""


@pytest.mark.parametrize("form", RENDERERS)
def test_no_format_has_a_raw_control_character(form: str) -> None:
    finding = replace(ERROR, message=HOSTILE, resource=f"Pod {HOSTILE}", path=HOSTILE, value=HOSTILE, file=HOSTILE)
    result = Result(summary={"a": HOSTILE}, findings=[finding], problems=[Problem(HOSTILE, HOSTILE, HOSTILE)])
    text = RENDERERS[form](result)
    assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == []


def test_json_keeps_the_value_of_an_escaped_character() -> None:
    text = RENDERERS["json"](Result(summary={"a": f"{HOSTILE}é\U0001f600\U000e0001"}))
    assert json.loads(text)["summary"] == {"a": f"{HOSTILE}é\U0001f600\U000e0001"}
    assert "é\U0001f600\\udb40\\udc01" in text


def test_github_annotates_the_line_and_escapes_names() -> None:
    lines = RENDERERS["github"](replace(RESULTS["findings"], lines=("::error::from a name",))).splitlines()
    assert lines[0] == (
        "::error file=tenants/a b/pod%2C1.yaml,line=5,col=3,title=schema/unknown-field::"
        "Pod team-a/web $.metadata.lables: unknown field `lables`: 100%25 wrong"
        "%0Awhy: the API server rejects it%0Afix: did you mean `labels`?"
    )
    assert lines[1].startswith("::warning file=\\udcff.yaml,title=schema/unknown-field::")
    assert lines[2].startswith("::notice file=tenants")
    assert "\x1b" not in lines[2]
    assert lines[4] == " ::error::from a name"


def test_gitlab_has_a_unique_fingerprint_per_entry() -> None:
    entries = rendered("gitlab", RESULTS["findings"])
    assert [entry["severity"] for entry in entries] == ["critical", "minor", "info", "critical"]
    assert entries[0]["location"] == {"path": "tenants/a b/pod,1.yaml", "lines": {"begin": 5}}
    assert entries[1]["location"]["lines"] == {"begin": 1}
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    assert rendered("gitlab", RESULTS["nothing"]) == []


def test_a_fingerprint_survives_a_moved_line_and_another_message() -> None:
    assert fingerprint(replace(ERROR, line=70, message="another")) == fingerprint(ERROR)
    others = (
        replace(ERROR, file="b.yaml"),
        replace(ERROR, check="a/b"),
        replace(ERROR, resource="Pod web"),
        replace(ERROR, path="$"),
    )
    assert len({fingerprint(each) for each in (ERROR, *others)}) == 5


def text(*findings: Finding, content: str = TEXT, has_color: bool = False) -> str:
    return RENDERERS["text"](Result(findings=findings, text_of=lambda _: content, has_color=has_color))


def test_text_contains_the_line_with_a_caret() -> None:
    assert text(replace(ERROR, file="pod.yaml", message="unknown field `lables`")) == (
        "pod.yaml:5:3: error: schema/unknown-field: Pod team-a/web $.metadata.lables: unknown field `lables`\n"
        "     5 |   lables: {app: web}\n"
        "       |   ^\n"
        "    why: the API server rejects it\n"
        "    fix: did you mean `labels`?"
    )


def test_a_caret_is_below_its_column_in_long_lines_and_after_control_characters() -> None:
    long = replace(ERROR, line=1, column=301)
    shown = text(long, content=f"{'a' * 299}\x1b[{'b' * 300}").splitlines()
    assert shown[2].index("^") == shown[1].index("[")
    assert len(shown[1]) < 120


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (replace(ERROR, check="secret/value", line=1), "text: hello"),
        (replace(ERROR, resource="Secret team-a/x", line=1), "password: aGVsbG8="),
        (replace(ERROR, line=1), "  DB_PASSWORD: hunter2x9"),
        (replace(ERROR, line=1), f"  x: ghp_{'a1B2c3' * 6}"),
        (replace(ERROR, line=9), "line 9 is not there"),
        (replace(ERROR, line=0), "no line is known"),
    ],
)
def test_lines_with_possible_credentials_and_missing_lines_are_not_printed(finding: Finding, line: str) -> None:
    assert " | " not in text(finding, content=line)


def test_one_cause_in_forty_tenants_is_reported_once() -> None:
    findings = [
        replace(
            ERROR,
            file=f"tenants/team-{number}/queue.yaml",
            resource=f"LocalQueue team-{number}/main",
            message=f"LocalQueue `team-{number}/main` has no ClusterQueue `team-{number}`",
        )
        for number in range(40)
    ]
    other = replace(findings[0], resource="LocalQueue team-0/b", message="LocalQueue `team-0/b` is stopped")
    lines = text(*findings, other).splitlines()
    assert [line for line in lines if "error: " in line] == [lines[0], lines[-5]]
    assert lines[5:9] == [
        "    in 40 places, also:",
        "      tenants/team-1/queue.yaml:5:3: LocalQueue team-1/main",
        "      tenants/team-2/queue.yaml:5:3: LocalQueue team-2/main",
        "      and 37 more; pass `--format json` to see all",
    ]
    assert len(rendered("json", Result(findings=findings))["findings"]) == 40


def test_a_message_about_another_object_is_another_cause() -> None:
    one = replace(ERROR, message="there is no queue `red`")
    assert text(one, replace(one, message="there is no queue `blue`", line=4)).count("error: ") == 2


def test_text_prints_a_thousand_causes_and_counts_the_rest() -> None:
    findings = [replace(ERROR, message=f"unknown field `{number}`", line=0) for number in range(1_200)]
    lines = text(*findings).splitlines()
    causes = [line for line in lines if "error: " in line]
    assert len(causes) == 1_000
    assert "unknown field `999`" in causes[-1]
    assert lines[-1] == "and 200 more findings; pass `--format json` to see all"
    assert len(rendered("json", Result(findings=findings))["findings"]) == 1_200


def test_colors_are_added_only_on_request() -> None:
    assert "\x1b[1;31merror\x1b[0m" in text(ERROR, has_color=True)
    assert "\x1b" not in text(ERROR)


def test_links_use_the_site_of_the_settings() -> None:
    result = replace(RESULTS["findings"], docs="https://docs.example.com/mpigen/")
    address = "https://docs.example.com/mpigen/checks/schema/unknown-field/"
    assert rendered("json", result)["findings"][0]["url"] == address
    (rule,) = rendered("sarif", result)["runs"][0]["tool"]["driver"]["rules"]
    assert (rule["helpUri"], rule["defaultConfiguration"]) == (address, {"level": "error"})
