"""Test that the table of deprecated and removed API versions agrees with the compiled schemas."""

from __future__ import annotations

from typing import Any

import pytest

from generator.facts.api_versions import (
    FIELDS,
    VERSIONS,
    ApiField,
    ApiVersion,
    find_places,
    find_version,
    is_reached,
    next_minor,
    replacing_rows,
)
from generator.facts.versions import minors
from generator.schemas.catalog import Catalog

RELEASES = [(row, minor) for row in VERSIONS for minor in minors(row.component)]
REMOVED = [(row, minor) for row in FIELDS if row.removed for minor in minors(row.component)]
DEPRECATED = [row for row in FIELDS if row.deprecated]


@pytest.mark.parametrize(("row", "minor"), RELEASES, ids=lambda value: getattr(value, "api", value))
def test_a_version_has_a_schema_until_the_release_that_removes_it(row: ApiVersion, minor: str) -> None:
    catalog = Catalog.bundled({row.component: minor})
    for kind in row.kinds:
        # upstream lists only kinds of the default API groups, so an alpha version may have no schema
        is_served = catalog.has(row.api, kind)
        assert not (is_served and is_reached(minor, row.removed)), (kind, minor)
        assert is_served or is_reached(minor, row.removed) or not is_reached(minor, row.deprecated), (kind, minor)


@pytest.mark.parametrize(("row", "minor"), RELEASES, ids=lambda value: getattr(value, "api", value))
def test_every_release_that_removes_a_version_serves_the_replacement(row: ApiVersion, minor: str) -> None:
    """The newest release also serves the replacement of a version that it deprecates."""
    first = row.deprecated if minor == minors(row.component)[0] else row.removed
    for kind in row.kinds if row.replacement and is_reached(minor, first) else ():
        *_, last = replacing_rows(row, kind, minor)
        assert Catalog.bundled({row.component: minor}).has(last.replacement, last.replacement_kind or kind), kind


def test_the_replacement_is_no_version_that_the_release_deprecates_too() -> None:
    row = find_version("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicy")
    assert row is not None
    last = {minor: [*replacing_rows(row, "MutatingAdmissionPolicy", minor)][-1] for minor in ("1.36", "1.37")}
    assert {minor: found.replacement.rpartition("/")[2] for minor, found in last.items()} == {
        "1.36": "v1beta1",
        "1.37": "v1",
    }


@pytest.mark.parametrize(("row", "minor"), REMOVED, ids=lambda value: ".".join(getattr(value, "path", (value,))))
def test_a_removed_field_is_in_no_schema_and_an_earlier_part_of_its_path_is(row: ApiField, minor: str) -> None:
    assert is_reached(minor, row.removed)
    schema = _schema(row, minor)
    parent = _at(schema, row.path[:-1])
    assert parent is not None
    assert row.path[-1] not in parent.get("properties", {})


@pytest.mark.parametrize("row", DEPRECATED, ids=lambda row: ".".join(row.path))
def test_a_deprecated_field_is_in_the_schema_of_every_target(row: ApiField) -> None:
    for minor in minors(row.component):
        parent = _at(_schema(row, minor), row.path[:2] if row.path[1] in ("annotations", "nodeSelector") else row.path)
        assert parent is not None, (row.path, minor)


def test_no_kind_has_two_rows_and_every_row_is_in_order() -> None:
    pairs = [(row.api, kind) for row in VERSIONS for kind in row.kinds]
    assert len(pairs) == len(set(pairs))
    assert all(is_reached(row.removed, row.deprecated) for row in VERSIONS if row.removed)
    assert all(is_reached(next_minor(minors(row.component)[0]), row.deprecated) for row in VERSIONS)


def test_minor_versions_compare_by_number() -> None:
    assert is_reached("1.10", "1.9")
    assert not is_reached("1.9", "1.10")
    assert not is_reached("", "1.9")
    assert next_minor("1.9") == "1.10"
    assert find_version("batch/v1", "Job") is None


def test_places_of_a_path_include_every_item_and_every_key_with_a_prefix() -> None:
    body = {"items": [{"a": 1}, "text", {"b": 2}, {"a": 3}], "keys": {"x/1": 1, "x/2": 2, "y": 3}}
    assert list(find_places(body, ("items", "[]", "a"))) == [("items", 0, "a"), ("items", 3, "a")]
    assert list(find_places(body, ("keys", "x/*"))) == [("keys", "x/1"), ("keys", "x/2")]
    assert list(find_places(body, ("keys", "[]"))) == []


def _schema(row: ApiField, minor: str) -> dict[str, Any]:
    schema = Catalog.bundled({row.component: minor}).schema(row.api, row.kind)
    assert schema is not None
    return schema


def _at(schema: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the schema of a field; None if the schema does not have the field."""
    node: dict[str, Any] | None = schema
    for step in ("", *path):
        if node is not None and step:
            node = node.get("items") if step == "[]" else node.get("properties", {}).get(step)
        target = next((part for part in (node, *node.get("allOf", ())) if "$ref" in part), None) if node else None
        if target is not None:
            node = schema["definitions"][target["$ref"].removeprefix("#/definitions/")]
    return node
