"""The controllers that create objects in namespaces, and the fields that controllers write into objects of users."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from generator.facts.table import read_rows


def qualify(kind: str, group: str) -> str:
    """Return a kind with its API group: `Job.batch`; for the core group the kind alone."""
    return f"{kind}.{group}" if group else kind


@dataclass(frozen=True, slots=True)
class _Controller:
    owner: str
    creates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ownerless:
    """Objects without an owner that Kubernetes or OpenShift creates.

    Attributes:
        kind: the kind with its group.
        names: a pattern of their names.
        values: the values that each of them has, with `{namespace}` for its namespace; empty for any values.
    """

    kind: str
    names: str = ".*"
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenFields:
    """The metadata that controllers write into an object of a user after its creation.

    Attributes:
        kind: the kind with its group.
        annotations: the names of annotations.
        finalizers: the finalizers.
    """

    kind: str
    annotations: tuple[str, ...] = ()
    finalizers: tuple[str, ...] = ()


@cache
def _created_by_owner() -> Mapping[str, tuple[str, ...]]:
    return {row.owner: row.creates for row in read_rows("creators", "controllers", _Controller)}


def can_create(owner: str, kind: str) -> bool:
    """Return True if a controller of the kind `owner` may create objects of a kind.

    A kind of Kubernetes that the table lacks creates nothing. Other kinds that the table lacks may create any object.
    """
    created = _created_by_owner().get(owner)
    if created is not None:
        return kind in created
    group = owner.partition(".")[2]
    return "." in group and not group.endswith(".k8s.io")


@cache
def _ownerless() -> tuple[Ownerless, ...]:
    return read_rows("creators", "ownerless", Ownerless)


def find_ownerless(kind: str, name: str) -> Ownerless | None:
    """Return the row of creators.yaml about ownerless objects of a kind and name; None if the table has none."""
    return next((row for row in _ownerless() if row.kind == kind and re.fullmatch(row.names, name)), None)


@cache
def fields_of_controllers() -> Mapping[str, WrittenFields]:
    """Return kind → the metadata that controllers write after the creation."""
    return {row.kind: row for row in read_rows("creators", "fields", WrittenFields)}
