"""Rules over several objects of one tree: which there are, and which objects they read.

Each reads a `Gathered` and says of which manifest it speaks. An object that is in no file may be in the cluster all the
same, so no rule concludes anything from its absence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from generator.checks import trainjob_resources
from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.manifests import Manifest

Rule = Callable[[Gathered], Iterator[tuple[Manifest, Breach]]]

KINDS = frozenset({"ClusterTrainingRuntime", "TrainingRuntime", "TrainJob", "LocalQueue"})
"""Of all others nothing is kept while files are read."""

RULES: Mapping[str, Rule] = {
    "trainjob/lost-devices": trainjob_resources.lost_devices,
    "trainjob/lost-resources": trainjob_resources.lost_resources,
    "trainjob/uncounted-resources": trainjob_resources.uncounted_resources,
    "trainjob/contradicting-resources": trainjob_resources.contradicting_resources,
}
CHECKS = tuple(RULES)
"""The ids of these rules."""


def breaches(manifests: Sequence[Manifest], targets: Mapping[str, str]) -> Iterator[tuple[Manifest, Breach]]:
    """What some objects say only together.

    Args:
        manifests: those of one release, or those of no release, in any order; of other kinds none need be there.
        targets: component → the minor version that is judged for.
    """
    kept = [manifest for manifest in manifests if manifest.kind in KINDS]
    if kept:
        gathered = Gathered(tuple(sorted(kept, key=lambda each: (each.file, each.index))), targets)
        for rule in RULES.values():
            yield from rule(gathered)
