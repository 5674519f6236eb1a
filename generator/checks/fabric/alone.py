"""fabric/*: the rules that one object of a fabric breaks on its own."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.fabric import cni, sriov
from generator.checks.finding import Breach
from generator.manifests import Manifest

KINDS = cni.KINDS | {sriov.KIND}
"""The kinds that they read."""
CHECKS = (*cni.CHECKS, sriov.CHECK)
"""Their ids."""


def breaches(manifest: Manifest) -> Iterator[Breach]:
    """What one object says that cannot be meant."""
    if manifest.kind == sriov.KIND:
        yield from sriov.breaches(manifest)
    else:
        yield from cni.breaches(manifest)
