"""change/flavor-*, change/reboots: flavors that select other nodes, and updates that drain or restart nodes.

Kueue stops no job when its flavor changes. In kueue v0.19.2 no call of `workloadevict.Evict` depends on the flavor, and
Kueue does not compare the node selectors and tolerations of a running job's pods (pkg/util/equality/podset.go,
pkg/controller/jobframework/reconciler.go EquivalentToWorkload). Jobs that start later get the flavor's new values
(pkg/podset/podset.go FromAssignment). tests/cluster/test_changed_flavors.py shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from generator.checks.change.immutable import next_name, written
from generator.checks.change.queues import ChangedQueues, has_users
from generator.checks.finding import listed
from generator.checks.objects import Change, ChangedObject
from generator.checks.quota.queues import KUEUE, Queues
from generator.checks.registry import INFO, WARNING, Breach, check
from generator.documents.load import Path
from generator.facts.defects import known
from generator.facts.names import REBOOTS
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string
from generator.objects.queue import ClusterQueue
from generator.objects.selectors import find_untolerated_taint, format_taint


@check("change/flavor-nodes", severity=WARNING, needs=ChangedObject)
def flavor_nodes(change: ChangedObject) -> Iterator[Breach]:
    """Report a flavor that selects other nodes than before.

    The ResourceFlavor gets other `nodeLabels`, gets a taint that its own tolerations do not cover, or loses a
    toleration. Kueue stops no job: running jobs keep their nodes and their usage. Jobs that start later, pending
    ones included, get the new values. If no node matches, their pods stay Pending and hold their quota. Kueue itself
    checks new taints, and never admits jobs that do not tolerate them.
    """
    if change.new.group != KUEUE or change.new.kind != "ResourceFlavor":
        return
    before, after = (mapping(flavor.body, "spec") for flavor in (change.old, change.new))
    if before.get("topologyName"):  # the API server rejects changed labels and tolerations: change/immutable
        after = {**after, "tolerations": before.get("tolerations")}
    else:
        labels, new_labels = mapping(before, "nodeLabels"), mapping(after, "nodeLabels")
        if labels != new_labels:
            yield Breach(
                ("spec", "nodeLabels"),
                f"`nodeLabels` changes from {written(dict(labels) or None)} to {written(dict(new_labels) or None)}",
                "running jobs keep their nodes and count against this flavor; later jobs start on nodes with the new"
                " labels, and if no node has them, their pods stay Pending and hold their quota",
                f"label the nodes first; for other nodes add a flavor, such as `{next_name(change.new.name)}` (in a"
                " platform file: another pool), and keep this one until its jobs end",
            )
        kept = mappings(after.get("tolerations"))
        removed = [toleration for toleration in mappings(before.get("tolerations")) if toleration not in kept]
        if removed:
            yield Breach(
                ("spec", "tolerations"),
                f"pods of new jobs no longer get the toleration {written(removed[0])}",
                "pods without a toleration of their own stay Pending if their nodes have this taint, and hold their"
                " quota; running jobs continue",
                "remove the taint from the nodes first, or keep the toleration",
            )
    untolerated = _untolerated_taints(before)
    added = [format_taint(taint) for taint in _untolerated_taints(after) if taint not in untolerated]
    if added:
        yield Breach(
            ("spec", "nodeTaints"),
            f"the flavor accepts only jobs that tolerate {', '.join(added)} from now on",
            "Kueue never admits other jobs to this flavor, pending jobs included; running jobs continue",
            "let pending jobs start first, or submit them again on a runtime that tolerates the taint",
        )


def _untolerated_taints(flavor: Mapping[str, object]) -> list[Body]:
    """Return the taints that the flavor does not tolerate. Tolerations that compare numbers do not count."""
    tolerations = [item for item in mappings(flavor.get("tolerations")) if item.get("operator") not in ("Gt", "Lt")]
    return [
        taint
        for taint in mappings(flavor.get("nodeTaints"))
        if find_untolerated_taint([taint], tolerations) is not None
    ]


@check("change/flavor-not-retried", severity=WARNING, needs=ChangedObject)
def flavor_not_retried(change: ChangedObject) -> Iterator[Breach]:
    """Report a flavor that admits more jobs, while Kueue does not retry pending ones.

    The flavor loses a taint, gets a toleration or selects other nodes, so it accepts more jobs. Kueue does not retry
    the jobs that it could not admit before. They stay pending until another workload ends or their queue changes.

    Source: kueue v0.18.3 pkg/controller/core/resourceflavor_controller.go Update,
    pkg/controller/tas/resource_flavor.go Update
    """
    if change.new.group != KUEUE or change.new.kind != "ResourceFlavor":
        return
    before, after = (mapping(flavor.body, "spec") for flavor in (change.old, change.new))
    tolerations = mappings(before.get("tolerations"))
    fields = {
        "nodeTaints": any(taint not in _untolerated_taints(after) for taint in _untolerated_taints(before)),
        "tolerations": any(toleration not in tolerations for toleration in mappings(after.get("tolerations"))),
        "nodeLabels": mapping(before, "nodeLabels") != mapping(after, "nodeLabels"),
    }
    if changed := [field for field, accepts_more in fields.items() if accepts_more]:
        defect = known("kueue-forgets-jobs-when-a-flavor-changes")
        yield Breach(
            ("spec", changed[0]) if changed[0] in after else ("spec",),
            f"the flavor accepts more jobs than before: {' and '.join(f'`{field}`' for field in changed)} changes",
            "Kueue does not retry jobs that it could not admit to the flavor: they stay pending until another "
            f"workload ends or their queue changes ({defect.note})",
            f"update to {defect.update}, or change the ClusterQueues of this flavor in the same release",
            at_key=changed[0] in after,
        )


@check("change/flavor-topology", severity=WARNING, needs=ChangedQueues)
def flavor_topology(change: ChangedQueues) -> Iterator[Breach]:
    """Report a flavor that only jobs with a topology request can use from now on.

    The flavor gets a topology while its queue has another flavor without one, or the queue gets such a flavor. A
    pending job keeps the topology request with which it was queued, so it never gets this flavor. Running jobs
    continue. If all flavors of a queue have a topology, jobs need no request.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go checkPodSetAndFlavorMatchForTAS
    """
    before, after = change.before, change.after
    affected: dict[str, list[str]] = {}
    for name, queue in sorted(after.tree.queues.items()):
        old = before.tree.queues.get(name)
        if old is not None and has_users(before, name):
            for flavor in sorted(_open_flavors(before, old) & (queue.flavors - _open_flavors(after, queue))):
                affected.setdefault(flavor, []).append(name)
    for flavor, queues in affected.items():
        yield Breach(
            ("spec", "topologyName"),
            f"in {listed(queues)} only jobs with a topology request can use `{flavor}` from now on",
            "the queue also has a flavor without a topology; pending jobs without a request never get this flavor, and"
            " running jobs continue",
            "let pending jobs start first, or submit them again on a runtime with a topology request; or set a topology"
            " on every flavor of the queue",
            after.of("ResourceFlavor")[flavor],
        )


def _open_flavors(queues: Queues, queue: ClusterQueue) -> frozenset[str]:
    """Return the flavors of a queue that jobs without a topology request can use."""
    flavors = queues.of("ResourceFlavor")
    plain = {
        name
        for name in queue.flavors
        if name in flavors and not string(mapping(flavors[name].body, "spec").get("topologyName"))
    }
    return frozenset(plain or queue.flavors)


_NEW, _REMOVED = "new", "removed in the next release"
_SELECTORS = ("nodeSelector", "machineConfigPoolSelector")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind whose operator drains or restarts nodes.

    Attributes:
        effect: what the operator does to `{nodes}`, some at a time.
        fields: the fields of `spec` whose change has this effect; empty for all fields.
        is_removed_silently: whether the removal of an object has no effect on nodes.
    """

    effect: str
    fields: tuple[str, ...] = ()
    is_removed_silently: bool = False


_RESTARTS = "restarts {nodes}"
_LOADS = "drains {nodes}, and reloads the driver"
_MCO = "machineconfiguration.openshift.io"
_KINDS: Mapping[tuple[str, str], _Kind] = {
    ("sriovnetwork.openshift.io", "SriovNetworkNodePolicy"): _Kind(
        "drains {nodes}, and restarts nodes whose NICs need it",
        (
            "bridge",
            "deviceType",
            "eSwitchMode",
            "externallyManaged",
            "linkType",
            "mtu",
            "nicSelector",
            "nodeSelector",
            "numVfs",
            "vdpaType",
        ),
    ),
    ("sriovnetwork.openshift.io", "SriovNetworkPoolConfig"): _Kind(
        "restarts {nodes} if their RDMA mode differs", ("nodeSelector", "rdmaMode"), is_removed_silently=True
    ),
    (_MCO, "MachineConfig"): _Kind(_RESTARTS),
    (_MCO, "KubeletConfig"): _Kind(_RESTARTS),
    (_MCO, "ContainerRuntimeConfig"): _Kind(_RESTARTS),
    ("performance.openshift.io", "PerformanceProfile"): _Kind(_RESTARTS),
    ("mellanox.com", "NicClusterPolicy"): _Kind(_LOADS, ("ofedDriver",)),
    ("mellanox.com", "NicNodePolicy"): _Kind(_LOADS, ("ofedDriver",)),
}


@check("change/reboots", severity=WARNING, needs=Change)
def reboots(change: Change) -> Iterator[Breach]:
    """Report an update that drains or restarts nodes.

    The update adds, changes or removes an object for which an operator drains or restarts nodes, and running jobs
    stop: virtual functions of NICs (SriovNetworkNodePolicy: `numVfs`, `mtu`, `nicSelector`, …), the RDMA mode
    (SriovNetworkPoolConfig), MachineConfigs, KubeletConfigs, ContainerRuntimeConfigs, PerformanceProfiles, and the
    driver of NVIDIA's network operator. The annotation `mpigen.dev/reboots`, or else the selector, gives the nodes
    and how many restart at a time. Equal effects are one finding. In a first release it is an info.
    """
    removed = {item.identity: item for item in change.old if (item.group, item.kind) in _KINDS}
    equal: dict[tuple[str, str], list[tuple[Manifest, Path]]] = {}
    for manifest in change.new:
        if kind := _KINDS.get((manifest.group, manifest.kind)):
            old = removed.pop(manifest.identity, None)
            spec, old_spec = mapping(manifest.body, "spec"), mapping(old.body, "spec") if old else {}
            if old:
                fields = kind.fields or tuple(sorted({*old_spec, *spec}))
                changed = [field for field in fields if old_spec.get(field) != spec.get(field)]
                event = ", ".join(
                    f"`{field}` changes from {written(old_spec.get(field))} to {written(spec.get(field))}"
                    for field in changed
                )
            else:
                changed, event = [""] if _affects_nodes(manifest, kind) else [], _NEW
            if changed:
                path: Path = ("spec", changed[0]) if changed[0] in spec else ("spec",)
                equal.setdefault((event, _effect(manifest, kind)), []).append((manifest, path))
    for manifest in removed.values():
        kind = _KINDS[manifest.group, manifest.kind]
        if not kind.is_removed_silently and _affects_nodes(manifest, kind):
            equal.setdefault((_REMOVED, _effect(manifest, kind)), []).append((manifest, ("metadata", "name")))
    for (event, effect), ((first, path), *others) in equal.items():
        subject = ""
        if event in (_NEW, _REMOVED):
            subject = f"`{first.name}` and {len(others)} more are " if others else f"`{first.name}` is "
        yield Breach(
            path,
            f"{subject}{event}: its operator {effect}",
            "jobs with a pod on such a node fail; only a runtime with `restarts` starts them again, and they continue"
            " from a checkpoint only if their program saves and loads one",
            "let jobs end first, with `stopPolicy: Hold` on their queues, and apply it in a maintenance window",
            first,
            WARNING if change.old else INFO,
        )


def _affects_nodes(manifest: Manifest, kind: _Kind) -> bool:
    """Return True if the object sets a field that has an effect on nodes."""
    spec = mapping(manifest.body, "spec")
    return not kind.fields or any(spec.get(field) for field in kind.fields if field not in _SELECTORS)


def _effect(manifest: Manifest, kind: _Kind) -> str:
    """Return the effect from the object's annotation, or that of its kind on the selected nodes."""
    if effect := string(mapping(manifest.body, "metadata", "annotations").get(REBOOTS)):
        return effect
    spec = mapping(manifest.body, "spec")
    nodes = "all nodes"
    if role := string(mapping(manifest.body, "metadata", "labels").get(f"{_MCO}/role")):
        nodes = f"the nodes of MachineConfigPool `{role}`"
    if selector := next((spec[field] for field in _SELECTORS if spec.get(field)), None):
        nodes = f"the nodes with {written(selector)}"
    return kind.effect.format(nodes=nodes)
