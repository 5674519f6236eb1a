"""Test SecurityContextConstraints against the answers of upstream's admission plugin.

SecurityContextConstraint of openshift/apiserver-library-go a8019f39 wrote the answers in security-contexts.jsonl, with
the SCCs of openshift/cluster-kube-apiserver-operator and the texts of apimachinery v0.34.2.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.policies import access
from generator.upstream.kubernetes.access import parse_requester
from generator.upstream.kubernetes.pod_security import Level, find_violations
from generator.upstream.openshift.scc.constraint import Constraint, installed_constraints
from generator.upstream.openshift.scc.decide import Answer, Constraints, PodDecision
from tests.security_context_cases import ANNOTATIONS, FIXTURE, MEMLOCK, NAMESPACE, USER, cases, pod, scc, whole

Body = dict[str, Any]
ROWS: list[Body] = [json.loads(line) for line in FIXTURE.read_text("utf-8").splitlines()]
_RBAC = "rbac.authorization.k8s.io"
_DENIED = re.compile(r"denied ([a-z0-9-]+)")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def _grants(row: Body) -> list[Body]:
    """Return the Roles and RoleBindings for the SCCs of the account and of the user."""
    account = {"kind": "ServiceAccount", "name": "mpi", "namespace": NAMESPACE}
    subjects = {"account": account, "user": {"apiGroup": _RBAC, "kind": "User", "name": USER}}
    bodies: list[Body] = []
    for key, subject in subjects.items():
        metadata = {"name": key, "namespace": NAMESPACE}
        rule = {
            "apiGroups": ["security.openshift.io"],
            "resources": ["securitycontextconstraints"],
            "resourceNames": row.get(key, []),
            "verbs": ["use"],
        }
        if row.get(key):
            role = {"apiGroup": _RBAC, "kind": "Role", "name": key}
            bodies.append({"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]})
            bodies.append(
                {
                    "apiVersion": f"{_RBAC}/v1",
                    "kind": "RoleBinding",
                    "metadata": metadata,
                    "roleRef": role,
                    "subjects": [subject],
                }
            )
    return bodies


def decide(row: Body) -> PodDecision:
    """Return the answer of mpigen about a case. Its pods get no token, because upstream's plugin adds none."""
    account = {"kind": "ServiceAccount", "metadata": {"name": "mpi", "namespace": NAMESPACE}}
    bodies = [*map(whole, row.get("sccs", [])), *_grants(row), {**account, "automountServiceAccountToken": False}]
    constraints = Constraints.read([Manifest(body, "") for body in bodies], is_complete=True)
    namespace = {"metadata": {"name": NAMESPACE, "annotations": row.get("annotations", ANNOTATIONS)}}
    situation = constraints.find_situation(namespace, "mpi", parse_requester(f"user:{USER}"))
    return constraints.decide(row["pod"], situation)


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_the_answer_equals_the_answer_of_upstream(row: Body) -> None:
    answer, decision = row["answer"], decide(row)
    spec, annotations = mapping(decision.pod, "spec"), mapping(decision.pod, "metadata", "annotations")
    if "error" in answer:
        text = _DENIED.sub(r'provider "\1": Forbidden: not usable by user or serviceaccount', answer["error"])
        assert f'pods "p" is forbidden: {decision.message}' == text
        assert decision.answer is not Answer.ADMITTED
        return
    assert (decision.answer, decision.constraint) == (Answer.ADMITTED, answer.get("scc", ""))
    assert annotations == answer["annotations"]
    assert _as_json(spec.get("securityContext", {})) == answer["security"]
    for kind in _CONTAINERS:
        contexts = [container.get("securityContext") for container in spec.get(kind, [])]
        assert contexts == answer["containers"].get(kind, [])


def _as_json(security: Body) -> Body:
    """Return a security context as Go writes it: without empty lists."""
    return {key: value for key, value in security.items() if value != []}


def test_the_order_of_the_constraints_equals_the_order_of_upstream() -> None:
    rows = [row for row in ROWS if "order" in row["answer"]]
    assert len(rows) > 50
    for row in rows:
        own = [Constraint(body["metadata"]["name"], body) for body in map(whole, row.get("sccs", []))]
        ordered = sorted([*installed_constraints().values(), *own], key=lambda item: item.order)
        assert [item.name for item in ordered] == row["answer"]["order"]


def test_the_recorded_questions_are_the_cases() -> None:
    recorded = [{key: value for key, value in row.items() if key != "answer"} for row in ROWS]
    assert recorded == [
        {key: value for key, value in question.items() if value not in ([], ANNOTATIONS)} for question in cases()
    ]


ROLE = {"apiGroup": _RBAC, "kind": "ClusterRole"}


def _binding(role: str, **subject: str) -> Body:
    """Return a RoleBinding of a ClusterRole to a subject, by default the ServiceAccount `mpi`."""
    subject = subject or {"kind": "ServiceAccount", "name": "mpi", "namespace": NAMESPACE}
    metadata = {"name": role, "namespace": NAMESPACE}
    body: Body = {"apiVersion": f"{_RBAC}/v1", "kind": "RoleBinding", "metadata": metadata}
    return {**body, "roleRef": {**ROLE, "name": role}, "subjects": [subject]}


def _answer(subject: Body, *bodies: Body, is_complete: bool = True, **metadata: Body) -> PodDecision:
    """Return the answer about a pod of a Job in a namespace without annotations."""
    constraints = Constraints.read([Manifest(body, "") for body in bodies], is_complete=is_complete)
    namespace = {"metadata": {"name": NAMESPACE, **metadata}}
    return constraints.decide(subject, constraints.find_situation(namespace, "mpi"))


ROOT_POD = pod(context={"runAsUser": 0})


@pytest.mark.parametrize(
    ("role", "constraint"),
    [("system:openshift:scc:anyuid", "anyuid"), ("cluster-admin", "anyuid"), ("system:openshift:scc:nonroot-v2", "")],
)
def test_every_cluster_has_the_roles_of_the_constraints(role: str, constraint: str) -> None:
    assert _answer(ROOT_POD, _binding(role)).constraint == constraint


@pytest.mark.parametrize(
    ("subject", "constraint"),
    [
        ({"kind": "Group", "name": "system:serviceaccounts"}, "anyuid"),
        ({"kind": "Group", "name": "system:serviceaccounts:team"}, "anyuid"),
        ({"kind": "Group", "name": "system:authenticated"}, "anyuid"),
        ({"kind": "User", "name": "system:serviceaccount:kube-system:job-controller"}, "anyuid"),
        ({"kind": "User", "name": "ada"}, ""),
    ],
)
def test_the_account_and_the_job_controller_need_the_right(subject: dict[str, str], constraint: str) -> None:
    """The user who submits a TrainJob does not create its pods."""
    assert _answer(ROOT_POD, _binding("system:openshift:scc:anyuid", **subject)).constraint == constraint


def test_a_complete_release_rejects_a_pod_that_no_constraint_admits() -> None:
    decision = _answer(ROOT_POD)
    assert decision.answer is Answer.REJECTED
    assert decision.describe("node") == (
        "no SCC that ServiceAccount `mpi` may use (`restricted-v2`, `restricted-v3`) admits the pods `node`: provider "
        "restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the range of UIDs that OpenShift gives "
        "to the namespace"
    )


@pytest.mark.parametrize(
    ("subject", "bodies", "is_complete", "doubt"),
    [
        (ROOT_POD, [], False, "bindings that are not in these files can let ServiceAccount `mpi` use more SCCs"),
        (ROOT_POD, [_binding("own")], True, "the files do not show all rights of RoleBinding team/own"),
        (pod(context={"runAsUser": 1000660000}), [], True, "only the cluster has the UIDs"),
        (pod(pod={"fsGroup": 1000660000}), [], True, "only the cluster has the UIDs"),
        (pod(pod={"seLinuxOptions": {"level": "s0:c26,c5"}}), [], True, "only the cluster has the UIDs"),
        (
            pod(annotations={"openshift.io/required-scc": "own"}),
            [],
            True,
            "the pods require the SCC `own`, which is not",
        ),
        (pod(context={"allowPrivilegeEscalation": True}), [], True, "installed before OpenShift 4.11"),
    ],
)
def test_mpigen_does_not_guess(subject: Body, bodies: list[Body], is_complete: bool, doubt: str) -> None:
    decision = _answer(subject, *bodies, is_complete=is_complete)
    assert decision.answer is Answer.UNKNOWN
    assert doubt in decision.doubt


@pytest.mark.parametrize(
    "subject",
    [
        pod(pod={"fsGroup": 1000}),
        pod(pod={"fsGroup": 2000000000}),
        pod(pod={"seLinuxOptions": {"level": "s0"}}),
        pod(pod={"seLinuxOptions": {"level": "s0:c26,c1024"}}),
        pod(context={"runAsUser": 999999999}),
        pod(context={"runAsUser": 1000660000}, pod={"fsGroup": 1000670000}),
    ],
)
def test_no_namespace_has_these_values(subject: Body) -> None:
    """The UIDs of a namespace are a block of 10000 from 1000000000 on, its groups are the same block."""
    assert _answer(subject).answer is Answer.REJECTED


def test_a_value_of_a_role_outside_the_files_decides_only_about_rejected_pods() -> None:
    decision = _answer(pod(), _binding("own"))
    assert (decision.answer, decision.constraint) == (Answer.ADMITTED, "restricted-v2")
    assert "RoleBinding team/own" in decision.doubt


@pytest.mark.parametrize(
    "labels", [{"openshift.io/run-level": "1"}, {"security.openshift.io/disable-securitycontextconstraints": "true"}]
)
def test_openshift_asks_no_constraint_in_some_namespaces(labels: Body) -> None:
    assert _answer(ROOT_POD, labels=labels) == PodDecision(Answer.ADMITTED, ROOT_POD, "mpi")


@pytest.mark.parametrize(
    ("automounts", "answer"), [(None, Answer.REJECTED), (True, Answer.REJECTED), (False, Answer.ADMITTED)]
)
def test_the_constraint_must_allow_the_volume_of_the_token(automounts: bool | None, answer: Answer) -> None:
    own = {**whole({"name": "own", "users": ["system:serviceaccount:team:mpi"]}), "volumes": ["emptyDir"]}
    subject = pod(annotations={"openshift.io/required-scc": "own"}, automountServiceAccountToken=automounts)
    assert _answer(subject, own).answer is answer


def test_the_constraint_of_mpigen_admits_locked_memory() -> None:
    grants = [MEMLOCK, access.memlock_role(), _binding("mpigen-memlock")]
    locked = pod(context={"capabilities": {"add": ["IPC_LOCK"]}, "allowPrivilegeEscalation": True})
    assert _answer(locked, *grants).constraint == "mpigen-memlock"
    assert _answer(pod(), *grants).constraint == "restricted-v2"
    assert _answer(locked).answer is Answer.REJECTED


def test_pod_security_accepts_the_pods_that_restricted_v2_admits() -> None:
    level = Level("restricted", "v1.34")
    assert find_violations(pod(), level, 34)
    assert find_violations(_answer(pod()).pod, level, 34) == []


_UIDS, _LEVEL = "openshift.io/sa.scc.uid-range", "openshift.io/sa.scc.mcs"


@pytest.mark.parametrize(
    ("annotations", "answer", "message"),
    [
        ({_UIDS: "1000/10"}, Answer.REJECTED, f'error fetching namespace "team": unable to find annotation {_LEVEL}'),
        ({_UIDS: "1000/10", _LEVEL: ""}, Answer.UNKNOWN, f"found annotation {_LEVEL} but it was empty"),
        ({_UIDS: "1000", _LEVEL: "s0:c1,c0"}, Answer.UNKNOWN, "`1000` is not a range such as 1000660000/10000"),
        ({_UIDS: f"1/{2**32}", _LEVEL: "s0:c1,c0"}, Answer.UNKNOWN, f"`1/{2**32}` is not a range"),
    ],
)
def test_openshift_needs_the_annotations_of_the_namespace(annotations: Body, answer: Answer, message: str) -> None:
    decision = _answer(pod(), annotations=annotations)
    assert decision.answer is answer
    assert message in decision.describe("node")


def test_a_constraint_without_its_uids_stops_all_pods_of_the_cluster() -> None:
    """The API server accepts the SCC, and OpenShift then rejects also the pods that cannot use it."""
    own = whole(scc(runAsUser={"type": "MustRunAs"}))
    decision = _answer(pod(), own)
    assert decision.answer is Answer.REJECTED
    assert decision.describe("node") == (
        "OpenShift rejects the pods `node`: error creating provider for SCC own in namespace team: MustRunAs requires"
        " a UID"
    )
    assert _answer(pod(annotations={"openshift.io/required-scc": "restricted-v2"}), own).answer is Answer.ADMITTED
    assert "SCC own: MustRunAs" in _answer({"spec": pod()["spec"]}, own).message


def test_a_pod_that_requires_another_constraint_is_rejected() -> None:
    decision = _answer(pod(annotations={"openshift.io/required-scc": "anyuid"}))
    assert decision.describe("node") == (
        "the pods `node` require the SCC `anyuid`, but ServiceAccount `mpi` may not use it"
    )
    decision = _answer(pod(context={"privileged": True}, annotations={"openshift.io/required-scc": "restricted-v2"}))
    assert decision.describe("node", "Namespace `a`").startswith(
        "the SCC `restricted-v2`, which the pods `node` in Namespace `a` require, rejects them: provider restricted-v2:"
    )


def test_the_level_of_a_namespace_without_uids_is_known() -> None:
    """The controller that assigns the UIDs keeps the level."""
    subject = pod(pod={"seLinuxOptions": {"level": "s0:c26,c5"}})
    assert _answer(subject, annotations={_LEVEL: "s0:c26,c5"}).answer is Answer.ADMITTED
    assert _answer(subject, annotations={_LEVEL: "s0:c27,c5"}).answer is Answer.REJECTED


@pytest.mark.parametrize(
    "fields",
    [
        {"runAsUser": {"type": "Any"}},
        {"fsGroup": {"type": "MustRunAsNonRoot"}},
    ],
)
def test_an_invalid_constraint_does_not_exist(fields: Body) -> None:
    own = whole(scc(users=["system:serviceaccount:team:mpi"], priority=1, **fields))
    assert Constraints.read([Manifest(own, "")], is_complete=True).known.keys() == installed_constraints().keys()
    assert _answer(pod(), own).constraint == "restricted-v2"
