"""fabric/*: the rules that one object of a fabric breaks on its own."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.fabric import cni, every_node
from generator.checks.finding import Breach
from generator.manifests import Manifest

KINDS = cni.KINDS | {every_node.KIND}
"""The kinds that they read."""
CHECKS = (*cni.CHECKS, every_node.CHECK)
"""Their ids."""


def breaches(manifest: Manifest) -> Iterator[Breach]:
    """What one object says that cannot be meant."""
    if manifest.kind == every_node.KIND:
        yield from every_node.breaches(manifest)
    else:
        yield from cni.breaches(manifest)
