"""Rules over several objects of one tree: which there are, and which objects they read.

Each reads a `Gathered` and says of which manifest it speaks. An object that is in no file may be in the cluster all the
same, so no rule takes its absence for an error.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence

from generator.checks import registry
from generator.checks.fabric import rules as fabric
from generator.checks.finding import Breach
from generator.checks.mpi import pods
from generator.checks.objects import Objects
from generator.checks.policy import exceptions
from generator.checks.quota import rules
from generator.checks.registry import Stage
from generator.checks.trainjob import resources, spec
from generator.facts import defects
from generator.manifests import Manifest
from generator.objects.namespace import is_namespace
from generator.simulate.kueue.configuration import is_configuration

Rule = Callable[[Objects], Iterator[tuple[Manifest, Breach]]]

_KINDS = rules.KINDS | {"ClusterTrainingRuntime", "PersistentVolumeClaim", "TrainingRuntime", "TrainJob"}

RULES: Mapping[str, Rule] = {
    "trainjob/missing-runtime": spec.missing_runtime,
    "trainjob/lost-devices": resources.lost_devices,
    "trainjob/lost-resources": resources.lost_resources,
    "trainjob/uncounted-resources": resources.uncounted_resources,
    "trainjob/contradicting-resources": resources.contradicting_resources,
    "trainjob/one-node": resources.one_node,
    "trainjob/launcher-image": resources.launcher_image,
    **exceptions.RULES,
    "mpi/one-node-volume": pods.one_node_volume,
    **rules.RULES,
    **fabric.RULES,
}
CHECKS = tuple(RULES)
"""The ids of these rules."""


def is_kept(manifest: Manifest) -> bool:
    """Whether a rule reads the object; of all others nothing is kept while files are read."""
    is_known = manifest.kind in _KINDS or is_configuration(manifest) or is_namespace(manifest)
    return is_known or fabric.is_kept(manifest) or registry.is_read(manifest)


def breaches(
    manifests: Sequence[Manifest],
    targets: Mapping[str, str],
    today: dt.date | None = None,
    *,
    is_complete: bool = False,
) -> Iterator[tuple[Manifest, Breach]]:
    """What some objects say only together.

    Args:
        manifests: those of one release, or those of no release, in any order; of other kinds none need be there.
        targets: component → the minor version that is judged for.
        today: the day on which is judged; without it nothing is said of what ends on a day.
        is_complete: whether these are all manifests of a release.
    """
    kept = [manifest for manifest in manifests if is_kept(manifest)]
    if kept:
        gathered = Objects(tuple(sorted(kept, key=lambda each: (each.file, each.index))), targets, today, is_complete)
        passed = defects.silent(targets)
        for check, rule in RULES.items():
            if check not in passed:
                yield from rule(gathered)
        for each in registry.checks_of(Stage.TOGETHER, targets):
            subject = gathered if each.needs is Objects else gathered.view(each.needs.read)
            if subject is not None:
                yield from each.run(subject)
