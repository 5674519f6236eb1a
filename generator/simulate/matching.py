"""Whether pods may go to the nodes of a flavor.

kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `checkFlavorForPodSets`, `flavorSelector`: only the labels
that the flavor itself names are compared, since its nodes may have any others.
"""

from __future__ import annotations

from generator.manifests import Body
from generator.simulate.fields import mappings
from generator.simulate.podsets import PodSet
from generator.simulate.queues import Flavor
from generator.simulate.selectors import holds, told, untolerated


def mismatch(pods: PodSet, flavor: Flavor) -> str:
    """Why the pods may not go to the flavor's nodes; empty if they may.

    Raises:
        NotModelledError: a toleration compares numbers.
    """
    taint = untolerated(flavor.taints, (*pods.tolerations, *flavor.tolerations))
    if taint is not None:
        return f"`{pods.name}` does not tolerate the taint {told(taint)} of flavor `{flavor.name}`"
    wanted = {key: value for key, value in pods.node_selector.items() if key in flavor.labels}
    for key, value in sorted(wanted.items()):
        if flavor.labels[key] != value:
            return f"`{pods.name}` selects nodes with {key}={value}, flavor `{flavor.name}` has {flavor.labels[key]}"
    if not _is_near(pods.affinity, flavor):
        return f"the node affinity of `{pods.name}` excludes flavor `{flavor.name}`"
    return ""


def _is_near(terms: tuple[Body, ...], flavor: Flavor) -> bool:
    """Whether one of the terms holds. A term that names no label of the flavor's holds for every flavor."""
    known = [
        [each for each in mappings(term.get("matchExpressions")) if each.get("key") in flavor.labels] for term in terms
    ]
    return not known or any(not expressions or holds(expressions, flavor.labels) for expressions in known)
