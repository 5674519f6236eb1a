"""`tenants[].secrets`: the Secrets of a tenant, which External Secrets fetches from a secret store.

A release holds no value of a secret. Objects: external-secrets.io/v1 of External Secrets v1.3.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator.config.model.fields import Count, Duration, Name, Section, Text, between, invalid, require_unique
from generator.documents.messages import format_value
from generator.facts.names import REGISTRY_LOGIN, SERVICE_ACCOUNT

# Keys of a Secret: apimachinery v0.34.2 pkg/util/validation/validation.go IsConfigMapKey.
_KEY = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/?")
_REGION = re.compile(r"[a-z0-9-]{1,63}")


def _is_secret_name(value: str) -> str:
    if value.endswith("-mpi-ssh-auth"):
        raise invalid(f"`{value}` is reserved for the ssh keys of jobs", "choose another name")
    if value == REGISTRY_LOGIN:
        raise invalid(f"`{value}` is reserved for the registry of OpenShift", "choose another name")
    return value


def _is_key(value: str) -> str:
    if not _KEY.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a key of a Secret", "use letters, digits, `-`, `_` and `.`")
    return value


def _is_bucket(value: str) -> str:
    if not _BUCKET.fullmatch(value):
        fix = "use 3 to 63 lower-case letters, digits, hyphens and dots"
        raise invalid(f"{format_value(value)} is not the name of a bucket", fix)
    return value


def _is_endpoint(value: str) -> str:
    if not _ENDPOINT.fullmatch(value):
        raise invalid(f"{format_value(value)} is not an endpoint", "write it like https://s3.example.com")
    return value


def _is_region(value: str) -> str:
    if not _REGION.fullmatch(value):
        raise invalid(f"{format_value(value)} is not a region", "write it like eu-central-1")
    return value


SecretName = Annotated[Name, AfterValidator(_is_secret_name)]
SecretKey = Annotated[str, Field(strict=True), AfterValidator(_is_key)]


class Remote(Section):
    """The place of a value in a secret store."""

    key: Text
    """The name in the store: a path in Vault, the name of a secret in AWS."""
    property: Text | None = None
    """The property of the secret. Default: the whole secret."""
    version: Text | None = None
    """The version of the secret. Default: the latest."""


class StoreAccount(Section):
    """The ServiceAccount that logs in to the store, in each namespace of the team."""

    name: Name
    """Its name, which the provider also refers to, such as in `serviceAccountRef`."""
    annotations: dict[Text, Annotated[str, Field(strict=True)]] = Field(default={})
    """Annotations, such as `eks.amazonaws.com/role-arn`."""

    @field_validator("name")
    @classmethod
    def _is_not_of_jobs(cls, value: str) -> str:
        if value in (SERVICE_ACCOUNT, "default"):
            message = f"`{value}` is the ServiceAccount of pods in the namespace"
            raise invalid(message, "choose another name")
        return value

    @field_validator("annotations")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))


class Store(Section):
    """A SecretStore named `team` in each of the team's namespaces."""

    provider: dict[Text, dict[str, Any]]
    """The `provider` of the SecretStore, such as `vault: {server: …}`. It refers to Secrets and ServiceAccounts by
    name, and holds no credential."""
    refresh_interval: Count | None = None
    """The interval between validations of the store, in seconds. Default: that of External Secrets."""
    service_account: StoreAccount | None = None
    """The ServiceAccount that mpigen creates for the login. Default: none."""

    @field_validator("provider")
    @classmethod
    def _keeps_secrets(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        if len(value) != 1:
            message = f"{len(value)} providers" if value else "no provider"
            raise invalid(message, "name the provider that keeps the secrets, such as `vault`")
        if "fake" in value:
            raise invalid("`fake` holds the secret values themselves", "name a secret store")
        if path := next(_foreign_references(value), None):
            message = f"`{path}`: a SecretStore cannot refer to another namespace"
            raise invalid(message, "remove `namespace`")
        return {name: _in_order(inner) for name, inner in value.items()}


def _in_order(value: Any) -> Any:
    """Sort all keys, so that equal stores have equal YAML."""
    if isinstance(value, dict):
        return {key: _in_order(inner) for key, inner in sorted(value.items())}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _foreign_references(value: object, path: str = "") -> Iterator[str]:
    """Yield references into other namespaces.

    Source: external-secrets v1.3.2 runtime/esutils/utils.go `ValidateSecretSelector`.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            place = f"{path}.{key}".lstrip(".")
            if key.endswith("Ref") and isinstance(inner, dict) and "namespace" in inner:
                yield f"{place}.namespace"
            yield from _foreign_references(inner, place)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _foreign_references(inner, f"{path}[{number}]")


class Fetched(Section):
    """A Secret that External Secrets creates."""

    name: SecretName
    """The name of the Secret."""


class ExternalSecret(Fetched):
    """A Secret that is fetched key by key."""

    keys: dict[SecretKey, Remote] = Field(min_length=1)
    """Key of the Secret → the place of its value."""

    @field_validator("keys")
    @classmethod
    def _in_order(cls, value: dict[str, Remote]) -> dict[str, Remote]:
        return dict(sorted(value.items()))


class Connection(Fetched):
    """An S3 bucket: a Secret with `AWS_*` keys, which OpenShift AI shows as a connection."""

    display_name: Text | None = None
    """The name that OpenShift AI shows. Default: the name of the Secret."""
    endpoint: Annotated[str, Field(strict=True), AfterValidator(_is_endpoint)]
    """The URL of the object store, such as `https://s3.example.com`. Add it to the team's `egress`."""
    bucket: Annotated[str, Field(strict=True), AfterValidator(_is_bucket)]
    """The bucket."""
    region: Annotated[str, Field(strict=True), AfterValidator(_is_region)] = "us-east-1"
    """The region, which clients require even if the store has none."""
    access_key: Remote
    """The place of `AWS_ACCESS_KEY_ID`."""
    secret_key: Remote
    """The place of `AWS_SECRET_ACCESS_KEY`."""


class PullSecret(Fetched):
    """Credentials of image registries, with which the team's MPI pods pull images."""

    docker_config: Remote
    """The place of a Docker `config.json` with `auths`."""


class Secrets(Section):
    """Secrets that External Secrets fetches into each of the team's namespaces."""

    store: Store | None = None
    """The team's own SecretStore."""
    cluster_store: Name | None = None
    """An existing ClusterSecretStore instead. Its `conditions` should admit only namespaces that may read everything in
    it."""
    refresh_interval: Annotated[Duration, between("1m", "8760h")] = "1h"
    """The interval between fetches of the values."""
    external: tuple[ExternalSecret, ...] = ()
    """Secrets of any kind."""
    connections: tuple[Connection, ...] = ()
    """S3 buckets."""
    pull_secrets: tuple[PullSecret, ...] = ()
    """Credentials of image registries."""

    @field_validator("external", "connections", "pull_secrets")
    @classmethod
    def _named_once(cls, value: tuple[Fetched, ...]) -> tuple[Fetched, ...]:
        require_unique((entry.name for entry in value), "give each entry its own name")
        return tuple(sorted(value, key=lambda entry: entry.name))

    @property
    def _fetched(self) -> tuple[Fetched, ...]:
        return (*self.external, *self.connections, *self.pull_secrets)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        fetched = [entry.name for entry in self._fetched]
        require_unique(fetched, "give each Secret its own name")
        if self.store and self.cluster_store:
            raise invalid("both `store` and `clusterStore`", "write `store` or `clusterStore`")
        if fetched and not (self.store or self.cluster_store):
            raise invalid("these secrets have no store", "write `store` or `clusterStore`")
        return self
