"""A file of test cases for admission policies: requests, and their expected outcome."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from generator.config.model.fields import Section, Text, invalid
from generator.documents.messages import format_value
from generator.manifests import Body
from generator.objects.patch import parse_path


def _is_path(text: str) -> str:
    try:
        parse_path(text)
    except ValueError:
        fix = 'write it like metadata.labels["kueue.x-k8s.io/queue-name"] or spec.containers[0].image'
        raise invalid(f"{format_value(text)} is not a path", fix) from None
    return text


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise invalid(
            f"{format_value(text)} is not a regular expression: {error}", "escape special characters"
        ) from None
    return text


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _named(value: object) -> object:
    return {"user": value} if isinstance(value, str) else value


def _nothing(value: object) -> object:
    return {} if value == "accepted" else value


FieldPath = Annotated[str, Field(strict=True), AfterValidator(_is_path)]
Pattern = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_pattern)]
Names = Annotated[tuple[Text, ...], BeforeValidator(_one_or_more), Field(min_length=1)]


class Subject(Section):
    """The user of a request. `as: ada` sets only the name."""

    user: Text
    """The user name, such as `ada` or `system:serviceaccount:kueue-system:kueue-controller-manager`."""
    groups: tuple[Text, ...] = ()
    """The groups of the user's token. The API server adds `system:authenticated`, and the groups of a ServiceAccount if
    the list is empty."""
    uid: str = ""
    """The UID of the user."""
    extra: dict[str, tuple[Text, ...]] = Field(default={})
    """The extra fields of the token."""


class Variant(Section):
    """An object: one of `bases`, of a file, or inline, with changes."""

    base: Text | None = None
    """The name of one of the `bases` of this file."""
    file: Text | None = None
    """A file with one object, relative to this file."""
    body: Body | None = Field(None, alias="object")
    """The object itself."""
    set: dict[FieldPath, Any] = Field(default={})
    """FieldPath → new value: `spec.suspend: false`. null removes the value."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(source is not None for source in (self.base, self.file, self.body)) != 1:
            raise invalid("an object needs exactly one of `base`, `file` and `object`", "write one of them")
        return self


def _variant(value: object) -> object:
    """Wrap a mapping with an `apiVersion` as an inline object."""
    return {"object": value} if isinstance(value, dict) and "apiVersion" in value else value


Object = Annotated[Variant, BeforeValidator(_variant)]


class Update(Section):
    """An existing object and its update."""

    from_: Object = Field(alias="from")
    """The existing object."""
    to: Object | None = None
    """The new object."""
    set: dict[FieldPath, Any] = Field(default={})
    """Changes instead of a new object: path → new value."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.to is not None) is bool(self.set):
            raise invalid("an update needs either `to` or `set`", "write one of them")
        return self


class Patch(Section):
    """An existing object and a JSON merge patch."""

    of: Object
    """The existing object."""
    with_: Body = Field(alias="with")
    """The patch: null removes a value."""


class Connect(Section):
    """A connection to a subresource, such as `kubectl exec`."""

    to: Object
    """The object, such as a Pod."""
    options: Body = Field(default={})
    """The body of the request, such as an object of the kind PodExecOptions."""


class Expect(Section):
    """The expected outcome of a request. `expect: accepted` expects that no policy rejects it."""

    rejected: Names | None = None
    """The policies that are violated, whether their bindings deny, warn or audit."""
    denied: Names | None = None
    """The policies that deny the request."""
    warned: Names | None = None
    """The policies that warn about the request."""
    audited: Names | None = None
    """The policies that write the request to the audit log."""
    message: Pattern | None = None
    """A regular expression that matches the message of a policy."""
    error: Annotated[bool, Field(strict=True)] = False
    """If true, the policies are violated because their evaluation fails. By default this is no violation."""

    @model_validator(mode="after")
    def _is_once(self) -> Self:
        done = [policies for policies in (self.denied, self.warned, self.audited) if policies]
        if self.rejected and done:
            raise invalid(
                "`rejected` cannot be combined with `denied`, `warned` and `audited`",
                "write either `rejected` or the others",
            )
        if (self.message or self.error) and not (self.rejected or done):
            raise invalid("`message` and `error` need a rejected request", "add `rejected`, or remove this field")
        return self


class PolicyCase(Section):
    """A request and its expected outcome."""

    name: Text
    """A unique name of the case."""
    requester: Annotated[Subject, BeforeValidator(_named)] | None = Field(None, alias="as")
    """The user of the request. Default: that of the file."""
    namespace: Text | None = None
    """The namespace. Default: that of the object, or of the file."""
    create: Object | None = None
    """An object that the request creates."""
    update: Update | None = None
    """An object that the request updates."""
    patch: Patch | None = None
    """An object that the request patches."""
    status: Update | None = None
    """An object whose status the request updates."""
    delete: Object | None = None
    """An object that the request deletes."""
    connect: Connect | None = None
    """An object that the request connects to."""
    subresource: Text | None = None
    """The subresource, such as `scale` or `exec`."""
    of: Object | None = None
    """The object of the subresource if the body has another kind, such as the Deployment of a Scale."""
    dry_run: Annotated[bool, Field(strict=True)] = False
    """If true, the request is a dry run."""
    expect: Annotated[Expect, BeforeValidator(_nothing)]
    """`accepted`, or the policies that are violated."""

    @model_validator(mode="after")
    def _asks_once(self) -> Self:
        operations = [operation for operation in OPERATIONS if getattr(self, operation) is not None]
        if len(operations) != 1:
            listed = " and ".join(f"`{operation}`" for operation in operations) or "nothing"
            raise invalid(
                f"a case needs exactly one operation, but this case has {listed}",
                f"write one of {', '.join(OPERATIONS)}",
            )
        return self


OPERATIONS = ("create", "update", "patch", "status", "delete", "connect")
"""The operations of a case."""


class CaseFile(Section):
    """A file of policy cases."""

    requester: Annotated[Subject, BeforeValidator(_named)] | None = Field(None, alias="as")
    """The user of cases that name none. Default: `somebody`, without groups."""
    namespace: Text | None = None
    """The namespace of cases and objects that name none."""
    bases: dict[str, Object] = Field(default={})
    """Objects that cases start from: name → object."""
    given: tuple[Body, ...] = ()
    """Existing objects besides the files: Namespaces, parameters, and CRDs."""
    cases: tuple[PolicyCase, ...] = Field(min_length=1)
    """Requests and their expected outcome."""
