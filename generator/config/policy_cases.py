"""Load a file of policy cases: requests to the API server, and the expected decision of the admission policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from generator.config.mistakes import Mistake, mistakes_in, place_mistakes
from generator.config.model.fields import Section, Steps, Text, invalid
from generator.documents.files import read_file
from generator.documents.load import Document, load_file
from generator.documents.locate import locate_all
from generator.documents.messages import format_value
from generator.errors import ConfigError, InputError, Problem, suggest
from generator.manifests import Body, Manifest, read
from generator.objects.patch import merge_patch, parse_path, set_values
from generator.upstream.kubernetes.admission_policies.cases import ACTIONS, Case, Expected
from generator.upstream.kubernetes.admission_policies.request import UserInfo


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


def _named(value: object) -> object:
    return {"user": value} if isinstance(value, str) else value


FieldPath = Annotated[str, Field(strict=True), AfterValidator(_is_path)]
Pattern = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_pattern)]
Names = Annotated[
    tuple[Text, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    Field(min_length=1),
]


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
    """An object of a request: an entry of `bases`, the content of a file, or an inline object, each with changes."""

    base: Text | None = None
    """The name of an object in the `bases` of this file."""
    file: Text | None = None
    """The path of a file with one object, relative to this file."""
    body: Body | None = Field(None, alias="object")
    """The manifest of the object, inline."""
    set: dict[FieldPath, Any] = Field(default={})
    """Changes of the object: path → new value, such as `spec.suspend: false`. `null` removes the value."""

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
    """Changes of the existing object, instead of `to`: path → new value, such as `spec.suspend: false`."""

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
    """The patch. `null` removes a value."""


class Connect(Section):
    """A connection to a subresource, such as `kubectl exec`."""

    to: Object
    """The object, such as a Pod."""
    options: Body = Field(default={})
    """The body of the request, such as an object of the kind PodExecOptions."""


class DeleteOptions(Section):
    """The DeleteOptions of a deletion. Source: apimachinery v0.34.2 pkg/apis/meta/v1/types.go DeleteOptions."""

    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    """The fate of the objects that the deleted object owns."""
    orphan_dependents: Annotated[bool, Field(strict=True)] | None = None
    """The old form of `propagationPolicy`: true keeps the owned objects."""
    grace_period_seconds: Annotated[int, Field(strict=True, ge=0)] | None = None
    """The seconds until the object is removed."""


class Expect(Section):
    """The expected outcome of a request. `expect: accepted` expects that the request violates no policy."""

    rejected: Names | None = None
    """The names of the policies that the request violates. Their bindings may deny, warn or audit."""
    denied: Names | None = None
    """The names of the policies that deny the request."""
    warned: Names | None = None
    """The names of the policies that warn about the request."""
    audited: Names | None = None
    """The names of the policies that write the request to the audit log."""
    message: Pattern | None = None
    """A regular expression that matches at least one message of these policies."""
    error: Annotated[bool, Field(strict=True)] = False
    """If true, at least one policy rejects the request because its evaluation fails. If false, none does."""

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
    """The user of the request. Default: `as` of the file."""
    namespace: Text | None = None
    """The namespace of the request if its object sets none. Default: `namespace` of the file."""
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
    options: DeleteOptions | None = None
    """The options of a deletion, such as `propagationPolicy: Orphan`."""
    expect: Annotated[Expect, BeforeValidator(lambda value: {} if value == "accepted" else value)]
    """The expected outcome: `accepted`, or the policies that the request violates."""

    @model_validator(mode="after")
    def _asks_once(self) -> Self:
        operations = [operation for operation in OPERATIONS if getattr(self, operation) is not None]
        if len(operations) != 1:
            listed = " and ".join(f"`{operation}`" for operation in operations) or "nothing"
            raise invalid(
                f"a case needs exactly one operation, but this case has {listed}",
                f"write one of {', '.join(OPERATIONS)}",
            )
        if self.options and not self.delete:
            raise invalid("`options` belong to a deletion, and this case deletes nothing", "remove `options`")
        return self


OPERATIONS = ("create", "update", "patch", "status", "delete", "connect")
"""The operations of a case."""


class CaseFile(Section):
    """A file of policy cases."""

    requester: Annotated[Subject, BeforeValidator(_named)] | None = Field(None, alias="as")
    """The user of cases that do not set `as`. Default: the user `tester` without groups."""
    namespace: Text | None = None
    """The namespace of cases and objects without a namespace."""
    bases: dict[str, Object] = Field(default={})
    """Objects that cases refer to by name: name → object."""
    given: tuple[Body, ...] = ()
    """Further objects that exist in the cluster: Namespaces, parameters, and CRDs."""
    cases: tuple[PolicyCase, ...] = Field(min_length=1)
    """The requests, each with its expected outcome."""


def is_case_file(file: Path, text: bytes) -> bool:
    """Return True if a file holds policy cases: one document with `cases` and without `kind`.

    Raises:
        DocumentError: the file is not YAML; with file, line and column.
    """
    documents = [document.data for document in load_file(text, file)]
    return (
        len(documents) == 1
        and isinstance(documents[0], dict)
        and "cases" in documents[0]
        and not documents[0].keys() & {"kind"}
    )


def load_cases(file: Path, text: bytes) -> list[Case]:
    """Read a file of policy cases.

    Raises:
        ConfigError: with every problem of the file, each with its line.
        DocumentError: the file is not YAML; with file, line and column.
    """
    document = _document(file, text)
    try:
        case_file = CaseFile.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ConfigError(place_mistakes(mistakes_in(error, CaseFile), text, document, file)) from None
    return _Reader(file, case_file, text, document).cases()


def _document(file: Path, text: bytes) -> Document:
    documents = load_file(text, file)
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        raise ConfigError(
            (Problem("the file is not one document with policy cases", "write one `cases:` list", str(file), 1, 1),)
        )
    return documents[0]


class _InvalidCaseError(ValueError):
    """An invalid value of the file, with its path."""

    def __init__(self, path: Steps, message: str, fix: str) -> None:
        super().__init__(message)
        self.mistake = Mistake(path, message, fix)


class _Reader:
    """Converts a valid file into cases of the simulator."""

    def __init__(self, file: Path, case_file: CaseFile, text: bytes, document: Document) -> None:
        self.file, self.case_file, self.text, self.document = file, case_file, text, document
        self.given = tuple(Manifest(body, str(file)) for body in case_file.given)
        self.lines = locate_all(text, document.index, [("cases", index) for index in range(len(case_file.cases))])

    def cases(self) -> list[Case]:
        """Return the cases of the file.

        Raises:
            ConfigError: with every mistake of the cases.
        """
        made: list[Case] = []
        wrong: list[Mistake] = []
        for index, written in enumerate(self.case_file.cases):
            try:
                made.append(self._case(written, ("cases", index)))
            except _InvalidCaseError as error:
                wrong.append(error.mistake)
        names = [written.name for written in self.case_file.cases]
        wrong += [
            Mistake(("cases", index, "name"), f"{format_value(name)} occurs twice", "give each case its own name")
            for index, name in enumerate(names)
            if name in names[:index]
        ]
        if wrong:
            raise ConfigError(place_mistakes(wrong, self.text, self.document, self.file))
        return made

    def _case(self, written: PolicyCase, path: Steps) -> Case:
        operation, body, old = self._request(written, path)
        of = self._object(written.of, (*path, "of")) if written.of else None
        user = written.requester or self.case_file.requester or Subject(user="tester")
        expect = written.expect
        actions = {action: policies for action in ACTIONS if (policies := getattr(expect, action))}
        if written.connect:
            of = self._object(written.connect.to, (*path, "connect", "to"))
        return Case(
            name=written.name,
            file=str(self.file),
            line=self.lines[path].node[0],
            operation=operation,
            object=body,
            old=old,
            user_info=UserInfo(user.user, user.groups, user.uid, user.extra),
            expected=Expected(expect.rejected, actions, expect.message or "", expect.error),
            namespace=written.namespace or self.case_file.namespace or "",
            subresource=written.subresource or ("status" if written.status else ""),
            of=of,
            is_dry_run=written.dry_run,
            options=written.options.model_dump(by_alias=True, exclude_none=True) if written.options else {},
            given=self.given,
        )

    def _request(self, written: PolicyCase, path: Steps) -> tuple[str, Body | None, Body | None]:
        """Return (operation of a case, object of the request, existing object).

        The object of a deletion is None, and so is the existing object of a creation or a connection. A connection has
        its options as the object.
        """
        if written.create:
            return "CREATE", self._object(written.create, (*path, "create")), None
        if written.delete:
            return "DELETE", None, self._object(written.delete, (*path, "delete"))
        if written.connect:
            return "CONNECT", written.connect.options, None
        if written.patch:
            old = self._object(written.patch.of, (*path, "patch", "of"))
            return "UPDATE", merge_patch(old, written.patch.with_), old
        path = (*path, "update" if written.update else "status")
        update = written.update or written.status
        assert update is not None  # noqa: S101 - a case has exactly one operation
        old = self._object(update.from_, (*path, "from"))
        if update.to:
            return "UPDATE", self._object(update.to, (*path, "to")), old
        return "UPDATE", self._changed(old, update.set, (*path, "set")), old

    def _object(self, written: Variant, path: Steps) -> Body:
        """Return the object of a variant, without recursion, because the chain of bases may be long.

        Raises:
            _InvalidCaseError: a base does not exist, a chain of bases is a cycle, a change does not fit the object, or
                a file does not hold exactly one object.
        """
        above: list[tuple[Variant, Steps]] = []
        seen: set[str] = set()
        while written.base is not None:
            if written.base in seen:
                message = f"the base {format_value(written.base)} refers to itself"
                raise _InvalidCaseError((*path, "base"), message, "end the chain with a `file` or an `object`")
            if written.base not in self.case_file.bases:
                fix = suggest(written.base, list(self.case_file.bases))
                raise _InvalidCaseError((*path, "base"), f"there is no base {format_value(written.base)}", fix)
            above.append((written, path))
            seen.add(written.base)
            below = written.base
            written, path = self.case_file.bases[below], ("bases", below)
        body = (written.body or {}) if written.file is None else self._of_file(written.file, (*path, "file"))
        for variant, place in ((written, path), *reversed(above)):
            body = self._changed(body, variant.set, (*place, "set"))
        return body

    def _changed(self, body: Body, changes: Mapping[str, Any], path: Steps) -> Body:
        try:
            return set_values(body, changes)
        except ValueError as error:
            raise _InvalidCaseError(path, str(error), "write a path that exists in the object") from None

    def _of_file(self, name: str, path: Steps) -> Body:
        file = self.file.parent / name
        try:
            manifests = list(read(read_file(file), str(file)))
        except InputError as error:
            message = f"{format_value(name)} {error.problems[0].message}"
            raise _InvalidCaseError(path, message, "name a file relative to this file") from None
        if len(manifests) != 1:
            raise _InvalidCaseError(
                path, f"{format_value(name)} holds {len(manifests)} objects", "name a file with one object"
            )
        return manifests[0].body
