"""Admission requests as ValidatingAdmissionPolicies read them.

Source: apiserver v0.34.2 pkg/admission/plugin/cel/condition.go CreateAdmissionRequest. Fields with
`omitempty` are absent if they are empty: api v0.34.2 admission/v1/types.go AdmissionRequest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from generator.facts.names import METADATA_NAME
from generator.manifests import Body
from generator.objects.fields import mapping, string, string_map
from generator.upstream.kubernetes.access import Kind
from generator.upstream.kubernetes.cel.authorizer import authorizer_of, resource_check

_SERVICE_ACCOUNT = "system:serviceaccount:"
_GENERATED = "xxxxx"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The user of a request (`userInfo`).

    Attributes:
        user: the name, such as `ada` or `system:serviceaccount:team-cv:default`.
        groups: the groups of the token or certificate, without the groups that the API server adds.
        uid: the UID of the account.
        extra: `userInfo.extra`: further attributes that the authenticator sets.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def all_groups(self) -> tuple[str, ...]:
        """The groups and `system:authenticated`.

        A ServiceAccount without `groups` also has the groups of every ServiceAccount.

        Source: apiserver v0.34.2 pkg/endpoints/filters/impersonation.go buildImpersonationRequests;
        serviceaccount.MakeGroupNames.
        """
        account_groups: tuple[str, ...] = ()
        if self.user.startswith(_SERVICE_ACCOUNT) and not self.groups:
            namespace = self.user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
            account_groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return tuple(dict.fromkeys((*self.groups, *account_groups, "system:authenticated")))


@dataclass(frozen=True, slots=True)
class Request:
    """An admission request.

    Attributes:
        operation: CREATE, UPDATE, DELETE or CONNECT.
        kind: the kind of the requested resource.
        object: the object after the operation; None for DELETE.
        old: the object before the operation; None for CREATE and CONNECT.
        namespace: the namespace; for a Namespace its own name; empty for other cluster-scoped resources.
        subresource: such as `status`; empty for the object itself.
        is_dry_run: True for a dry run, in which the API server stores nothing.
        options: fields of `request.options`, such as `propagationPolicy` of a DELETE.
        is_user_known: False if `user_info` is a stand-in: match conditions and messages read it, and the evaluation of
            a validation fails if its result depends on the user.
    """

    operation: str
    kind: Kind
    object: Body | None
    old: Body | None
    user_info: UserInfo
    namespace: str
    name: str
    subresource: str = ""
    is_dry_run: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    is_user_known: bool = True

    @property
    def is_for_namespace(self) -> bool:
        """True if the requested resource is a Namespace."""
        return (self.kind.group, self.kind.resource) == ("", "namespaces")

    def variable(self) -> Body:
        """Return the value of the CEL variable `request`."""
        group, version, kind = self._object_kind()
        kinds = {"group": group, "version": version, "kind": kind}
        resource = {"group": self.kind.group, "version": self.kind.version, "resource": self.kind.resource}
        user = self.user_info
        user_info: Body = {
            "username": user.user,
            "uid": user.uid,
            "groups": list(user.all_groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        fields: Body = {
            "kind": kinds,
            "resource": resource,
            "subResource": self.subresource,
            "requestKind": kinds,
            "requestResource": resource,
            "requestSubResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": {key: value for key, value in user_info.items() if value},
        }
        options = {"kind": f"{self.operation.title()}Options", "apiVersion": "meta.k8s.io/v1", **self.options}
        return {
            **{key: value for key, value in fields.items() if value},
            "options": None if self.operation == "CONNECT" else options,
            "dryRun": self.is_dry_run,
        }

    def _object_kind(self) -> tuple[str, str, str]:
        """Return (group, version, kind) of the sent object, which for a subresource can differ from `kind`."""
        sent = self.object if self.operation == "CONNECT" or self.subresource else None
        if sent is None:
            return self.kind.group, self.kind.version, self.kind.kind
        group, _, version = string(sent.get("apiVersion")).rpartition("/")
        return group, version, string(sent.get("kind"))

    def authorizer(self) -> Body:
        """Return the values of the CEL variables `authorizer` and `authorizer.requestResource`."""
        value = authorizer_of(self.user_info.user, [*self.user_info.all_groups])
        check = resource_check(
            value,
            group=self.kind.group,
            resource=self.kind.resource,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name,
        )
        return {**value, "requestResource": check}


def name_of(body: Body) -> str:
    """Return the name of an object. For `generateName`, return the prefix and a placeholder for the generated part."""
    metadata = mapping(body, "metadata")
    generated = string(metadata.get("generateName"))
    return string(metadata.get("name")) or (f"{generated}{_GENERATED}" if generated else "")


def as_stored(body: Body, namespace: str, kind: Kind) -> Body:
    """Return an object as policies read it, with metadata that the API server adds.

    Fields of `metadata` that are empty or null are dropped. All other fields are unchanged and get no defaults.

    Source: apiserver v0.34.2 pkg/registry/rest/create.go BeforeCreate; kubernetes v1.34.2 pkg/apis/core/v1/defaults.go
    SetDefaults_Namespace.
    """
    metadata: Body = {
        "uid": "00000000-0000-0000-0000-000000000000",
        "creationTimestamp": "1970-01-01T00:00:00Z",
        **{key: value for key, value in mapping(body, "metadata").items() if value not in ({}, [], None, "")},
        "name": name_of(body),
    }
    if kind.is_namespaced:
        metadata["namespace"] = namespace
    if (kind.group, kind.kind) == ("", "Namespace"):
        metadata["labels"] = {**string_map(metadata.get("labels")), METADATA_NAME: metadata["name"]}
    return {**body, "metadata": metadata}
