"""Test the command `mpigen audit`: its inputs, formats and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.cli.main import run
from tests.conftest import ROOT, Run

RELEASE = ROOT / "output/cpu-kubernetes"
TEAM = {"namespace": "team-sim", "uid": "1"}
SERVICE: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "open", **TEAM}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", **TEAM}}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "guests", **TEAM},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mpigen-submit"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "sim"}],
}


def _export(*bodies: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)}, indent=4)


def test_findings_have_lines_and_exit_code_1(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "cluster.json").write_text(_export(BINDING, SERVICE, CONFIG))
    ran = mpigen("audit", "cluster.json", "--release", RELEASE)
    assert ran.returncode == 1, ran.stderr
    line = 1 + (tmp_path / "cluster.json").read_text().splitlines().index('                "name": "open",')
    assert ran.stdout.startswith(f"cluster.json:{line}:25: error: audit/denied: Service team-sim/open ")
    assert ran.stdout.splitlines()[-5:] == [
        "RULE                  ACCEPTED  REJECTED  UNKNOWN",
        "cpu-kubernetes-kinds  0         1         0",
        "3 objects, 24 policies with a binding",
        "  2 judged as new objects of a member of the team",
        "  1 exempt, because the policies are about users: 1 of Kubernetes or the release",
    ]


def test_standard_input_is_the_default_and_accepted_objects_have_exit_code_0(mpigen: Run) -> None:
    ran = mpigen("audit", "--release", RELEASE, stdin=yaml.safe_dump_all([BINDING, CONFIG]))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "  1 judged as new objects of a member of the team" in ran.stdout


def test_an_export_without_managed_namespaces_gets_a_note(mpigen: Run) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "uid": "1"}}
    other = {**SERVICE, "metadata": {**SERVICE["metadata"], "namespace": "other"}}
    ran = mpigen("audit", "-", "--release", RELEASE, stdin=_export(namespace, other))
    assert ran.returncode == 0
    assert "  2 outside all policies: no binding selects their Namespace, kind and labels" in ran.stdout
    assert "note: no policy applies to any object, so this result does not show" in ran.stdout


def test_json_has_the_counts_of_all_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.json").write_text(_export(BINDING, SERVICE))
    assert run(["audit", str(tmp_path / "cluster.json"), "--release", str(RELEASE), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    rules = {row["rule"]: row for row in report["summary"]["rules"]}
    assert rules["cpu-kubernetes-kinds"] == {"rule": "cpu-kubernetes-kinds", "fail": 1}
    assert rules["cpu-kubernetes-subjects #2"] == {"rule": "cpu-kubernetes-subjects #2", "pass": 1}
    assert [finding["check"] for finding in report["findings"]] == ["audit/denied"]


def test_policy_reports_are_valid_manifests_and_hidden_findings_are_skipped(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "cluster.json").write_text(_export(BINDING, SERVICE))
    arguments = ("audit", "cluster.json", "--release", RELEASE, "--format", "policyreport")
    ran = mpigen(*arguments)
    assert ran.returncode == 1
    (report,) = yaml.safe_load_all(ran.stdout)
    assert report["summary"]["fail"] == 1
    validated = mpigen("validate", "-", stdin=ran.stdout)
    assert "schema/" not in validated.stdout
    hidden = mpigen(*arguments, "--ignore", "audit/denied")
    assert hidden.returncode == 0
    assert yaml.safe_load(hidden.stdout)["summary"]["fail"] == 0
    assert mpigen(*arguments).stdout == ran.stdout


def test_a_waiver_in_an_object_does_not_count(tmp_path: Path, mpigen: Run) -> None:
    metadata = {**SERVICE["metadata"], "annotations": {"mpigen.dev/waive": "audit/denied: mine, until 2999-01-01"}}
    (tmp_path / "cluster.json").write_text(_export({**SERVICE, "metadata": metadata}))
    assert mpigen("audit", "cluster.json", "--release", RELEASE).returncode == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the export has no objects"),
        ('{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1"', "stdin"),
        ("error: the server doesn't have a resource type trainjobs\n", "has no apiVersion"),
    ],
)
def test_wrong_input_is_an_error(mpigen: Run, text: str, message: str) -> None:
    ran = mpigen("audit", "--release", RELEASE, stdin=text)
    assert ran.returncode == 2
    assert message in ran.stderr


def test_an_export_without_policies_needs_a_release(mpigen: Run) -> None:
    ran = mpigen("audit", stdin=_export(SERVICE))
    assert ran.returncode == 2
    assert "name the release with `--release`" in ran.stderr


def test_other_commands_have_no_policy_reports(mpigen: Run) -> None:
    ran = mpigen("validate", RELEASE, "--format", "policyreport")
    assert ran.returncode == 2
    assert "'policyreport' is not one of" in ran.stderr
