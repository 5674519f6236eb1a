"""Run the rules over several objects: which manifests they read, and what they report.

An object that is in no file may exist in the cluster. So no rule reports its absence as an error, except in a complete
release.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

from generator.checks import registry
from generator.checks.fabric.fabrics import is_fabric_object
from generator.checks.finding import Breach
from generator.checks.objects import Objects
from generator.checks.quota.queues import KINDS
from generator.manifests import Manifest
from generator.objects.namespace import is_namespace
from generator.simulate.kueue.configuration import is_configuration

_KINDS = KINDS | {"ClusterTrainingRuntime", "PersistentVolumeClaim", "TrainingRuntime", "TrainJob"}


def is_kept(manifest: Manifest) -> bool:
    """Return True if a rule reads the manifest; all others need not be kept in memory."""
    is_known = manifest.kind in _KINDS or is_configuration(manifest) or is_namespace(manifest)
    return is_known or is_fabric_object(manifest)


def breaches(
    manifests: Sequence[Manifest],
    targets: Mapping[str, str],
    today: dt.date | None = None,
    *,
    is_complete: bool = False,
) -> Iterator[tuple[Manifest, Breach]]:
    """Yield the breaches of rules over several objects.

    Args:
        manifests: the manifests of one release, or of no release, in any order. Kinds that no rule reads may be absent.
        targets: component → minor version.
        today: the day of the check; without it no rule depends on the day.
        is_complete: whether these are all manifests of a release.
    """
    kept = sorted(filter(is_kept, manifests), key=lambda each: (each.file, each.index))
    if not kept:
        return
    objects = Objects(tuple(kept), targets, today, is_complete)
    for check in registry.checks_of(registry.Stage.TOGETHER, targets):
        subject = objects if check.needs is Objects else objects.view(check.needs.read)
        if subject is not None:
            yield from check.run(subject)
