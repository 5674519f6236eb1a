"""Load a platform.yaml: return the Platform, or raise every problem of the file with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from generator.config.mistakes import Complaint, Mistake, complaints, contradictions_in
from generator.config.model.access import PlatformAccess
from generator.config.model.cluster import Cluster
from generator.config.model.cohorts import Cohort
from generator.config.model.fabrics import Fabric
from generator.config.model.gitops import GitOps
from generator.config.model.isolation import Isolation
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import PRIORITIES, Queues
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.config.platform import SORTED, Platform
from generator.config.rules.partial import PartialPlatform, Unknown
from generator.config.rules.references import contradictions
from generator.documents.credentials import Exposure, find_credentials, find_exposures
from generator.documents.files import read_file
from generator.documents.load import Document, load
from generator.documents.locate import locate_all
from generator.documents.messages import format_path, format_value
from generator.errors import ConfigError, DocumentError, InputError, Problem

CREDENTIAL_FIX = "take it out, declare it stolen, and let `tenants[].secrets` fetch a new one"
_TOLD = 12  # characters: messages cut a long value off, and its beginning is secret as well


def hide_credentials(
    problems: Iterable[Problem], outside: Sequence[Exposure], values: Iterable[str], file: str
) -> tuple[Problem, ...]:
    """Return the problems of a file with those of its credentials, and without any problem that repeats one.

    Args:
        problems: what is wrong with the file, credentials in values included.
        outside: credentials anywhere else in the file.
        values: the values that hold the others.
        file: the file as the user named it.
    """
    secrets = {secret[:_TOLD] for secret in (*(each.secret for each in outside), *values) if secret}
    told = [each for each in problems if not any(secret in str(each) for secret in secrets)]
    told += [
        Problem(f"{each.what} stands in this line, for all to read", CREDENTIAL_FIX, file, each.line, each.column)
        for each in outside
    ]
    return tuple(sorted(told, key=lambda problem: (problem.line, problem.column)))


def value_at(data: Any, path: Iterable[str | int]) -> Any:
    """Return the value at a path of plain data."""
    for step in path:
        data = data[step]
    return data


_Model = TypeVar("_Model", bound=BaseModel)
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_SECTIONS: dict[str, type[BaseModel]] = {
    "fabrics": Fabric,
    "pools": Pool,
    "runtimes": Runtime,
    "tenants": Tenant,
    "cohorts": Cohort,
}
_OPTIONAL = {"cohorts", "fabrics"}  # of the others, an absent one may be a misspelt one

_STAND_INS = {"name": "unnamed", "image": "unknown", "nodes": 10**6}  # where absence would be a complaint of its own
_LONGEST_NAME = 63  # letters
_ATTEMPTS = 4  # to make an entry sound: what is wrong may hide something else that is wrong


def load_platform(file: Path) -> Platform:
    """Read a platform.yaml.

    Raises:
        ConfigError: with every problem found, each with line, column, path, value and fix.
    """
    text = _text(file)
    document = _only_document(text, file)
    exposed = find_credentials(document.data)
    found = list(_exposed(exposed))
    try:
        platform = Platform.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        unspoken = {complaint.path for complaint in found}
        found += [complaint for complaint in _refused(error, document.data) if complaint.path not in unspoken]
    values = [str(value_at(document.data, path)) for path, _ in exposed]
    outside = find_exposures(text.decode("utf-8", "replace"), values)
    if found or outside:
        problems = _placed(found, text, document, file)
        raise ConfigError(hide_credentials(problems, outside, values, str(file)))
    return platform


def _refused(error: ValidationError, data: dict[str, Any]) -> list[Complaint]:
    """Return every reason why the model refuses the data, at its place in the data.

    Contradictions are found by the model itself if every section is sound. If one is not, the model stops before
    them: then the same rules are applied to the sections that are sound, so that one slip does not hide the rest.
    """
    if found := contradictions_in(error):
        return [_complaint(replace(each, path=_as_written(each.path, data))) for each in found]
    return [*complaints(error, Platform), *map(_complaint, contradictions(_draft(data)))]


def _complaint(found: Mistake) -> Complaint:
    return Complaint(found.path, found.message, found.fix, found.is_of_key)


def _as_written(path: tuple[str | int, ...], data: dict[str, Any]) -> tuple[str | int, ...]:
    """Return the path in the file to a path in the platform, which sorts entries by name; the sort is stable."""
    match path:
        case (str(section), int(index), *rest) if section in SORTED:
            names = [entry["name"] for entry in data[section]]
            return (section, sorted(range(len(names)), key=names.__getitem__)[index], *rest)
    return path


def _exposed(found: Iterable[tuple[tuple[str | int, ...], str]]) -> Iterator[Complaint]:
    """Credentials in the file, of which nothing else is said: it would repeat them."""
    for path, what in found:
        yield Complaint(path, f"{what} stands here, for all to read", CREDENTIAL_FIX)


def _text(file: Path) -> bytes:
    try:
        text = read_file(file)
    except InputError as error:
        fix = "name a platform.yaml or mpigen_platform.py"
        raise ConfigError(tuple(replace(problem, fix=fix) for problem in error.problems)) from None
    if text.startswith(_BYTE_ORDER_MARKS):
        problem = Problem("a byte order mark at the start", "save the file as UTF-8 without it", str(file), 1, 1)
        raise ConfigError((problem,))
    return text


def _only_document(text: bytes, file: Path) -> Document:
    try:
        documents = [document for document in load(text) if document.data is not None]
    except DocumentError as error:
        problems = [_in_file(problem, file) for problem in error.problems]
        outside = find_exposures(text.decode("utf-8", "replace"))
        raise ConfigError(hide_credentials(problems, outside, (), str(file))) from None
    if not documents:
        raise ConfigError((Problem("the file is empty", "start from `mpigen init`", str(file), 1, 1),))
    if len(documents) > 1:
        line = documents[1].line
        raise ConfigError((Problem("a second document", "describe one platform in one file", str(file), line, 1),))
    (document,) = documents
    if not isinstance(document.data, dict):
        message = f"{format_value(document.data)} where the platform belongs"
        raise ConfigError(
            (Problem(message, "write `platform: NAME` and go on from there", str(file), document.line, 1),)
        )
    return document


def _in_file(problem: Problem, file: Path) -> Problem:
    return Problem(problem.message, problem.fix, str(file), problem.line, problem.column, problem.path)


def _draft(data: dict[str, Any]) -> PartialPlatform:
    """Whatever of the file is sound by itself."""
    sound: dict[str, dict[int, Any]] = {}
    declared: dict[str, tuple[str, ...]] = {}
    wrong: dict[str, dict[int, set[str]]] = {}
    for section, model in _SECTIONS.items():
        entries = data.get(section)
        entries = entries if isinstance(entries, list) else []
        judged = {index: _sound(model, raw) for index, raw in enumerate(entries)}
        sound[section] = {index: entry for index, (entry, _) in judged.items() if entry is not None}
        wrong[section] = {index: fields for index, (_, fields) in judged.items()}
        declared[section] = tuple(_name(raw) for raw in entries) or (() if section in _OPTIONAL else ("",))
    queues, wrong_queues = _section(Queues, data, "queues")
    declared["priorities"] = _priorities(data.get("queues"))
    cluster, wrong_cluster = _section(Cluster, data, "cluster")
    name = data.get("platform")
    return PartialPlatform(
        platform=name if isinstance(name, str) else "",
        pools={index: pool.wired(sound["fabrics"].values()) for index, pool in sound["pools"].items()},
        runtimes=sound["runtimes"],
        tenants=sound["tenants"],
        cohorts=sound["cohorts"],
        fabrics=sound["fabrics"],
        declared=declared,
        cluster=None if wrong_cluster else cluster,
        policies=_whole(Policies, data, "policies"),
        access=_whole(PlatformAccess, data, "access"),
        isolation=_whole(Isolation, data, "isolation"),
        queues=queues,
        gitops=_gitops(data),
        is_openshift=cluster.is_openshift if cluster and "distribution" not in wrong_cluster else None,
        wrong=wrong_queues,
        unsure={index for index, fields in wrong["pools"].items() if fields - {"name", "nodes", "allocatable"}},
    )


def _section(model: type[_Model], data: dict[str, Any], name: str) -> tuple[_Model | None, set[str]]:
    """Return a section, without the fields that are wrong, and these fields; None if the section is no mapping."""
    raw = data.get(name, {})
    return _trimmed(model, raw) if isinstance(raw, dict) else (None, set())


def _whole(model: type[_Model], data: dict[str, Any], name: str) -> _Model | None:
    """Return a section if all of it is sound."""
    section, wrong = _section(model, data, name)
    return None if wrong else section


def _gitops(data: dict[str, Any]) -> GitOps | Unknown | None:
    if data.get("gitops") is None:
        return None
    return _whole(GitOps, data, "gitops") or Unknown.UNSOUND


def _priorities(queues: object) -> tuple[str, ...]:
    """Names, an empty one where it cannot be known."""
    said = queues.get("priorities") if isinstance(queues, dict) else None
    if said is None:
        return tuple(priority.name for priority in PRIORITIES)
    return tuple(_name(raw) for raw in said) if isinstance(said, list) else ("",)


def _sound(model: type[_Model], raw: object) -> tuple[_Model | None, set[str]]:
    """Return an entry, without what is wrong in it if need be, and its wrong fields.

    What is left may still contradict something, unless it is half of what a node offers.
    """
    entry, wrong = _trimmed(model, raw if isinstance(raw, dict) else {})
    if entry is None or "allocatable" in wrong:
        return None, wrong
    return entry.model_copy(update={"name": _name(raw) or "?"}), wrong


def _trimmed(model: type[_Model], raw: dict[str, Any]) -> tuple[_Model | None, set[str]]:
    """Return the model of the data without what is wrong in it, and the fields that are wrong."""
    fields: set[str] = set()
    trimmed = raw
    for _ in range(_ATTEMPTS):
        try:
            return model.model_validate(trimmed, by_alias=True, by_name=False), fields
        except ValidationError as error:
            paths = [complaint.path for complaint in complaints(error, model)]
        fields |= {str(path[0]) for path in paths if path}
        needed = fields & _STAND_INS.keys() & model.model_fields.keys()
        trimmed = _without(trimmed, [wrong for path in paths if (wrong := _present(trimmed, path))])
        trimmed.update({field: _STAND_INS[field] for field in needed})
    return None, fields


def _present(data: Any, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The part of a path that exists: what lacks a field is wrong as a whole."""
    for length, step in enumerate(path):
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return path[:length]
    return path


def _without(data: Any, paths: list[tuple[str | int, ...]]) -> Any:
    """A copy of the data without what stands at the paths."""
    inner: dict[str | int, list[tuple[str | int, ...]]] = {}
    for step, *rest in paths:
        inner.setdefault(step, []).append(tuple(rest))
    if isinstance(data, dict):
        return {key: _without(value, inner.get(key, [])) for key, value in data.items() if () not in inner.get(key, [])}
    if isinstance(data, list):
        return [_without(value, inner.get(at, [])) for at, value in enumerate(data) if () not in inner.get(at, [])]
    return data


def _name(raw: object) -> str:
    """The name of an entry, though it may break the rules for names; empty when it has none that messages can show."""
    name = raw.get("name") if isinstance(raw, dict) else None
    return name if isinstance(name, str) and len(name) <= _LONGEST_NAME and name.isprintable() else ""


def _placed(found: list[Complaint], text: bytes, document: Document, file: Path) -> tuple[Problem, ...]:
    places = locate_all(text, document.index, [complaint.path for complaint in found])
    problems = []
    for complaint in found:
        place = places[complaint.path]
        line, column = place.key if complaint.is_of_key else place.node
        path = format_path(complaint.path)
        problems.append(Problem(complaint.message, complaint.fix, str(file), line, column, path))
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
