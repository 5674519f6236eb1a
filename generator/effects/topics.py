"""The topics of a plan, in the order of the report, and the search for the effects of an update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.objects import Change
from generator.effects.access import find_access_effects
from generator.effects.admission import find_admission_effects
from generator.effects.deliveries import find_gitops_effects
from generator.effects.destination import find_destination_effects
from generator.effects.effect import Effect, Risk
from generator.effects.explained import Finder
from generator.effects.nodes import find_node_effects
from generator.effects.other import find_other_effects
from generator.effects.protections import find_protection_effects
from generator.effects.prune import find_prune_effects
from generator.effects.queues import find_queue_effects
from generator.effects.quota import find_quota_effects
from generator.effects.reach import find_reach_effects
from generator.effects.refused import find_refused_effects
from generator.effects.runtimes import find_runtime_effects
from generator.effects.teams import find_team_effects
from generator.effects.version import find_version_effects
from generator.manifests import Manifest

TOPICS: Mapping[str, Finder] = {
    "refused": find_refused_effects,
    "version": find_version_effects,
    "destination": find_destination_effects,
    "gitops": find_gitops_effects,
    "prune": find_prune_effects,
    "teams": find_team_effects,
    "quota": find_quota_effects,
    "queues": find_queue_effects,
    "runtimes": find_runtime_effects,
    "nodes": find_node_effects,
    "access": find_access_effects,
    "admission": find_admission_effects,
    "protections": find_protection_effects,
    "reach": find_reach_effects,
}
"""Topic → the function that finds its effects."""


def find_effects(change: Change) -> list[Effect]:
    """Return the effects of an update, by topic. In each topic except `other`, the highest risk is first.

    The result does not depend on the order of the manifests.

    Args:
        change: the manifests before and after the update. The lock of a release is one of its manifests.
    """
    change = Change(_by_identity(change.old), _by_identity(change.new), change.targets, change.today)
    effects = [effect for find in TOPICS.values() for effect in _in_order(find(change))]
    return [*effects, *find_other_effects(change, effects, TOPICS)]


def _by_identity(manifests: Sequence[Manifest]) -> list[Manifest]:
    return sorted(manifests, key=lambda item: (item.group, item.kind, item.namespace, item.name))


def _in_order(effects: Iterator[Effect]) -> list[Effect]:
    risks = list(Risk)
    return sorted(effects, key=lambda effect: (-risks.index(effect.risk), effect.text))
