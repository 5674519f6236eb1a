"""Test the command `mpigen policy test`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from generator.cli.main import run
from tests.conftest import EXAMPLES, Run

POLICIES = """\
apiVersion: v1
kind: Namespace
metadata: {name: robotics, labels: {team: robotics}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: job-size}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [trainer.kubeflow.org]
        apiVersions: [v1alpha1]
        operations: [CREATE, UPDATE]
        resources: [trainjobs]
  variables:
    - {name: hosts, expression: object.?spec.?trainer.?numNodes.orValue(0)}
    - {name: before, expression: oldObject.?spec.?trainer.?numNodes.orValue(0)}
  validations:
    - expression: variables.hosts <= 16 || variables.hosts == variables.before
      messageExpression: "'at most 16 hosts, and this one asks for ' + string(variables.hosts)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: job-size}
spec:
  policyName: job-size
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {team: robotics}}}
"""
DENIED = "{denied: job-size, message: at most 16 hosts}"
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
    expect: {denied: job-size, message: at most 16 hosts}
  - name: large as it was
    update: {from: {base: large}, set: {spec.suspend: true}}
    expect: accepted
"""
TABLE = """\
RULE      REJECTS  ACCEPTS  SUCH AS
job-size  1        2        large
3 cases, 1 rule
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Write a policy with a limit, and its cases."""
    (tmp_path / "cases.yaml").write_text(CASES)
    (tmp_path / "policies.yaml").write_text(POLICIES)
    return tmp_path / "policies.yaml"


def test_policy_test_runs_cases_against_policy_files(policies: Path, tmp_path: Path, mpigen: Run) -> None:
    ran = mpigen("policy", "test", policies, "--cases", "cases.yaml")
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", TABLE)
    assert mpigen("policy", "test", tmp_path).stdout == TABLE


def test_policy_test_reads_the_policies_of_a_platform_or_release(policies: Path, tmp_path: Path, mpigen: Run) -> None:
    platform = shutil.copy(EXAMPLES["university"], tmp_path)
    policies.unlink()
    ran = mpigen("policy", "test", platform, "--cases", "cases.yaml", "--format", "json")
    summary = json.loads(ran.stdout)["summary"]
    assert summary["rules"]
    assert mpigen("synth", platform).returncode == 0
    again = mpigen("policy", "test", "output/university", "--cases", "cases.yaml", "--format", "json")
    assert json.loads(again.stdout)["summary"] == summary


def test_a_failed_case_is_a_finding(policies: Path, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "cases.yaml").write_text(CASES.replace(DENIED, "accepted"))
    ran = mpigen("policy", "test", policies, "--cases", "cases.yaml")
    assert ran.returncode == 1
    message = "large: the request is denied by `job-size`: at most"
    assert ran.stdout.startswith(f"cases.yaml:14: error: policy/case: {message}")
    assert ran.stdout.endswith("3 cases, 1 rule, 1 failed\n")


def test_a_rule_without_a_rejected_case_is_a_finding(policies: Path, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "cases.yaml").write_text(CASES.replace("1000", "10").replace(DENIED, "accepted"))
    ran = mpigen("policy", "test", policies, "--cases", "cases.yaml")
    assert ran.returncode == 1
    assert "policy/untested: ValidatingAdmissionPolicy job-size $.spec.validations[0].expression" in ran.stdout
    assert "policies.yaml:20:19: error:" in ran.stdout


def test_the_next_run_in_a_process_reads_changed_files_again(
    policies: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = tmp_path / "cases.yaml"
    cases.write_text(CASES.replace("1000", "10").replace(DENIED, "accepted"))
    for added, line in ((0, 20), (3, 23)):
        policies.write_text("#\n" * added + POLICIES)
        assert run(["policy", "test", str(policies), "--cases", str(cases)]) == 1
        assert f"policies.yaml:{line}:19: error: policy/untested" in capsys.readouterr().out


def test_policy_test_has_json_output(policies: Path, mpigen: Run) -> None:
    ran = mpigen("policy", "test", policies, "--cases", "cases.yaml", "--format", "json")
    summary = json.loads(ran.stdout)["summary"]
    assert summary["rules"] == [
        {
            "rule": "job-size",
            "policy": "job-size",
            "number": 0,
            "rejects": ["large"],
            "accepts": ["small", "large as it was"],
        }
    ]
    assert [case["passed"] for case in summary["cases"]] == [True, True, True]


@pytest.mark.parametrize("name", ["cases.yaml", "."])
def test_a_yaml_error_in_a_case_file_has_its_line(name: str, policies: Path, tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "cases.yaml").write_text(CASES.replace("numNodes: 3}}", "numNodes: 3}"))
    ran = mpigen("policy", "test", policies, "--cases", name)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: cases.yaml:9:3: the `{` on line 8 is not closed")


def test_the_authorizer_answers_from_roles_and_bindings_of_the_cases(
    policies: Path, tmp_path: Path, mpigen: Run
) -> None:
    asks = "authorizer.group('').resource('nodes').check('get').allowed() || variables.hosts"
    policies.write_text(POLICIES.replace("variables.hosts", asks, 1))
    ran = mpigen("policy", "test", policies, "--cases", "cases.yaml")
    assert ran.returncode == 1
    assert (
        "large: mpigen cannot evaluate the policies: job-size: the files do not show whether `ada` may get nodes"
        in ran.stdout
    )
    binding = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: other}}"
    (tmp_path / "cases.yaml").write_text(CASES.replace("bases:", f"given: [{binding}]\nbases:"))
    assert mpigen("policy", "test", policies, "--cases", "cases.yaml").stdout == TABLE


def test_all_mistakes_of_a_case_file_are_reported(policies: Path, tmp_path: Path, mpigen: Run) -> None:
    wrong = CASES.replace("    update:", "    updat:").replace("spec.trainer.numNodes:", "spec..numNodes:")
    (tmp_path / "cases.yaml").write_text(wrong.replace("at most 16 hosts", "a(b"))
    ran = mpigen("policy", "test", policies, "--cases", "cases.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")
    places = [line.split(" ")[1] for line in ran.stderr.splitlines()]
    assert places == ["cases.yaml:9:28:", "cases.yaml:16:41:", "cases.yaml:18:5:"]


@pytest.mark.parametrize(
    ("before", "instead", "said"),
    [
        ("{base: job}", "{base: jobb}", "there is no base `jobb`; did you mean `job`?"),
        ("large: {base: job", "large: {base: large", "the base `large` refers to itself; end the chain with a `file`"),
        ("{base: large}", "{file: none.yaml}", "`none.yaml` cannot be read"),
        ("name: small", "name: large", "`large` occurs twice"),
        ("{base: job}", "{base: job, set: {kind.x: 1}}", "`kind.x` leads through a value that has no 'x'"),
    ],
)
def test_references_and_values_of_cases_are_validated(
    before: str, instead: str, said: str, policies: Path, tmp_path: Path, mpigen: Run
) -> None:
    (tmp_path / "cases.yaml").write_text(CASES.replace(before, instead, 1))
    ran = mpigen("policy", "test", policies, "--cases", "cases.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_policy_test_without_cases_is_an_input_error(policies: Path, mpigen: Run) -> None:
    ran = mpigen("policy", "test", policies)
    assert ran.returncode == 2
    assert "no test cases in" in ran.stderr
