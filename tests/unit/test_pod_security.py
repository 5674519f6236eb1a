"""Test the Pod Security of teams, and the exemption for locked memory."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from generator import App, Platform, pipeline
from generator.facts.names import TENANT_LABEL
from generator.manifests import Body, Manifest
from tests.conftest import small_platform

DAY = "2027-03-31"
MEMLOCK = {"rule": "pod-security", "to": "memlock", "reason": "RDMA", "until": DAY}
IMAGES = {"rule": "images", "reason": "a vendor's image", "until": DAY}
ENFORCE = "pod-security.kubernetes.io/enforce"


def platform(*relaxed: dict[str, str], distribution: str = "kubernetes", **policies: Any) -> Platform:
    """Return the small platform with an exempt first team in two namespaces."""
    data = small_platform()
    data["cluster"] = {"distribution": distribution}
    data["tenants"][0] |= {"relax": [*relaxed], "namespaces": [f"{data['tenants'][0]['name']}-dev"]}
    return Platform.model_validate(data | {"policies": policies})


def rendered(of: Platform) -> list[Manifest]:
    return pipeline.render(of, App(of))


def only(tree: list[Manifest], kind: str) -> list[Body]:
    return [found.body for found in tree if found.kind == kind]


def test_a_namespace_lists_its_exemptions_with_dates_and_reasons() -> None:
    relaxed = platform(MEMLOCK, IMAGES)
    theirs = {home.name for home in relaxed.tenants[0].homes}
    for body in only(rendered(relaxed), "Namespace"):
        labels, annotations = body["metadata"]["labels"], body["metadata"]["annotations"]
        is_relaxed = body["metadata"]["name"] in theirs
        assert ("mpigen.dev/relaxed-images" in labels) == is_relaxed
        assert labels[ENFORCE] == ("privileged" if is_relaxed else "restricted")
        if is_relaxed:
            assert labels["mpigen.dev/relaxed-images"] == labels["mpigen.dev/relaxed-pod-security"] == DAY
            assert annotations["mpigen.dev/relaxed-images"] == "a vendor's image"
            assert labels["mpigen.dev/pod-security"] == "memlock"


@pytest.mark.parametrize("standard", ["baseline", "privileged"])
def test_other_pod_security_levels_are_enforced_unchanged(standard: str) -> None:
    tree = rendered(platform({**MEMLOCK, "to": standard}))
    spaces = (item["metadata"]["labels"] for item in only(tree, "Namespace"))
    labels = next(labels for labels in spaces if TENANT_LABEL in labels)
    assert labels[ENFORCE] == standard
    assert "mpigen.dev/pod-security" not in labels
    assert not [found for found in tree if found.name == "small-memlock"]


@pytest.mark.parametrize("admission", ["audit", "off"])
def test_the_memlock_policy_denies_regardless_of_other_rules(admission: str) -> None:
    tree = rendered(platform(MEMLOCK, admission=admission))
    (binding,) = [
        body for body in only(tree, "ValidatingAdmissionPolicyBinding") if "memlock" in body["spec"]["policyName"]
    ]
    assert binding["spec"]["validationActions"] == ["Deny"]
    selector = binding["spec"]["matchResources"]["namespaceSelector"]
    assert selector == {"matchLabels": {"app.kubernetes.io/part-of": "small", "mpigen.dev/pod-security": "memlock"}}


def test_policies_are_applied_before_the_namespaces_that_need_them() -> None:
    waves = {
        found.kind: int(found.body["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"])
        for found in rendered(platform(MEMLOCK))
        if found.kind in ("Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    }
    namespace = waves.pop("Namespace")
    assert len(waves) == 2
    assert max(waves.values()) < namespace


def test_the_memlock_scc_differs_from_restricted_v2_in_two_fields() -> None:
    """openshift/cluster-kube-apiserver-operator bindata/bootkube/scc-manifests/*_scc-restricted-v2.yaml."""
    (scc,) = only(rendered(platform(MEMLOCK, distribution="openshift")), "SecurityContextConstraints")
    assert scc["allowedCapabilities"] == ["IPC_LOCK", "NET_BIND_SERVICE"]
    assert scc["allowPrivilegeEscalation"] is True
    assert not any(
        value
        for field, value in scc.items()
        if field.startswith("allow") and "Priv" not in field and "Cap" not in field
    )
    assert not scc["allowPrivilegedContainer"]
    assert scc["requiredDropCapabilities"] == ["ALL"]
    assert scc["runAsUser"] == {"type": "MustRunAsRange"}
    assert (scc["users"], scc["groups"], scc["priority"]) == ([], [], 0)


def test_the_memlock_scc_is_granted_to_one_service_account_in_exempt_namespaces() -> None:
    relaxed = platform(MEMLOCK, distribution="openshift")
    tree = rendered(relaxed)
    (role,) = [body for body in only(tree, "ClusterRole") if body["metadata"]["name"] == "mpigen-memlock"]
    resource = {"apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"]}
    assert role["rules"] == [{**resource, "verbs": ["use"], "resourceNames": ["mpigen-memlock"]}]
    bindings = [found.body for found in tree if found.body.get("roleRef", {}).get("name") == "mpigen-memlock"]
    granted = {body["metadata"]["namespace"]: body["subjects"] for body in bindings}
    homes = [home.name for home in relaxed.tenants[0].homes]
    assert granted == {home: [{"kind": "ServiceAccount", "name": "mpi", "namespace": home}] for home in homes}


@pytest.mark.parametrize("relaxed", [[], [IMAGES], [{**MEMLOCK, "to": "privileged"}]])
def test_teams_without_the_memlock_exemption_have_no_scc(relaxed: list[dict[str, str]]) -> None:
    tree = rendered(platform(*relaxed, distribution="openshift"))
    assert only(tree, "SecurityContextConstraints") == []
    assert not [found for found in tree if found.name == "mpigen-memlock"]


def test_kubernetes_has_no_scc() -> None:
    assert only(rendered(platform(MEMLOCK)), "SecurityContextConstraints") == []


@pytest.mark.parametrize(("day", "found"), [(DAY, "policy/relaxed"), ("2027-04-01", "policy/relaxation-over")])
def test_exemptions_are_reported_and_block_synth_after_their_last_day(day: str, found: str) -> None:
    relaxed = platform(MEMLOCK)
    tree = pipeline.render(relaxed, App(relaxed))
    checked = pipeline.judge(relaxed, tree, dt.date.fromisoformat(day))
    of_policies = [each for each in checked.findings if each.check.startswith("policy/")]
    assert {each.check for each in of_policies} == {found}
    assert any(finding.severity == "error" for finding in checked.findings) == (found == "policy/relaxation-over")
