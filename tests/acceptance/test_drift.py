"""Test that manifests set all API server defaults, because Argo CD would report them as drift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from tests.acceptance.test_engines import one_of_each_kind

CUSTOM = {key: manifest for key, manifest in one_of_each_kind().items() if "." in manifest.group.replace(".k8s.io", "")}
CUSTOM |= {key: manifest for key, manifest in one_of_each_kind().items() if manifest.group.endswith(".x-k8s.io")}


def absent_defaults(value: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    """Yield the fields that the API server would default and that a manifest leaves out."""
    while "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name in value:
                yield from absent_defaults(value[name], field, root, f"{path}.{name}")
            elif "default" in field:
                yield f"{path}.{name} = {field['default']!r}"
        if isinstance(rest := schema.get("additionalProperties"), dict):
            for name in set(value) - set(schema.get("properties", {})):
                yield from absent_defaults(value[name], rest, root, f"{path}.{name}")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from absent_defaults(item, schema["items"], root, f"{path}[{index}]")


@pytest.mark.parametrize("kind", CUSTOM)
def test_custom_resources_set_every_default(kind: str) -> None:
    manifest = CUSTOM[kind]
    assert list(missing(manifest)) == []


def missing(manifest: Manifest) -> Iterator[str]:
    schema = Catalog.bundled().schema(manifest.api_version, manifest.kind)
    assert schema is not None
    return absent_defaults(manifest.body, schema, schema, "")


def test_a_missing_default_is_detected() -> None:
    manifest = CUSTOM["kueue.x-k8s.io/v1beta2/ClusterQueue"]
    body = {**manifest.body, "spec": {k: v for k, v in manifest.body["spec"].items() if k != "stopPolicy"}}
    assert list(missing(Manifest(body, ""))) == [".spec.stopPolicy = 'None'"]
