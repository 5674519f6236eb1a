"""Test that each command that reads a folder skips the files of a Helm chart in it, and renders kustomizations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Run

MANIFESTS = """\
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: e, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: nlp}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules: [{apiGroups: [trainer.kubeflow.org], resources: [trainjobs], verbs: [create]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: ci}
spec: {namespaceSelector: {}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}
  validations: [{expression: "true"}]
"""
JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train, namespace: team-a}
spec: {runtimeRef: {name: gone}}
"""
CASES = "cases: [{name: a pod, namespace: team-a, create: {kind: Pod}, expect: accepted}]\n"
FILES = {
    "all/rbac.yaml": MANIFESTS,
    "all/chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "all/chart/templates/tpl.yaml": "kind: {{ .Values.kind }}\n",
    "job.yaml": JOB,
    "export.yaml": MANIFESTS,
    "cases.yaml": CASES,
    "expect.yaml": "can-i: [{subject: 'group:a', verb: get, resource: pods, namespace: team-a, expect: no}]\n",
}
COMMANDS = {
    "can-i": ["group:nlp", "create", "trainjobs", "-n", "team-a", "all"],
    "queues": ["--release", "all"],
    "reach": ["team-a", "dns", "all"],
    "expect": ["all", "--expect", "expect.yaml"],
    "check-job": ["job.yaml", "--release", "all"],
    "compile": ["job.yaml", "--release", "all"],
    "drift": ["all", "export.yaml"],
    "audit": ["export.yaml", "--release", "all"],
    "policy": ["test", "all", "--cases", "cases.yaml"],
}

RENDERED = {"can-i": "yes: RoleBinding team-a/eu-e of ClusterRole eu-r\n", "queues": "eu-ci"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_chart_in_the_folder_does_not_end_the_command(command: str, mpigen: Run) -> None:
    ran = mpigen(command, *COMMANDS[command])
    assert ran.stderr.splitlines()[:1] == [
        "skipped 2 files of the Helm chart `all/chart`: run `helm template all/chart | mpigen validate -`"
    ]
    assert "tpl.yaml" not in ran.stdout + ran.stderr


@pytest.mark.usefixtures("folder")
def test_the_answer_is_that_of_the_manifests(mpigen: Run) -> None:
    ran = mpigen("can-i", *COMMANDS["can-i"])
    assert (ran.returncode, ran.stdout) == (0, "yes: RoleBinding team-a/e of ClusterRole r\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_kustomize_renders_the_input_of_all_commands(command: str, folder: Path, mpigen: Run) -> None:
    chart = folder / "all/chart"
    for file in (chart / "Chart.yaml", chart / "templates/tpl.yaml"):
        file.unlink()
    (folder / "all/kustomization.yaml").write_text("resources: [rbac.yaml]\nnamePrefix: eu-\n")
    ran = mpigen(command, *COMMANDS[command], "--kustomize")
    assert "skipped" not in ran.stderr
    assert "Usage" not in ran.stderr
    assert RENDERED.get(command, "") in ran.stdout
