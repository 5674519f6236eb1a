"""Load a platform.yaml: return the Platform, or raise every problem of the file with its line.

If pydantic rejects the file, the problems are pydantic's errors and the mistakes that rules between sections find. The
rules read only the valid parts of the file, so that one mistake does not hide others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from generator.config.mistakes import RULE_BROKEN, Mistake, Steps, mistakes_in, place_mistakes
from generator.config.model.access import PlatformAccess
from generator.config.model.cluster import Cluster, GitOps
from generator.config.model.fabrics import Fabric
from generator.config.model.isolation import Isolation
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import PRIORITIES, Queues
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Cohort, Tenant
from generator.config.platform import SORTED, Platform
from generator.config.rules.find import find_mistakes
from generator.config.rules.rule import UNKNOWN_NAME, PartialPlatform
from generator.documents.credentials import Exposure, find_credentials, find_exposures
from generator.documents.files import read_file
from generator.documents.load import Document, load
from generator.documents.messages import format_value
from generator.errors import ConfigError, DocumentError, InputError, Problem

_CREDENTIAL_FIX = "remove and rotate this credential, and let `tenants[].secrets` fetch the new one"
_SECRET_START = 12  # characters: a message cuts a long value off, and its start is secret too
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def load_platform(file: str | Path) -> Platform:
    """Read a platform.yaml. A platform in Python can build on it.

    Raises:
        ConfigError: with every problem of the file, each with line, column, path, value and fix.
    """
    file = Path(file)
    text = _read_text(file)
    document = _only_document(text, file)
    secrets = find_credentials(document.data)
    mistakes = [
        Mistake(path, f"this field holds {kind}, and every reader of the file can see it", _CREDENTIAL_FIX)
        for path, kind in secrets
    ]
    platform = None
    try:
        platform = Platform.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        secret_paths = {path for path, _ in secrets}
        mistakes += [mistake for mistake in _explain(error, document.data) if mistake.path not in secret_paths]
    secret_values = [str(reduce(getitem, path, document.data)) for path, _ in secrets]
    exposed = find_exposures(text.decode("utf-8", "replace"), secret_values)
    if platform is None or mistakes or exposed:
        problems = place_mistakes(mistakes, text, document, file)
        raise ConfigError(hide_credentials(problems, exposed, secret_values, str(file)))
    return platform


def _explain(error: ValidationError, data: dict[str, Any]) -> list[Mistake]:
    """Return every mistake in the data: invalid values first, then broken rules between sections."""
    invalid = [] if all(detail["type"] == RULE_BROKEN for detail in error.errors()) else mistakes_in(error, Platform)
    return [*invalid, *find_mistakes(salvage(data))]


def hide_credentials(
    problems: Iterable[Problem], exposed: Sequence[Exposure], values: Iterable[str], file: str
) -> tuple[Problem, ...]:
    """Add a problem for each exposed credential, and drop every problem whose text repeats a credential.

    Args:
        problems: the other problems of the file.
        exposed: credentials outside of values, such as in comments and keys.
        values: the values that are credentials.
        file: the file as the user named it.
    """
    secrets = {secret[:_SECRET_START] for secret in (*(exposure.secret for exposure in exposed), *values) if secret}
    shared = [problem for problem in problems if not any(secret in str(problem) for secret in secrets)]
    shared += [
        Problem(
            f"this line holds {exposure.kind}, and every reader of the file can see it",
            _CREDENTIAL_FIX,
            file,
            exposure.line,
            exposure.column,
        )
        for exposure in exposed
    ]
    return tuple(sorted(shared, key=lambda problem: (problem.line, problem.column)))


def _read_text(file: Path) -> bytes:
    try:
        text = read_file(file)
    except InputError as error:
        fix = "name a platform.yaml or mpigen_platform.py"
        raise ConfigError(tuple(replace(problem, fix=fix) for problem in error.problems)) from None
    if text.startswith(_BYTE_ORDER_MARKS):
        raise _unreadable("the file starts with a byte order mark", "save it as UTF-8 without one", file)
    return text


def _only_document(text: bytes, file: Path) -> Document:
    try:
        documents = [document for document in load(text) if document.data is not None]
    except DocumentError as error:
        problems = [replace(problem, file=str(file)) for problem in error.problems]
        exposed = find_exposures(text.decode("utf-8", "replace"))
        raise ConfigError(hide_credentials(problems, exposed, (), str(file))) from None
    if not documents:
        raise _unreadable("the file is empty", "start from `mpigen init`", file)
    if len(documents) > 1:
        raise _unreadable(
            "the file has a second document", "describe one platform in one file", file, documents[1].line
        )
    (document,) = documents
    if not isinstance(document.data, dict):
        message = f"{format_value(document.data)} is not a mapping with the fields of a platform"
        raise _unreadable(message, "start with `platform: NAME`", file, document.line)
    return document


def _unreadable(message: str, fix: str, file: Path, line: int = 1) -> ConfigError:
    return ConfigError((Problem(message, fix, str(file), line, 1),))


_Model = TypeVar("_Model", bound=BaseModel)
_LISTS: dict[str, type[BaseModel]] = dict(zip(SORTED, (Fabric, Pool, Runtime, Tenant, Cohort), strict=True))
_STAND_INS = {"name": "unnamed", "image": "unknown", "nodes": 10**6}  # values that break no rule, for invalid fields
_NOT_OF_LABELS = {"name", "nodes", "allocatable"}
_LONGEST_NAME = 63
_ATTEMPTS = 4  # removing one invalid value can reveal another


def salvage(data: dict[str, Any]) -> PartialPlatform:
    """Return the sections, entries and fields of the file that pydantic accepts."""
    entries: dict[str, dict[int, Any]] = {}
    names: dict[str, tuple[str, ...]] = {}
    unclear_pools: set[int] = set()
    for section, model in _LISTS.items():
        raw = data.get(section)
        raw_entries = raw if isinstance(raw, list) else []
        names[section] = tuple(map(_name_of, raw_entries)) if _is_declared(section, data) else (UNKNOWN_NAME,)
        entries[section] = {}
        for index, raw_entry in enumerate(raw_entries):
            entry, invalid = _salvage_entry(model, raw_entry)
            if entry is not None:
                entries[section][index] = entry
            if section == "pools" and invalid - _NOT_OF_LABELS:
                unclear_pools.add(index)
        # In the order of a Platform, so that YAML and Python report the same entry of two that conflict.
        entries[section] = dict(sorted(entries[section].items(), key=lambda item: item[1].name))
    names["priorities"] = _priority_names(data.get("queues"))
    queues, invalid_queues = _salvage_section(Queues, data, "queues")
    cluster, invalid_cluster = _salvage_section(Cluster, data, "cluster")
    gitops = _valid_section(GitOps, data, "gitops") if data.get("gitops") is not None else None
    name = data.get("platform")
    lists: dict[str, Any] = {section: entries[section] for section in SORTED if section != "pools"}
    return PartialPlatform(
        platform=name if isinstance(name, str) else "",
        pools={index: pool.wired(entries["fabrics"].values()) for index, pool in entries["pools"].items()},
        **lists,
        names=names,
        cluster=None if invalid_cluster else cluster,
        policies=_valid_section(Policies, data, "policies"),
        access=_valid_section(PlatformAccess, data, "access"),
        isolation=_valid_section(Isolation, data, "isolation"),
        queues=queues,
        gitops=gitops,
        is_gitops_invalid=gitops is None and data.get("gitops") is not None,
        is_openshift=cluster.is_openshift if cluster and "distribution" not in invalid_cluster else None,
        invalid_queue_fields=frozenset(invalid_queues),
        unclear_pools=frozenset(unclear_pools),
    )


def _is_declared(section: str, data: dict[str, Any]) -> bool:
    """Return True if the entries of a section are known.

    They are unknown if the section is not a list, if there are no pools, or if an unknown key of the file may be a
    misspelling of the section.
    """
    if section in data or section == "pools":
        return isinstance(data.get(section), list) and bool(data[section] or section != "pools")
    return data.keys() <= {info.alias or name for name, info in Platform.model_fields.items()}


def _salvage_section(model: type[_Model], data: dict[str, Any], name: str) -> tuple[_Model | None, set[str]]:
    """Return a section without its invalid fields, and the names of these fields.

    The section is None if the file has no mapping there.
    """
    raw = data.get(name, {})
    return _remove_invalid(model, raw) if isinstance(raw, dict) else (None, set())


def _valid_section(model: type[_Model], data: dict[str, Any], name: str) -> _Model | None:
    """Return a section; None if any of its fields is invalid."""
    section, invalid = _salvage_section(model, data, name)
    return None if invalid else section


def _salvage_entry(model: type[_Model], raw: object) -> tuple[_Model | None, set[str]]:
    """Return an entry without its invalid fields, and the names of these fields.

    The entry is None for a pool without a valid `allocatable`.
    """
    entry, invalid = _remove_invalid(model, raw if isinstance(raw, dict) else {})
    if entry is None or "allocatable" in invalid:
        return None, invalid
    return entry.model_copy(update={"name": _name_of(raw) or "?"}), invalid


def _remove_invalid(model: type[_Model], raw: dict[str, Any]) -> tuple[_Model | None, set[str]]:
    """Remove invalid values until the model accepts the rest.

    Returns:
        The model without the invalid values (None after four attempts), and the names of its invalid fields.
    """
    invalid: set[str] = set()
    rest = raw
    for _ in range(_ATTEMPTS):
        try:
            return model.model_validate(rest, by_alias=True, by_name=False), invalid
        except ValidationError as error:
            paths = [mistake.path for mistake in mistakes_in(error, model)]
        invalid |= {str(path[0]) for path in paths if path}
        rest = _without(rest, [existing for path in paths if (existing := _existing_part(rest, path))])
        rest.update({field: _STAND_INS[field] for field in invalid & _STAND_INS.keys() & model.model_fields.keys()})
    return None, invalid


def _existing_part(data: Any, path: Steps) -> Steps:
    """Return the longest part of a path that exists in the data: `a.b` for `a.b.c` if `a.b` has no key `c`."""
    for length, step in enumerate(path):
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return path[:length]
    return path


def _without(data: Any, paths: list[Steps]) -> Any:
    """Return a copy of the data without the values at the paths."""
    inner: dict[str | int, list[Steps]] = {}
    for step, *rest in paths:
        inner.setdefault(step, []).append(tuple(rest))
    if isinstance(data, dict):
        return {key: _without(value, inner.get(key, [])) for key, value in data.items() if () not in inner.get(key, [])}
    if isinstance(data, list):
        return [_without(value, inner.get(at, [])) for at, value in enumerate(data) if () not in inner.get(at, [])]
    return data


def _priority_names(queues: object) -> tuple[str, ...]:
    raw = queues.get("priorities") if isinstance(queues, dict) else None
    if raw is None:
        return tuple(priority.name for priority in PRIORITIES)
    return tuple(map(_name_of, raw)) if isinstance(raw, list) else (UNKNOWN_NAME,)


def _name_of(raw: object) -> str:
    """Return the name of an entry, even an invalid name such as `GPU`.

    The result is UNKNOWN_NAME if the name is no string, too long, or not printable.
    """
    name = raw.get("name") if isinstance(raw, dict) else None
    return name if isinstance(name, str) and len(name) <= _LONGEST_NAME and name.isprintable() else UNKNOWN_NAME
