"""Test SecurityContextConstraints against the answers of upstream's admission plugin.

SecurityContextConstraint of openshift/apiserver-library-go a8019f39 wrote the answers in security-contexts.jsonl, with
the SCCs of openshift/cluster-kube-apiserver-operator and the texts of k8s.io/apimachinery v0.34.2.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.simulate.access import parse_requester
from generator.simulate.admission.scc.constraint import Constraint, installed_constraints
from generator.simulate.admission.scc.decide import Answer, Constraints, Decision
from tests.security_context_cases import ANNOTATIONS, FIXTURE, NAMESPACE, USER, cases, whole

Body = dict[str, Any]
ROWS: list[Body] = [json.loads(line) for line in FIXTURE.read_text("utf-8").splitlines()]
_RBAC = "rbac.authorization.k8s.io"
_DENIED = re.compile(r"denied ([a-z0-9-]+)")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def _grants(row: Body) -> list[Body]:
    """Return a Role and a RoleBinding for the SCCs of the account, and for those of the user."""
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


def decide(row: Body) -> Decision:
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
