"""Test the objects of a team's secrets and volumes, which contain no secret value."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Cluster, Platform
from generator.config.model.secrets import Secrets, Store
from generator.config.model.tenants import DataVolume, Tenant
from generator.errors import ConfigError
from generator.gitops.metadata import WAVE_ANNOTATION, WAVES, annotate_for_argocd
from generator.manifests import Body, Manifest
from generator.policies import namespace
from generator.policies import secrets as policies_secrets
from tests.conftest import small_platform

S3 = {
    "name": "training-data",
    "endpoint": "https://s3.example.com",
    "bucket": "cv-training",
    "accessKey": {"key": "a/s3", "property": "id"},
    "secretKey": {"key": "a/s3", "property": "secret", "version": "3"},
}
PULL = {"name": "quay", "dockerConfig": {"key": "a/quay"}}
VAULT = {"provider": {"vault": {"server": "https://vault.example.com", "auth": {"tokenSecretRef": {"name": "x"}}}}}
OPENSHIFT = Cluster(distribution="openshift")


def tenant(secrets: dict[str, Any], **said: Any) -> Tenant:
    return Tenant.model_validate({"name": "team-a", "quota": {"cpu": 1}, "secrets": secrets, **said})


def made(secrets: dict[str, Any]) -> dict[str, Body]:
    return {f"{body['kind']}/{body['metadata']['name']}": body for body in policies_secrets.secrets(tenant(secrets))}


def test_a_team_without_secrets_has_no_objects_for_them() -> None:
    assert made({}) == {}
    assert list(namespace.persistent_volume_claims(tenant({}))) == []


def test_a_team_store_has_the_declared_provider_and_its_account_mounts_no_token() -> None:
    account = {"name": "vault", "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/a"}}
    bodies = made({"store": {**VAULT, "serviceAccount": account, "refreshInterval": 300}})
    assert bodies["SecretStore/team"]["spec"] == {"refreshInterval": 300, "provider": VAULT["provider"]}
    assert bodies["ServiceAccount/vault"]["automountServiceAccountToken"] is False
    assert bodies["ServiceAccount/vault"]["metadata"]["annotations"] == account["annotations"]


def test_equal_stores_are_written_alike() -> None:
    one, other = (
        {"aws": {"service": "SecretsManager", "region": "eu-1", "sessionTags": [{"key": "team", "value": "a"}]}},
        {"aws": {"sessionTags": [{"value": "a", "key": "team"}], "region": "eu-1", "service": "SecretsManager"}},
    )
    assert str(Store(provider=one).provider) == str(Store(provider=other).provider)


@pytest.mark.parametrize(
    "provider",
    [
        {"kubernetes": {}},
        {"gcpsm": {"projectID": "a"}},
        {"vault": {"server": "https://vault.example.com", "version": "v1", "auth": {"tokenSecretRef": {"name": "x"}}}},
        {"webhook": {"url": "https://example.com", "headers": {"Any-Key": "a"}, "result": {"jsonPath": "$.data"}}},
        {"azurekv": {"vaultUrl": "https://x.vault.azure.net", "authType": "WorkloadIdentity"}},
    ],
)
def test_the_provider_of_a_store_has_the_fields_of_a_secret_store(provider: dict[str, Any]) -> None:
    assert Store(provider=provider).provider == provider
    (name,) = provider
    with pytest.raises(ConfigError, match=f"there is no field `{name}x` here"):
        Store(provider={f"{name}x": provider[name]})
    with pytest.raises(ConfigError, match="there is no field `unknown` here"):
        Store(provider={name: {**provider[name], "unknown": 1}})


@pytest.mark.parametrize("value", [object(), {1: "a"}])
def test_a_provider_in_python_has_values_of_json_only(value: object) -> None:
    with pytest.raises(ConfigError, match="`provider` is not JSON"):
        Store(provider={"vault": {"server": value}})


@pytest.mark.parametrize(
    ("secrets", "reference"),
    [
        ({"clusterStore": "vault"}, {"kind": "ClusterSecretStore", "name": "vault"}),
        ({"store": VAULT}, {"kind": "SecretStore", "name": "team"}),
    ],
)
def test_all_secrets_are_fetched_from_one_store(secrets: dict[str, Any], reference: dict[str, str]) -> None:
    external = {"name": "wandb", "keys": {"B": {"key": "b"}, "A": {"key": "a"}}}
    bodies = made({**secrets, "external": [external], "connections": [S3], "pullSecrets": [PULL]})
    fetched = [body for body in bodies.values() if body["kind"] == "ExternalSecret"]
    assert len(fetched) == 3
    for body in fetched:
        assert body["spec"]["secretStoreRef"] == reference
        assert body["spec"]["target"]["name"] == body["metadata"]["name"]
    assert [each["secretKey"] for each in bodies["ExternalSecret/wandb"]["spec"]["data"]] == ["A", "B"]


def test_fetched_secrets_do_not_inherit_labels() -> None:
    """Without a template, External Secrets copies the labels, and Argo CD would treat the Secret as generated."""
    bodies = made(
        {"clusterStore": "v", "external": [{"name": "w", "keys": {"A": {"key": "a"}}}], "pullSecrets": [PULL]}
    )
    for body in bodies.values():
        template = body["spec"]["target"]["template"]
        assert template["type"]
        assert "metadata" not in template


def test_a_connection_has_the_dashboard_labels_and_all_keys_of_s3() -> None:
    spec = made({"clusterStore": "vault", "connections": [S3]})["ExternalSecret/training-data"]["spec"]
    template = spec["target"]["template"]
    assert template["mergePolicy"] == "Merge"  # else the keys that are fetched were lost
    assert template["metadata"]["labels"] == {"opendatahub.io/dashboard": "true", "opendatahub.io/managed": "true"}
    assert template["metadata"]["annotations"]["opendatahub.io/connection-type-ref"] == "s3"
    assert template["metadata"]["annotations"]["openshift.io/display-name"] == "training-data"
    assert {*template["data"], *(each["secretKey"] for each in spec["data"])} == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_S3_ENDPOINT",
        "AWS_S3_BUCKET",
        "AWS_DEFAULT_REGION",
    }
    assert spec["data"][1]["remoteRef"]["version"] == "3"


def test_pods_pull_images_with_the_secrets_of_their_account() -> None:
    team = tenant({"clusterStore": "vault", "pullSecrets": [PULL]})
    assert namespace.service_account(team, Cluster())["imagePullSecrets"] == [{"name": "quay"}]
    assert "imagePullSecrets" not in namespace.service_account(tenant({}), Cluster())


def test_openshift_keeps_its_own_pull_secret_in_the_list() -> None:
    body = namespace.service_account(tenant({"clusterStore": "vault", "pullSecrets": [PULL]}), OPENSHIFT)
    login = body["metadata"]["annotations"]["openshift.io/internal-registry-pull-secret-ref"]
    assert body["imagePullSecrets"] == [{"name": login}, {"name": "quay"}]
    assert "annotations" not in namespace.service_account(tenant({}), OPENSHIFT)["metadata"]


def test_every_namespace_of_a_team_has_its_secrets_and_volumes() -> None:
    wanted = {"clusterStore": "vault", "connections": [S3]}
    team = tenant(wanted, namespaces=["team-a-dev"], volumes=[{"name": "d", "size": "1Ti"}])
    for make in (policies_secrets.secrets, namespace.persistent_volume_claims):
        found = [body["metadata"]["namespace"] for home in team.homes for body in make(home)]
        assert found == ["team-a", "team-a-dev"]


def test_a_volume_is_shared_and_deleted_only_after_confirmation() -> None:
    volume = {"name": "d", "size": "1024Gi", "class": "cephfs"}
    (body,) = namespace.persistent_volume_claims(tenant({}, volumes=[volume]))
    assert (
        body["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
        == "Prune=confirm,Delete=confirm,PruneLast=true"
    )
    assert body["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Ti"}},
        "volumeMode": "Filesystem",
        "storageClassName": "cephfs",
    }


def test_the_default_storage_class_is_not_set() -> None:
    (body,) = namespace.persistent_volume_claims(
        tenant({}, volumes=[{"name": "d", "size": "1Ti", "accessModes": ["ReadOnlyMany"]}])
    )
    assert "storageClassName" not in body["spec"]
    assert body["spec"]["accessModes"] == ["ReadOnlyMany"]


def test_secrets_and_claims_are_in_the_last_sync_wave() -> None:
    """Argo CD does not wait for the last wave, so a team's mistake blocks no other team."""
    last = {"SecretStore", "ExternalSecret", "PersistentVolumeClaim"}
    body = {"apiVersion": "v1", "metadata": {"name": "x"}}
    waves = {
        kind: annotate_for_argocd([Manifest({**body, "kind": kind}, "x.yaml")])[0].body["metadata"]["annotations"][
            WAVE_ANNOTATION
        ]
        for kind in last
    }
    assert set(waves.values()) == {"1"}
    assert {kind for kind, wave in WAVES.items() if wave >= 1} >= last
    assert max(WAVES.values()) == 1


def test_a_storage_limit_below_the_own_volumes_is_rejected_in_python() -> None:
    said = small_platform()
    said["tenants"][0] |= {"limits": {"storage": "1Ti"}, "volumes": [{"name": "d", "size": "2Ti"}]}
    with pytest.raises(ConfigError, match="the 2Ti that the `volumes` of the team request"):
        Platform.model_validate(said)


def test_python_names_equal_yaml_aliases() -> None:
    assert DataVolume(name="d", size="1Ti", class_name="cephfs") == DataVolume.model_validate(
        {"name": "d", "size": "1Ti", "class": "cephfs"}
    )
    assert Secrets(cluster_store="v") == Secrets.model_validate({"clusterStore": "v"})
