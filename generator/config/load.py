"""A platform file → Platform, or every reason why not, each with its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from generator.config.complaints import Complaint, complaints, shown
from generator.config.draft import Draft
from generator.config.platform import Platform
from generator.config.pools import Pool
from generator.config.references import contradictions
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from generator.documents.load import Document, load
from generator.documents.locate import format_path, locate
from generator.errors import ConfigError, DocumentError, Problem

_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_SECTIONS: dict[str, type[BaseModel]] = {"pools": Pool, "runtimes": Runtime, "tenants": Tenant}

_STAND_INS = {"name": "unnamed", "image": "unknown"}  # for fields whose absence would be a complaint of its own


def load_platform(file: Path) -> Platform:
    """Read a platform.yaml.

    Raises:
        ConfigError: with every problem found, each with line, column, path, value and fix.
    """
    text = _text(file)
    document = _only_document(text, file)
    try:
        return Platform.model_validate(document.data)
    except ValidationError as error:
        found = [*_shape(error), *_meaning(document.data)]
        problems = [_placed(complaint, text, document, file) for complaint in found]
        raise ConfigError(tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))) from None


def _text(file: Path) -> bytes:
    try:
        text = file.read_bytes()
    except OSError as error:
        problem = Problem(f"cannot be read: {error.strerror}", "name a platform.yaml or platform.py", str(file))
        raise ConfigError((problem,)) from None
    if text.startswith(_BYTE_ORDER_MARKS):
        problem = Problem("a byte order mark at the start", "save the file as UTF-8 without it", str(file), 1, 1)
        raise ConfigError((problem,))
    return text


def _only_document(text: bytes, file: Path) -> Document:
    try:
        documents = list(load(text))
    except DocumentError as error:
        raise ConfigError(tuple(_in_file(problem, file) for problem in error.problems)) from None
    if not documents or all(document.data is None for document in documents):
        raise ConfigError((Problem("the file is empty", "start from `mpigen init`", str(file), 1, 1),))
    if len(documents) > 1:
        line = documents[1].line
        raise ConfigError((Problem("a second document", "describe one platform in one file", str(file), line, 1),))
    (document,) = documents
    if not isinstance(document.data, dict):
        message = f"{shown(document.data)} where the platform belongs"
        raise ConfigError(
            (Problem(message, "write `platform: NAME` and go on from there", str(file), document.line, 1),)
        )
    return document


def _in_file(problem: Problem, file: Path) -> Problem:
    return Problem(problem.message, problem.fix, str(file), problem.line, problem.column, problem.path)


def _shape(error: ValidationError) -> Iterator[Complaint]:
    """What is wrong with the sections by themselves. Contradictions name entries, not positions: `_meaning` has them."""
    for complaint in complaints(error, Platform):
        if not (len(complaint.path) > 1 and complaint.path[0] in _SECTIONS and isinstance(complaint.path[1], str)):
            yield complaint


def _meaning(data: dict[str, Any]) -> Iterator[Complaint]:
    for found in contradictions(_draft(data)):
        yield Complaint(found.path, found.message, found.fix)


def _draft(data: dict[str, Any]) -> Draft:
    """Whatever of the file is sound by itself."""
    sound: dict[str, dict[int, Any]] = {}
    declared: dict[str, tuple[str, ...]] = {}
    for section, model in _SECTIONS.items():
        entries = data.get(section)
        entries = entries if isinstance(entries, list) else []
        sound[section] = {
            index: entry for index, raw in enumerate(entries) if (entry := _sound(model, raw)) is not None
        }
        declared[section] = tuple(_name(raw) for raw in entries)
    name = data.get("platform")
    return Draft(
        platform=name if isinstance(name, str) else "",
        pools=sound["pools"],
        runtimes=sound["runtimes"],
        tenants=sound["tenants"],
        declared=declared,
    )


def _sound(model: type[BaseModel], raw: object) -> BaseModel | None:
    """The entry, if need be without the fields that are wrong in it: the others may still contradict something."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        if not isinstance(raw, dict):
            return None
        wrong = {complaint.path[0] for complaint in complaints(error, model) if complaint.path}
    rest = {field: value for field, value in raw.items() if field not in wrong}
    stand_in = {field: value for field, value in _STAND_INS.items() if field in wrong and field in model.model_fields}
    try:
        return model.model_validate({**rest, **stand_in})
    except ValidationError:
        return None


def _name(raw: object) -> str:
    name = raw.get("name") if isinstance(raw, dict) else None
    return name if isinstance(name, str) else ""


def _placed(complaint: Complaint, text: bytes, document: Document, file: Path) -> Problem:
    line, column = locate(text, document.index, complaint.path)
    return Problem(complaint.message, complaint.fix, str(file), line, column, format_path(complaint.path))
