"""fabric/rdma-mode: the pools of nodes of the SR-IOV operator, and whether a node is in two of them, or all are in one.

sriov-network-operator v1.6.0 controllers/helper.go findNodePoolConfig; pkg/plugins/generic/generic_plugin.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from generator.checks.fabric.providers import SRIOV
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.objects.selectors import selects

CHECK = "fabric/rdma-mode"
SHARED = "shared"
EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes with one mode of RDMA.

    Attributes:
        manifest: the SriovNetworkPoolConfig.
        selector: which nodes; an empty one is all.
        mode: `shared` or `exclusive`; empty where it leaves nodes as they are.
    """

    manifest: Manifest
    selector: Mapping[str, object]
    mode: str

    @property
    def is_everywhere(self) -> bool:
        """Whether all nodes of the cluster are in it."""
        return not (self.selector.get("matchLabels") or self.selector.get("matchExpressions"))

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether it has all nodes with some labels."""
        return selects(dict(self.selector), labels)


def pools(gathered: Gathered) -> list[Pool]:
    """Those that are about more than offloading to switches."""
    found = []
    for manifest in gathered.of(SRIOV, "SriovNetworkPoolConfig"):
        spec = mapping(manifest.body, "spec")
        mode = spec.get("rdmaMode")
        selector = spec.get("nodeSelector")
        is_selector = selector is None or isinstance(selector, dict)  # anything else the API server refuses
        if is_selector and not mapping(spec, "ovsHardwareOffloadConfig").get("name"):
            found.append(Pool(manifest, mapping(spec, "nodeSelector"), mode if isinstance(mode, str) else ""))
    return found


def pool_nodes(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Pools that share nodes for certain."""
    found = {each.manifest.identity: each for each in pools(gathered)}
    for first, second in combinations(found.values(), 2):
        is_of_one = first.manifest.namespace == second.manifest.namespace
        if is_of_one and (first.is_everywhere or second.is_everywhere or _meet(first, second)):
            yield second.manifest, _in_two(first, second)
    for pool in found.values():
        if pool.is_everywhere and pool.mode and not _is_flat(pool):
            yield pool.manifest, _everywhere(pool)


def _meet(first: Pool, second: Pool) -> bool:
    """Whether the nodes of one, by its labels, are all in the other."""
    here, there = (_labels(each) for each in (first, second))
    return (bool(here) and second.has(here)) or (bool(there) and first.has(there))


def _labels(pool: Pool) -> Mapping[str, str]:
    return {key: value for key, value in mapping(pool.selector, "matchLabels").items() if isinstance(value, str)}


def _why(first: Pool, second: Pool) -> str:
    wide = next((each for each in (second, first) if each.is_everywhere), None)
    if wide is None:
        return ""
    return f": {'it' if wide is second else 'that one'} has no `matchLabels` or `matchExpressions`, and so all nodes"


def _in_two(first: Pool, second: Pool) -> Breach:
    return Breach(
        ("spec", "nodeSelector"),
        CHECK,
        f"it has nodes that {first.manifest.resource} has too{_why(first, second)}",
        "the operator takes that for an error: it sets no RDMA mode on such a node, and does not drain it",
        "select by labels that a node has only one of",
    )


def _is_flat(pool: Pool) -> bool:
    """Labels where a selector belongs: the schema says so, and what becomes of it."""
    return bool(pool.selector)


def _everywhere(pool: Pool) -> Breach:
    return Breach(
        ("spec", "nodeSelector"),
        CHECK,
        f"`rdmaMode: {pool.mode}` is for every node of the cluster, as no label is named",
        "a change of the mode reboots nodes: all of them, one after the other",
        "name the nodes with a fabric in `nodeSelector.matchLabels`",
        Severity.WARNING,
        at_key=True,
    )
