"""The field managers of an object, by its `metadata.managedFields`.

Source: structured-merge-diff v6.3.0 fieldpath/serialize-pe.go; apimachinery v0.34.2 pkg/apis/meta/v1/types.go
ManagedFieldsEntry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string


@dataclass(frozen=True, slots=True)
class Manager:
    """A field manager with the part of an object that it owns.

    Attributes:
        name: such as `argocd-controller` or `kubectl-edit`.
        operation: `Apply` or `Update`.
        time: the time of its last write; empty if unknown.
        fields: the owned fields, in the form of `fieldsV1`. Without children, the manager owns the whole value.
    """

    name: str
    operation: str
    time: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return f"`{self.name}` ({self.operation}{f', {self.time}' if self.time else ''})"


@dataclass(frozen=True, slots=True)
class Managers:
    """The field managers of an object, or of a field or list item in it.

    Attributes:
        of_part: the managers that own this object, field or item, or a field in it.
        is_known: True if the export has the managers of all fields, in the version of the object.
    """

    of_part: tuple[Manager, ...]
    is_known: bool

    @classmethod
    def read(cls, manifest: Manifest) -> Managers:
        """Return the managers of an object. Entries of other API versions have other fields, so they are left out."""
        entries = mappings(mapping(manifest.body, "metadata").get("managedFields"))
        same = [entry for entry in entries if entry.get("apiVersion") == manifest.api_version]
        managers = (
            Manager(
                string(entry.get("manager")),
                string(entry.get("operation")),
                string(entry.get("time")),
                mapping(entry.get("fieldsV1")),
            )
            for entry in same
        )
        return cls(tuple(managers), bool(entries) and len(same) == len(entries))

    def below(self, key: str) -> Managers:
        """Return the managers of a field of a mapping."""
        return self._narrow([f"f:{key}"])

    def of_item(self, item: Any, keys: Mapping[str, Any] | None, index: int) -> Managers:
        """Return the managers of a list item.

        Args:
            item: the item.
            keys: the key fields of the items with their defaults; None for a set, or a list without keys.
            index: the position of the item.
        """
        return self._narrow([*_item_steps(item, keys), f"i:{index}"])

    def _narrow(self, steps: Sequence[str]) -> Managers:
        return replace(self, of_part=tuple(part for manager in self.of_part for part in _narrowed(manager, steps)))


def _item_steps(item: Any, keys: Mapping[str, Any] | None) -> Iterator[str]:
    if keys and isinstance(item, dict):
        values = {key: item.get(key, default) for key, default in keys.items()}
        yield _canonical("k", values)
    yield _canonical("v", item)


def _canonical(prefix: str, value: Any) -> str:
    return f"{prefix}:{json.dumps(value, sort_keys=True)}"


def _narrowed(manager: Manager, steps: Sequence[str]) -> Iterator[Manager]:
    children = {_same(key): value for key, value in manager.fields.items() if key != "."}
    if not children:
        yield manager
        return
    for step in steps:
        if step in children:
            yield replace(manager, fields=mapping(children[step]))
            return


def _same(key: str) -> str:
    """Return a key of `fieldsV1` with the spaces and the order of keys of Python's JSON."""
    prefix, _, text = key.partition(":")
    if prefix not in ("k", "v"):
        return key
    try:
        return _canonical(prefix, json.loads(text))
    except ValueError:
        return key
