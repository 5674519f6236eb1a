"""change/reboots: an update that drains or restarts nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from generator.checks.change.immutable import written
from generator.checks.objects import Change
from generator.checks.registry import INFO, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names
from generator.facts.names import REBOOTS
from generator.facts.node_updates import NODE_UPDATES, NodeUpdate
from generator.manifests import Manifest
from generator.objects.fields import mapping, string

_NEW, _REMOVED = "new", "removed in the next release"


@check("change/reboots", severity=WARNING, needs=Change)
def reboots(change: Change) -> Iterator[Breach]:
    """Report an update that drains or restarts nodes.

    The update adds, changes or removes an object for which an operator drains or restarts nodes. Jobs on these nodes
    fail. Such objects are SriovNetworkNodePolicies (`numVfs`, `mtu`, `nicSelector`, …), SriovNetworkPoolConfigs (the
    RDMA mode), MachineConfigs and their role, MachineConfigPools and their selectors, KubeletConfigs,
    ContainerRuntimeConfigs, PerformanceProfiles, and the driver in a NicClusterPolicy or NicNodePolicy (`ofedDriver`).
    The annotation `mpigen.dev/reboots` of such an object describes which nodes restart, and how many at a time. Without
    the annotation, and if an object moves to other nodes, the check reads the node selector of the object. If an update
    changes several objects with the same effect, the check reports them in one finding. The removal of a
    SriovNetworkPoolConfig restarts no node. If mpigen can read no object of the old tree, the finding is an info.

    Source: sriov-network-operator v1.6.0 pkg/daemon/daemon.go NodeReconciler.Reconcile; sriov-network-operator v1.6.0
    pkg/daemon/daemon.go NodeReconciler.handleDrain; sriov-network-operator v1.6.0 pkg/daemon/daemon.go
    NodeReconciler.rebootNode; machine-config-operator 00e02dd pkg/controller/render/render_controller.go
    getPoolsForMachineConfig
    """
    for restart in find_restarts(change):
        first, path = restart.places[0]
        others = restart.places[1:]
        subject = ""
        if restart.event in (_NEW, _REMOVED):
            subject = f"{first.kind} `{first.name}` "
            more = "1 other object" if len(others) == 1 else f"{len(others)} other objects"
            subject += f"and {more} are " if others else "is "
        yield Breach(
            path,
            f"{subject}{restart.event}: {restart.effect}",
            "jobs with a pod on such a node fail. A job starts again only if its runtime allows restarts, and continues"
            " from a checkpoint only if its program saves and loads checkpoints",
            "set `stopPolicy: Hold` on the queues, let running jobs end, and apply the update in a maintenance window",
            first,
            WARNING if change.old else INFO,
        )


@dataclass(frozen=True, slots=True)
class Restart:
    """Objects whose update has the same effect on nodes.

    Attributes:
        event: the change of the objects, as a predicate, such as `new`.
        effect: the operator and its action, such as `the Machine Config Operator restarts all nodes`.
        places: the objects, each with the path of its first changed field.
    """

    event: str
    effect: str
    places: Sequence[tuple[Manifest, Path]]


def find_restarts(change: Change) -> list[Restart]:
    """Return the updates that drain or restart nodes, with equal effects in one item."""
    equal: dict[tuple[str, str], list[tuple[Manifest, Path]]] = {}
    for event, manifest, path, old in _events(change):
        row = NODE_UPDATES[manifest.group, manifest.kind]
        equal.setdefault((event, f"{row.operator} {_effect(manifest, row, old)}"), []).append((manifest, path))
    return [Restart(event, effect, places) for (event, effect), places in equal.items()]


def find_node_fields(manifest: Manifest) -> list[Path]:
    """Return the paths of the fields whose change drains or restarts nodes; none for kinds without such fields."""
    row = NODE_UPDATES.get((manifest.group, manifest.kind))
    if row is None:
        return []
    label: list[Path] = [("metadata", "labels", row.label)] if row.label else []
    fields: list[Path] = [("spec", field) for field in row.fields]
    return [*label, *(fields or [("spec",)])]


def _events(change: Change) -> Iterator[tuple[str, Manifest, Path, Manifest | None]]:
    """Yield (description, object, path, old object) of the objects that make nodes drain or restart.

    The old object is None for an added or a removed object.
    """
    removed = {item.identity: item for item in change.old if (item.group, item.kind) in NODE_UPDATES}
    for manifest in change.new:
        if row := NODE_UPDATES.get((manifest.group, manifest.kind)):
            if old := removed.pop(manifest.identity, None):
                yield from _changed_fields(old, manifest, row)
            elif _affects_nodes(manifest, row):
                yield _NEW, manifest, ("spec",), None
    for manifest in removed.values():
        row = NODE_UPDATES[manifest.group, manifest.kind]
        if not row.is_removed_silently and _affects_nodes(manifest, row):
            yield _REMOVED, manifest, ("metadata", "name"), None


def _changed_fields(
    old: Manifest, new: Manifest, row: NodeUpdate
) -> Iterator[tuple[str, Manifest, Path, Manifest | None]]:
    """Yield one event for all changed fields with an effect on nodes; none without a change."""
    before, after = mapping(old.body, "spec"), mapping(new.body, "spec")
    fields = row.fields or tuple(sorted({*before, *after}))
    changed = [field for field in fields if before.get(field) != after.get(field)]
    events = [_describe_change(field, before.get(field), after.get(field)) for field in changed]
    path: Path = ("spec", changed[0]) if changed and changed[0] in after else ("spec",)
    was, now = (string(item.labels.get(row.label)) for item in (old, new))
    if was != now:
        key = row.label.rpartition("/")[2]
        events.insert(0, f"its {key} changes from {written(was or None)} to {written(now or None)}")
        path = ("metadata", "labels", row.label) if now else ("metadata", "name")
    if events:
        yield ", ".join(events), new, path, old


def _describe_change(field: str, was: object, now: object) -> str:
    if not field.endswith(_SELECTOR):
        return f"`{field}` changes from {written(was)} to {written(now)}"
    return f"`{field}` selects {_describe_selector(now)} instead of {_describe_selector(was)}"


def _describe_selector(selector: object) -> str:
    """Return a selector in words: its MachineConfigPools, or else its labels: `pool=h200` and `zone`."""
    labels = mapping(selector, "matchLabels") or (selector if isinstance(selector, dict) else {})
    if not labels or "matchExpressions" in labels or not all(isinstance(value, str) for value in labels.values()):
        return written(selector)
    prefix = f"pools.operator.{_MCO}/"
    if all(key.startswith(prefix) for key in labels):
        return f"MachineConfigPool {format_names(key.removeprefix(prefix) for key in labels)}"
    return format_names(f"{key}={value}" if value else key for key, value in labels.items())


_SELECTOR = "Selector"
_MCO = "machineconfiguration.openshift.io"


def _affects_nodes(manifest: Manifest, row: NodeUpdate) -> bool:
    """Return True if the addition or removal of an object drains or restarts nodes.

    This holds if every field of the kind has this effect, or if the object sets such a field other than a selector.
    """
    spec = mapping(manifest.body, "spec")
    return not row.fields or any(spec.get(field) for field in row.fields if field != row.selector)


def _effect(manifest: Manifest, row: NodeUpdate, old: Manifest | None) -> str:
    """Describe the effect of an object on nodes: by its annotation, or else by its kind and the nodes it selects.

    The annotation describes the old nodes if it stays the same although the object moves to other nodes.

    Args:
        manifest: the object.
        row: its kind.
        old: the object before the update; None if the update adds or removes the object.
    """
    effect = string(mapping(manifest.body, "metadata", "annotations").get(REBOOTS))
    is_moved = old is not None and _nodes_key(old, row) != _nodes_key(manifest, row)
    is_stale = is_moved and old is not None and effect == mapping(old.body, "metadata", "annotations").get(REBOOTS)
    if effect and not is_stale:
        return effect
    selector, role = _nodes_key(manifest, row)
    nodes = "all nodes"
    if row.label:
        nodes = f"the nodes of MachineConfigPool `{role}`" if role else "the nodes of its MachineConfigPools"
        if role == _ALL_WORKERS:
            nodes += ", and of all custom pools that select this role"
        if is_moved:
            nodes += ", and the nodes of all pools that no longer use the object"
    elif selector:
        words = _describe_selector(selector)
        nodes = f"the nodes of {words}" if words.startswith("MachineConfigPool ") else f"the nodes with {words}"
        if is_moved:
            nodes += ", and the nodes that only the earlier selector matches"
    return row.effect.format(nodes=nodes)


_ALL_WORKERS = "worker"
"""The role whose MachineConfigs custom pools of workers use too."""


def _nodes_key(manifest: Manifest, row: NodeUpdate) -> tuple[object, str]:
    """Return the selector and the label that decide which nodes use an object."""
    return mapping(manifest.body, "spec").get(row.selector), string(manifest.labels.get(row.label))
