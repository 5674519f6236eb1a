"""Secrets: the objects with which External Secrets fetches the secrets of a team. They contain no secret values.

Without a template, a Secret gets the labels of its ExternalSecret, so Argo CD and the admission rules would treat the
Secret as a generated object. If the template has no `data`, or merges, the Secret gets all fetched keys
(external-secrets v1.3.2 pkg/controllers/externalsecret/externalsecret_controller_template.go). Defaults of the
CustomResourceDefinition are written out.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.secrets import Connection, Remote, Store, StoreAccount
from generator.config.model.tenants import Tenant
from generator.manifests import Body, omit_none

_API = "external-secrets.io/v1"
_STORE = "team"


def secrets(tenant: Tenant) -> Iterator[Body]:
    """Yield the SecretStore of a namespace with its ServiceAccount, if declared, and the ExternalSecrets."""
    declared = tenant.secrets
    if declared.store:
        if declared.store.service_account:
            yield _service_account(tenant, declared.store.service_account)
        yield _secret_store(tenant, declared.store)
    for secret in declared.external:
        yield _external_secret(tenant, secret.name, secret.keys, _template(type="Opaque"))
    for connection in declared.connections:
        keys = {"AWS_ACCESS_KEY_ID": connection.access_key, "AWS_SECRET_ACCESS_KEY": connection.secret_key}
        yield _external_secret(tenant, connection.name, keys, _connection(connection))
    for pull in declared.pull_secrets:
        template = _template(type="kubernetes.io/dockerconfigjson")
        yield _external_secret(tenant, pull.name, {".dockerconfigjson": pull.docker_config}, template)


def _service_account(tenant: Tenant, account: StoreAccount) -> Body:
    """Return the ServiceAccount for which External Secrets requests tokens. Pods do not use it."""
    return omit_none(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": account.name,
                "namespace": tenant.name,
                "annotations": dict(account.annotations) or None,
            },
            "automountServiceAccountToken": False,
        }
    )


def _secret_store(tenant: Tenant, store: Store) -> Body:
    interval = {} if store.refresh_interval is None else {"refreshInterval": store.refresh_interval}
    return {
        "apiVersion": _API,
        "kind": "SecretStore",
        "metadata": {"name": _STORE, "namespace": tenant.name},
        "spec": {**interval, "provider": store.provider},
    }


def _external_secret(tenant: Tenant, name: str, keys: dict[str, Remote], template: Body) -> Body:
    shared = tenant.secrets.cluster_store
    return {
        "apiVersion": _API,
        "kind": "ExternalSecret",
        "metadata": {"name": name, "namespace": tenant.name},
        "spec": {
            "refreshInterval": tenant.secrets.refresh_interval,
            "secretStoreRef": (
                {"kind": "ClusterSecretStore", "name": shared} if shared else {"kind": "SecretStore", "name": _STORE}
            ),
            # Deleting the ExternalSecret deletes the Secret; an unreachable store does not change it.
            "target": {"name": name, "creationPolicy": "Owner", "deletionPolicy": "Retain", "template": template},
            "data": [{"secretKey": key, "remoteRef": _remote(remote)} for key, remote in keys.items()],
        },
    }


def _remote(remote: Remote) -> Body:
    return omit_none(
        {
            "key": remote.key,
            "property": remote.property,
            "version": remote.version,
            "conversionStrategy": "Default",
            "decodingStrategy": "None",
            "metadataPolicy": "None",
        }
    )


def _template(**fields: object) -> Body:
    return {"engineVersion": "v2", "mergePolicy": "Replace", **fields}


def _connection(connection: Connection) -> Body:
    """Return the template of a Secret that the dashboard of OpenShift AI offers as a connection, also to model servers.

    odh-dashboard b9d0963 packages/k8s-core/src/connectionTypeUtils.ts: `isConnection` reads `connection-type` and
    `connection-type-ref`, not the newer `connection-type-protocol`. `isModelServingCompatible` requires `managed` and
    `connection-type`, and all keys except the region.
    """
    return _template(
        type="Opaque",
        mergePolicy="Merge",  # in addition to the fetched keys
        metadata={
            "labels": {"opendatahub.io/dashboard": "true", "opendatahub.io/managed": "true"},
            "annotations": {
                "opendatahub.io/connection-type": "s3",
                "opendatahub.io/connection-type-protocol": "s3",
                "opendatahub.io/connection-type-ref": "s3",
                "openshift.io/display-name": connection.display_name or connection.name,
            },
        },
        data={
            "AWS_DEFAULT_REGION": connection.region,
            "AWS_S3_BUCKET": connection.bucket,
            "AWS_S3_ENDPOINT": connection.endpoint,
        },
    )
