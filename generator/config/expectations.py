"""Read and write a file of expectations: the expected answers of `mpigen can-i` and `mpigen reach`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from generator.config.mistakes import mistakes_in, place_mistakes
from generator.config.model.fields import Section, Text, invalid
from generator.config.platform import untitled
from generator.documents.load import Document, load_file
from generator.documents.locate import locate_all
from generator.documents.scalars import is_plain_safe
from generator.errors import ConfigError, Problem
from generator.questions.expectations import AccessRow, Answer, ReachRow
from generator.questions.ports import parse_port
from generator.upstream.kubernetes.access import parse_requester

_ANSWERS = {True: "yes", False: "no"}
"""Most YAML parsers read `yes` and `no` without quotes as booleans."""

_WRITTEN = re.compile(r"(['\"]?)[A-Za-z]+\1")


def _accepted_by(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator for texts that a function parses. The error has the message and the fix of the function."""

    def accept(text: str) -> str:
        try:
            parse(text)
        except ValueError as error:
            message, _, fix = str(error).partition(": ")
            raise invalid(message, fix) from None
        return text

    return AfterValidator(accept)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[
    tuple[Text, ...],
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
    Field(min_length=1),
]
Port = Annotated[
    str,
    BeforeValidator(
        lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value,
        json_schema_input_type=str | int,
    ),
    Field(strict=True),
    _accepted_by(parse_port),
]
Expected = Annotated[
    Literal["yes", "no", "unknown"],
    BeforeValidator(
        lambda value: _ANSWERS[value] if isinstance(value, bool) else value,
        json_schema_input_type=Literal["yes", "no", "unknown", True, False],
    ),
]


class AccessExpectation(Section):
    """Requests to the API server with the same expected answer: each verb on each resource in each namespace."""

    subject: Annotated[Text, _accepted_by(parse_requester)]
    """The subject: `group:NAME`, `user:NAME` or `serviceaccount:NAMESPACE/NAME`."""
    groups: tuple[Text, ...] = ()
    """Further groups of the subject."""
    verb: Names
    """A verb such as `create`, or a list of verbs."""
    resource: Names
    """A resource, or a list of resources. Write a subresource as in a rule of a Role, such as `pods/exec`, the group of
    an ambiguous name as in `jobs.batch`, and a URL as in `/metrics`."""
    name: Text | None = None
    """The name of the object. Default: all objects."""
    namespace: Names | None = None
    """A namespace, or a list of namespaces. Default: one request for all namespaces, as with `kubectl -A`."""
    outside: Names | None = None
    """Ask for each Namespace of the platform except these, instead of `namespace`."""
    expect: Expected
    """The expected answer. The answer is `unknown` if no rule allows the request, but a binding of the subject names a
    role that the platform does not define."""

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if self.namespace and self.outside:
            raise invalid("`namespace` and `outside` contradict each other", "remove one of them")
        return self


class ReachExpectation(Section):
    """Connections over the pod network with the same expected answer, one for each peer in `to`."""

    from_: Text = Field(alias="from")
    """The peer that connects, as `mpigen reach` reads it, such as `tenant:nlp` or `pods:monitoring`."""
    to: Names
    """A peer, or a list of peers. `other-tenants` stands for the ranks of all other tenants."""
    port: Port | None = None
    """A port such as 2222 or `53/UDP`. Default: the answer is `yes` if a connection on any port is allowed."""
    expect: Expected
    """The expected answer. The answer is `unknown` if it depends on an address or a label that the platform lacks."""


class ExpectationFile(Section):
    """A file of expectations."""

    can_i: tuple[AccessExpectation, ...] = Field((), alias="can-i")
    """Requests to the API server, with the expected answers of RBAC."""
    reach: tuple[ReachExpectation, ...] = ()
    """Connections between pods, with the expected answers of the network policies."""

    @model_validator(mode="after")
    def _has_rows(self) -> Self:
        if not (self.can_i or self.reach):
            raise invalid("the file has no expectations", "write a list `can-i` or `reach`")
        return self


Row = AccessRow | ReachRow


def expectation_schema() -> str:
    """Return the JSON Schema of a file of expectations as text."""
    schema = ExpectationFile.model_json_schema(by_alias=True)
    content = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mpigen expectations",
        **untitled(schema),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def load_expectations(file: Path, text: bytes) -> list[Row]:
    """Read the expectations of a file: first the requests to the API server, then the connections.

    Raises:
        ConfigError: with every problem of the file, each with its line.
        DocumentError: the file is not YAML; with file, line and column.
    """
    document = _document(file, text)
    try:
        read = ExpectationFile.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ConfigError(place_mistakes(mistakes_in(error, ExpectationFile), text, document, file)) from None
    return [
        *(
            AccessRow(
                index,
                row.subject,
                row.verb,
                row.resource,
                Answer(row.expect),
                row.groups,
                row.name or "",
                row.namespace or (),
                row.outside or (),
            )
            for index, row in enumerate(read.can_i)
        ),
        *(
            ReachRow(index, row.from_, row.to, Answer(row.expect), row.port or "")
            for index, row in enumerate(read.reach)
        ),
    ]


def _document(file: Path, text: bytes) -> Document:
    documents = load_file(text, file)
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        fix = "write one mapping with a list `can-i` or `reach`"
        raise ConfigError((Problem("the file is not one document with expectations", fix, str(file), 1, 1),))
    return documents[0]


def find_places(file: Path, text: bytes, rows: Sequence[Row]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return path of an expectation → line and column of its expected answer."""
    document = _document(file, text)
    paths = [(*path_of(row), "expect") for row in rows]
    places = locate_all(text, document.index, paths)
    return {path_of(row): places[(*path_of(row), "expect")].node for row in rows}


def path_of(row: Row) -> tuple[str, int]:
    """Return the path of an expectation in its file, such as `("can-i", 0)`."""
    return ("can-i" if isinstance(row, AccessRow) else "reach", row.index)


def format_expectations(access: Iterable[AccessRow], reach: Iterable[ReachRow]) -> str:
    """Return the text of a file of expectations, with one line for each expectation."""
    parts = [
        "# The expected answers of `mpigen can-i` and `mpigen reach`. `mpigen expect` reports answers that differ.\n"
    ]
    for key, rows in (("can-i", [*map(_access, access)]), ("reach", [*map(_reach, reach)])):
        if rows:
            parts.append("".join([f"{key}:\n", *(f"  - {_flow(row)}\n" for row in rows)]))
    return "\n".join(parts) if len(parts) > 1 else ""


def _access(row: AccessRow) -> dict[str, Any]:
    fields = {
        "subject": row.subject,
        "groups": [*row.groups],
        "verb": _one(row.verbs),
        "resource": _one(row.resources),
        "name": row.name,
        "namespace": _one(row.namespaces),
        "outside": _one(row.outside),
    }
    return {**{key: value for key, value in fields.items() if value}, "expect": row.expected}


def _reach(row: ReachRow) -> dict[str, Any]:
    fields = {"from": row.source, "to": _one(row.to), "port": row.port}
    return {**{key: value for key, value in fields.items() if value}, "expect": row.expected}


def _one(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else [*names]


def _flow(row: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_value(key, value)}" for key, value in row.items()) + "}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(key, item) for item in value)}]"
    is_plain = key == "expect" or (is_plain_safe(value) and not set(value) & set(",[]{}"))
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def update_answers(
    file: Path,
    text: bytes,
    places: Mapping[tuple[str, int], tuple[int, int]],
    answers: Mapping[tuple[str, int], Answer],
) -> bytes:
    """Return the text of a file of expectations with other expected answers, and without any other change.

    Args:
        file: the file, for messages.
        text: the text of a valid file.
        places: path of an expectation → line and column of its expected answer.
        answers: path of an expectation → the new answer.

    Raises:
        ConfigError: an answer has an anchor, a tag or an alias, so that another value may depend on it.
    """
    lines = text.decode().splitlines(keepends=True)
    for (line, column), path in sorted(((places[path], path) for path in answers), reverse=True):
        before, after = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
        written = _WRITTEN.match(after)
        if written is None:
            problem = Problem("this answer has an anchor, a tag or an alias", "write `yes`, `no` or `unknown`")
            where = f"{path[0]}[{path[1]}].expect"
            raise ConfigError((replace(problem, file=str(file), line=line, column=column, path=where),))
        lines[line - 1] = before + answers[path].value + after[written.end() :]
    return "".join(lines).encode()
