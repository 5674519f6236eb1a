"""Secrets: the objects with which External Secrets fetches the secrets of a team. They contain no values.

External Secrets v1.3.2 pkg/controllers/externalsecret/externalsecret_controller_template.go: without a template the
Secret gets the labels of its ExternalSecret, so Argo CD and the admission rules would treat it as a generated object.
With a template that has no `data`, or merges, it gets all fetched keys. Defaults of the CustomResourceDefinition are
written out.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.secrets import Connection, Remote, Store
from generator.config.model.tenants import Tenant
from generator.manifests import Body

_API = "external-secrets.io/v1"
_STORE = "team"


def secrets(tenant: Tenant) -> Iterator[Body]:
    """Yield the SecretStore of a namespace and its ExternalSecrets."""
    declared = tenant.secrets
    if declared.store:
        if declared.store.service_account:
            yield _service_account(tenant, declared.store)
        yield _secret_store(tenant, declared.store)
    for secret in declared.external:
        yield _external_secret(tenant, secret.name, secret.keys, _template(type="Opaque"))
    for connection in declared.connections:
        keys = {"AWS_ACCESS_KEY_ID": connection.access_key, "AWS_SECRET_ACCESS_KEY": connection.secret_key}
        yield _external_secret(tenant, connection.name, keys, _connection(connection))
    for pull in declared.pull_secrets:
        template = _template(type="kubernetes.io/dockerconfigjson")
        yield _external_secret(tenant, pull.name, {".dockerconfigjson": pull.docker_config}, template)


def _service_account(tenant: Tenant, store: Store) -> Body:
    """Return the ServiceAccount for which External Secrets requests tokens. Pods do not use it."""
    account = store.service_account
    metadata: Body = {"name": account.name if account else "", "namespace": tenant.name}
    if account and account.annotations:
        metadata["annotations"] = dict(account.annotations)
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "automountServiceAccountToken": False,
    }


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
    fields = {"key": remote.key, "property": remote.property, "version": remote.version}
    return {
        **{field: value for field, value in fields.items() if value is not None},
        "conversionStrategy": "Default",
        "decodingStrategy": "None",
        "metadataPolicy": "None",
    }


def _template(**fields: object) -> Body:
    return {"engineVersion": "v2", "mergePolicy": "Replace", **fields}


def _connection(connection: Connection) -> Body:
    """Return the template of a Secret that the dashboard of OpenShift AI lists as a connection, also for model serving.

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
