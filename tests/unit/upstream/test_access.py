"""Test that access computed from files equals the decision of the API server's authorizer."""

from __future__ import annotations

import pytest

from generator import manifests
from generator.errors import SimulationError
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import (
    Access,
    AccessRequest,
    Resource,
    find_resource,
    parse_requester,
    read_access,
)

ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata: {{name: {name}, labels: {{{labels}}}{namespace}}}
{says}
---
"""


def role(name: str, *rules: str, labels: str = "", namespace: str = "") -> str:
    kind = "Role" if namespace else "ClusterRole"
    place = f", namespace: {namespace}" if namespace else ""
    return ROLE.format(kind=kind, name=name, labels=labels, namespace=place, says=f"rules: [{', '.join(rules)}]")


def aggregated(name: str, selector: str, labels: str = "") -> str:
    says = f"aggregationRule: {{clusterRoleSelectors: [{selector}]}}\nrules: [{READ_PODS}]"
    return ROLE.format(kind="ClusterRole", name=name, labels=labels, namespace="", says=says)


def binding(subject: str, to: str = "{kind: ClusterRole, name: r}", namespace: str = "", name: str = "b") -> str:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    place = f", namespace: {namespace}" if namespace else ""
    says = f"roleRef: {to}\nsubjects: [{subject}]"
    return ROLE.format(kind=kind, name=name, labels="", namespace=place, says=says)


READ_PODS = "{apiGroups: [''], resources: [pods], verbs: [get]}"
ADA = "{kind: User, name: ada}"
GET_POD = AccessRequest("get", resource="pods", namespace="a", name="p")


def of(*texts: str) -> Access:
    return read_access(manifests.read("".join(texts), "a.yaml"))


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ("{apiGroups: [''], resources: [pods], verbs: [get]}", GET_POD),
        ("{apiGroups: ['*'], resources: ['*'], verbs: ['*']}", AccessRequest("create", "x.y", "z", "s")),
        (
            "{apiGroups: [''], resources: ['pods/log'], verbs: [get]}",
            AccessRequest("get", resource="pods", subresource="log"),
        ),
        (
            "{apiGroups: [''], resources: ['*/log'], verbs: [get]}",
            AccessRequest("get", resource="pods", subresource="log"),
        ),
        ("{apiGroups: [''], resources: [pods], verbs: [get], resourceNames: [q, p]}", GET_POD),
        ("{nonResourceURLs: [/metrics], verbs: [get]}", AccessRequest("get", url="/metrics")),
        ("{nonResourceURLs: ['/healthz/*'], verbs: ['*']}", AccessRequest("get", url="/healthz/etcd")),
        ("{nonResourceURLs: ['*'], verbs: [get]}", AccessRequest("get", url="/")),
    ],
)
def test_a_matching_rule_allows_the_request(rule: str, asked: AccessRequest) -> None:
    assert of(role("r", rule), binding(ADA)).allowed(parse_requester("user:ada"), asked)


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ("{apiGroups: [''], resources: [pods], verbs: [list]}", GET_POD),
        ("{apiGroups: [apps], resources: [pods], verbs: [get]}", GET_POD),
        ("{resources: [pods], verbs: [get]}", GET_POD),
        (
            "{apiGroups: [''], resources: [pods], verbs: [get]}",
            AccessRequest("get", resource="pods", subresource="log"),
        ),
        (
            "{apiGroups: [''], resources: ['pods/*'], verbs: [get]}",
            AccessRequest("get", resource="pods", subresource="log"),
        ),
        ("{apiGroups: [''], resources: ['*/log'], verbs: [get]}", AccessRequest("get", resource="pods")),
        ("{apiGroups: [''], resources: ['pods/log'], verbs: [get]}", GET_POD),
        ("{apiGroups: [''], resources: [pods], verbs: [get], resourceNames: [q]}", GET_POD),
        (
            "{apiGroups: [''], resources: [pods], verbs: [list], resourceNames: [q]}",
            AccessRequest("list", resource="pods"),
        ),
        ("{apiGroups: ['*'], resources: ['*'], verbs: ['*']}", AccessRequest("get", url="/metrics")),
        ("{nonResourceURLs: [/metrics], verbs: [get]}", AccessRequest("get", url="/metrics/x")),
        ("{nonResourceURLs: ['*'], verbs: ['*']}", GET_POD),
        ("{apiGroups: [''], resources: pods, verbs: [get]}", GET_POD),
        ("nonsense", GET_POD),
    ],
)
def test_another_rule_does_not_allow_the_request(rule: str, asked: AccessRequest) -> None:
    assert not of(role("r", rule), binding(ADA)).allowed(parse_requester("user:ada"), asked)


@pytest.mark.parametrize(
    ("subject", "who"),
    [
        (ADA, "user:ada"),
        ("{kind: Group, name: a}", "group:a"),
        ("{kind: Group, name: system:authenticated}", "user:bob"),
        ("{kind: Group, name: system:authenticated}", "serviceaccount:a/b"),
        ("{kind: Group, name: 'system:serviceaccounts:a'}", "serviceaccount:a/b"),
        ("{kind: Group, name: system:serviceaccounts}", "user:system:serviceaccount:a:b"),
        ("{kind: ServiceAccount, name: b, namespace: a}", "serviceaccount:a/b"),
        ("{kind: User, name: 'system:serviceaccount:a:b'}", "serviceaccount:a/b"),
        ("{kind: Group, name: system:unauthenticated}", "user:system:anonymous"),
    ],
)
def test_a_binding_applies_to_its_subject(subject: str, who: str) -> None:
    assert of(role("r", READ_PODS), binding(subject)).allowed(parse_requester(who), GET_POD)


@pytest.mark.parametrize(
    ("subject", "who"),
    [
        (ADA, "group:ada"),
        ("{kind: Group, name: ada}", "user:ada"),
        ("{kind: Group, name: system:authenticated}", "user:system:anonymous"),
        ("{kind: ServiceAccount, name: b, namespace: a}", "serviceaccount:b/a"),
        ("{kind: ServiceAccount, name: b}", "serviceaccount:a/b"),
        ("{kind: User, name: ''}", "group:a"),
        ("{kind: Robot, name: ada}", "user:ada"),
    ],
)
def test_a_binding_does_not_apply_to_other_subjects(subject: str, who: str) -> None:
    assert not of(role("r", READ_PODS), binding(subject)).allowed(parse_requester(who), GET_POD)


def test_a_requester_has_the_given_groups() -> None:
    granted = of(role("r", READ_PODS), binding("{kind: Group, name: a}"))
    assert granted.allowed(parse_requester("user:ada", ["a"]), GET_POD)


def test_a_role_binding_applies_only_in_its_namespace() -> None:
    granted = of(role("r", READ_PODS), binding(ADA, namespace="a"))
    ada = parse_requester("user:ada")
    assert granted.allowed(ada, GET_POD) == "RoleBinding a/b of ClusterRole r"
    assert not granted.allowed(ada, AccessRequest("get", resource="pods", namespace="b"))
    assert not granted.allowed(ada, AccessRequest("get", resource="pods"))


def test_urls_are_granted_only_cluster_wide() -> None:
    granted = of(role("r", "{nonResourceURLs: [/metrics], verbs: [get]}"), binding(ADA, namespace="a"))
    assert not granted.allowed(parse_requester("user:ada"), AccessRequest("get", url="/metrics", namespace="a"))


def test_a_role_binding_references_the_role_of_its_namespace() -> None:
    to = "{kind: Role, name: r}"
    granted = of(
        role("r", READ_PODS, namespace="a"), binding(ADA, to, "a"), binding("{kind: User, name: bob}", to, "b")
    )
    assert granted.allowed(parse_requester("user:ada"), GET_POD)
    assert not granted.allowed(parse_requester("user:bob"), AccessRequest("get", resource="pods", namespace="b"))
    assert granted.gaps(parse_requester("user:bob"), "b") == ("RoleBinding b/b: its role is not among the files",)


def test_a_service_account_without_a_namespace_is_in_that_of_the_binding() -> None:
    granted = of(role("r", READ_PODS), binding("{kind: ServiceAccount, name: x}", namespace="a"))
    assert granted.allowed(parse_requester("serviceaccount:a/x"), GET_POD)


def test_an_aggregated_role_has_only_the_rules_of_selected_roles() -> None:
    get = AccessRequest("get", resource="secrets")
    secrets = "{apiGroups: [''], resources: [secrets], verbs: [get]}"
    texts = [aggregated("r", "{matchLabels: {x: a}}"), binding(ADA), role("s", secrets, labels="x: a")]
    granted = of(*texts)
    assert granted.allowed(parse_requester("user:ada"), get)
    assert not granted.allowed(parse_requester("user:ada"), GET_POD)
    alone = of(*texts[:2])
    assert alone.gaps(parse_requester("user:ada")) == (
        "ClusterRoleBinding b: its role aggregates ClusterRoles that are not among the files",
    )


def test_roles_aggregated_into_one_another_have_the_rules_of_both() -> None:
    granted = of(
        aggregated("r", "{matchLabels: {x: a}}", "z: z"),
        aggregated("t", "{matchLabels: {z: z}}, {matchExpressions: [{key: w, operator: Exists}]}", "x: a"),
        role("s", "{apiGroups: [''], resources: [secrets], verbs: [get]}", labels="w: w"),
        binding(ADA),
    )
    assert granted.allowed(parse_requester("user:ada"), AccessRequest("get", resource="secrets"))


EDIT = "{kind: ClusterRole, name: edit}"
SUBMIT = "{apiGroups: [trainer.kubeflow.org], resources: [trainjobs], verbs: [create]}"
SUBMITS = AccessRequest("create", "trainer.kubeflow.org", "trainjobs", namespace="a")
TO = "rbac.authorization.k8s.io/aggregate-to-%s: 'true'"


@pytest.mark.parametrize(
    ("label", "default", "is_allowed"),
    [
        ("edit", "edit", True),
        ("view", "edit", True),  # `edit` selects `view`
        ("view", "admin", True),
        ("admin", "edit", False),
        ("edit", "view", False),
        ("edit", "cluster-admin", False),
    ],
)
def test_a_role_with_an_aggregation_label_adds_its_rules_to_a_default_role(
    label: str, default: str, is_allowed: bool
) -> None:
    to = f"{{kind: ClusterRole, name: {default}}}"
    granted = of(role("s", SUBMIT, labels=TO % label), binding(ADA, to, "a"))
    assert bool(granted.allowed(parse_requester("user:ada"), SUBMITS)) is is_allowed
    assert granted.gaps(parse_requester("user:ada"), "a")  # the files lack the rules of Kubernetes


def test_a_default_role_without_its_rules_is_a_gap() -> None:
    ada = parse_requester("user:ada")
    assert of(binding(ADA, EDIT, "a")).gaps(ada, "a") == (
        (
            "RoleBinding a/b: its role aggregates `system:aggregate-to-edit` and `system:aggregate-to-view`, "
            "which the files lack"
        ),
    )
    assert of(binding(ADA, "{kind: ClusterRole, name: cluster-admin}")).gaps(ada) == (
        "ClusterRoleBinding b: its role is not among the files",
    )
    assert of(aggregated("r", "{}"), binding(ADA)).gaps(ada)  # selects also the default roles


def test_an_export_with_the_default_roles_has_no_gap() -> None:
    parts = [role(f"system:aggregate-to-{name}", READ_PODS, labels=TO % name) for name in ("edit", "view")]
    edit = aggregated("edit", "{matchLabels: {%s}}" % (TO % "edit"))
    view = aggregated("view", "{matchLabels: {%s}}" % (TO % "view"), TO % "edit")
    granted = of(*parts, edit, view, role("s", SUBMIT, labels=TO % "edit"), binding(ADA, EDIT, "a"))
    ada = parse_requester("user:ada")
    assert (granted.gaps(ada, "a"), bool(granted.allowed(ada, SUBMITS))) == ((), True)
    assert granted.allowed(ada, GET_POD)
    assert not granted.allowed(ada, AccessRequest("get", resource="secrets", namespace="a"))


def test_superusers_are_allowed_everything() -> None:
    assert of().allowed(parse_requester("group:system:masters"), AccessRequest("impersonate", resource="users"))


def test_two_different_roles_with_one_name_are_rejected() -> None:
    with pytest.raises(SimulationError, match="differs from the object of the same name in a"):
        of(role("r", READ_PODS), role("r"))
    assert of(role("r", READ_PODS), role("r", READ_PODS)).grants == ()


@pytest.mark.parametrize("text", ["ada", "user:", "group:", "serviceaccount:a", "serviceaccount:a/", "role:x", ""])
def test_an_invalid_subject_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a subject"):
        parse_requester(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pods", Resource("", "pods", is_namespaced=True)),
        ("TrainJob", Resource("trainer.kubeflow.org", "trainjobs", is_namespaced=True)),
        ("clusterqueue", Resource("kueue.x-k8s.io", "clusterqueues", is_namespaced=False)),
        ("events", Resource("", "events", is_namespaced=True)),
        ("events.events.k8s.io", Resource("events.k8s.io", "events", is_namespaced=True)),
        ("jobs", Resource("batch", "jobs", is_namespaced=True)),
        ("users", Resource("", "users", None)),
        ("widgets.example.com", Resource("example.com", "widgets", None)),
    ],
)
def test_resource_names_are_resolved_as_kubectl_does(text: str, found: Resource) -> None:
    assert find_resource(Catalog.bundled(), text) == found
