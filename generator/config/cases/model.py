"""A file of test cases for admission policies: requests, and their expected outcome."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from generator.config.model.fields import Section, Text, invalid
from generator.documents.messages import format_value
from generator.objects.patch import parse_path

Body = dict[str, Any]


def _is_path(text: str) -> str:
    try:
        parse_path(text)
    except ValueError:
        fix = 'write it like metadata.labels["kueue.x-k8s.io/queue-name"] or spec.containers[0].image'
        raise invalid(f"{format_value(text)} is no path", fix) from None
    return text


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise invalid(
            f"{format_value(text)} is no regular expression: {error}", "escape what stands for itself"
        ) from None
    return text


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _named(value: object) -> object:
    return {"user": value} if isinstance(value, str) else value


def _nothing(value: object) -> object:
    return {} if value == "accepted" else value


Path = Annotated[str, Field(strict=True), AfterValidator(_is_path)]
Pattern = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_pattern)]
Names = Annotated[tuple[Text, ...], BeforeValidator(_one_or_more), Field(min_length=1)]


class Who(Section):
    """Who asks. `as: ada` says no more than the name."""

    user: Text
    """The name, such as `ada` or `system:serviceaccount:kueue-system:kueue-controller-manager`."""
    groups: tuple[Text, ...] = ()
    """The groups that a token gives. Those that the API server adds need not be written: `system:authenticated`, and
    for a service account, if there are no others, those of its namespace."""
    uid: str = ""
    """Of the account."""
    extra: dict[str, tuple[Text, ...]] = Field(default={})
    """What else the token says."""


class Variant(Section):
    """An object: one of `bases`, of a file, or written here, and what is other about it."""

    base: Text | None = None
    """One of the `bases` of this file."""
    file: Text | None = None
    """A file with one object, beside this one."""
    body: Body | None = Field(None, alias="object")
    """The object itself."""
    set: dict[Path, Any] = Field(default={})
    """Path → what stands there instead: `spec.suspend: false`. null takes away what is there."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(each is not None for each in (self.base, self.file, self.body)) != 1:
            raise invalid("an object comes from one place", "write one of `base`, `file`, or the object itself")
        return self


def _variant(value: object) -> object:
    """An object itself has an `apiVersion`."""
    return {"object": value} if isinstance(value, dict) and "apiVersion" in value else value


Object = Annotated[Variant, BeforeValidator(_variant)]


class Update(Section):
    """An object that is there, and what somebody makes of it."""

    from_: Object = Field(alias="from")
    """What is there."""
    to: Object | None = None
    """What is sent instead."""
    set: dict[Path, Any] = Field(default={})
    """Or what is other about it: path → what stands there instead."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.to is not None) is bool(self.set):
            raise invalid("an update says once what is sent", "write either `to` or `set`")
        return self


class Patch(Section):
    """An object that is there, and a JSON merge patch."""

    of: Object
    """What is there."""
    with_: Body = Field(alias="with")
    """The patch: null takes away what is there."""


class Connect(Section):
    """A connection to a subresource, such as `kubectl exec`."""

    to: Object
    """The object, such as a Pod."""
    options: Body = Field(default={})
    """What is sent, such as an object of the kind PodExecOptions."""


class Expect(Section):
    """What comes of a request. `expect: accepted` says that nobody has anything against it."""

    rejected: Names | None = None
    """The policies that are broken, whether their bindings deny, warn or audit."""
    denied: Names | None = None
    """The policies that refuse it."""
    warned: Names | None = None
    """The policies that warn about it."""
    audited: Names | None = None
    """The policies that write it into the audit log."""
    message: Pattern | None = None
    """A regular expression that is found in what is said then."""
    error: Annotated[bool, Field(strict=True)] = False
    """Whether they are broken because they cannot be evaluated. Otherwise that is no verdict of theirs."""

    @model_validator(mode="after")
    def _is_once(self) -> Self:
        done = [each for each in (self.denied, self.warned, self.audited) if each]
        if self.rejected and done:
            raise invalid(
                "`rejected` says what `denied`, `warned` and `audited` say more exactly", "write one of the two"
            )
        if (self.message or self.error) and not (self.rejected or done):
            raise invalid("nothing is said of a request that is accepted", "add `rejected`, or remove the field")
        return self


class PolicyCase(Section):
    """One request, and what is expected of it."""

    name: Text
    """Tells it from the others."""
    who: Annotated[Who, BeforeValidator(_named)] | None = Field(None, alias="as")
    """Who asks. Default: that of the file."""
    namespace: Text | None = None
    """Where. Default: that of the object, or of the file."""
    create: Object | None = None
    """An object that somebody creates."""
    update: Update | None = None
    """An object that somebody changes."""
    patch: Patch | None = None
    """An object that somebody patches."""
    status: Update | None = None
    """An object whose status somebody changes."""
    delete: Object | None = None
    """An object that somebody deletes."""
    connect: Connect | None = None
    """An object that somebody connects to."""
    subresource: Text | None = None
    """Which part of the object it is about, such as `scale` or `exec`."""
    of: Object | None = None
    """Whose subresource it is, where another kind is sent: the Deployment of a Scale."""
    dry_run: Annotated[bool, Field(strict=True)] = False
    """Whether nothing is to be kept."""
    expect: Annotated[Expect, BeforeValidator(_nothing)]
    """`accepted`, or which policies have something against it."""

    @model_validator(mode="after")
    def _asks_once(self) -> Self:
        found = [each for each in OPERATIONS if getattr(self, each) is not None]
        if len(found) != 1:
            said = " and ".join(f"`{each}`" for each in found) or "nothing"
            raise invalid(
                f"a case asks for one thing, and this one for {said}", f"write one of {', '.join(OPERATIONS)}"
            )
        return self


OPERATIONS = ("create", "update", "patch", "status", "delete", "connect")
"""What a case can ask for."""


class CaseFile(Section):
    """A file of cases."""

    who: Annotated[Who, BeforeValidator(_named)] | None = Field(None, alias="as")
    """Who asks where a case does not say. Default: `somebody`, without groups."""
    namespace: Text | None = None
    """Where, if neither a case nor its object says."""
    bases: dict[str, Object] = Field(default={})
    """Objects from which cases start: name → object."""
    given: tuple[Body, ...] = ()
    """What is in the cluster beside the files: Namespaces, parameters, and what defines their kinds."""
    cases: tuple[PolicyCase, ...] = Field(min_length=1)
    """Who asks for what, and what comes of it."""
