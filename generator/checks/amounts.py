"""object/too-large-amount: quantities of 8Ei or more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from generator import quantities
from generator.checks.registry import WARNING, Breach, check
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.updates import find_quantities

_FIRST = frozenset("+-.0123456789")
"""The first characters of a quantity."""


class TooLarge(NamedTuple):
    """The quantities of an object that are 8Ei or more, each with its path."""

    amounts: tuple[tuple[Path, Any], ...]

    @classmethod
    def of_manifest(cls, manifest: Manifest, targets: Mapping[str, str]) -> Self | None:
        """Return the quantities of a manifest; None without one."""
        if not _has_candidate(manifest.body):
            return None
        schema = Catalog.bundled(targets).schema(manifest.api_version, manifest.kind)
        if schema is None:
            return None
        amounts = (item for item in find_quantities(manifest.body, schema, schema) if quantities.is_too_large(item[1]))
        return cls(tuple(amounts))


def _has_candidate(value: Any) -> bool:
    """Return True if a value may have such a quantity. The search uses no schema, because it reads every object."""
    match value:
        case dict():
            return any(map(_has_candidate, value.values()))
        case list():
            return any(map(_has_candidate, value))
        case str() if value.lstrip(" ")[:1] not in _FIRST:
            return False
    return quantities.is_too_large(value)


@check("object/too-large-amount", severity=WARNING, needs=TooLarge)
def too_large_amount(large: TooLarge) -> Iterator[Breach]:
    """Report a quantity of 8Ei or more.

    No node has so much of a resource. The API server accepts the quantity, and the API server and controllers cap it in
    different ways. So mpigen leaves out the rules about quotas, limits and nodes that read the quantity.

    Source: apimachinery v0.34.2 pkg/api/resource/quantity.go ParseQuantity; apimachinery v0.34.2
    pkg/api/resource/quantity.go Quantity.MilliValue
    """
    for path, value in large.amounts:
        yield Breach(
            path,
            f"`{value}` is 8Ei or more",
            "no node has so much, and mpigen leaves out the rules about quotas and limits that read this amount",
            "write a smaller amount",
            value=value,
        )
