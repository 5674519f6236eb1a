"""fabric/*: the rules that one object of a fabric breaks on its own."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks import fabric_cni, fabric_pool
from generator.checks.finding import Breach
from generator.manifests import Manifest

KINDS = fabric_cni.KINDS | {fabric_pool.KIND}
"""The kinds that they read."""
CHECKS = (*fabric_cni.CHECKS, fabric_pool.CHECK)
"""Their ids."""


def breaches(manifest: Manifest) -> Iterator[Breach]:
    """What one object says that cannot be meant."""
    if manifest.kind == fabric_pool.KIND:
        yield from fabric_pool.breaches(manifest)
    else:
        yield from fabric_cni.breaches(manifest)
