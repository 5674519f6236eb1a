"""The settings of Namespaces: the runtimes that their jobs may use, and the largest `numNodes` of a TrainJob.

An admission policy of mpigen reads the number from the annotation `mpigen.dev/hosts-per-job` with CEL's `int()`, which
accepts the same strings as Go's ParseInt (cel-go v0.26.0 common/types/string.go String.ConvertToType).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from generator.manifests import Manifest, conflict_error
from generator.objects.fields import mapping

ANNOTATION = "mpigen.dev/hosts-per-job"
_SRIOV_OPERATOR = "openshift-sriov-network-operator"
_RUNTIMES = "mpigen.dev/runtimes"
"""Annotation of a Namespace: the runtimes that its jobs may use, as `kind/name`."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def is_namespace(manifest: Manifest) -> bool:
    """Return True if an object is a Namespace."""
    return (manifest.group, manifest.kind) == ("", "Namespace")


def is_openshift(manifests: Iterable[Manifest]) -> bool:
    """Return True if a Namespace has a label of OpenShift, or an object is in the namespace of its SR-IOV operator."""
    return any(
        manifest.namespace == _SRIOV_OPERATOR
        or (
            is_namespace(manifest)
            and any(
                isinstance(key, str) and key.partition("/")[0].endswith("openshift.io")
                for key in mapping(manifest.body, "metadata", "labels")
            )
        )
        for manifest in manifests
    )


def read_host_limit(manifest: Manifest) -> int | None:
    """Return the largest `numNodes` that `mpigen.dev/hosts-per-job` of a Namespace allows; None without an integer."""
    value = mapping(manifest.body, "metadata", "annotations").get(ANNOTATION)
    return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


def read_host_limits(manifests: Iterable[Manifest]) -> Mapping[str, int]:
    """Return namespace → the largest `numNodes` that the admission policy accepts, for each namespace with a limit.

    Raises:
        SimulationError: two manifests of the same Namespace set different limits.
    """
    namespaces: dict[str, Manifest] = {}
    for manifest in filter(is_namespace, manifests):
        first = namespaces.setdefault(manifest.name, manifest)
        if read_host_limit(first) != read_host_limit(manifest):
            raise conflict_error(manifest, first)
    limits = {name: read_host_limit(manifest) for name, manifest in namespaces.items()}
    return {name: limit for name, limit in limits.items() if limit is not None}


def listed_runtimes(namespace: Manifest) -> Sequence[str]:
    """Return the runtimes in the annotation `mpigen.dev/runtimes` of a Namespace, as `kind/name`."""
    value = mapping(namespace.body, "metadata", "annotations").get(_RUNTIMES)
    return value.split(",") if isinstance(value, str) else ()
