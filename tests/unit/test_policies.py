"""Tenancy: what a team's namespace allows, and what it does not."""

from __future__ import annotations

from typing import Any

from generator import Cluster, Isolation, Platform
from generator.policies import access, namespace
from generator.policies.admission.parameters import namespace_parameters
from tests.conftest import small_platform

OPENSHIFT = Cluster(distribution="openshift")


def granted(role: str) -> set[tuple[str, str, str]]:
    """(group, resource, verb) of a role."""
    (body,) = [body for body in access.tenant_roles(Isolation()) if body["metadata"]["name"] == role]
    return {
        (group, resource, verb)
        for rule in body["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_enforced_standard_is_pinned_to_the_clusters_version(platform: Platform) -> None:
    labels = namespace.namespace(platform.tenants[0], "team-a", platform)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert labels["pod-security.kubernetes.io/enforce-version"] == "v1.34"


def test_openshift_namespaces_are_known_to_kueue_and_left_alone_by_the_label_syncer(platform: Platform) -> None:
    labels = namespace.namespace(platform.tenants[0], "team-a", platform.model_copy(update={"cluster": OPENSHIFT}))[
        "metadata"
    ]["labels"]
    assert labels["kueue.openshift.io/managed"] == "true"
    assert labels["security.openshift.io/scc.podSecurityLabelSync"] == "false"
    plain = namespace.namespace(platform.tenants[0], "team-a", platform)["metadata"]["labels"]
    assert not [label for label in plain if "openshift" in label]


def test_a_namespace_is_deleted_only_when_a_person_confirms(platform: Platform) -> None:
    body = namespace.namespace(platform.tenants[0], "team-a", platform)
    options = body["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
    assert options == "Prune=confirm,Delete=confirm"


def test_each_role_holds_the_one_before() -> None:
    assert granted("mpigen-view") < granted("mpigen-submit") < granted("mpigen-edit") < granted("mpigen-admin")


def test_viewers_read_jobs_logs_and_queues_and_change_nothing() -> None:
    view = granted("mpigen-view")
    assert {verb for _, _, verb in view} == {"get", "list", "watch"}
    assert ("", "pods/log", "get") in view
    assert ("trainer.kubeflow.org", "trainingruntimes", "list") in view  # without it the SDK fails for everybody


def test_nobody_reads_secrets_enters_pods_or_writes_what_bounds_them() -> None:
    admin = granted("mpigen-admin")
    assert not {(group, resource) for group, resource, verb in admin if resource == "secrets" and verb in access.READ}
    assert not {
        resource
        for _, resource, _ in admin
        if resource.startswith("pods/") and resource not in ("pods/log", "pods/status")
    }
    written = {resource for _, resource, verb in admin if verb not in access.READ}
    assert written == {"trainjobs", "persistentvolumeclaims", "secrets", "rolebindings", "clusterroles"}


def test_who_submits_jobs_creates_and_deletes_them_and_changes_nothing() -> None:
    assert granted("mpigen-submit") - granted("mpigen-view") == {
        ("trainer.kubeflow.org", "trainjobs", "create"),
        ("trainer.kubeflow.org", "trainjobs", "delete"),
    }


def test_admins_may_bind_the_four_roles_and_no_other() -> None:
    (body,) = [body for body in access.tenant_roles(Isolation()) if body["metadata"]["name"] == "mpigen-admin"]
    (rule,) = [rule for rule in body["rules"] if "clusterroles" in rule["resources"]]
    assert rule["verbs"] == ["bind"]
    assert rule["resourceNames"] == ["mpigen-admin", "mpigen-edit", "mpigen-submit", "mpigen-view"]


def test_writing_a_secret_answers_with_no_more_than_was_sent() -> None:
    """The answer to a patch is the whole object, so an empty patch would read it."""
    assert {verb for _, resource, verb in granted("mpigen-admin") if resource == "secrets"} == {
        "create", "update", "delete",
    }  # fmt: skip


def test_no_rule_has_a_wildcard() -> None:
    for body in access.tenant_roles(Isolation()):
        assert "*" not in str(body["rules"])


def test_access_is_bound_as_it_is_written(platform: Platform) -> None:
    bound = {body["metadata"]["name"]: body["subjects"] for body in access.role_bindings(platform.tenants[0])}
    rbac = "rbac.authorization.k8s.io"
    assert bound == {
        "mpigen-view": [{"kind": "ServiceAccount", "name": "reader", "namespace": "ci"}],
        "mpigen-edit": [{"apiGroup": rbac, "kind": "Group", "name": "a"}],
        "mpigen-admin": [{"apiGroup": rbac, "kind": "User", "name": "ada"}],
    }


def test_all_of_a_tenants_people_read_the_clusters_runtimes(platform: Platform) -> None:
    binding = access.runtime_reader_binding(platform.tenants[0])
    assert binding is not None
    assert [subject["name"] for subject in binding["subjects"]] == ["a", "reader", "ada"]
    assert access.runtime_reader_binding(platform.tenants[1]) is None


def test_the_pods_account_mounts_no_token(platform: Platform) -> None:
    assert namespace.service_account(platform.tenants[0], platform.cluster)["automountServiceAccountToken"] is False


def test_what_kueue_counts_has_no_second_quota(platform: Platform) -> None:
    assert namespace.resource_quota(platform.tenants[0])["spec"]["hard"] == {
        "count/trainjobs.trainer.kubeflow.org": "1k",
        "services.loadbalancers": "0",
        "services.nodeports": "0",
    }


def test_objects_storage_and_what_is_asked_for_are_limited() -> None:
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


def test_the_limits_of_a_tenant_stand_beside_its_jobs_and_its_people_cannot_change_them() -> None:
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


def test_containers_that_ask_for_nothing_get_little_and_no_limit(platform: Platform) -> None:
    (limit,) = namespace.limit_range(platform.tenants[0])["spec"]["limits"]
    assert limit == {"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "256Mi"}}


def test_a_weaker_standard_is_a_choice(platform: Platform) -> None:
    data = small_platform() | {"policies": {"podSecurity": "baseline"}}
    chosen = Platform.model_validate(data)
    body = namespace.namespace(platform.tenants[0], "team-a", chosen)
    labels: dict[str, Any] = body["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert labels["pod-security.kubernetes.io/warn"] == "restricted"


def test_who_runs_the_platform_has_roles_of_their_own(platform: Platform) -> None:
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
