"""Updates of an object: its stored form, the result of server-side apply, and the transition rules of its kind.

Stored form: the API server drops nulls, sets defaults and normalizes quantities, so two manifests with the same stored
form are the same object. Sources: k8s.io/apiextensions-apiserver v0.34.2 pkg/apiserver/schema/
defaulting/{algorithm,prunenulls}.go for custom resources; generator/facts/defaults.yaml for built-in kinds.

Server-side apply removes the fields of the older manifest that the new one lacks, with everything below them. It keeps
fields that no manifest sets, such as defaults. Source: sigs.k8s.io/structured-merge-diff v6.3.0 merge/update.go `prune`
and typed/remove.go.

Transition rules are the CEL rules of a CustomResourceDefinition that compare an object with the stored one. Source:
k8s.io/apiextensions-apiserver v0.34.2 pkg/apiserver/schema/cel/validation.go. The API server skips a rule that reads
`oldSelf` where the stored object has no value, unless the rule sets `optionalOldSelf`. It correlates the items of a
list with `x-kubernetes-list-type: map` by their keys, and no items of other lists.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from generator import quantities
from generator.documents.load import Path
from generator.objects.fields import mapping
from generator.schemas.json_schema import NULLABLE, Schema, reference, resolve
from generator.schemas.json_schema import UNIQUE_ITEMS_BY as LIST_KEYS
from generator.schemas.patterns import QUANTITY

_VERSION = re.compile(r"\.v[0-9][a-z0-9]*\.")
_TAG = re.compile(r"[^/]*?(?::(?P<tag>[^@/]*))?(?P<digest>@.*)?")
_MEBI = 2**20
_ALWAYS_COUNTS = "ExactCount"
_BUILT_IN = "meta.v1."


@dataclass(frozen=True, slots=True)
class _Type:
    """The defaults of a built-in type, and the fields whose zero value equals an absent field."""

    defaults: Mapping[str, Any]
    zeros: frozenset[str]
    pointers: frozenset[str]


_PLAIN = _Type({}, frozenset(), frozenset())


@cache
def _types() -> Mapping[str, _Type]:
    rows = yaml.load(files("generator.facts").joinpath("defaults.yaml").read_text("utf-8"), yaml.CSafeLoader)
    return {
        row["type"]: _Type(row.get("defaults", {}), frozenset(row.get("zeros", ())), frozenset(row.get("pointers", ())))
        for row in rows
    }


def normalize_custom(value: Any, node: Schema, schema: Schema) -> Any:
    """Return a custom resource without the nulls that the API server drops, and with the defaults of its schema."""
    name, node = resolve(node, schema)
    if name.startswith(_BUILT_IN):
        return value
    if isinstance(value, dict):
        properties = node.get("properties", {})
        others = node.get("additionalProperties")
        result = {}
        for key, child in value.items():
            _, below = resolve(properties.get(key, others if isinstance(others, dict) else {}), schema)
            if child is not None or below.get(NULLABLE):
                result[key] = normalize_custom(child, below, schema)
        for key, below in properties.items():
            if key not in result and ("default" in below or "$ref" in below):
                _, child = resolve(below, schema)
                if "default" in child:
                    result[key] = normalize_custom(child["default"], child, schema)
        return result
    if isinstance(value, list):
        return [normalize_custom(item, node.get("items", {}), schema) for item in value]
    return value


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
    others = node.get("additionalProperties")
    properties = node.get("properties")
    result: dict[str, Any] = {}
    for key, child in value.items():
        below = (properties or {}).get(key, others if isinstance(others, dict) else {})
        known = _built_in(child, below, schema, has_defaults=has_defaults)
        if not (below and properties and _is_absent(known, key, type_, _is_struct(below, schema))):
            result[key] = known
    if not has_defaults:
        return result
    for key, default in type_.defaults.items():
        result.setdefault(key, _built_in(default, (properties or {}).get(key, {}), schema))
    for key, below in (properties or {}).items():
        if "default" in below:
            result.setdefault(key, below["default"])
    _COMPUTED.get(name, _nothing)(result)
    return result


def _is_absent(value: Any, key: str, type_: _Type, is_struct: bool) -> bool:
    """Return True if Go stores a value like an absent one."""
    if value is None or (value == "" and key not in type_.pointers):
        return True
    if key in type_.zeros:
        return value in (False, 0) or value == {}
    return value in ([], {}) and not is_struct


def _is_struct(node: Schema, schema: Schema) -> bool:
    return "properties" in resolve(node, schema)[1]


def normalize_quantity(value: str | float) -> str:
    """Return the same spelling for equal amounts, with binary suffixes from 1Mi on."""
    try:
        amount = quantities.parse(str(value).strip()).value
    except ValueError:
        return str(value)
    return str(quantities.Quantity(amount, is_binary=amount >= _MEBI and amount % _MEBI == 0))


def _nothing(_: dict[str, Any]) -> None:
    return


def _container(container: dict[str, Any]) -> None:
    """Set the pull policy by the tag: kubernetes v1.34.2 pkg/util/parsers/parsers.go ParseImageName."""
    match = _TAG.fullmatch(str(container.get("image", "")).rpartition("/")[2])
    is_latest = match is not None and not match["digest"] and (match["tag"] or "latest") == "latest"
    container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")


def _pod(pod: dict[str, Any]) -> None:
    """Set absent requests to the limits: kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_Pod."""
    spec = mapping(pod.get("spec"))
    for name in ("containers", "initContainers"):
        containers = spec.get(name)
        for container in containers if isinstance(containers, list) else ():
            resources = mapping(mapping(container).get("resources"))
            if limits := mapping(resources.get("limits")):
                resources["requests"] = {**limits, **mapping(resources.get("requests"))}


def _pod_spec(spec: dict[str, Any]) -> None:
    """Set both names of the ServiceAccount: kubernetes v1.34.2 pkg/apis/core/v1/conversion.go.

    Removal of one name alone changes nothing, because the API server restores it from the other name.
    """
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec |= {"serviceAccountName": account, "serviceAccount": account}


def _job(spec: dict[str, Any]) -> None:
    """Set the completions of a Job that sets neither `completions` nor `parallelism`."""
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)


def _volume(volume: dict[str, Any]) -> None:
    """Make a volume without a source an emptyDir: kubernetes v1.34.2 pkg/apis/core/v1/defaults.go."""
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}


def _device_request(request: dict[str, Any]) -> None:
    if request.get("allocationMode") == _ALWAYS_COUNTS:
        request.setdefault("count", 1)


def _any_request(request: dict[str, Any]) -> None:
    """Nest the fields of an exact device request in `exactly`; in v1beta1 they are beside its name.

    Source: kubernetes v1.34.2 pkg/apis/resource/v1beta1/conversion.go.
    """
    if "firstAvailable" not in request:
        exact = request.get("exactly") or {key: request.pop(key) for key in list(request) if key != "name"}
        exact.setdefault("allocationMode", _ALWAYS_COUNTS)
        _device_request(exact)
        request["exactly"] = exact


def _claim(spec: dict[str, Any]) -> None:
    """Set `dataSource` and `dataSourceRef`: kubernetes v1.34.2 pkg/registry/core/persistentvolumeclaim/strategy.go."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = source
    elif reference and not source and not mapping(reference).get("namespace"):
        spec["dataSource"] = reference


def _secret(secret: dict[str, Any]) -> None:
    """Move `stringData` to `data`: kubernetes v1.34.2 pkg/apis/core/v1/conversion.go."""
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


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The object that a server-side apply stores.

    Attributes:
        body: the object.
        emptied: (path, old value) of each mapping whose last key the apply removes although the new manifest has the
            mapping. The apply sets it to null, which the API server rejects in custom resources.
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
        properties, others = node.get("properties", {}), node.get("additionalProperties")
        result = {}
        for key, value in new.items():
            below = properties.get(key, others if isinstance(others, dict) else {})
            result[key] = self.merged(written.get(key), stored.get(key), value, below, (*path, key))
        kept = {key: value for key, value in stored.items() if key not in written and key not in new}
        if written and not (new or kept) and not _may_be_null(node):
            self.emptied.append((path, written))
        return {key: value for key, value in {**result, **kept}.items() if value is not _ABSENT}

    def _list(self, written: list[Any], stored: Any, new: list[Any], node: Schema, path: Path) -> list[Any]:
        keys = node.get(LIST_KEYS)
        if not keys:
            return new
        before, live = (_by_key(items, keys) for items in (written, stored))
        return [
            self.merged(before.get(key), live.get(key), item, node.get("items", {}), (*path, index))
            for index, item in enumerate(new)
            for key in [_key(item, keys)]
        ]


def _may_be_null(node: Schema) -> bool:
    return bool(node.get(NULLABLE)) or "default" in node or "object" not in node.get("type", ())


VALIDATIONS = "x-kubernetes-validations"
_READS_OLD = re.compile(r"\boldSelf\b")
_KEPT = ("rule", "optionalOldSelf")
_SET = "uniqueItems"
_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Transition:
    """A CEL rule that compares `self` with `oldSelf`, and the values of both at one place of an updated object.

    Attributes:
        path: the place in the new object.
        rule: the CEL expression.
        old: the value of `oldSelf`; None if the stored object has none, which requires `optionalOldSelf`.
        new: the value of `self`.
        is_optional: the rule's `optionalOldSelf`: True if the type of `oldSelf` is optional.
    """

    path: Path
    rule: str
    old: Any
    new: Any
    is_optional: bool = False


def transition_rules(upstream: Schema) -> list[Schema]:
    """Return the rules of one node of a CustomResourceDefinition that read `oldSelf`, without their messages."""
    rules = [rule for rule in upstream.get(VALIDATIONS, ()) if _READS_OLD.search(rule["rule"])]
    return [{keyword: rule[keyword] for keyword in _KEPT if keyword in rule} for rule in rules]


def find_transitions(old: Any, new: Any, schema: Schema) -> Iterator[Transition]:
    """Yield every transition rule that the API server evaluates when `new` replaces `old`.

    Args:
        old: the stored object, with its defaults.
        new: the new object, with its defaults.
        schema: the JSON Schema of the kind.
    """
    yield from _transitions(old, new, schema, schema, ())


def _transitions(old: Any, new: Any, node: Schema, schema: Schema, path: Path) -> Iterator[Transition]:
    _, node = resolve(node, schema)
    for rule in node.get(VALIDATIONS, ()):
        is_optional = rule.get("optionalOldSelf", False)
        if old is not None or is_optional:
            yield Transition(path, rule["rule"], _in_order_of(new, old, node, schema), new, is_optional)
    if isinstance(new, dict):
        others = node.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for key, value in new.items():
            below = node.get("properties", {}).get(key, others)
            if isinstance(below, dict):
                yield from _transitions(before.get(key), value, below, schema, (*path, key))
    elif isinstance(new, list) and "items" in node:
        stored = _by_key(old, node.get(LIST_KEYS))
        for index, item in enumerate(new):
            was = stored.get(_key(item, node[LIST_KEYS])) if LIST_KEYS in node else None
            yield from _transitions(was, item, node["items"], schema, (*path, index))


def _in_order_of(new: Any, old: Any, node: Schema, schema: Schema) -> Any:
    """Return `old` with the items of its sets and maps in the order of `new`, because `==` in CEL ignores the order.

    Source: k8s.io/apiserver v0.34.2 pkg/cel/common/values.go, `unstructuredMapList` and `unstructuredSetList`.
    """
    _, node = resolve(node, schema)
    if isinstance(old, dict) and isinstance(new, dict):
        others = node.get("additionalProperties")
        below = {key: node.get("properties", {}).get(key, others) for key in old}
        return {
            key: _in_order_of(new.get(key), value, below[key], schema) if isinstance(below[key], dict) else value
            for key, value in old.items()
        }
    if not (isinstance(old, list) and isinstance(new, list)):
        return old
    if LIST_KEYS in node:
        after = _by_key(new, node[LIST_KEYS])
        order = {key: index for index, key in enumerate(after)}
        result = sorted(old, key=lambda item: order.get(_key(item, node[LIST_KEYS]), len(order)))
        return [_in_order_of(after.get(_key(item, node[LIST_KEYS])), item, node["items"], schema) for item in result]
    if node.get(_SET):
        return sorted(old, key=lambda item: new.index(item) if item in new else len(new))
    pairs = zip(old, [*new, *[None] * len(old)], strict=False)
    return [_in_order_of(now, was, node.get("items", {}), schema) for was, now in pairs]


def _by_key(items: Any, keys: Mapping[str, Any] | None) -> dict[_Key, Any]:
    return {_key(item, keys): item for item in items} if keys and isinstance(items, list) else {}


def _key(item: Any, keys: Mapping[str, Any]) -> _Key:
    """Return the key of a list item: the values of its key fields."""
    values = item if isinstance(item, dict) else {}
    result = (values.get(name, default) for name, default in keys.items())
    return tuple(str(value) if isinstance(value, dict | list) else value for value in result)
