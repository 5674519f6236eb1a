"""`tenants[].secrets`: the Secrets of a tenant, which External Secrets fetches from a secret store.

A release holds no value of a secret. Objects: external-secrets.io/v1 of External Secrets v1.3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from generator.config.model.fields import (
    OF_KEY,
    Count,
    Duration,
    Fault,
    FrozenMapping,
    MappingOf,
    Name,
    NamedOf,
    Section,
    Steps,
    String,
    Text,
    between,
    invalid,
    matching,
    reject,
    sort_keys,
)
from generator.documents.messages import format_path, format_value
from generator.errors import suggest
from generator.facts.names import REGISTRY_LOGIN, SERVICE_ACCOUNT
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine, Violation

_STORE = {"apiVersion": "external-secrets.io/v1", "kind": "SecretStore", "metadata": {"name": "team"}}
# Keys of a Secret: apimachinery v0.34.2 pkg/util/validation/validation.go IsConfigMapKey.
_KEY = r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}"


def _is_free(value: str) -> str:
    if value.endswith("-mpi-ssh-auth"):
        raise invalid(f"`{value}` is reserved for the ssh keys of jobs", "choose another name")
    if value == REGISTRY_LOGIN:
        raise invalid(f"`{value}` is reserved for the registry of OpenShift", "choose another name")
    return value


SecretName = Annotated[Name, AfterValidator(_is_free)]
_KEY_FIX = "use at most 253 letters, digits, `-`, `_` and `.`, and do not begin with `..`"
SecretKey = Annotated[String, matching(_KEY, "a key of a Secret", _KEY_FIX)]


class Remote(Section):
    """The location of one value in the secret store."""

    key: Text
    """The name of the secret in the store: a path in Vault, such as `teams/cv/s3`, or the name of a secret in AWS."""
    property: Text | None = None
    """The property of this secret that holds the value, such as `password`. Default: the whole secret."""
    version: Text | None = None
    """The version of this secret in the store. Default: the latest version."""


class StoreAccount(Section):
    """The ServiceAccount in each namespace of the team with which External Secrets logs in to the secret store."""

    name: Name
    """The name of the ServiceAccount. `provider` also refers to it, for example in `serviceAccountRef`."""
    annotations: MappingOf[Text, String] = Field(default={}, validate_default=True)
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
    """The team's own SecretStore. mpigen writes it to each of the team's namespaces, with the name `team`."""

    provider: dict[Text, dict[str, object]]
    """The `spec.provider` of the SecretStore, such as `vault: {server: …}`, with the fields of its schema. The provider
    refers to Secrets and ServiceAccounts by name, and must hold no credentials."""
    refresh_interval: Count | None = None
    """The number of seconds after which External Secrets validates the store again. Default: the interval of External
    Secrets."""
    service_account: StoreAccount | None = None
    """The ServiceAccount for the login to the store, which mpigen writes. Default: none."""

    @field_validator("provider")
    @classmethod
    def _keeps_secrets(cls, value: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
        reject(_faults_of_provider(value))
        return FrozenMapping(
            {name: sort_keys({key: _frozen(part) for key, part in inner.items()}) for name, inner in value.items()}
        )


def _faults_of_provider(value: dict[str, dict[str, object]]) -> Iterator[Fault]:
    if len(value) != 1:
        message = f"a store needs exactly one provider, but `provider` has {len(value) or 'none'}"
        yield Fault(message, "name the provider that holds the secrets, such as `vault`")
    if "fake" in value:
        message = "the provider `fake` holds secret values in this file"
        yield Fault(message, "name a provider such as `vault`", ("fake", OF_KEY))
    try:
        violations = _engine().violations({**_STORE, "spec": {"provider": value}}) or ()
    except ValueError as error:  # in Python only
        yield Fault(f"`provider` is not JSON: {error}", "write strings, numbers, booleans, lists and mappings")
        return
    for violation in violations:
        if violation.keyword not in ("minProperties", "maxProperties"):
            yield _explain(violation, violation.path[2:])
    for path in _foreign_references(value):
        message = f"`{format_path(path)}` is set, but a SecretStore can refer to its own namespace only"
        yield Fault(message, "remove `namespace`: the store then uses its own namespace", path)


@cache
def _engine() -> Engine:
    return Engine(Catalog.bundled())


def _explain(violation: Violation, path: Steps) -> Fault:
    match violation.keyword:
        case "additionalProperties":
            name = str(path[-1])
            fix = suggest(name, violation.candidates) if violation.candidates else violation.fix
            return Fault(f"there is no field {format_value(name)} here", fix, (*path, OF_KEY))
        case "required":
            return Fault(violation.message, violation.fix, (*path, violation.expected))
    return Fault(violation.message, violation.fix, path)


def _frozen(value: object) -> object:
    """Freeze a value, and sort all keys, so that equal stores have equal YAML."""
    if isinstance(value, dict):
        return FrozenMapping({key: _frozen(inner) for key, inner in sorted(value.items())})
    return [_frozen(item) for item in value] if isinstance(value, list) else value


def _foreign_references(value: object, path: Steps = ()) -> Iterator[Steps]:
    """Yield the path of `namespace` in each reference that sets it: the namespace of the store is not known here.

    Source: external-secrets/runtime v1.3.2 esutils/utils.go `ValidateSecretSelector`.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.endswith("Ref") and isinstance(inner, dict) and "namespace" in inner:
                yield (*path, key, "namespace")
            yield from _foreign_references(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _foreign_references(inner, (*path, number))


class Fetched(Section):
    """A Secret that External Secrets creates in each of the team's namespaces."""

    name: SecretName
    """The name of the Secret."""


class ExternalSecret(Fetched):
    """A Secret with keys of your choice. External Secrets fetches each key from its own place in the store."""

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
    """The URL of the object store, such as `https://s3.example.com`. Also add the host or its network to the team's
    `egress`."""
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
    """The region of the bucket. S3 clients require a region even if the object store has none."""
    access_key: Remote
    """The place of `AWS_ACCESS_KEY_ID` in the secret store."""
    secret_key: Remote
    """The place of `AWS_SECRET_ACCESS_KEY` in the secret store."""


class PullSecret(Fetched):
    """Credentials of image registries. The team's MPI pods pull images with them."""

    docker_config: Remote
    """The place in the secret store of a Docker `config.json`, whose `auths` hold the credentials."""


class Secrets(Section):
    """The Secrets that External Secrets fetches into each of the team's namespaces."""

    store: Store | None = None
    """The team's own SecretStore. Default: none. A team with secrets needs either `store` or `clusterStore`."""
    cluster_store: Name | None = None
    """The name of an existing ClusterSecretStore, instead of `store`. `conditions` of this store should allow only
    namespaces that may read all secrets of the store."""
    prefix: Text | None = None
    """The beginning of every `key` of the team in the store, such as `teams/cv/`. mpigen rejects other keys. Teams with
    the same `clusterStore` need different prefixes, none of which begins with another. Default: with `clusterStore`,
    the name of the team and a slash. With `store`, none, because the login of the store limits what the team can
    read."""
    refresh_interval: Annotated[Duration, between("1m", "8760h")] = "1h"
    """The time after which External Secrets fetches the values again, such as `15m`."""
    external: NamedOf[ExternalSecret] = ()
    """Secrets with keys of your choice."""
    connections: NamedOf[Connection] = ()
    """Secrets for S3 buckets."""
    pull_secrets: NamedOf[PullSecret] = ()
    """Secrets with credentials of image registries."""

    def _contradictions(self) -> Iterator[Fault]:
        lists = {"external": self.external, "connections": self.connections, "pullSecrets": self.pull_secrets}
        names = [(entry.name, field) for field, entries in lists.items() for entry in entries]
        for index, (name, field) in enumerate(names):
            if name in (earlier for earlier, _ in names[:index]):
                yield Fault(f"{format_value(name)} occurs twice", "give each Secret its own name", (field,))
        stores = ("store", "clusterStore")
        if self.store and self.cluster_store:
            yield Fault("`store` and `clusterStore` are both set", "remove one of the two", ("clusterStore",))
        if names and not (self.store or self.cluster_store):
            yield Fault("these secrets have no store", "set either `store` or `clusterStore`", ("store",), stores)
