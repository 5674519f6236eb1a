"""Requests to the API server, as policies read them.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/cel/condition.go `CreateAdmissionRequest`; the fields without a value that
k8s.io/api v0.34.2 admission/v1/types.go leaves out are not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from generator.facts.names import METADATA_NAME
from generator.manifests import Body
from generator.objects.fields import mapping, string, string_map
from generator.simulate.access import Kind
from generator.simulate.policies.authorizer import about, asking

_SERVICE_ACCOUNT = "system:serviceaccount:"
_EPOCH = "1970-01-01T00:00:00Z"
_GENERATED = "xxxxx"
_METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The user of a request (`userInfo`).

    Attributes:
        user: the name, such as `ada` or `system:serviceaccount:team-cv:default`.
        groups: those that a token or certificate gives; those that the API server adds are added here.
        uid: of the account.
        extra: what else its token says.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def all_groups(self) -> tuple[str, ...]:
        """All groups, including those that the API server adds.

        pkg/endpoints/filters/impersonation.go `buildImpersonationRequests`; serviceaccount.MakeGroupNames
        """
        of_account: tuple[str, ...] = ()
        if self.user.startswith(_SERVICE_ACCOUNT) and not self.groups:
            namespace = self.user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
            of_account = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return tuple(dict.fromkeys((*self.groups, *of_account, "system:authenticated")))


@dataclass(frozen=True, slots=True)
class Request:
    """An admission request.

    Attributes:
        operation: CREATE, UPDATE, DELETE or CONNECT.
        kind: of the resource that is asked for.
        object: what is there afterwards; None for DELETE.
        old: what is there before; None for CREATE and CONNECT.
        person: who asks.
        namespace: where; empty outside of namespaces.
        name: of the object.
        subresource: such as `status`; empty for the object itself.
        is_dry_run: whether nothing is to be kept.
        options: of the operation.
    """

    operation: str
    kind: Kind
    object: Body | None
    old: Body | None
    person: UserInfo
    namespace: str
    name: str
    subresource: str = ""
    is_dry_run: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def object_kind(self) -> tuple[str, str, str]:
        """Group, version and kind of the sent object, which for a subresource often differ from its resource."""
        sent = self.object if self.operation == "CONNECT" or self.subresource else None
        if sent is None:
            return self.kind.group, self.kind.version, self.kind.kind
        group, _, version = string(sent.get("apiVersion")).rpartition("/")
        return group, version, string(sent.get("kind"))

    def variable(self) -> Body:
        """Return the variable `request`."""
        group, version, kind = self.object_kind
        kinds = {"group": group, "version": version, "kind": kind}
        resource = {"group": self.kind.group, "version": self.kind.version, "resource": self.kind.resource}
        person: Body = {"username": self.person.user, "uid": self.person.uid, "groups": list(self.person.all_groups)}
        person["extra"] = {key: list(values) for key, values in self.person.extra.items()}
        said: Body = {
            "kind": kinds,
            "resource": resource,
            "subResource": self.subresource,
            "requestKind": kinds,
            "requestResource": resource,
            "requestSubResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": {key: value for key, value in person.items() if value},
        }
        return {
            **{key: value for key, value in said.items() if value},
            "options": self._options(),
            "dryRun": self.is_dry_run,
        }

    def authorizer(self) -> Body:
        """Return the variable `authorizer`, with the user and the resource of the request."""
        who = asking(self.person.user, [*self.person.all_groups])
        resource = about(
            who,
            group=self.kind.group,
            resource=self.kind.resource,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name,
        )
        return {**who, "requestResource": resource}

    def _options(self) -> Body | None:
        if self.operation == "CONNECT":
            return None
        kind = {"kind": f"{self.operation.title()}Options", "apiVersion": "meta.k8s.io/v1"}
        return {**kind, **self.options}


def name_of(body: Body) -> str:
    """Return the name of an object, or a placeholder if the API server generates it."""
    metadata = mapping(body, _METADATA)
    generated = string(metadata.get("generateName"))
    return string(metadata.get("name")) or (f"{generated}{_GENERATED}" if generated else "")


def as_stored(body: Body, namespace: str, kind: Kind) -> Body:
    """Return an object as policies read it, with the metadata that the API server adds.

    pkg/registry/rest/create.go `BeforeCreate`; kubernetes v1.34.2 pkg/apis/core/v1/defaults.go `SetDefaults_Namespace`.
    Empty lists and mappings of `metadata` are not kept. Defaults of other fields are not filled in.
    """
    written = mapping(body, _METADATA)
    metadata = {key: value for key, value in written.items() if value not in ({}, [], None, "")}
    metadata["name"] = name_of(body)
    if kind.is_namespaced:
        metadata["namespace"] = namespace
    metadata = {"uid": "00000000-0000-0000-0000-000000000000", "creationTimestamp": _EPOCH, **metadata}
    if (kind.group, kind.kind) == ("", "Namespace"):
        metadata["labels"] = {**string_map(metadata.get("labels")), METADATA_NAME: metadata.get("name", "")}
    return {**body, _METADATA: metadata}
