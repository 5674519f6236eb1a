"""Test `mpigen expect`: a committed file of expected answers of `can-i` and `reach`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.conftest import ROOT, Run

RELEASE = ROOT / "output" / "openshift-h100"
FILE = """\
can-i:
  - {subject: group:nlp, verb: [create, delete], resource: trainjobs, namespace: team-nlp, expect: yes}
  - subject: group:nlp-students   # they may not change jobs
    verb: update
    resource: trainjobs
    namespace: team-nlp
    expect: "no"
  - {subject: "serviceaccount:ci/platform", verb: get, resource: /metrics, expect: No}
  - {subject: group:cv-leads, verb: [get, create], resource: [secrets, pods/exec], outside: team-cv, expect: no}
reach:
  - {from: tenant:team-nlp, to: [tenant:team-nlp, dns], expect: yes}
  - {from: tenant:team-nlp, to: dns, port: 5353/UDP, expect: yes}
  - {from: other-tenants, to: tenant:team-nlp, port: 2222, expect: no}
"""


def expected(folder: Path, text: str = FILE) -> Path:
    file = folder / "expect.yaml"
    file.write_text(text)
    return file


def test_true_expectations_pass(tmp_path: Path, mpigen: Run) -> None:
    expected(tmp_path)
    ran = mpigen("expect", RELEASE)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("7 expectations, 12 questions\nnote: no expectation of `can-i` names `group:cv`, ")
    assert ran.stdout.endswith("names `tenant:team-cv`, `tenant:team-weather`\n")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("namespace: team-nlp, expect: yes", "namespace: team-nlp, expect: no", 2, "create trainjobs.trainer.kubeflow"),
        ('expect: "no"', "expect: unknown", 7, "`group:nlp-students` update trainjobs.trainer.kubeflow.org in `team-"),
        ("outside: team-cv, expect: no", "outside: team-cv, expect: yes", 9, "secrets in `openshift-h100-catalogue`"),
        ("5353/UDP, expect: yes", "5353/UDP, expect: no", 12, "`tenant:team-nlp` to `dns` on port 5353/UDP is allowed"),
        ("2222, expect: no", "2222, expect: yes", 13, "`other-tenants` to `tenant:team-nlp` on port 2222 is denied"),
    ],
)
def test_a_false_expectation_is_an_error_at_its_line(
    old: str, new: str, line: int, words: str, tmp_path: Path, mpigen: Run
) -> None:
    assert FILE.count(old) == 1
    expected(tmp_path, FILE.replace(old, new))
    ran = mpigen("expect", RELEASE, "--format", "json")
    assert ran.returncode == 1
    (finding,) = json.loads(ran.stdout)["findings"]
    assert (finding["file"], finding["line"], finding["severity"]) == ("expect.yaml", line, "error")
    assert words in finding["message"]
    assert f"but the expected answer is `{new.rpartition(' ')[2]}`" in finding["message"]


def test_a_change_of_the_platform_breaks_an_expectation(tmp_path: Path, mpigen: Run) -> None:
    source = (ROOT / "examples/openshift-h100/platform.yaml").read_text("utf-8")
    platform = tmp_path / "platform.yaml"
    platform.write_text(source)
    assert mpigen("expect", "--write").returncode == 0
    assert mpigen("expect").returncode == 0
    assert source.count("group:nlp-students") == 1
    platform.write_text(source.replace("group:nlp-students", "group:cv"))
    messages = [each["message"] for each in json.loads(mpigen("expect", "--format", "json").stdout)["findings"]]
    assert any(re.match("`group:cv` .*create trainjobs.* in `team-nlp`.* allowed, but", each) for each in messages)
    assert any(re.match("`group:nlp-students` .* in `team-nlp`.* denied, but", each) for each in messages)


def test_the_first_file_is_true_and_valid(tmp_path: Path, mpigen: Run) -> None:
    ran = mpigen("expect", RELEASE, "--write")
    count = int(re.fullmatch(r"expect.yaml: (\d+) expectations written\n", ran.stdout)[1])  # type: ignore[index]
    content = yaml.safe_load((tmp_path / "expect.yaml").read_text())
    assert sum(map(len, content.values())) == count > 50
    schema = json.loads(mpigen("schema", "expect").stdout)
    jsonschema.validate(content, schema)
    ran = mpigen("expect", RELEASE)
    assert (ran.returncode, ran.stdout.startswith(f"{count} expectations"), "note" in ran.stdout) == (0, True, False)
    answers = {row["expect"] for row in content["can-i"]}
    assert answers == {True, False}
    assert {"from": "tenant:team-nlp", "to": ["other-tenants", "internet"], "expect": False} in content["reach"]


def test_write_changes_only_false_answers(tmp_path: Path, mpigen: Run) -> None:
    wrong = FILE.replace("team-nlp, expect: yes", "team-nlp, expect: 'unknown'").replace('"no"', '"yes" # why')
    file = expected(tmp_path, wrong)
    ran = mpigen("expect", RELEASE, "--write")
    assert (ran.returncode, ran.stdout) == (0, "expect.yaml: 2 answers changed\n")
    assert file.read_text() == FILE.replace('expect: "no"', "expect: no # why")
    assert mpigen("expect", RELEASE, "--write").stdout == "expect.yaml: 0 answers changed\n"


def test_write_refuses_a_row_without_a_common_answer(tmp_path: Path, mpigen: Run) -> None:
    text = FILE.replace("[create, delete]", "[create, deletecollection, list]")
    text = text.replace("tenant:team-nlp, dns]", "tenant:team-nlp, tenant:nobody]")
    file = expected(tmp_path, text)
    ran = mpigen("expect", RELEASE, "--write")
    assert ran.returncode == 2
    assert [line.split(": ")[1] for line in ran.stderr.splitlines()] == ["expect.yaml:2:116", "expect.yaml:11:75"]
    assert file.read_text() == text


def test_every_problem_of_a_file_is_reported_at_once(tmp_path: Path, mpigen: Run) -> None:
    expected(
        tmp_path,
        """\
can-i:
  - {subject: nlp, verb: create, resource: trainjobs, expect: yes}
  - {subject: group:nlp, verb: [], resource: trainjobs, expect: maybe}
  - {subject: group:nlp, verb: create, ressource: pods, expect: yes}
  - {subject: group:nlp, verb: create, resource: pods, namespace: a, outside: b, expect: yes}
reach:
  - {from: tenant:a, to: dns, port: 53/DNS, expect: no}
  - {from: tenant:a, expect: no}
canI: []
""",
    )
    ran = mpigen("expect", RELEASE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert [line.split(":")[2] for line in ran.stderr.splitlines()] == ["2", "3", "3", "4", "4", "5", "7", "8", "9"]
    assert "can-i[0].subject: `nlp` is not a subject; write group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME" in (
        ran.stderr
    )
    assert "reach[0].port: `53/DNS` is no port; write PORT/PROTOCOL, such as 2222 or 53/UDP" in ran.stderr


@pytest.mark.parametrize("text", ["", "[]", "a: 1\n---\nb: 2\n", "can-i: []\n", "{"])
def test_a_file_without_expectations_is_rejected(text: str, tmp_path: Path, mpigen: Run) -> None:
    expected(tmp_path, text)
    ran = mpigen("expect", RELEASE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: expect.yaml:")


def test_a_missing_file_is_rejected(mpigen: Run) -> None:
    ran = mpigen("expect", RELEASE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "expect.yaml" in ran.stderr


@pytest.mark.parametrize(("form", "words"), [("github", "::error file=expect.yaml,line=2"), ("junit", "<failure ")])
def test_findings_have_the_formats_of_ci(form: str, words: str, tmp_path: Path, mpigen: Run) -> None:
    expected(tmp_path, FILE.replace("team-nlp, expect: yes", "team-nlp, expect: no"))
    ran = mpigen("expect", RELEASE, "--format", form)
    assert ran.returncode == 1
    assert words in ran.stdout


def test_an_answer_with_an_anchor_is_not_changed(tmp_path: Path, mpigen: Run) -> None:
    text = FILE.replace("team-nlp, expect: yes", "team-nlp, expect: &answer no")
    file = expected(tmp_path, text)
    ran = mpigen("expect", RELEASE, "--write")
    assert ran.returncode == 2
    assert "expect.yaml:2:" in ran.stderr
    assert file.read_text() == text
