"""The differences between the objects of a cluster and of a release, without the values that servers add."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from generator.documents.load import Path
from generator.facts.added_fields import AddedField, added_fields
from generator.facts.creators import qualify
from generator.facts.names import MANAGED_BY, PART_OF, SETTINGS_FILE
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string
from generator.schemas.catalog import Catalog
from generator.schemas.json_schema import UNIQUE_ITEMS_BY as LIST_KEYS
from generator.schemas.json_schema import Schema, node_of_key, resolve
from generator.schemas.patterns import QUANTITIES
from generator.schemas.updates import (
    MAP_TYPE,
    by_key,
    key_of,
    normalize_built_in,
    normalize_custom,
    normalize_quantity,
)
from generator.upstream.kubernetes.managed_fields import Manager, Managers

Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


class Absent(Enum):
    """The value of a field that an object lacks."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Difference:
    """A field whose value in the cluster is not the value in the release.

    Attributes:
        path: the path in the object of the release. A list item that only the cluster has gets the position after the
            last item of the list in the release.
        released: the value in the release; ABSENT if the release does not set the field.
        live: the value in the cluster; ABSENT if the object lacks the field.
        managers: the field managers that own the field in the cluster.
        is_owner_known: True if the export has the field managers.
    """

    path: Path
    released: Any
    live: Any
    managers: tuple[Manager, ...]
    is_owner_known: bool


@dataclass(frozen=True, slots=True)
class Drifted:
    """An object of the release that differs in the cluster."""

    manifest: Manifest
    differences: tuple[Difference, ...]


@dataclass(slots=True)
class Drift:
    """The result of a comparison.

    Attributes:
        compared: the number of objects of the release that the export has.
        drifted: the objects with differences.
        missing: the objects of the release that the export lacks, although it has other objects of their kind.
        extra: the objects of the export that have the labels of the release, and that the release lacks.
        other_versions: (object of the release, object of the export) with different API versions.
        not_exported: the kinds of the release of which the export has no object → the number of objects of the release.
        has_managers: True if an object of the export has `managedFields`.
    """

    compared: int = 0
    drifted: list[Drifted] = field(default_factory=list)
    missing: list[Manifest] = field(default_factory=list)
    extra: list[Manifest] = field(default_factory=list)
    other_versions: list[tuple[Manifest, Manifest]] = field(default_factory=list)
    not_exported: dict[str, int] = field(default_factory=dict)
    has_managers: bool = False


def compare_with_release(export: Sequence[Manifest], release: Sequence[Manifest], catalog: Catalog) -> Drift:
    """Compare the objects of an export with the objects of a release.

    Args:
        export: the objects of a cluster.
        release: the objects of the release.
        catalog: the schemas of the target versions of the release.
    """
    live = {item.identity: item for item in export}
    kinds = {(item.group, item.kind) for item in export}
    result = Drift(has_managers=any(mapping(item.body, "metadata").get("managedFields") for item in export))
    released = {item.identity: item for item in release}
    for identity, item in released.items():
        other = live.get(identity)
        if other is not None and other.api_version != item.api_version:
            result.other_versions.append((item, other))
        elif other is not None:
            result.compared += 1
            if differences := tuple(_owned(item, find_differences(item, other, catalog))):
                result.drifted.append(Drifted(item, differences))
        elif (item.group, item.kind) in kinds:
            result.missing.append(item)
        else:
            kind = qualify(item.kind, item.group)
            result.not_exported[kind] = result.not_exported.get(kind, 0) + 1
    platforms = {string(item.labels.get(PART_OF)) for item in release} - {""}
    result.extra = [item for item in export if item.identity not in released and _is_of(item, platforms)]
    return result


def _owned(released: Manifest, differences: Iterable[Difference]) -> Iterator[Difference]:
    """Yield the differences except keys that belong to others: the release sets some settings of Argo CD, not all."""
    is_part = f"/{released.file}".endswith(f"/{SETTINGS_FILE}")
    return (item for item in differences if not (is_part and item.released is ABSENT))


def _is_of(manifest: Manifest, platforms: Collection[str]) -> bool:
    """Return True if an object has the labels of a release of one of the platforms, and no controller as its owner."""
    owners = mappings(mapping(manifest.body, "metadata").get("ownerReferences"))
    return (
        string(manifest.labels.get(PART_OF)) in platforms
        and all(manifest.labels.get(name) == value for name, value in MANAGED_BY.items())
        and not any(owner.get("controller") is True for owner in owners)
    )


def find_differences(released: Manifest, live: Manifest, catalog: Catalog) -> Iterator[Difference]:
    """Yield the differences of a live object from the object of the release.

    Both are compared in the form that the API server stores, with the defaults of their kind. Added fields that no
    field manager owns are defaults too, so they are left out.
    """
    bundled = catalog.schema(released.api_version, released.kind)
    schema = bundled or {}
    is_custom = bundled is None or catalog.is_custom(released.api_version, released.kind)
    cleaned = _without_added(live, released)
    one, other = (_stored(body, schema, is_custom=is_custom) for body in (released.body, cleaned))
    yield from _Comparison(schema).compare(one, other, schema, (), Managers.read(live))


def _stored(body: Body, schema: Schema, *, is_custom: bool) -> Any:
    return normalize_custom(body, schema, schema) if is_custom else normalize_built_in(body, schema)


def _without_added(live: Manifest, released: Manifest) -> Body:
    """Return a live object without the fields that others than the release write, unless the release has them."""
    body = copy.deepcopy(live.body)
    for row in added_fields(qualify(live.kind, live.group)):
        _remove(body, released.body, row.steps, row)
    if body.get("spec") == {} and "spec" not in released.body:
        # A webhook that encodes the object writes the empty struct: controller-runtime v0.24.1
        # pkg/webhook/admission/defaulter_custom.go; kueue v0.19.2 apis/kueue/v1beta2/resourceflavor_types.go.
        del body["spec"]
    if mapping(released.body.get("aggregationRule")):
        # A controller writes the rules: kubernetes v1.34.2
        # pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go
        # ClusterRoleAggregationController.syncClusterRole.
        body["rules"] = released.body.get("rules")
    return body


def _remove(live: Any, released: Any, path: Path, row: AddedField) -> None:
    step, *rest = path
    if not isinstance(live, dict) or step not in live:
        return
    below = released.get(step) if isinstance(released, dict) else None
    if rest:
        _remove(live[step], below, tuple(rest), row)
    elif row.items and isinstance(live[step], list):
        kept = below if isinstance(below, list) else []
        live[step] = [item for item in live[step] if item not in row.items or item in kept]
    elif below is None:
        del live[step]
    if live.get(step) in ({}, []) and below is None:
        del live[step]


@dataclass(frozen=True, slots=True)
class _Comparison:
    schema: Schema

    def compare(self, one: Any, other: Any, node: Schema, path: Path, managers: Managers) -> Iterator[Difference]:
        """Yield the differences of the live value `other` from the value `one` of the release."""
        _, node = resolve(node, self.schema)
        if isinstance(one, dict) and isinstance(other, dict) and node.get(MAP_TYPE) != "atomic":
            for key in {**one, **other}:
                yield from self._field(key, one, other, node_of_key(node, key), (*path, key), managers.below(key))
        elif isinstance(one, list) and isinstance(other, list):
            yield from self._list(one, other, node, path, managers)
        elif not _is_equal(one, other, node):
            yield Difference(path, one, other, managers.of_part, managers.is_known)

    def _field(
        self, key: str, one: Mapping[str, Any], other: Mapping[str, Any], node: Schema, path: Path, managers: Managers
    ) -> Iterator[Difference]:
        if key in one and key in other:
            yield from self.compare(one[key], other[key], node, path, managers)
        elif key in one:
            yield Difference(path, one[key], ABSENT, (), managers.is_known)
        elif managers.of_part or not managers.is_known:
            yield Difference(path, ABSENT, other[key], managers.of_part, managers.is_known)

    def _list(
        self, one: list[Any], other: list[Any], node: Schema, path: Path, managers: Managers
    ) -> Iterator[Difference]:
        if keys := node.get(LIST_KEYS):
            yield from self._keyed(one, other, keys, node.get("items", {}), path, managers)
        elif node.get("uniqueItems"):
            yield from _compare_sets(one, other, path, managers)
        elif len(one) == len(other):
            for index, (item, live) in enumerate(zip(one, other, strict=True)):
                below = managers.of_item(live, None, index)
                yield from self.compare(item, live, node.get("items", {}), (*path, index), below)
        elif differences := [*_compare_sets(one, other, path, managers)]:
            yield from differences
        else:  # an item occurs more than once
            yield Difference(path, one, other, managers.of_part, managers.is_known)

    def _keyed(
        self,
        one: list[Any],
        other: list[Any],
        keys: Mapping[str, Any],
        node: Schema,
        path: Path,
        managers: Managers,
    ) -> Iterator[Difference]:
        """Yield the differences of lists whose items have key fields, in any order. `node` is the schema of an item."""
        before, live = by_key(one, keys), by_key(other, keys)
        for index, item in enumerate(one):
            key = key_of(item, keys)
            if key in live:
                yield from self.compare(item, live[key], node, (*path, index), managers.of_item(item, keys, index))
            else:
                yield Difference((*path, index), item, ABSENT, (), managers.is_known)
        for index, item in enumerate(other):
            below = managers.of_item(item, keys, index)
            if key_of(item, keys) not in before and (below.of_part or not below.is_known):
                yield Difference((*path, len(one)), ABSENT, item, below.of_part, managers.is_known)


def _compare_sets(one: list[Any], other: list[Any], path: Path, managers: Managers) -> Iterator[Difference]:
    """Yield the items that only one of the lists has."""
    for index, item in enumerate(one):
        if item not in other:
            yield Difference((*path, index), item, ABSENT, (), managers.is_known)
    for index, item in enumerate(other):
        if item not in one:
            below = managers.of_item(item, None, index)
            yield Difference((*path, len(one)), ABSENT, item, below.of_part, managers.is_known)


def _is_equal(one: Any, other: Any, node: Schema) -> bool:
    if one == other and isinstance(one, bool) is isinstance(other, bool):
        return True
    amounts = (str, int, float)
    is_amount = isinstance(one, amounts) and isinstance(other, amounts) and node.get("pattern") in QUANTITIES
    return is_amount and normalize_quantity(one) == normalize_quantity(other)
