"""Permissions that make a subject an admin, reveal credentials, or weaken protections (privileges.yaml)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from generator.facts.table import read_rows


@dataclass(frozen=True, slots=True)
class Privilege:
    """Permissions with one dangerous consequence.

    Attributes:
        verbs: verbs, each of which is enough.
        groups: the API groups of the resources.
        resources: resources, each of which is enough.
        allows: the consequence, after "the subject can".
    """

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    allows: str


@dataclass(frozen=True, slots=True)
class DefaultRole:
    """A privileged ClusterRole that the API server creates.

    Attributes:
        name: the name of the ClusterRole.
        allows: the consequence, after "the subject can".
    """

    name: str
    allows: str


@cache
def privileges() -> tuple[Privilege, ...]:
    """Return the dangerous permissions."""
    return read_rows("privileges", "permissions", Privilege)


@cache
def default_roles() -> tuple[DefaultRole, ...]:
    """Return the privileged ClusterRoles that the API server creates."""
    return read_rows("privileges", "roles", DefaultRole)
