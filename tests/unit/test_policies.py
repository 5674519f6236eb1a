"""Test the rights and limits in a team's namespace."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Cluster, Isolation, Platform
from generator.facts.versions import default_minor
from generator.policies import access, namespace
from generator.policies.admission.parameters import namespace_parameters
from tests.conftest import small_platform

OPENSHIFT = Cluster(distribution="openshift")


def granted(role: str) -> set[tuple[str, str, str]]:
    """Return (group, resource, verb) of a role."""
    (body,) = [body for body in access.tenant_roles(Isolation()) if body["metadata"]["name"] == role]
    return {
        (group, resource, verb)
        for rule in body["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_enforced_standard_is_pinned_to_the_version_of_the_cluster(platform: Platform) -> None:
    labels = namespace.namespace(platform.tenants[0], "team-a", platform)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["pod-security.kubernetes.io/enforce-version"] == f"v{default_minor('kubernetes')}"


def test_openshift_namespaces_are_managed_by_kueue_and_skipped_by_the_label_syncer(platform: Platform) -> None:
    labels = namespace.namespace(platform.tenants[0], "team-a", platform.model_copy(update={"cluster": OPENSHIFT}))[
        "metadata"
    ]["labels"]
    assert labels["kueue.openshift.io/managed"] == "true"
    assert labels["security.openshift.io/scc.podSecurityLabelSync"] == "false"
    plain = namespace.namespace(platform.tenants[0], "team-a", platform)["metadata"]["labels"]
    assert not [label for label in plain if "openshift" in label]


def test_a_namespace_is_deleted_only_after_confirmation(platform: Platform) -> None:
    body = namespace.namespace(platform.tenants[0], "team-a", platform)
    options = body["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
    assert options == "Prune=confirm,Delete=confirm,PruneLast=true"


def test_every_role_includes_the_weaker_ones() -> None:
    assert granted("mpigen-view") < granted("mpigen-submit") < granted("mpigen-edit") < granted("mpigen-admin")


def test_viewers_can_only_read_jobs_logs_and_queues() -> None:
    view = granted("mpigen-view")
    assert {verb for _, _, verb in view} == {"get", "list", "watch"}
    assert ("", "pods/log", "get") in view
    assert ("trainer.kubeflow.org", "trainingruntimes", "list") in view  # without it the SDK fails for everybody


def test_team_roles_cannot_read_secrets_enter_pods_or_change_limits() -> None:
    admin = granted("mpigen-admin")
    assert not {verb for _, resource, verb in admin if resource == "secrets"}
    assert not {
        resource
        for _, resource, _ in admin
        if resource.startswith("pods/") and resource not in ("pods/log", "pods/status")
    }
    written = {resource for _, resource, verb in admin if verb not in access.READ}
    assert written == {
        "trainjobs", "configmaps", "persistentvolumeclaims", "workloads", "rolebindings", "clusterroles",
    }  # fmt: skip


def test_submitters_can_only_write_jobs_and_config_maps_and_hold_jobs() -> None:
    assert granted("mpigen-submit") - granted("mpigen-view") == {
        ("", "configmaps", "create"),
        ("", "configmaps", "delete"),
        ("", "configmaps", "patch"),
        ("kueue.x-k8s.io", "workloads", "patch"),
        ("trainer.kubeflow.org", "trainjobs", "create"),
        ("trainer.kubeflow.org", "trainjobs", "delete"),
        ("trainer.kubeflow.org", "trainjobs", "patch"),
    }


def test_admins_can_bind_only_the_four_roles() -> None:
    (body,) = [body for body in access.tenant_roles(Isolation()) if body["metadata"]["name"] == "mpigen-admin"]
    (rule,) = [rule for rule in body["rules"] if "clusterroles" in rule["resources"]]
    assert rule["verbs"] == ["bind"]
    assert rule["resourceNames"] == ["mpigen-admin", "mpigen-edit", "mpigen-submit", "mpigen-view"]


def with_roles(**tenant: Any) -> Platform:
    """Return the small platform with a role of its own, which team-a gives to a user."""
    data = small_platform()
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["notes"]}
    steward = {"name": "steward", "description": "Reads notes.", "like": "view", "rules": [rule]}
    alone = {"name": "alone", "description": "Reads notes alone.", "rules": [rule]}
    data["access"] = {"admin": ["group:platform"], "roles": [steward, alone]}
    data["tenants"][0] |= {"access": {"view": ["user:vi"], "roles": {"steward": ["user:sue"]}}, **tenant}
    return Platform.model_validate(data)


def test_a_role_of_your_own_has_its_rules_and_the_rules_of_the_role_that_it_includes() -> None:
    roles = {body["metadata"]["name"]: body for body in access.tenant_roles(Isolation(), with_roles().access.roles)}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["notes"]}
    assert roles["mpigen-role-steward"]["rules"] == [*roles["mpigen-view"]["rules"], rule]
    assert roles["mpigen-role-steward"]["metadata"]["annotations"] == {"mpigen.dev/description": "Reads notes."}
    assert roles["mpigen-role-alone"]["rules"] == [rule]


def test_admins_of_teams_and_of_the_platform_can_bind_roles_of_your_own() -> None:
    platform = with_roles()
    bodies = [
        *access.tenant_roles(platform.isolation, platform.access.roles),
        *access.platform_access(platform.access),
    ]
    binders = {
        body["metadata"]["name"]
        for body in bodies
        for rule in body.get("rules", [])
        if rule["verbs"] == ["bind"] and {"mpigen-role-alone", "mpigen-role-steward"} <= {*rule["resourceNames"]}
    }
    assert binders == {"mpigen-admin", "mpigen-platform-admin"}


def test_subjects_of_a_role_of_your_own_get_a_binding_in_all_namespaces() -> None:
    platform = with_roles(namespaces=["team-a-dev"])
    team = platform.tenants[0]
    bound = {
        (body["metadata"]["namespace"], body["metadata"]["name"], body["subjects"][0]["name"])
        for home in team.homes
        for body in access.role_bindings(home)
    }
    assert bound == {
        *(("team-a", "mpigen-view", "vi"), ("team-a", "mpigen-role-steward", "sue")),
        *(("team-a-dev", "mpigen-view", "vi"), ("team-a-dev", "mpigen-role-steward", "sue")),
    }
    assert "user:sue" in namespace_parameters(team, team.name, platform)["mpigen.dev/subjects"].split("\n")
    reader = access.runtime_reader_binding(team)
    assert reader is not None
    assert [subject["name"] for subject in reader["subjects"]] == ["sue", "vi"]


def test_a_retired_team_keeps_no_role_of_your_own() -> None:
    platform = with_roles(retired={"reason": "the project ended", "until": "2099-01-01"})
    team = platform.tenants[0]
    assert [body["metadata"]["name"] for body in access.role_bindings(team)] == ["mpigen-view"]
    assert namespace_parameters(team, team.name, platform)["mpigen.dev/subjects"] == "user:vi"


def test_no_rule_has_a_wildcard() -> None:
    for body in access.tenant_roles(Isolation()):
        assert "*" not in str(body["rules"])


def test_access_is_bound_as_declared(platform: Platform) -> None:
    bound = {body["metadata"]["name"]: body["subjects"] for body in access.role_bindings(platform.tenants[0])}
    rbac = "rbac.authorization.k8s.io"
    assert bound == {
        "mpigen-view": [{"kind": "ServiceAccount", "name": "reader", "namespace": "ci"}],
        "mpigen-edit": [{"apiGroup": rbac, "kind": "Group", "name": "a"}],
        "mpigen-admin": [{"apiGroup": rbac, "kind": "User", "name": "ada"}],
    }


def test_all_users_of_a_tenant_can_read_the_cluster_runtimes(platform: Platform) -> None:
    binding = access.runtime_reader_binding(platform.tenants[0])
    assert binding is not None
    assert [subject["name"] for subject in binding["subjects"]] == ["a", "reader", "ada"]
    assert access.runtime_reader_binding(platform.tenants[1]) is None


def test_the_service_account_of_pods_mounts_no_token(platform: Platform) -> None:
    assert namespace.service_account(platform.tenants[0], platform.cluster)["automountServiceAccountToken"] is False


@pytest.mark.parametrize("distribution", ["kubernetes", "openshift"])
def test_the_service_account_has_declared_annotations_besides_openshift_annotations(distribution: str) -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/team-a"}
    data = {**small_platform(), "cluster": {"distribution": distribution}}
    data["tenants"][0] |= {
        "namespaces": ["team-a-dev"],
        "serviceAccountAnnotations": role,
        "secrets": {"clusterStore": "vault", "pullSecrets": [{"name": "quay", "dockerConfig": {"key": "team-a/quay"}}]},
    }
    platform = Platform.model_validate(data)
    homes = platform.tenants[0].homes
    found = [namespace.service_account(home, platform.cluster)["metadata"]["annotations"] for home in homes]
    login = {"openshift.io/internal-registry-pull-secret-ref": "mpi-dockercfg"}
    assert found == [{**role, **(login if distribution == "openshift" else {})}] * 2
    assert "annotations" not in namespace.service_account(platform.tenants[1], platform.cluster)["metadata"]


def test_resources_of_kueue_have_no_resource_quota(platform: Platform) -> None:
    assert namespace.resource_quota(platform.tenants[0])["spec"]["hard"] == {
        "count/trainjobs.trainer.kubeflow.org": "1k",
        "services.loadbalancers": "0",
        "services.nodeports": "0",
    }


def test_objects_storage_and_requests_are_limited() -> None:
    limits = {"trainJobs": 50, "volumes": 20, "storage": "10Ti", "resources": {"nvidia.com/gpu": 24}}
    data = small_platform()
    data["tenants"][0]["limits"] = limits
    assert namespace.resource_quota(Platform.model_validate(data).tenants[0])["spec"]["hard"] == {
        "count/trainjobs.trainer.kubeflow.org": "50",
        "persistentvolumeclaims": "20",
        "requests.nvidia.com/gpu": "24",
        "requests.storage": "10Ti",
        "services.loadbalancers": "0",
        "services.nodeports": "0",
    }


def test_limits_of_a_tenant_are_on_its_namespace_and_not_writable() -> None:
    data = small_platform()
    data["tenants"][0]["limits"] = {"hostsPerJob": 4, "timePerJob": "2h", "devicesPerHost": {"nvidia.com/gpu": 2}}
    platform = Platform.model_validate(data)
    assert (
        namespace_parameters(platform.tenants[0], "team-a", platform).items()
        >= {
            "mpigen.dev/hosts-per-job": "4",
            "mpigen.dev/seconds-per-job": "7200",
            "mpigen.dev/devices-per-host": "nvidia.com/gpu=2",
        }.items()
    )
    assert {verb for _, resource, verb in granted("mpigen-admin") if resource == "namespaces"} == {"get"}


def _limit(data: dict[str, Any]) -> dict[str, Any]:
    """Return the only item of the LimitRange of the first tenant."""
    platform = Platform.model_validate(data)
    (limit,) = namespace.limit_range(platform.tenants[0], platform)["spec"]["limits"]
    return dict(limit)


def _with_pools(**changes: Any) -> dict[str, Any]:
    """Return a platform with a small pool, in which the tenant has quota, and a large pool."""
    large = {"name": "large", "nodes": 2, "allocatable": {"cpu": 500, "memory": "128Gi"}, "labels": {"pool": "large"}}
    small = {"name": "small", "nodes": 2, "allocatable": {"cpu": 8, "memory": "512Gi"}, "labels": {"pool": "small"}}
    tenant = {"name": "team-a", "quota": {"small": 1}, **changes}
    return {"platform": "p", "release": "1.0.0", "pools": [large, small], "tenants": [tenant]}


def test_containers_use_at_most_the_largest_node_of_the_pools_of_the_team() -> None:
    most = {"cpu": "8", "memory": "512Gi"}
    requests = {"cpu": "100m", "memory": "256Mi"}
    assert _limit(_with_pools()) == {"type": "Container", "default": most, "defaultRequest": requests, "max": most}
    assert _limit(_with_pools(borrow={"large": 1}))["max"] == {"cpu": "500", "memory": "512Gi"}


def test_pods_of_declared_workloads_may_use_any_pool() -> None:
    data = _with_pools(workloads={"kinds": ["notebooks.kubeflow.org"]})
    assert _limit(data)["max"] == {"cpu": "500", "memory": "512Gi"}


def test_no_node_of_this_cluster_limits_jobs_that_run_on_other_clusters() -> None:
    data = _with_pools(multiKueue=True) | {
        "queues": {"multiKueue": {"clusters": [{"name": "west", "kubeConfigSecret": "west"}]}}
    }
    assert _limit(data) == {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "256Mi"}}


def test_a_weaker_standard_can_be_chosen(platform: Platform) -> None:
    data = small_platform() | {"policies": {"podSecurity": "baseline"}}
    chosen = Platform.model_validate(data)
    body = namespace.namespace(platform.tenants[0], "team-a", chosen)
    labels: dict[str, Any] = body["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert labels["pod-security.kubernetes.io/warn"] == "restricted"


def test_platform_operators_have_their_own_roles(platform: Platform) -> None:
    assert access.platform_access(platform.access) == []
    data = small_platform() | {"access": {"admin": ["group:ops"], "ci": ["serviceaccount:ci/bot"]}}
    bodies = access.platform_access(Platform.model_validate(data).access)
    assert [(body["kind"], body["metadata"]["name"]) for body in bodies] == [
        ("ClusterRole", "mpigen-platform-admin"),
        ("ClusterRoleBinding", "mpigen-platform-admin"),
        ("ClusterRole", "mpigen-platform-ci"),
        ("ClusterRoleBinding", "mpigen-platform-ci"),
    ]
    ci = bodies[2]["rules"]
    assert {verb for rule in ci for verb in rule["verbs"]} == {"get", "list", "watch"}
    for rule in [*bodies[0]["rules"], *ci]:
        assert "*" not in str(rule)
        assert not {"secrets", "pods/exec", "serviceaccounts/token"} & set(rule["resources"])


def test_team_admins_can_never_grant_roles_to_groups_of_all_users() -> None:
    data = small_platform()
    data["tenants"][0]["access"] = {"view": ["group:system:authenticated"], "grantable": ["group:cv-*"]}
    platform = Platform.model_validate(data)
    home = platform.tenants[0]
    assert namespace_parameters(home, home.name, platform)["mpigen.dev/subjects"] == "group:cv-*"
