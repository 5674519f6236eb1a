"""A platform file → Platform, or every reason why not, each with its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from generator.config.cohorts import Cohort
from generator.config.complaints import Complaint, complaints
from generator.config.draft import Draft
from generator.config.fabrics import Fabric
from generator.config.platform import Platform
from generator.config.policies import Policies
from generator.config.pools import Pool
from generator.config.priorities import PRIORITIES
from generator.config.queues import Queues
from generator.config.references import contradictions
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from generator.documents.credentials import credentials
from generator.documents.load import Document, load
from generator.documents.locate import format_path, locate_all
from generator.documents.syntax import shown
from generator.errors import ConfigError, DocumentError, Problem
from generator.simulate.counting import Counting

_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_SECTIONS: dict[str, type[BaseModel]] = {
    "fabrics": Fabric,
    "pools": Pool,
    "runtimes": Runtime,
    "tenants": Tenant,
    "cohorts": Cohort,
}
_OPTIONAL = {"cohorts", "fabrics"}  # of the others, an absent one may be a misspelt one

_COUNTING = ("excludeResourcePrefixes", "transformations")
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
    found = list(_exposed(document.data))
    unspoken = {complaint.path for complaint in found}
    try:
        platform = Platform.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        wrong = (*_shape(error), *_meaning(document.data))
        found += [complaint for complaint in wrong if complaint.path not in unspoken]
    if found:
        raise ConfigError(_placed(found, text, document, file))
    return platform


def _exposed(data: Any) -> Iterator[Complaint]:
    """Credentials in the file, of which nothing else is said: it would repeat them."""
    for path, what in credentials(data):
        fix = "take it out, declare it stolen, and let `tenants[].secrets` fetch a new one"
        yield Complaint(path, f"{what} stands here, for all to read", fix)


def _text(file: Path) -> bytes:
    try:
        text = file.read_bytes()
    except OSError as error:
        problem = Problem(f"cannot be read: {error.strerror}", "name a platform.yaml or mpigen_platform.py", str(file))
        raise ConfigError((problem,)) from None
    if text.startswith(_BYTE_ORDER_MARKS):
        problem = Problem("a byte order mark at the start", "save the file as UTF-8 without it", str(file), 1, 1)
        raise ConfigError((problem,))
    return text


def _only_document(text: bytes, file: Path) -> Document:
    try:
        documents = [document for document in load(text) if document.data is not None]
    except DocumentError as error:
        raise ConfigError(tuple(_in_file(problem, file) for problem in error.problems)) from None
    if not documents:
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
    """What is wrong with the sections by themselves. Contradictions name entries, not places: `_meaning` has them."""
    for complaint in complaints(error, Platform):
        if not (len(complaint.path) > 1 and complaint.path[0] in _SECTIONS and isinstance(complaint.path[1], str)):
            yield complaint


def _meaning(data: dict[str, Any]) -> Iterator[Complaint]:
    for found in contradictions(_draft(data)):
        yield Complaint(found.path, found.message, found.fix, found.is_of_key)


def _draft(data: dict[str, Any]) -> Draft:
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
    declared["priorities"] = _priorities(data.get("queues"))
    name = data.get("platform")
    return Draft(
        platform=name if isinstance(name, str) else "",
        pools={index: pool.wired(sound["fabrics"].values()) for index, pool in sound["pools"].items()},
        runtimes=sound["runtimes"],
        tenants=sound["tenants"],
        cohorts=sound["cohorts"],
        declared=declared,
        has_slack=_has_slack(data.get("queues")),
        has_workers=_has_workers(data.get("queues")),
        is_fair=_is_fair(data.get("queues")),
        counting=_counting(data.get("queues")),
        unsure={index for index, fields in wrong["pools"].items() if fields - {"name", "nodes", "allocatable"}},
        policies=_policies(data.get("policies", {})),
        fabrics=sound["fabrics"],
        is_openshift=_is_openshift(data.get("cluster", {})),
    )


def _is_openshift(cluster: object) -> bool | None:
    said = cluster.get("distribution", "kubernetes") if isinstance(cluster, dict) else None
    return said == "openshift" if said in ("openshift", "kubernetes") else None


def _has_slack(queues: object) -> bool:
    return not isinstance(queues, dict) or queues.get("slack") is not False


def _has_workers(queues: object) -> bool:
    return isinstance(queues, dict) and queues.get("multiKueue") is not None


def _priorities(queues: object) -> tuple[str, ...]:
    """Names, an empty one where it cannot be known."""
    said = queues.get("priorities") if isinstance(queues, dict) else None
    if said is None:
        return tuple(priority.name for priority in PRIORITIES)
    return tuple(_name(raw) for raw in said) if isinstance(said, list) else ("",)


def _is_fair(queues: object) -> bool:
    """Whatever is not `false` may be meant as `true`, and is told for itself."""
    return isinstance(queues, dict) and queues.get("fairSharing", False) is not False


def _counting(queues: object) -> Counting | None:
    said = queues if isinstance(queues, dict) else {}
    try:
        return Queues.model_validate({key: said[key] for key in _COUNTING if key in said}).counting
    except ValidationError:
        return None


def _policies(said: object) -> Policies | None:
    try:
        return Policies.model_validate(said, by_alias=True, by_name=False)
    except ValidationError:
        return None


def _sound(model: type[BaseModel], raw: object) -> tuple[BaseModel | None, set[str]]:
    """The entry, if need be without what is wrong in it, and in which fields that was.

    What is left may still contradict something; but half of what a node offers says nothing.
    """
    fields: set[str] = set()
    trimmed: Any = raw if isinstance(raw, dict) else {}
    for _ in range(_ATTEMPTS):
        if "allocatable" in fields:
            break
        try:
            entry = model.model_validate(trimmed, by_alias=True, by_name=False)
        except ValidationError as error:
            paths = [complaint.path for complaint in complaints(error, model)]
            fields |= {str(path[0]) for path in paths if path}
            needed = fields & _STAND_INS.keys() & model.model_fields.keys()
            trimmed = _without(trimmed, [wrong for path in paths if (wrong := _present(trimmed, path))])
            trimmed.update({field: _STAND_INS[field] for field in needed})
        else:
            return entry.model_copy(update={"name": _name(raw) or "?"}), fields
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
