"""Updates of an object: its stored form, and the result of server-side apply.

Stored form: the API server drops nulls, sets defaults and normalizes quantities, so two manifests with the same stored
form are the same object. Sources: apiextensions-apiserver v0.34.2
pkg/apiserver/schema/defaulting/algorithm.go; apiextensions-apiserver v0.34.2
pkg/apiserver/schema/defaulting/prunenulls.go
PruneNonNullableNullsWithoutDefaults, for custom resources; generator/facts/defaults.yaml for built-in kinds.

Server-side apply removes the fields of the older manifest that the new one lacks, with everything below them. It keeps
fields that no manifest sets, such as defaults. Source: structured-merge-diff v6.3.0 merge/update.go Updater.prune;
structured-merge-diff v6.3.0 typed/remove.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from generator import quantities
from generator.documents.load import Path
from generator.facts.table import read_text
from generator.objects.fields import mapping
from generator.schemas.json_schema import NULLABLE, Schema, node_of_key, reference, resolve
from generator.schemas.json_schema import UNIQUE_ITEMS_BY as LIST_KEYS
from generator.schemas.patterns import QUANTITIES, QUANTITY

_VERSION = re.compile(r"\.v[0-9][a-z0-9]*\.")
_TAG = re.compile(r"[^/]*?(?::(?P<tag>[^@/]*))?(?P<digest>@.*)?")
_MEBI = 2**20
_ALWAYS_COUNTS = "ExactCount"
_BUILT_IN = "meta.v1."


@dataclass(frozen=True, slots=True)
class _Type:
    """The defaults of a built-in type, and the fields in which the API server treats a zero value as absent.

    Attributes:
        defaults: field → its default.
        zeros: fields in which 0, false and an empty mapping equal an absent field.
        pointers: fields in which an empty string differs from an absent field. In other fields it equals an absent one.
    """

    defaults: Mapping[str, Any]
    zeros: frozenset[str]
    pointers: frozenset[str]


_PLAIN = _Type({}, frozenset(), frozenset())


@cache
def _types() -> Mapping[str, _Type]:
    rows = yaml.load(read_text("generator.facts", "defaults.yaml"), yaml.CSafeLoader)
    return {
        row["type"]: _Type(row.get("defaults", {}), frozenset(row.get("zeros", ())), frozenset(row.get("pointers", ())))
        for row in rows
    }


def normalize_custom(value: Any, node: Schema, schema: Schema) -> Any:
    """Return a custom resource, or a part of one, without the nulls that the API server drops and with its defaults.

    Args:
        value: the object or the part.
        node: the schema of `value`.
        schema: the schema of the whole object, with the definitions that `node` references.
    """
    name, node = resolve(node, schema)
    if name.startswith(_BUILT_IN):
        return value
    if isinstance(value, list):
        return [normalize_custom(item, node.get("items", {}), schema) for item in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, child in value.items():
        _, below = resolve(node_of_key(node, key), schema)
        if child is not None or below.get(NULLABLE):
            result[key] = normalize_custom(child, below, schema)
    for key, below in node.get("properties", {}).items():
        if key not in result and ("default" in below or "$ref" in below):
            _, child = resolve(below, schema)
            if "default" in child:
                result[key] = normalize_custom(child["default"], child, schema)
    return result


def find_quantities(value: Any, node: Schema, schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) of each field whose schema is that of a quantity.

    Args:
        value: an object, or a part of one.
        node: the schema of `value`.
        schema: the schema of the whole object.
        path: the path of `value` in the object.
    """
    _, node = resolve(node, schema)
    if isinstance(value, dict):
        for key, child in value.items():
            yield from find_quantities(child, node_of_key(node, key), schema, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_quantities(item, node.get("items", {}), schema, (*path, index))
    elif node.get("pattern") in QUANTITIES:
        yield path, value


def normalize_built_in(body: Mapping[str, Any], schema: Schema) -> Any:
    """Return a built-in object in stored form: with defaults, and with one spelling for each amount."""
    group, _, version = str(body.get("apiVersion")).rpartition("/")
    whole = {**body, "spec": body.get("spec") or {}} if "spec" in schema.get("properties", {}) else body
    return _built_in(whole, schema, schema, f"{group.partition('.')[0] or 'core'}.{version}.{body.get('kind')}")


def normalize_go_type(value: Any, name: str, schema: Schema) -> Any:
    """Return a value of a built-in type without defaults and without the fields that Go treats as absent.

    Args:
        value: the value, such as a pod template in a custom resource.
        name: the definition of its type.
        schema: a schema with this definition.
    """
    return _built_in(value, reference(name), schema, has_defaults=False)


def _built_in(value: Any, node: Schema, schema: Schema, name: str = "", *, has_defaults: bool = True) -> Any:
    pointer, node = resolve(node, schema)
    if isinstance(value, Mapping):
        return _struct(value, node, schema, _VERSION.sub(".", pointer or name), has_defaults=has_defaults)
    if isinstance(value, list):
        return [_built_in(item, node.get("items", {}), schema, has_defaults=has_defaults) for item in value]
    if node.get("pattern") == QUANTITY and isinstance(value, str | int | float):
        return normalize_quantity(value)
    return value


def _struct(value: Mapping[str, Any], node: Schema, schema: Schema, name: str, *, has_defaults: bool) -> dict[str, Any]:
    type_ = _types().get(name, _PLAIN)
    properties = node.get("properties") or {}
    result: dict[str, Any] = {}
    for key, child in value.items():
        below = node_of_key(node, key)
        known = _built_in(child, below, schema, has_defaults=has_defaults)
        is_struct = "properties" in resolve(below, schema)[1]
        if not (below and properties and _is_absent(known, key, type_, is_struct)):
            result[key] = known
    if not has_defaults:
        return result
    for key, default in type_.defaults.items():
        result.setdefault(key, _built_in(default, properties.get(key, {}), schema))
    for key, below in properties.items():
        if "default" in below:
            result.setdefault(key, below["default"])
    if compute := _COMPUTED.get(name):
        compute(result)
    return result


def _is_absent(value: Any, key: str, type_: _Type, is_struct: bool) -> bool:
    """Return True if the API server stores the value of a field as if the field were absent."""
    if value is None or (value == "" and key not in type_.pointers):
        return True
    if key in type_.zeros:
        return value in (False, 0) or value == {}
    return value in ([], {}) and not is_struct


def normalize_quantity(value: str | float) -> str:
    """Return one spelling for equal amounts: multiples of 1Mi get a binary suffix.

    A text that is not a quantity stays unchanged.
    """
    try:
        amount = quantities.parse(str(value).strip()).value
    except ValueError:
        return str(value)
    return str(quantities.Quantity(amount, is_binary=amount >= _MEBI and amount % _MEBI == 0))


def _container(container: dict[str, Any]) -> None:
    """Set an absent pull policy by the image's tag: kubernetes v1.34.2 pkg/util/parsers/parsers.go ParseImageName."""
    match = _TAG.fullmatch(str(container.get("image", "")).rpartition("/")[2])
    is_latest = match is not None and not match["digest"] and (match["tag"] or "latest") == "latest"
    container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")


def _pod(pod: dict[str, Any]) -> None:
    """Set absent requests of containers to their limits.

    Source: kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_Pod
    """
    spec = mapping(pod.get("spec"))
    for name in ("containers", "initContainers"):
        containers = spec.get(name)
        for container in containers if isinstance(containers, list) else ():
            resources = mapping(mapping(container).get("resources"))
            if limits := mapping(resources.get("limits")):
                resources["requests"] = {**limits, **mapping(resources.get("requests"))}


def _pod_spec(spec: dict[str, Any]) -> None:
    """Set both names of the ServiceAccount.

    Source: kubernetes v1.34.2 pkg/apis/core/v1/conversion.go Convert_v1_PodSpec_To_core_PodSpec

    Removal of one name alone changes nothing, because the API server restores it from the other name.
    """
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec |= {"serviceAccountName": account, "serviceAccount": account}


def _job(spec: dict[str, Any]) -> None:
    """Set an absent `parallelism` to 1, and also `completions` if both are absent."""
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)


def _volume(volume: dict[str, Any]) -> None:
    """Make a volume without a source an emptyDir.

    Source: kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_Volume
    """
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}


def _device_request(request: dict[str, Any]) -> None:
    if request.get("allocationMode") == _ALWAYS_COUNTS:
        request.setdefault("count", 1)


def _any_request(request: dict[str, Any]) -> None:
    """Nest the fields of an exact device request in `exactly`; in v1beta1 they are beside its name.

    Source: kubernetes v1.34.2 pkg/apis/resource/v1beta1/conversion.go
    Convert_v1beta1_DeviceRequest_To_resource_DeviceRequest.
    """
    if "firstAvailable" not in request:
        exact = request.get("exactly") or {key: request.pop(key) for key in list(request) if key != "name"}
        exact.setdefault("allocationMode", _ALWAYS_COUNTS)
        _device_request(exact)
        request["exactly"] = exact


def _claim(spec: dict[str, Any]) -> None:
    """Set `dataSource` and `dataSourceRef`.

    Source: kubernetes v1.34.2 pkg/api/persistentvolumeclaim/util.go NormalizeDataSources
    """
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = source
    elif reference and not source and not mapping(reference).get("namespace"):
        spec["dataSource"] = reference


def _secret(secret: dict[str, Any]) -> None:
    """Move `stringData` to `data`.

    Source: kubernetes v1.34.2 pkg/apis/core/v1/conversion.go Convert_v1_Secret_To_core_Secret
    """
    written = mapping(secret.pop("stringData", None))
    data = {**mapping(secret.get("data")), **{key: _encoded(value) for key, value in written.items()}}
    if data:
        secret["data"] = {key: _same_base64(value) for key, value in data.items()}


def _encoded(value: object) -> str:
    return base64.b64encode(str(value).encode()).decode()


def _same_base64(value: object) -> str:
    """Return base64 without line breaks, which Go ignores."""
    try:
        return base64.b64encode(base64.b64decode(str(value))).decode()
    except (binascii.Error, ValueError):
        return str(value)


_COMPUTED = {
    "core.Container": _container,
    "core.Pod": _pod,
    "core.PodSpec": _pod_spec,
    "core.Volume": _volume,
    "core.PersistentVolumeClaimSpec": _claim,
    "core.Secret": _secret,
    "batch.JobSpec": _job,
    "resource.ExactDeviceRequest": _device_request,
    "resource.DeviceSubRequest": _device_request,
    "resource.DeviceRequest": _any_request,
}


MAP_TYPE = "x-kubernetes-map-type"
_ATOMIC = "atomic"
_ABSENT = object()
_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The object that a server-side apply stores.

    Attributes:
        body: the object.
        emptied: (path, old value) of each mapping that the new manifest sets to `{}`, if the older manifest set all its
            keys. The apply sets the mapping to null, which the API server rejects in custom resources.
    """

    body: Any
    emptied: Sequence[tuple[Path, Any]]


def apply(written: Any, stored: Any, new: Any, schema: Schema) -> ApplyResult:
    """Return the result of a server-side apply that replaces an older manifest.

    Args:
        written: the older manifest.
        stored: the stored form of the older manifest, with defaults.
        new: the new manifest.
        schema: the JSON Schema of the kind.
    """
    merge = _Merge(schema, [])
    body = merge.merged(written, stored, new, schema, ())
    return ApplyResult(
        body, [(path, old) for path, old in merge.emptied if path[:1] != ("metadata",)]
    )  # a Go struct, in which null is empty


@dataclass(frozen=True, slots=True)
class _Merge:
    schema: Schema
    emptied: list[tuple[Path, Any]]

    def merged(self, written: Any, stored: Any, new: Any, node: Schema, path: Path) -> Any:
        """Return the value at a path after the apply; `_ABSENT` if the apply removes it."""
        _, node = resolve(node, self.schema)
        if isinstance(new, dict) and node.get(MAP_TYPE) != _ATOMIC:
            before, live = (value if isinstance(value, dict) else {} for value in (written, stored))
            return self._mapping(before, live, new, node, path)
        if isinstance(new, list) and isinstance(written, list):
            if not new and written and (LIST_KEYS in node or node.get("uniqueItems")):
                return _ABSENT
            return self._list(written, stored, new, node, path)
        return new

    def _mapping(
        self, written: Mapping[str, Any], stored: Mapping[str, Any], new: Mapping[str, Any], node: Schema, path: Path
    ) -> Any:
        result = {
            key: self.merged(written.get(key), stored.get(key), value, node_of_key(node, key), (*path, key))
            for key, value in new.items()
        }
        kept = {key: value for key, value in stored.items() if key not in written and key not in new}
        if written and not (new or kept) and not _may_be_null(node):
            self.emptied.append((path, written))
        return {key: value for key, value in {**result, **kept}.items() if value is not _ABSENT}

    def _list(self, written: list[Any], stored: Any, new: list[Any], node: Schema, path: Path) -> list[Any]:
        keys = node.get(LIST_KEYS)
        if not keys:
            return new
        before, live = (by_key(items, keys) for items in (written, stored))
        return [
            self.merged(before.get(key), live.get(key), item, node.get("items", {}), (*path, index))
            for index, item in enumerate(new)
            for key in [key_of(item, keys)]
        ]


def _may_be_null(node: Schema) -> bool:
    return bool(node.get(NULLABLE)) or "default" in node or "object" not in node.get("type", ())


def by_key(items: Any, keys: Mapping[str, Any] | None) -> dict[_Key, Any]:
    """Return key (see `key_of`) → item of a list; empty if `keys` is empty or None, or if `items` is not a list."""
    return {key_of(item, keys): item for item in items} if keys and isinstance(items, list) else {}


def key_of(item: Any, keys: Mapping[str, Any]) -> _Key:
    """Return the key of a list item: the values of its key fields. `keys` has each key field with its default."""
    values = item if isinstance(item, dict) else {}
    result = (values.get(name, default) for name, default in keys.items())
    return tuple(str(value) if isinstance(value, dict | list) else value for value in result)
