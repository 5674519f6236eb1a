"""Rules: what Kueue decides differently from one version to the next, as far as it changes an answer.

The quota tree (`resource_node.go`), the candidates for preemption and the shares of fair sharing are the same in
v0.18.3 and v0.19.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from generator.facts.versions import minors


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one minor version of Kueue; the defaults are those of 0.19.

    Attributes:
        version: the minor version.
        ranks_no_candidates_last: a flavor without preemption candidates comes after all that fit, whatever
            `flavorFungibility.preference` sets (v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `isPreferred`).
        keeps_progress: the next attempt goes on with the next flavor, even if jobs of the queue were admitted or ended
            since the last cycle, or if the last attempt lost against another job of the cycle (v0.19.2
            pkg/scheduler/scheduler.go `lastAssignmentOutdated`, `markSkipped`; the feature gate is
            FlavorFungibilityPreserveScanProgress).
        lends_group_flavor: pods that request nothing get the flavor of the pods that they are placed with (v0.19.2
            flavorassigner.go `resolvePodSetFlavors`).
        counts_leader: a place holds a launcher only beside the hosts that it gets (v0.19.2
            pkg/cache/scheduler/tas_flavor_snapshot.go `prioritizeLeaderDomain`, `consumeWithLeadersGeneric`).
    """

    version: str
    ranks_no_candidates_last: bool = True
    keeps_progress: bool = True
    lends_group_flavor: bool = True
    counts_leader: bool = True


NEWEST = Rules(minors("kueue")[0])
_BY_VERSION = {
    "0.18": Rules(
        "0.18", ranks_no_candidates_last=False, keeps_progress=False, lends_group_flavor=False, counts_leader=False
    ),
}


def rules_of(version: str) -> Rules:
    """Return the rules of a minor version; those of the newest for an empty or unknown one."""
    return _BY_VERSION.get(version, NEWEST)
