"""The limit that a Namespace sets on the hosts of one TrainJob.

An admission policy of mpigen reads the number from an annotation with CEL's `int()`, which accepts what Go's
ParseInt accepts (cel-go v0.26 common/types/string.go `ConvertToType`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from generator.errors import Problem, SimulationError
from generator.manifests import Manifest
from generator.objects.fields import mapping

ANNOTATION = "mpigen.dev/hosts-per-job"
"""What the policy of the platform reads, in each Namespace."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def is_namespace(manifest: Manifest) -> bool:
    """Whether an object can say what the policies of the platform read."""
    return (manifest.group, manifest.kind) == ("", "Namespace")


def most_hosts(manifest: Manifest) -> int | None:
    """The limit that a Namespace says; None where it says none, or no number."""
    said = mapping(manifest.body, "metadata", "annotations").get(ANNOTATION)
    return int(said) if isinstance(said, str) and _NUMBER.fullmatch(said) else None


def hosts_per_job(manifests: Iterable[Manifest]) -> Mapping[str, int]:
    """Namespace → the largest `numNodes` that the API server takes there; nothing of a namespace without a limit.

    Raises:
        SimulationError: two objects of one namespace say different things.
    """
    found: dict[str, Manifest] = {}
    for manifest in filter(is_namespace, manifests):
        known = found.setdefault(manifest.name, manifest)
        if most_hosts(known) != most_hosts(manifest):
            message = f"{manifest.resource} is another one than in {known.file}"
            raise SimulationError((Problem(message, "name the files of one cluster", manifest.file),))
    limits = {namespace: most_hosts(manifest) for namespace, manifest in found.items()}
    return {namespace: most for namespace, most in limits.items() if most is not None}
