"""`mpigen policy test`, as a user runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, Run

DENIED = "{denied: robotics-job-size, message: at most 16 hosts}"
CASES = """\
as: {user: ada, groups: [robotics-researchers]}
namespace: robotics
bases:
  job:
    apiVersion: trainer.kubeflow.org/v1alpha1
    kind: TrainJob
    metadata: {name: job}
    spec: {runtimeRef: {name: openmpi-cpu}, trainer: {numNodes: 3}}
  large: {base: job, set: {spec.trainer.numNodes: 1000}}
cases:
  - name: small
    create: {base: job}
    expect: accepted
  - name: large
    create: {base: large}
    expect: {denied: robotics-job-size, message: at most 16 hosts}
  - name: large as it was
    update: {from: {base: large}, set: {spec.suspend: true}}
    expect: accepted
"""


@pytest.fixture
def platform(tmp_path: Path) -> Path:
    """A platform with a limit, and cases for it."""
    (tmp_path / "cases.yaml").write_text(CASES)
    return Path(shutil.copy(EXAMPLES["university"], tmp_path))


def test_cases_are_put_to_the_policies_of_a_platform_and_of_its_release(platform: Path, mpigen: Run) -> None:
    ran = mpigen("policy", "test", platform, "--cases", "cases.yaml")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "RULE               REJECTS  ACCEPTS  SUCH AS\nrobotics-job-size  1        2        large\n3 cases, 1 rule\n"
    )
    assert mpigen("synth", platform).returncode == 0
    assert mpigen("policy", "test", "output/university", "--cases", "cases.yaml").stdout == ran.stdout


def test_a_case_that_comes_out_otherwise_is_a_finding(platform: Path, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "cases.yaml").write_text(CASES.replace(DENIED, "accepted"))
    ran = mpigen("policy", "test", platform, "--cases", "cases.yaml")
    assert ran.returncode == 1
    assert ran.stdout.startswith("cases.yaml:14: error: policy/case: large: denied by robotics-job-size: a job of")
    assert ran.stdout.endswith("3 cases, 1 rule, 1 failed\n")


def test_a_rule_that_no_case_is_rejected_by_is_a_finding(platform: Path, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "cases.yaml").write_text(CASES.replace("1000", "10").replace(DENIED, "accepted"))
    assert mpigen("synth", platform).returncode == 0
    ran = mpigen("policy", "test", "output/university", "--cases", "cases.yaml")
    assert ran.returncode == 1
    assert "policy/untested: ValidatingAdmissionPolicy robotics-job-size $.spec.validations[0].expression" in ran.stdout
    assert "output/university/1.0.0/tenants/robotics/" in ran.stdout


def test_the_table_is_there_for_machines_too(platform: Path, mpigen: Run) -> None:
    ran = mpigen("policy", "test", platform, "--cases", "cases.yaml", "--format", "json")
    summary = json.loads(ran.stdout)["summary"]
    assert summary["rules"] == [
        {
            "rule": "robotics-job-size",
            "policy": "robotics-job-size",
            "number": 0,
            "rejects": ["large"],
            "accepts": ["small", "large as it was"],
        }
    ]
    assert [case["passed"] for case in summary["cases"]] == [True, True, True]


def test_mistakes_in_a_file_of_cases_are_told_together(platform: Path, tmp_path: Path, mpigen: Run) -> None:
    wrong = CASES.replace("    update:", "    updat:").replace("spec.trainer.numNodes:", "spec..numNodes:")
    (tmp_path / "cases.yaml").write_text(wrong.replace("at most 16 hosts", "a(b"))
    ran = mpigen("policy", "test", platform, "--cases", "cases.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")
    places = [line.split(" ")[1] for line in ran.stderr.splitlines()]
    assert places == ["cases.yaml:9:28:", "cases.yaml:16:50:", "cases.yaml:18:5:"]


@pytest.mark.parametrize(
    ("before", "instead", "said"),
    [
        ("{base: job}", "{base: jobb}", "there is no base `jobb`; did you mean `job`?"),
        ("{base: large}", "{file: none.yaml}", "`none.yaml` cannot be read"),
        ("name: small", "name: large", "`large` is there twice"),
        ("{base: job}", "{base: job, set: {kind.x: 1}}", "`kind.x` leads through what has no 'x'"),
    ],
)
def test_what_a_case_means_is_checked_too(
    before: str, instead: str, said: str, platform: Path, tmp_path: Path, mpigen: Run
) -> None:
    (tmp_path / "cases.yaml").write_text(CASES.replace(before, instead, 1))
    ran = mpigen("policy", "test", platform, "--cases", "cases.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_without_cases_there_is_nothing_to_say(platform: Path, mpigen: Run) -> None:
    ran = mpigen("policy", "test", platform)
    assert ran.returncode == 2
    assert "no cases in" in ran.stderr
