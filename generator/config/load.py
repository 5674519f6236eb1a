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
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from generator.config.environments import (
    ENVIRONMENTS,
    find_environments,
    find_equal_names,
    merge,
    require_environment,
    selected_environment,
)
from generator.config.extra_files import file_reader
from generator.config.mistakes import RULE_BROKEN, Mistake, mistakes_in, place_mistakes
from generator.config.model.access import PlatformAccess
from generator.config.model.cluster import Cluster, GitOps
from generator.config.model.fabrics import Fabric
from generator.config.model.families import MpiFamily
from generator.config.model.fields import Steps, copy_unchecked
from generator.config.model.isolation import Isolation
from generator.config.model.patches import READER
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import PRIORITIES, Queues
from generator.config.model.runtimes import Runtime
from generator.config.model.servers import InvalidServer, ServerType, resolve_servers
from generator.config.model.tenants import Cohort, Tenant
from generator.config.platform import SORTED, Platform
from generator.config.rules.find import find_mistakes
from generator.config.rules.rule import UNKNOWN_NAME, PartialPlatform
from generator.documents.credentials import Exposure, find_credentials, find_exposures
from generator.documents.files import read_file
from generator.documents.load import Document, load_file
from generator.documents.locate import locate_all
from generator.documents.messages import format_value
from generator.errors import ConfigError, DocumentError, InputError, Problem
from generator.objects.fields import indexed_mappings, mapping

_CREDENTIAL_FIX = "remove and rotate this credential, and let `tenants[].secrets` fetch the new one"
_SECRET_START = 12  # characters: a message cuts a long value off, and its start is secret too
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def load_platform(file: str | Path, environment: str = "") -> Platform:
    """Return the platform of a platform.yaml. A platform in Python can start from the result.

    Args:
        file: the file. Its keys are in camelCase.
        environment: one of the `environments` of the file. Default: the environment that `--environment` selects, or
            none.

    Raises:
        ConfigError: the file cannot be read, is not YAML, is invalid, or holds a credential, or `environment` is not
            one of its environments. If it is a YAML mapping, the error has the problems of all fields, except problems
            whose text would repeat a credential.
    """
    file = Path(file)
    return parse_platform(_read_text(file), file, environment)


def parse_platform(text: bytes, file: Path, environment: str = "") -> Platform:
    """Return the platform of the text of a platform.yaml. See `load_platform` for arguments and errors."""
    document = _only_document(text, file)
    name = environment or selected_environment()
    require_environment(document.data, name, str(file), _line_of_environments(text, document))
    (platform,) = _validate(text, document, file, [name])
    return platform


def load_environments(file: Path) -> dict[str, Platform]:
    """Return environment → its platform, in the order of the file.

    For a file without environments, the result has one platform with the key "". If the user selects an environment by
    `--environment`, the result has only this environment.

    Raises:
        ConfigError: as for `load_platform`, with the problems of all environments, or two environments have platforms
            of the same name.
    """
    text = _read_text(file)
    document = _only_document(text, file)
    names = list(find_environments(document.data)) or [""]
    if name := selected_environment():
        require_environment(document.data, name, str(file), _line_of_environments(text, document))
        names = [name]
    return dict(zip(names, _validate(text, document, file, names), strict=True))


def _line_of_environments(text: bytes, document: Document) -> int:
    return locate_all(text, document.index, [(ENVIRONMENTS,)])[ENVIRONMENTS,].key[0]


def _validate(text: bytes, document: Document, file: Path, environments: Sequence[str]) -> list[Platform]:
    """Return the platforms of some environments of a document; the environment "" is the document itself.

    Raises:
        ConfigError: with the problems of all these environments. A mistake of the base is one problem.
    """
    secrets = find_credentials(document.data)
    mistakes = [
        Mistake(path, f"this field holds {kind}, and every reader of the file can see it", _CREDENTIAL_FIX)
        for path, kind in secrets
    ]
    secret_paths = {path for path, _ in secrets}
    platforms: list[Platform] = []
    context = {READER: file_reader(file)}
    for merged in [merge(document.data, environment) for environment in environments]:
        mistakes += merged.mistakes
        try:
            platforms.append(Platform.model_validate(merged.data, by_alias=True, by_name=False, context=context))
        except ValidationError as error:
            explained = [merged.in_file(mistake) for mistake in _explain(error, merged.data)]
            mistakes += [mistake for mistake in explained if mistake.path not in secret_paths]
    if len(platforms) == len(environments):
        mistakes += find_equal_names(dict(zip(environments, (one.platform for one in platforms), strict=True)))
    secret_values = [str(reduce(getitem, path, document.data)) for path, _ in secrets]
    exposed = find_exposures(text.decode("utf-8", "replace"), secret_values)
    if mistakes or exposed:
        problems = place_mistakes(dict.fromkeys(mistakes), text, document, file)
        raise ConfigError(hide_credentials(problems, exposed, secret_values, str(file)))
    return platforms


def _explain(error: ValidationError, data: dict[str, Any]) -> list[Mistake]:
    """Return every mistake in the data: invalid values, contradictions in sections, and mistakes between sections."""
    invalid = [] if all(detail["type"] == RULE_BROKEN for detail in error.errors()) else mistakes_in(error, Platform)
    partial, contradictions = salvage(data)
    return [*invalid, *contradictions, *find_mistakes(partial)]


def hide_credentials(
    problems: Iterable[Problem], exposed: Sequence[Exposure], values: Iterable[str], file: str
) -> tuple[Problem, ...]:
    """Return the problems whose text repeats no credential, and a problem for each exposed credential, by line.

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
        documents = load_file(text, file)
    except DocumentError as error:
        exposed = find_exposures(text.decode("utf-8", "replace"))
        raise ConfigError(hide_credentials(error.problems, exposed, (), str(file))) from None
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


_LISTS: dict[str, type[BaseModel]] = dict(
    zip(SORTED, (ServerType, Fabric, Pool, MpiFamily, Runtime, Tenant, Cohort), strict=True)
)
_SECTIONS: dict[str, type[BaseModel]] = {
    "cluster": Cluster,
    "policies": Policies,
    "access": PlatformAccess,
    "isolation": Isolation,
    "queues": Queues,
    "gitops": GitOps,
}
_STAND_IN = "unnamed"
_STAND_INS: dict[str, Any] = {
    "name": _STAND_IN,
    "nodes": 10**6,
    "image": "unknown",
    "mountPath": "/unknown",
    "ports": [1],
    "reason": "unknown",
    "description": "unknown",
    "until": "9999-12-31",
    "pool": _STAND_IN,
    "like": "openmpi",
    "quota": {_STAND_IN: 0},
    "allocatable": {"cpu": 1, "memory": "1Gi"},
    "repository": "https://unknown",
    "provider": {"kubernetes": {}},
}
"""Required field → a valid value in place of an invalid one, so that pydantic checks the other fields of the entry."""
_NOT_OF_LABELS = {"name", "nodes", "allocatable"}
"""Fields of a pool that do not change its labels and taints."""
_NOT_OF_DEVICES = {
    *("name", "nics", "mtu", "vlan", "pkey", "rdma", "networks", "selectors", "gpuDirect", "fallback", "preflight"),
    "nodes",
}
"""Fields of a fabric that do not change the resources and addresses that pods get."""
_LONGEST_NAME = 63
_ATTEMPTS = 6  # removing one invalid value can reveal another


def salvage(data: dict[str, Any]) -> tuple[PartialPlatform, list[Mistake]]:
    """Return the sections, entries and fields of the file that pydantic accepts, and contradictions between them.

    Pydantic itself reports contradictions only in sections without invalid fields.
    """
    data = resolve_servers(data, is_partial=True)
    entries = {section: _salvage_entries(section, data.get(section)) for section in SORTED}
    sections = {section: _salvage_section(section, data) for section in _SECTIONS}
    names = {section: _names_of(section, data) for section in SORTED}
    pools, fabrics = entries["pools"], entries["fabrics"].known.values()
    lists: dict[str, Any] = {section: kept.known for section, kept in entries.items()}
    lists["pools"] = {index: pool.wired(fabrics) for index, pool in pools.known.items()}
    families = [entry.family for entry in entries["families"].known.values()]
    lists["runtimes"] = {index: runtime.with_family(families) for index, runtime in lists["runtimes"].items()}
    mappings: dict[str, Any] = {section: kept.section for section, kept in sections.items()}
    name, earlier, removed = (data.get(key) for key in ("platform", "renamedFrom", "removed"))
    partial = PartialPlatform(
        platform=name if isinstance(name, str) else "",
        renamed_from=earlier if isinstance(earlier, str) else "",
        patched_tenants=_patched_tenants(data.get("patches")),
        rule_counts={
            _name_of(role): len(role["rules"])
            for _, role in indexed_mappings(mapping(data, "access").get("roles"))
            if isinstance(role.get("rules"), list)
        },
        removed=tuple(key for key in (removed if isinstance(removed, dict) else ()) if isinstance(key, str)),
        **lists,
        **mappings,
        names={
            **names,
            "priorities": _priority_names(data.get("queues")),
            "roles": _role_names(data.get("access")),
        },
        pools_without_resources=pools.shapeless,
        pools_without_nodes=frozenset(
            pool.name for index, pool in {**pools.known, **pools.shapeless}.items() if "nodes" in pools.invalid[index]
        ),
        fabrics_without_devices={
            fabric.name: fabric
            for index, fabric in entries["fabrics"].shapeless.items()
            if "resource" not in entries["fabrics"].invalid[index]
        },
        unclear_pools=frozenset(index for index, fields in pools.invalid.items() if fields - _NOT_OF_LABELS),
        invalid_fields=frozenset(
            [
                *(f"{section}.{field}" for section, kept in sections.items() for field in kept.invalid),
                *(f"tenants.{field}" for fields in entries["tenants"].invalid.values() for field in fields),
            ]
        ),
        stand_in=_STAND_IN,
    )
    contradictions = [mistake for kept in entries.values() for mistake in kept.contradictions]
    return partial, contradictions + [mistake for kept in sections.values() for mistake in kept.contradictions]


class _Entries(NamedTuple):
    """The entries of a list of the file, such as `pools`, by their positions and without their invalid fields.

    Attributes:
        known: the entries whose resources are known, in the order of a Platform.
        shapeless: the pools and fabrics whose resources are unknown, and the families with invalid fields.
        invalid: position → the names of the invalid fields.
        contradictions: mistakes that pydantic reports only for an entry without invalid values.
    """

    known: dict[int, Any]
    shapeless: dict[int, Any]
    invalid: dict[int, set[str]]
    contradictions: list[Mistake]


def _salvage_entries(section: str, raw: object) -> _Entries:
    """Return the entries of a list of the file. An entry whose name is unusable in messages is named after its path."""
    known: dict[int, Any] = {}
    result = _Entries(known, {}, {}, [])
    for index, raw_entry in enumerate(raw if isinstance(raw, list) else []):
        kept = _remove_invalid(_LISTS[section], raw_entry if isinstance(raw_entry, dict) else {}, (section, index))
        result.invalid[index] = kept.invalid
        result.contradictions.extend(kept.contradictions)
        if kept.section is not None:
            values = {**_named_lists(kept.section), "name": _name_of(raw_entry) or f"{section}[{index}]"}
            is_unclear = isinstance(getattr(kept.section, "server", None), InvalidServer)
            to = result.shapeless if is_unclear or _is_shapeless(section, kept.invalid) else known
            to[index] = copy_unchecked(kept.section, **values)
    # In the order of a Platform, so that YAML and Python report the same entry of two that conflict.
    return result._replace(known=dict(sorted(known.items(), key=lambda item: str(item[1].name))))


def _salvage_section(section: str, data: dict[str, Any]) -> _Kept:
    """Return a section that is a mapping, such as `cluster`, without its invalid fields, which get their defaults.

    Required fields get placeholders instead. The section is None for `gitops` if the file does not set it.
    """
    raw = data.get(section, {})
    if section == "gitops" and data.get("gitops") is None:
        return _Kept(None, set(), [])
    model = _SECTIONS[section]
    kept = _remove_invalid(model, raw, (section,)) if isinstance(raw, dict) else _Kept(None, {"*"}, [])
    return kept._replace(section=kept.section or model.model_construct())


def _names_of(section: str, data: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of all entries of a section, valid or not.

    A name that is missing, or that messages cannot show, is `UNKNOWN_NAME`. If the entries are unknown (see
    `_is_declared`), the result is `UNKNOWN_NAME` alone.
    """
    raw = data.get(section)
    raw_entries = raw if isinstance(raw, list) else []
    return tuple(map(_name_of, raw_entries)) if _is_declared(section, data) else (UNKNOWN_NAME,)


def _is_shapeless(section: str, invalid: set[str]) -> bool:
    """Return True if an invalid field sets the resources of a pool or a fabric, or any field of a family is."""
    if section in ("families", "servers"):
        return bool(invalid)
    if section == "fabrics":
        return bool(invalid - _NOT_OF_DEVICES)
    return section == "pools" and not invalid.isdisjoint({"allocatable", "fabric"})


def _named_lists(entry: BaseModel) -> dict[str, Any]:
    """Return the lists of an entry without items whose name is invalid, because no message can show such a name."""
    values = ((field, getattr(entry, field)) for field in type(entry).model_fields)
    lists = {field: value for field, value in values if isinstance(value, tuple)}
    return {
        field: tuple(item for item in value if getattr(item, "name", "") != _STAND_IN) for field, value in lists.items()
    }


def _is_declared(section: str, data: dict[str, Any]) -> bool:
    """Return True if the entries of a section are known.

    They are unknown if the section is not a list, if there are no pools, or if the section is missing and an unknown
    key of the file may be its misspelling.
    """
    if section in data or section == "pools":
        return isinstance(data.get(section), list) and bool(data[section] or section != "pools")
    return data.keys() <= {info.alias or name for name, info in Platform.model_fields.items()}


class _Kept(NamedTuple):
    """A section without its invalid values.

    Attributes:
        section: the section without its invalid values; None if the rest is invalid too.
        invalid: the names of the fields with invalid values; `*` if the section is not a mapping.
        contradictions: mistakes that pydantic reports only after the invalid values are removed.
    """

    section: BaseModel | None
    invalid: set[str]
    contradictions: list[Mistake]


def _remove_invalid(model: type[BaseModel], raw: dict[str, Any], path: Steps) -> _Kept:
    """Remove invalid values at most 6 times, or put placeholders for required ones, until the model accepts the rest.

    Args:
        model: the model of the section.
        raw: the section in the file.
        path: the path of the section in the file.
    """
    invalid: set[str] = set()
    contradictions: list[Mistake] = []
    removed: list[Steps] = []
    rest = raw
    for attempt in range(_ATTEMPTS):
        try:
            return _Kept(model.model_validate(rest, by_alias=True, by_name=False), invalid, contradictions)
        except ValidationError as error:
            mistakes = mistakes_in(error, model)
        placed = [(mistake, _original_path(mistake.path, removed)) for mistake in mistakes]
        for mistake, place in placed if attempt else ():
            if not any(_is_around(one, other) for one in (place, *mistake.reads) for other in removed):
                contradictions.append(replace(mistake, path=(*path, *place)))
        invalid |= {str(place[0]) for _, place in placed if place}
        parts = {_part_to_replace(rest, mistake.path) for mistake in mistakes} - {()}
        rest = _without(rest, [*parts])
        removed += {_original_path(part, removed) for part in parts} | {place for _, place in placed}
    return _Kept(None, invalid, contradictions)


def _is_around(one: Steps, other: Steps) -> bool:
    """Return True if one of two paths is the start of the other, so that one value contains the other."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _original_path(path: Steps, removed: list[Steps]) -> Steps:
    """Translate a path in a copy without the removed values into the path in the file.

    A removed item of a list shifts the positions of the items after it.
    """
    original: Steps = ()
    for step in path:
        if isinstance(step, int):
            gone = sorted(place[-1] for place in {*removed} if place[:-1] == original and isinstance(place[-1], int))
            for position in gone:
                step += position <= step  # noqa: PLW2901 - counts the removed items before the value
        original = (*original, step)
    return original


def _part_to_replace(data: Any, path: Steps) -> Steps:
    """Return the longest part of a path that exists in the data: `a.b` for `a.b.c` if `a.b` has no key `c`.

    A missing field that gets a placeholder counts as existing.
    """
    for length, step in enumerate(path):
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return path if isinstance(data, dict) and path[length:] == (step,) and step in _STAND_INS else path[:length]
    return path


def _without(data: Any, paths: list[Steps]) -> Any:
    """Return a copy of the data without the values at the paths. Required fields get placeholders."""
    inner: dict[str | int, list[Steps]] = {}
    for step, *rest in paths:
        inner.setdefault(step, []).append(tuple(rest))
    if isinstance(data, dict):
        return {
            key: _without(value, inner.get(key, [])) if () not in inner.get(key, []) else _STAND_INS[key]
            for key, value in data.items()
            if () not in inner.get(key, []) or (key in _STAND_INS and value != _STAND_INS[key])
        } | {key: _STAND_INS[str(key)] for key, rest in inner.items() if () in rest and key not in data}
    if isinstance(data, list):
        return [_without(value, inner.get(at, [])) for at, value in enumerate(data) if () not in inner.get(at, [])]
    return data


def _patched_tenants(patches: object) -> dict[int, str]:
    """Return position → the tenant in the target of a patch, for tenants that are names."""
    return {
        index: name
        for index, patch in indexed_mappings(patches)
        if (name := _name_of({"name": mapping(patch, "target").get("tenant")}))
    }


def _priority_names(queues: object) -> tuple[str, ...]:
    raw = queues.get("priorities") if isinstance(queues, dict) else None
    if raw is None:
        return tuple(priority.name for priority in PRIORITIES)
    return tuple(map(_name_of, raw)) if isinstance(raw, list) else (UNKNOWN_NAME,)


def _role_names(access: object) -> tuple[str, ...]:
    raw = access.get("roles") if isinstance(access, dict) else access
    if raw is None:
        return ()
    return tuple(map(_name_of, raw)) if isinstance(raw, list) else (UNKNOWN_NAME,)


def _name_of(raw: object) -> str:
    """Return the name of an entry, even an invalid name such as `GPU`.

    The result is UNKNOWN_NAME if the name is no string, too long, or not printable.
    """
    name = raw.get("name") if isinstance(raw, dict) else None
    return name if isinstance(name, str) and len(name) <= _LONGEST_NAME and name.isprintable() else UNKNOWN_NAME
