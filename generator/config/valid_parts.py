"""Find the valid parts of a platform that pydantic rejects, so that one mistake does not hide others.

The rules between sections then read these parts. The platform is the data of a platform.yaml, or the arguments of a
Platform in Python, whose sections can be objects already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from generator.config.mistakes import Mistake, mistakes_in
from generator.config.model.access import PlatformAccess
from generator.config.model.cluster import Cluster, GitOps
from generator.config.model.devices import DeviceType
from generator.config.model.fabrics import Fabric
from generator.config.model.families import MpiFamily
from generator.config.model.fields import Section, Steps, copy_unchecked
from generator.config.model.isolation import Isolation
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import PRIORITIES, Queues
from generator.config.model.runtimes import Runtime
from generator.config.model.servers import InvalidServer, ServerType, resolve_servers
from generator.config.model.tenants import Cohort, Tenant
from generator.config.rules.rule import UNKNOWN_NAME, PartialPlatform
from generator.facts.devices import Device
from generator.objects.fields import indexed_mappings, mapping

LISTS: Mapping[str, type[Section]] = {
    "devices": DeviceType,
    "servers": ServerType,
    "fabrics": Fabric,
    "pools": Pool,
    "families": MpiFamily,
    "runtimes": Runtime,
    "tenants": Tenant,
    "cohorts": Cohort,
}
"""The sections that are lists of named entries → the model of an entry."""
SECTIONS: Mapping[str, type[Section]] = {
    "cluster": Cluster,
    "policies": Policies,
    "access": PlatformAccess,
    "isolation": Isolation,
    "queues": Queues,
    "gitops": GitOps,
}
"""The sections that are mappings → their models."""
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


def salvage(
    data: Mapping[str, Any], aliases: Mapping[str, str], *, by_name: bool = False
) -> tuple[PartialPlatform, list[Mistake]]:
    """Return the sections, entries and fields of a platform that pydantic accepts, and contradictions between them.

    Pydantic itself reports contradictions only in sections without invalid fields.

    Args:
        data: the data of the file, or the arguments of a Platform.
        aliases: name of a field of a Platform in Python → its name in YAML.
        by_name: True if fields can also have their names in Python, such as `per_node`.
    """
    names_in_yaml = aliases if by_name else {}
    data = {names_in_yaml.get(key, key): _listed(value) for key, value in data.items()}
    values = resolve_servers(data, is_partial=True)
    entries = {section: _salvage_entries(section, values.get(section), by_name=by_name) for section in LISTS}
    sections = {section: _salvage_section(section, values, by_name=by_name) for section in SECTIONS}
    data = {key: _to_plain(value) for key, value in values.items()}
    names = {section: _names_of(section, data, aliases.values()) for section in LISTS}
    devices = [entry.device for entry in entries["devices"].known.values()]
    is_complete = len(devices) == len(names["devices"])
    pools = _bind(entries["pools"], entries["fabrics"].known.values(), devices, is_complete=is_complete)
    lists: dict[str, Any] = {section: kept.known for section, kept in (entries | {"pools": pools}).items()}
    families = [entry.family for entry in entries["families"].known.values()]
    lists["runtimes"] = {index: runtime.with_family(families) for index, runtime in lists["runtimes"].items()}
    mappings: dict[str, Any] = {section: kept.section for section, kept in sections.items()}
    name, earlier, removed = (data.get(key) for key in ("platform", "renamedFrom", "removed"))
    partial = PartialPlatform(
        platform=name if isinstance(name, str) else "",
        renamed_from=earlier if isinstance(earlier, str) else "",
        patched_tenants=_patched_tenants(data.get("patches")),
        rule_counts={
            position: len(role["rules"])
            for position, role in indexed_mappings(mapping(data, "access").get("roles"))
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
        invalid_families=entries["families"].shapeless,
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


def _listed(value: object) -> object:
    """Return a set or another collection that a field accepts in Python as a list."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Collection):
        return value
    return [*value]


def _to_plain(value: object) -> object:
    """Return a value with mappings in place of sections, and lists in place of tuples, as in a file."""
    if isinstance(value, Section):
        return {info.alias: _to_plain(getattr(value, name)) for name, info in type(value).model_fields.items()}
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items()}
    return [*map(_to_plain, value)] if isinstance(value, list | tuple) else value


def _salvage_entries(section: str, raw: object, *, by_name: bool) -> _Entries:
    """Return the entries of a list. An entry whose name is unusable in messages is named after its path."""
    known: dict[int, Any] = {}
    result = _Entries(known, {}, {}, [])
    model = LISTS[section]
    for index, raw_entry in enumerate(raw if isinstance(raw, list) else []):
        if isinstance(raw_entry, model):
            kept = _Kept(raw_entry, set(), [])
        else:
            raw_values = raw_entry if isinstance(raw_entry, dict) else {}
            kept = _remove_invalid(model, raw_values, (section, index), by_name=by_name)
        result.invalid[index] = kept.invalid
        result.contradictions.extend(kept.contradictions)
        if kept.section is not None:
            values = {**_named_lists(kept.section), "name": _name_of(_to_plain(raw_entry)) or f"{section}[{index}]"}
            is_unclear = isinstance(getattr(kept.section, "server", None), InvalidServer)
            to = result.shapeless if is_unclear or _is_shapeless(section, kept.invalid) else known
            to[index] = copy_unchecked(kept.section, **values)
    # In the order of a Platform, so that YAML and Python report the same entry of two that conflict.
    return result._replace(known=dict(sorted(known.items(), key=lambda item: str(item[1].name))))


def _bind(pools: _Entries, fabrics: Collection[Fabric], devices: Collection[Device], *, is_complete: bool) -> _Entries:
    """Return the pools with their fabrics, and with the valid device types of the platform.

    Args:
        pools: the pools as declared.
        fabrics: the valid fabrics.
        devices: the valid device types.
        is_complete: False if the platform has further device types. A pool without an accelerator may then have one of
            these, so its resources are unknown.
    """
    bound = {index: pool.wired(fabrics).with_devices(devices) for index, pool in pools.known.items()}
    unclear = {
        index: pool
        for index, pool in bound.items()
        if not is_complete and not pool.accelerator and any("/" in name for name in pool.declared.allocatable)
    }
    known = {index: pool for index, pool in bound.items() if index not in unclear}
    return pools._replace(known=known, shapeless=pools.shapeless | unclear)


def _salvage_section(section: str, data: Mapping[str, Any], *, by_name: bool) -> _Kept:
    """Return a section that is a mapping, such as `cluster`, without its invalid fields, which get their defaults.

    Required fields get placeholders instead. The section is None for `gitops` if the file does not set it.
    """
    raw = data.get(section, {})
    if section == "gitops" and data.get("gitops") is None:
        return _Kept(None, set(), [])
    model = SECTIONS[section]
    if isinstance(raw, model):
        return _Kept(raw, set(), [])
    is_mapping = isinstance(raw, dict)
    kept = _remove_invalid(model, raw, (section,), by_name=by_name) if is_mapping else _Kept(None, {"*"}, [])
    return kept._replace(section=kept.section or model.model_construct())


def _names_of(section: str, data: Mapping[str, Any], fields: Collection[str]) -> tuple[str, ...]:
    """Return the names of all entries of a section, valid or not.

    A name that is missing, or that messages cannot show, is `UNKNOWN_NAME`. If the entries are unknown (see
    `_is_declared`), the result is `UNKNOWN_NAME` alone.
    """
    raw = data.get(section)
    raw_entries = raw if isinstance(raw, list) else []
    return tuple(map(_name_of, raw_entries)) if _is_declared(section, data, fields) else (UNKNOWN_NAME,)


def _is_shapeless(section: str, invalid: set[str]) -> bool:
    """Return True if an invalid field sets the resources of a pool or a fabric.

    For a device type, a family or a server type, every invalid field counts.
    """
    if section in ("devices", "families", "servers"):
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


def _is_declared(section: str, data: Mapping[str, Any], fields: Collection[str]) -> bool:
    """Return True if the entries of a section are known.

    They are unknown if the section is not a list, if there are no pools, or if the section is missing and an unknown
    key of the file may be its misspelling.

    Args:
        section: the section.
        data: the data of the file.
        fields: the fields of a Platform, with their names in YAML.
    """
    if section in data or section == "pools":
        return isinstance(data.get(section), list) and bool(data[section] or section != "pools")
    return data.keys() <= {*fields}


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


def _remove_invalid(model: type[BaseModel], raw: dict[str, Any], path: Steps, *, by_name: bool) -> _Kept:
    """Remove invalid values at most 6 times, or put placeholders for required ones, until the model accepts the rest.

    Args:
        model: the model of the section.
        raw: the section in the file.
        path: the path of the section in the file.
        by_name: True if fields can also have their names in Python.
    """
    aliases = {name: info.alias or name for name, info in model.model_fields.items()} if by_name else {}
    invalid: set[str] = set()
    contradictions: list[Mistake] = []
    removed: list[Steps] = []
    rest = raw
    for attempt in range(_ATTEMPTS):
        try:
            return _Kept(model.model_validate(rest, by_alias=True, by_name=by_name), invalid, contradictions)
        except ValidationError as error:
            mistakes = mistakes_in(error, model, by_name=by_name)
        placed = [(mistake, _original_path(mistake.path, removed)) for mistake in mistakes]
        for mistake, place in placed if attempt else ():
            if not any(_is_around(one, other) for one in (place, *mistake.reads) for other in removed):
                contradictions.append(replace(mistake, path=(*path, *place)))
        invalid |= {aliases.get(str(place[0]), str(place[0])) for _, place in placed if place}
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
    if isinstance(data, list | tuple):
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
