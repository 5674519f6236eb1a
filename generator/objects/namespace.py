"""The limit that a Namespace sets on the hosts of one TrainJob.

An admission policy of mpigen reads the number from an annotation with CEL's `int()`, which accepts what Go's
ParseInt accepts (cel-go v0.26 common/types/string.go `ConvertToType`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from generator.manifests import Manifest, conflict_error
from generator.objects.fields import mapping

ANNOTATION = "mpigen.dev/hosts-per-job"
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def is_namespace(manifest: Manifest) -> bool:
    """Return True for a Namespace."""
    return (manifest.group, manifest.kind) == ("", "Namespace")


def read_host_limit(manifest: Manifest) -> int | None:
    """Return the host limit of a Namespace; None if its annotation is absent or not a number."""
    value = mapping(manifest.body, "metadata", "annotations").get(ANNOTATION)
    return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


def read_host_limits(manifests: Iterable[Manifest]) -> Mapping[str, int]:
    """Return the largest `numNodes` that the API server accepts, for each namespace with a limit.

    Raises:
        SimulationError: two objects of one namespace set different limits.
    """
    namespaces: dict[str, Manifest] = {}
    for manifest in filter(is_namespace, manifests):
        first = namespaces.setdefault(manifest.name, manifest)
        if read_host_limit(first) != read_host_limit(manifest):
            raise conflict_error(manifest, first)
    limits = {name: read_host_limit(manifest) for name, manifest in namespaces.items()}
    return {name: limit for name, limit in limits.items() if limit is not None}
