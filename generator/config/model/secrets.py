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
        raise invalid(f"`{value}` is a name of Trainer's, for the key of a job", "choose another name")
    if value == REGISTRY_LOGIN:
        raise invalid(f"`{value}` is OpenShift's, for its own registry", "choose another name")
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
    """Where a value is kept."""

    key: Text
    """What the store calls it: a path in Vault, the name of a secret of AWS."""
    property: Text | None = None
    """The part of it that is meant. Default: all of it."""
    version: Text | None = None
    """Which version of it. Default: the latest."""


class StoreAccount(Section):
    """The ServiceAccount by which the store knows the team, made in each of its namespaces."""

    name: Name
    """Its name, which the provider names as well, such as in `serviceAccountRef`."""
    annotations: dict[Text, Annotated[str, Field(strict=True)]] = Field(default={})
    """Such as `eks.amazonaws.com/role-arn`."""

    @field_validator("name")
    @classmethod
    def _is_not_of_jobs(cls, value: str) -> str:
        if value in (SERVICE_ACCOUNT, "default"):
            what = f"`{value}` is whom pods of the namespace run as"
            raise invalid(what, "give the store an account of its own")
        return value

    @field_validator("annotations")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))


class Store(Section):
    """A SecretStore, `team`, in each of the team's namespaces."""

    provider: dict[Text, dict[str, Any]]
    """Who keeps the secrets and how to log in, as in the `provider` of a SecretStore: `vault: {server: …}`. It refers
    to Secrets and ServiceAccounts by name, and holds no credential."""
    refresh_interval: Count | None = None
    """How often it is tried, in seconds. Default: as External Secrets is installed."""
    service_account: StoreAccount | None = None
    """Who logs in there. Default: nobody is made for that."""

    @field_validator("provider")
    @classmethod
    def _keeps_secrets(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        if len(value) != 1:
            what = f"{len(value)} providers" if value else "no provider"
            raise invalid(what, "name the one that keeps the secrets, such as `vault`")
        if "fake" in value:
            raise invalid("`fake` holds the values themselves, for all to read", "name a store that keeps them")
        if path := next(_elsewhere(value), None):
            what = f"`{path}`: a SecretStore reaches nothing outside its own namespace"
            raise invalid(what, "leave `namespace` out")
        return {name: _in_order(inner) for name, inner in value.items()}


def _in_order(value: Any) -> Any:
    """The same with all keys in order, so that equal stores are written alike."""
    if isinstance(value, dict):
        return {key: _in_order(inner) for key, inner in sorted(value.items())}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _elsewhere(value: object, path: str = "") -> Iterator[str]:
    """References into other namespaces (external-secrets v1.3.2 runtime/esutils/utils.go `ValidateSecretSelector`)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            place = f"{path}.{key}".lstrip(".")
            if key.endswith("Ref") and isinstance(inner, dict) and "namespace" in inner:
                yield f"{place}.namespace"
            yield from _elsewhere(inner, place)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _elsewhere(inner, f"{path}[{number}]")


class Fetched(Section):
    """What becomes a Secret of the team."""

    name: SecretName
    """The Secret's name."""


class ExternalSecret(Fetched):
    """A Secret of the team, fetched key by key."""

    keys: dict[SecretKey, Remote] = Field(min_length=1)
    """Key of the Secret → where its value is kept."""

    @field_validator("keys")
    @classmethod
    def _in_order(cls, value: dict[str, Remote]) -> dict[str, Remote]:
        return dict(sorted(value.items()))


class Connection(Fetched):
    """A bucket of an S3 object store: a Secret with `AWS_*` keys, which OpenShift AI shows as a connection."""

    display_name: Text | None = None
    """What people see. Default: its name."""
    endpoint: Annotated[str, Field(strict=True), AfterValidator(_is_endpoint)]
    """Where the store answers, such as `https://s3.example.com`. Let the team reach it: `egress`."""
    bucket: Annotated[str, Field(strict=True), AfterValidator(_is_bucket)]
    """The bucket."""
    region: Annotated[str, Field(strict=True), AfterValidator(_is_region)] = "us-east-1"
    """Its region, which clients want even where the store has none."""
    access_key: Remote
    """Where `AWS_ACCESS_KEY_ID` is kept."""
    secret_key: Remote
    """Where `AWS_SECRET_ACCESS_KEY` is kept."""


class PullSecret(Fetched):
    """Logins to image registries, which the team's MPI pods pull with."""

    docker_config: Remote
    """Where a `config.json` of Docker is kept, with `auths`."""


class Secrets(Section):
    """What External Secrets fetches for the team, in each of its namespaces."""

    store: Store | None = None
    """The team's own store."""
    cluster_store: Name | None = None
    """Instead, a ClusterSecretStore that is there. Its `conditions` should let in no namespaces but those that may read
    all that it can."""
    refresh_interval: Annotated[Duration, between("1m", "8760h")] = "1h"
    """How often values are fetched again."""
    external: tuple[ExternalSecret, ...] = ()
    """Secrets of any kind."""
    connections: tuple[Connection, ...] = ()
    """Object storage."""
    pull_secrets: tuple[PullSecret, ...] = ()
    """Logins to image registries."""

    @field_validator("external", "connections", "pull_secrets")
    @classmethod
    def _named_once(cls, value: tuple[Fetched, ...]) -> tuple[Fetched, ...]:
        require_unique((entry.name for entry in value), "give each its own name")
        return tuple(sorted(value, key=lambda entry: entry.name))

    @property
    def _fetched(self) -> tuple[Fetched, ...]:
        return (*self.external, *self.connections, *self.pull_secrets)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        fetched = [entry.name for entry in self._fetched]
        require_unique(fetched, "each becomes a Secret: give each its own name")
        if self.store and self.cluster_store:
            raise invalid("both a store of its own and one of the cluster", "write `store` or `clusterStore`")
        if fetched and not (self.store or self.cluster_store):
            raise invalid("nobody keeps these secrets", "write `store` or `clusterStore`")
        return self
