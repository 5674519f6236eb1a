"""The rules about keys in secret stores: a team reads only its own part of a store that several teams use.

External Secrets has no such limit. `conditions` of a ClusterSecretStore select namespaces, and an ExternalSecret of
such a namespace can read every key of the store (external-secrets v1.3.2 deploy/crds/bundle.yaml).
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.mistakes import Mistake
from generator.config.model.fields import Steps
from generator.config.model.policies import Workloads
from generator.config.model.secrets import Remote, Secrets
from generator.config.model.tenants import Tenant
from generator.config.rules.rule import PartialPlatform, rule

_GROUP = ".external-secrets.io"


@rule
def keys_of_secrets(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report keys in a secret store outside the prefix of the team, also by `..`.

    Clients of a store remove `..` from a path (hashicorp/vault api/client.go NewRequest calls `path.Join`).
    """
    for index, tenant in platform.tenants.items():
        prefix = _prefix(tenant, platform.stand_in)
        for path, remote in _remotes(tenant.secrets):
            place = ("tenants", index, "secrets", *path, "key")
            if prefix and not remote.key.startswith(prefix):
                message = f"team `{tenant.name}` may read only keys that begin with `{prefix}`, but this key does not"
                yield Mistake(place, message, "write a key of the team, or change `secrets.prefix`")
            elif prefix and {".", ".."} & {*remote.key.split("/")}:
                message = f"`.` and `..` can lead out of `{prefix}`, to keys of another team"
                yield Mistake(place, message, "write the key without `.` and `..`")


@rule
def prefixes_of_teams(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a prefix with which a team can read the keys of another team in the same ClusterSecretStore."""
    teams = [(index, tenant) for index, tenant in platform.tenants.items() if tenant.secrets.cluster_store]
    for number, (index, tenant) in enumerate(teams):
        for _, other in teams[:number]:
            one, two = _prefix(tenant, platform.stand_in), _prefix(other, platform.stand_in)
            is_shared = tenant.secrets.cluster_store in {other.secrets.cluster_store} - {platform.stand_in}
            if is_shared and one and two and (one.startswith(two) or two.startswith(one)):
                message = (
                    f"team `{tenant.name}` may read keys that begin with `{one}`, and team `{other.name}` keys that"
                    f" begin with `{two}`, so one team can read keys of the other"
                )
                fix = "set `prefix` of each team to the beginning of its own keys"
                yield Mistake(("tenants", index, "secrets", "prefix"), message, fix)


@rule
def writable_external_secrets(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report kinds of External Secrets in `workloads.kinds`, with which members of a team read all keys of a store.

    External Secrets adds these kinds to the ClusterRoles `edit` and `admin` of Kubernetes (external-secrets v1.3.2
    deploy/charts/external-secrets/templates/rbac.yaml).
    """
    if platform.knows("policies.workloads"):
        yield from _writable(platform.policies.workloads, ("policies",))
    for index, tenant in platform.tenants.items():
        yield from _writable(tenant.workloads, ("tenants", index))


def _writable(workloads: Workloads, path: Steps) -> Iterator[Mistake]:
    for number, kind in enumerate(workloads.kinds):
        if kind.endswith(_GROUP):
            message = f"with {kind}, members of the team can read secrets of other teams from the store"
            fix = "remove this entry, and declare the Secrets of a team in `tenants[].secrets`"
            yield Mistake((*path, "workloads", "kinds", number), message, fix)


def _prefix(tenant: Tenant, stand_in: str | None) -> str:
    """Return the beginning of the keys that a team may read; empty if there is none.

    A team with a store of its own needs no prefix, and a team with an invalid name has no known default.

    Args:
        tenant: the team.
        stand_in: the placeholder for an invalid name; None if all names are valid.
    """
    default = f"{tenant.name}/" if tenant.secrets.cluster_store and tenant.name != stand_in else ""
    return tenant.secrets.prefix or default


def _remotes(secrets: Secrets) -> Iterator[tuple[Steps, Remote]]:
    """Yield the path of each secret value in the section, and its place in the store."""
    for number, secret in enumerate(secrets.external):
        for key, remote in secret.keys.items():
            yield ("external", number, "keys", key), remote
    for number, connection in enumerate(secrets.connections):
        yield ("connections", number, "accessKey"), connection.access_key
        yield ("connections", number, "secretKey"), connection.secret_key
    for number, pull in enumerate(secrets.pull_secrets):
        yield ("pullSecrets", number, "dockerConfig"), pull.docker_config
