"""Test `mpigen can-i`: RBAC questions about a platform or about manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, ROOT, Run

RELEASE = ROOT / "output" / "openshift-h100"
HOSTILE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "b\\e[31m"}
roleRef: {kind: ClusterRole, name: edit}
subjects: [{kind: User, name: ada}]
"""


def test_can_i_help_has_an_example(mpigen: Run) -> None:
    ran = mpigen("can-i", "--help")
    assert (ran.returncode, "Example" in ran.stdout) == (0, True)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            ["group:nlp-students", "create", "trainjobs", "-n", "team-nlp"],
            "yes: RoleBinding team-nlp/mpigen-submit of ClusterRole mpigen-submit",
        ),
        (["group:nlp-students", "update", "trainjobs", "-n", "team-nlp"], "no"),
        (["group:nlp-students", "create", "trainjobs", "-n", "team-cv"], "no"),
        (
            ["group:nlp-students", "create", "trainjobs"],
            "no\nnote: without --namespace, the question is about all namespaces",
        ),
        (
            ["user:ada", "delete", "trainjobs", "-n", "team-nlp"],
            "no\nnote: name the groups of `ada` with --group: most bindings are for groups",
        ),
        (
            ["group:nlp", "list", "cronjobs", "-n", "team-nlp-schedules"],
            "no\nnote: the files have no Namespace `team-nlp-schedules`, so its bindings are unknown",
        ),
        (["group:nlp", "get", "secrets/victim-mpi-ssh-auth", "-n", "team-nlp"], "no"),
        (["group:nlp", "create", "pods", "--subresource", "exec", "-n", "team-nlp"], "no"),
        (
            ["user:ada", "--group", "cv-leads", "bind", "clusterroles/mpigen-edit", "-n", "team-cv"],
            "yes: RoleBinding team-cv/mpigen-admin of ClusterRole mpigen-admin",
        ),
        (["group:cv-leads", "get", "clusterroles/mpigen-edit", "-n", "team-cv"], "no"),
        (
            ["serviceaccount:ci/platform", "list", "ClusterQueue"],
            "yes: ClusterRoleBinding mpigen-platform-ci of ClusterRole mpigen-platform-ci",
        ),
        (["group:ml-platform", "get", "/metrics"], "no"),
        (
            ["group:ml-platform", "patch", "namespaces/team-nlp"],
            "yes: ClusterRoleBinding mpigen-platform-admin of ClusterRole mpigen-platform-admin",
        ),
        (["group:system:masters", "delete", "nodes"], "yes: the group system:masters may do anything"),
    ],
)
def test_can_i_answers_with_a_reason(question: list[str], answer: str, mpigen: Run) -> None:
    ran = mpigen("can-i", *question, RELEASE)
    assert (ran.stdout, ran.stderr) == (f"{answer}\n", "")
    assert ran.returncode == (0 if answer.startswith("yes") else 1)


def test_a_subresource_in_the_place_of_a_name_gets_a_note(mpigen: Run) -> None:
    ran = mpigen("can-i", "group:nlp", "get", "pods/log", "-n", "team-nlp", RELEASE)
    note = "note: `log` is a name here, as in kubectl; for pods/log write `pods --subresource log`"
    assert ran.stdout.splitlines()[1:] == [note]
    assert ran.returncode == 0
    assert "note" not in mpigen("can-i", "group:nlp", "get", "pods/train", "-n", "team-nlp", RELEASE).stdout


@pytest.mark.parametrize("text", ["", "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-nlp}\n"])
def test_files_without_rbac_objects_answer_no_question(text: str, mpigen: Run) -> None:
    ran = mpigen("can-i", "group:nlp", "get", "pods", "-", stdin=text)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "stdin: the input has no Role, ClusterRole or binding, so the answer is unknown" in ran.stderr


def test_can_i_renders_a_platform_file(mpigen: Run) -> None:
    ran = mpigen("can-i", "group:sim", "create", "trainjobs", "-n", "team-sim", EXAMPLES["cpu-kubernetes"])
    assert ran.stdout == "yes: RoleBinding team-sim/mpigen-edit of ClusterRole mpigen-edit\n"


def test_can_i_lists_bindings_and_rules_of_a_group(mpigen: Run) -> None:
    ran = mpigen("can-i", "group:nlp-students", RELEASE)
    bindings, _, rules = ran.stdout.partition("\n\n")
    assert [line.split()[:2] for line in bindings.splitlines()[1:]] == [
        ["group:nlp-students", "everywhere"],
        ["group:nlp-students", "team-nlp"],
    ]
    assert "get,list,watch,create,patch,delete  trainjobs.trainer.kubeflow.org\n" in rules
    assert ran.returncode == 0


def test_can_i_lists_all_grants_as_text_and_json(mpigen: Run) -> None:
    said = mpigen("can-i", RELEASE).stdout
    assert "serviceaccount:ci/platform " in said
    assert "user:ines@example.com " in said
    grants = json.loads(mpigen("can-i", RELEASE, "--format", "json").stdout)["summary"]["grants"]
    (ci,) = [each for each in grants if each["binding"] == "ClusterRoleBinding mpigen-platform-ci"]
    assert ci["subjects"] == [{"kind": "User", "name": "system:serviceaccount:ci:platform"}]
    assert ci["file"].endswith("cluster/access/platform.yaml")
    assert {verb for rule in ci["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_a_negative_answer_lists_unresolved_bindings(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "a.yaml").write_text(HOSTILE)
    ran = mpigen("can-i", "user:ada", "--group", "nlp", "get", "pods", "-n", "a", "a.yaml")
    assert ran.returncode == 1
    assert ran.stdout.startswith("no\nunknown: ClusterRoleBinding b")
    assert ran.stdout.endswith(
        ": its role aggregates `system:aggregate-to-edit` and `system:aggregate-to-view`, which the files lack\n"
    )
    assert "\x1b" not in ran.stdout + mpigen("can-i", "a.yaml").stdout
    answer = json.loads(mpigen("can-i", "user:ada", "get", "pods", "a.yaml", "--format", "json").stdout)["summary"]
    assert (answer["allowed"], len(answer["unknown"])) == (False, 1)


def test_standard_input_is_read(mpigen: Run) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}, "rules": []}
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [role]})
    assert mpigen("can-i", "user:ada", "--group", "nlp", "get", "pods", "-n", "a", "-", stdin=listed).stdout == "no\n"


@pytest.mark.parametrize(
    "words", [["group:a", "get", RELEASE], ["a", "get", "pods", RELEASE], ["group:a", "get", "pods", "no-such-file"]]
)
def test_an_incomplete_question_is_rejected(words: list[str], mpigen: Run) -> None:
    ran = mpigen("can-i", *words)
    assert (ran.returncode, ran.stdout) == (2, "")


@pytest.mark.parametrize(
    ("question", "note"),
    [
        (
            ["create", "trajnobs"],
            (
                "mpigen has no schema for the resource `trajnobs`, so the name may be misspelt; "
                "did you mean `trainjobs`?"
            ),
        ),
        (
            ["get", "frobnicators.example.com"],
            "mpigen has no schema for the resource `frobnicators.example.com`, so the name may be misspelt",
        ),
        (["creat", "trainjobs"], "Kubernetes has no verb `creat`; did you mean `create`?"),
        (["gett", "/metrics"], "Kubernetes has no verb `gett`; did you mean `get`?"),
        (
            ["create", "/metrics"],
            "Kubernetes has no verb `create`; write one of: delete, get, head, options, patch, post, put",
        ),
    ],
)
def test_a_negative_answer_suggests_spelling_corrections(question: list[str], note: str, mpigen: Run) -> None:
    ran = mpigen("can-i", "group:nlp-students", *question, "-n", "team-nlp", RELEASE)
    assert (ran.returncode, ran.stdout) == (1, f"no\nnote: {note}\n")
