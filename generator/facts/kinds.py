"""The kinds of object that mpigen can generate (kinds.yaml)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from generator.facts.table import read_rows


@dataclass(frozen=True, slots=True)
class EmittedKind:
    """A kind of object that mpigen can generate.

    Attributes:
        resource: the name in URLs and RBAC rules, such as `clusterqueues`.
        namespaced: True if its objects are in namespaces, of tenants or of operators.
        wave: the sync wave in which Argo CD applies its objects.
        pruning: `confirmed` if Argo CD deletes its objects only after a user confirms the deletion, `last` if Argo CD
            deletes them together with such objects; else empty.
        of_tenants: True if the kind is cluster-scoped and its objects can be in the folder of a tenant.
        needs: the feature of a platform without which no release has the kind, of `Platform.features`; empty if none.
    """

    group: str
    kind: str
    resource: str
    namespaced: bool = False
    wave: int = 0
    pruning: str = ""
    of_tenants: bool = False
    needs: str = ""


KINDS = read_rows("kinds", "kinds", EmittedKind)
"""The kinds, sorted by group and name. Objects that admins add to a release can have other kinds."""


def emitted_kinds(features: Collection[str] = ()) -> tuple[EmittedKind, ...]:
    """Return the kinds that mpigen can generate for a platform with some features, sorted by group and name.

    Args:
        features: the optional features of the platform, from `Platform.features`.
    """
    return tuple(row for row in KINDS if not row.needs or row.needs in features)
