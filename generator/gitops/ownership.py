"""Ownership: labels that say which objects of a cluster a platform consists of, for people and for admission."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from generator.facts.names import MANAGED_BY, PART_OF
from generator.manifests import Manifest

_SHARED = ("ClusterRole", "WorkloadPriorityClass")
"""Kinds whose names do not depend on the platform: where there are several on one cluster, these are of all of them."""


def owned(manifests: Iterable[Manifest], platform: str) -> list[Manifest]:
    """Label each manifest as generated for this platform."""
    return [
        _owned(manifest, MANAGED_BY if manifest.kind in _SHARED else {**MANAGED_BY, PART_OF: platform})
        for manifest in manifests
    ]


def _owned(manifest: Manifest, labels: dict[str, str]) -> Manifest:
    metadata = manifest.body["metadata"]
    named = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    labelled = {**named, "labels": {**metadata.get("labels", {}), **labels}}
    rest = {key: value for key, value in metadata.items() if key not in labelled}
    return replace(manifest, body={**manifest.body, "metadata": {**labelled, **rest}})
