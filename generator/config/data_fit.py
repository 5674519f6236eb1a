"""Volumes of a team that the platform's own rules would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from generator import quantities
from generator.config.complaints import Contradiction, suggestion
from generator.config.draft import Draft
from generator.config.tenants import Tenant
from generator.quantities import Quantity


def volumes_beyond(path: tuple[str | int, ...], tenant: Tenant) -> Iterator[Contradiction]:
    """A ResourceQuota below what the platform itself makes: the API server refuses the claims, and the sync fails."""
    limits, claims = tenant.limits, tenant.volumes
    if limits.volumes is not None and len(claims) > limits.volumes:
        what = f"`{limits.volumes}`, and the team has {len(claims)} volumes"
        yield Contradiction((*path, "limits", "volumes"), what, "write at least as many, or remove a volume")
    if limits.storage is not None:
        wanted = sum((quantities.parse(claim.size).value for claim in claims), Fraction(0))
        there = quantities.parse(limits.storage)
        if wanted > there.value:
            what = f"`{limits.storage}`, and the volumes of the team take {Quantity(wanted, there.is_binary)}"
            yield Contradiction((*path, "limits", "storage"), what, "write at least as much, or make a volume smaller")


def volumes_elsewhere(path: tuple[str | int, ...], tenant: Tenant, draft: Draft) -> Iterator[Contradiction]:
    """Volumes of a class that the platform closes to tenants, by the rule `storage` of `policies.admission`."""
    open_to_all = [each.name for each in draft.policies.storage_classes] if draft.policies else []
    for claim in tenant.volumes:
        if open_to_all and claim.class_name not in open_to_all:
            named = f"is of class `{claim.class_name}`" if claim.class_name else "names no class"
            what = f"`{claim.name}` {named}, which is none of `policies.storageClasses`"
            yield Contradiction((*path, "volumes"), what, suggestion(claim.class_name or "", open_to_all))
