"""A hazard: one setting of a platform, and its consequence."""

from __future__ import annotations

from dataclasses import dataclass

NamedPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hazard:
    """A setting that is possible, and dangerous or useless.

    Attributes:
        check: the id, `platform/RULE`.
        path: fields and names of entries from the top of the platform, such as `("tenants", "team-a", "egress")`.
        message: the setting, with its value.
        why: the consequence.
        fix: what to do, in the imperative.
    """

    check: str
    path: NamedPath
    message: str
    why: str
    fix: str
