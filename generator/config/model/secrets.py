"""`tenants[].secrets`: the Secrets of a tenant, which External Secrets fetches from a secret store.

A release holds no value of a secret. Objects: external-secrets.io/v1 of External Secrets v1.3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator.config.model.fields import (
    Count,
    Duration,
    MappingOf,
    Name,
    NamedOf,
    Section,
    String,
    Text,
    between,
    invalid,
    matching,
    require_unique,
)
from generator.facts.names import REGISTRY_LOGIN, SERVICE_ACCOUNT

# Keys of a Secret: apimachinery v0.34.2 pkg/util/validation/validation.go IsConfigMapKey.
_KEY = r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}"


def _is_free(value: str) -> str:
    if value.endswith("-mpi-ssh-auth"):
        raise invalid(f"`{value}` is reserved for the ssh keys of jobs", "choose another name")
    if value == REGISTRY_LOGIN:
        raise invalid(f"`{value}` is reserved for the registry of OpenShift", "choose another name")
    return value


SecretName = Annotated[Name, AfterValidator(_is_free)]
SecretKey = Annotated[String, matching(_KEY, "a key of a Secret", "use letters, digits, `-`, `_` and `.`")]


class Remote(Section):
    """The place of a value in a secret store."""

    key: Text
    """The name of the secret in the store: a path in Vault, such as `teams/cv/s3`, or the name of a secret in AWS."""
    property: Text | None = None
    """The property of the secret, such as `password`. Default: the whole secret."""
    version: Text | None = None
    """The version of the secret. Default: the latest."""


class StoreAccount(Section):
    """The ServiceAccount that logs in to the store, in each namespace of the team."""

    name: Name
    """The name of the ServiceAccount. `provider` also refers to it, for example in `serviceAccountRef`."""
    annotations: MappingOf[Text, String] = Field(default={})
    """The annotations of the ServiceAccount, such as `eks.amazonaws.com/role-arn`."""

    @field_validator("name")
    @classmethod
    def _is_not_of_jobs(cls, value: str) -> str:
        if value in (SERVICE_ACCOUNT, "default"):
            raise invalid(
                f"pods run as the ServiceAccount `{value}`, so they could log in to the store", "choose another name"
            )
        return value


class Store(Section):
    """A SecretStore named `team` in each of the team's namespaces."""

    provider: dict[Text, dict[str, Any]]
    """The `provider` of the SecretStore, such as `vault: {server: …}`. It refers to Secrets and ServiceAccounts by
    name, and holds no credentials."""
    refresh_interval: Count | None = None
    """The number of seconds between validations of the store. Default: the interval of External Secrets."""
    service_account: StoreAccount | None = None
    """The ServiceAccount that mpigen creates for the login. Default: none."""

    @field_validator("provider")
    @classmethod
    def _keeps_secrets(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        if len(value) != 1:
            message = f"a store needs exactly one provider, but `provider` has {len(value) or 'none'}"
            raise invalid(message, "name the provider that holds the secrets, such as `vault`")
        if "fake" in value:
            raise invalid("the provider `fake` holds secret values in this file", "name a provider such as `vault`")
        if path := next(_foreign_references(value), None):
            message = f"`{path}` is set, but a SecretStore can refer to its own namespace only"
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

    keys: MappingOf[SecretKey, Remote] = Field(min_length=1)
    """Key of the Secret → the place of its value, such as `token: {key: teams/cv/wandb}`."""


class Connection(Fetched):
    """A Secret for an S3 bucket, with `AWS_*` keys. OpenShift AI lists it as a connection."""

    display_name: Text | None = None
    """The name in the console of OpenShift AI. Default: the name of the Secret."""
    endpoint: Annotated[
        String,
        matching(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/?", "an endpoint", "write it like https://s3.example.com"),
    ]
    """The URL of the object store, such as `https://s3.example.com`. Add it to the team's `egress`."""
    bucket: Annotated[
        String,
        matching(
            r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
            "the name of a bucket",
            "use 3 to 63 lower-case letters, digits, hyphens and dots",
        ),
    ]
    """The name of the bucket, such as `team-cv-data`."""
    region: Annotated[String, matching(r"[a-z0-9-]{1,63}", "a region", "write it like eu-central-1")] = "us-east-1"
    """The region of the bucket. Clients require a region even if the store has none."""
    access_key: Remote
    """The place of `AWS_ACCESS_KEY_ID` in the secret store."""
    secret_key: Remote
    """The place of `AWS_SECRET_ACCESS_KEY` in the secret store."""


class PullSecret(Fetched):
    """Credentials of image registries. The team's MPI pods pull images with them."""

    docker_config: Remote
    """The place of a Docker `config.json` with `auths` in the secret store."""


class Secrets(Section):
    """The Secrets that External Secrets fetches into each of the team's namespaces."""

    store: Store | None = None
    """The team's own SecretStore. Default: none; then set `clusterStore`."""
    cluster_store: Name | None = None
    """The name of an existing ClusterSecretStore, instead of `store`. Its `conditions` should allow only namespaces
    that may read all of its secrets."""
    refresh_interval: Annotated[Duration, between("1m", "8760h")] = "1h"
    """The time between two fetches of the values, such as `15m`."""
    external: NamedOf[ExternalSecret] = ()
    """Secrets with keys of your choice."""
    connections: NamedOf[Connection] = ()
    """Secrets for S3 buckets."""
    pull_secrets: NamedOf[PullSecret] = ()
    """Secrets with credentials of image registries."""

    @property
    def _fetched(self) -> tuple[Fetched, ...]:
        return (*self.external, *self.connections, *self.pull_secrets)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        fetched = [entry.name for entry in self._fetched]
        require_unique(fetched, "give each Secret its own name")
        if self.store and self.cluster_store:
            raise invalid("`store` and `clusterStore` are both set", "remove one of the two")
        if fetched and not (self.store or self.cluster_store):
            raise invalid("these secrets have no store", "set either `store` or `clusterStore`")
        return self
