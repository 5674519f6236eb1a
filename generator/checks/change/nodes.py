"""change/flavor-*, change/reboots: flavors that select other nodes, and nodes that an update drains or restarts.

Kueue stops no job because its flavor changes: none of the calls of `workloadevict.Evict` in kueue v0.19.2 asks for the
flavor, and the node selectors and tolerations of a running job's pods are not compared (pkg/util/equality/podset.go,
pkg/controller/jobframework/reconciler.go EquivalentToWorkload). Jobs that start get the flavor's new values
(pkg/podset/podset.go FromAssignment). tests/cluster/test_changed_flavors.py runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from generator.checks.change.immutable import next_name, written
from generator.checks.change.queues import ChangedQueues, has_users
from generator.checks.finding import Breach, Severity, listed
from generator.checks.objects import Change, ChangedObject
from generator.checks.quota.queues import KUEUE, Queues
from generator.checks.registry import WARNING, check
from generator.documents.load import Path
from generator.facts.defects import known
from generator.facts.names import REBOOTS
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string
from generator.objects.queue import ClusterQueue
from generator.objects.selectors import find_untolerated_taint, format_taint

_CHECK = "change/flavor-nodes"


@check("change/flavor-nodes", severity=WARNING, needs=ChangedObject)
def flavor_nodes(change: ChangedObject) -> Iterator[Breach]:
    """Report a flavor that selects other nodes than before.

    A ResourceFlavor comes to mean other nodes (`nodeLabels`), gets a taint that its own tolerations do not cover,
    or loses a toleration. Kueue stops no job for it: those that run stay where they are, and are charged as before.
    Those that start, also if they waited, go by what the flavor says then. Pods for which there are no such nodes
    wait, and hold their quota; of a new taint Kueue itself asks, and never admits who does not tolerate it.
    """
    old, new = change.old, change.new
    if new.group != KUEUE or new.kind != "ResourceFlavor":
        return
    was, now = (mapping(each.body, "spec") for each in (old, new))
    if was.get("topologyName"):
        now = {**now, "tolerations": was.get("tolerations")}
    else:
        yield from _labels(new, mapping(was, "nodeLabels"), mapping(now, "nodeLabels"))
        yield from _tolerations(was, now)
    yield from _taints(was, now)


def _labels(new: Manifest, was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Breach]:
    if was != now:
        yield Breach(
            ("spec", "nodeLabels"),
            _CHECK,
            f"`nodeLabels` was {written(dict(was) or None)}, and becomes {written(dict(now) or None)}",
            "jobs that run stay on the nodes of before, and count against this flavor; those that start go to nodes"
            " with the new labels, and where there are none, hold their quota and wait",
            f"label the nodes before; for other nodes write another flavor, such as `{next_name(new.name)}` (in a"
            " platform file: another pool), and keep this one until its jobs have ended",
            Severity.WARNING,
        )


def _taints(was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Breach]:
    before = _keeping_out(was)
    more = [format_taint(taint) for taint in _keeping_out(now) if taint not in before]
    if more:
        yield Breach(
            ("spec", "nodeTaints"),
            _CHECK,
            f"only jobs that tolerate {', '.join(more)} are let in from now on",
            "Kueue never admits the others here, not even those that wait; jobs that run go on",
            "let those that wait begin before, or have them submitted again on a runtime that tolerates it",
            Severity.WARNING,
        )


def _keeping_out(flavor: Mapping[str, object]) -> list[Body]:
    """The taints that pods have to tolerate themselves. Tolerations that compare numbers are not counted."""
    own = [each for each in mappings(flavor.get("tolerations")) if each.get("operator") not in ("Gt", "Lt")]
    return [taint for taint in mappings(flavor.get("nodeTaints")) if find_untolerated_taint([taint], own) is not None]


def _tolerations(was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Breach]:
    kept = mappings(now.get("tolerations"))
    gone = [each for each in mappings(was.get("tolerations")) if each not in kept]
    if gone:
        yield Breach(
            ("spec", "tolerations"),
            _CHECK,
            f"pods of jobs no longer get the toleration {written(gone[0])}",
            "those that start and do not tolerate it themselves wait on nodes with such a taint, and hold their quota;"
            " jobs that run go on",
            "take the taint from the nodes before, or keep the toleration",
            Severity.WARNING,
        )


@check("change/flavor-not-retried", severity=WARNING, needs=ChangedObject)
def flavor_not_retried(change: ChangedObject) -> Iterator[Breach]:
    """Report a flavor that admits more jobs, while Kueue does not retry pending ones.

    A flavor loses a taint, gets a toleration or means other nodes, so it lets in more jobs. Kueue before 0.18.5
    does not look again at jobs that it could not admit before. They stay pending until another workload ends or
    their queue changes.

    Source: kueue v0.18.3 pkg/controller/core/resourceflavor_controller.go Update,
    pkg/controller/tas/resource_flavor.go Update
    """
    old, new = change.old, change.new
    if new.group != KUEUE or new.kind != "ResourceFlavor":
        return
    was, now = (mapping(each.body, "spec") for each in (old, new))
    fields = {
        "nodeTaints": any(taint not in _keeping_out(now) for taint in _keeping_out(was)),
        "tolerations": any(each not in mappings(was.get("tolerations")) for each in mappings(now.get("tolerations"))),
        "nodeLabels": mapping(was, "nodeLabels") != mapping(now, "nodeLabels"),
    }
    if changed := [field for field, lets_in_more in fields.items() if lets_in_more]:
        defect = known("kueue-forgets-jobs-when-a-flavor-changes")
        yield Breach(
            ("spec", changed[0]) if changed[0] in now else ("spec",),
            "change/flavor-not-retried",
            f"{' and '.join(f'`{field}`' for field in changed)} of the flavor let in more jobs than before",
            "Kueue does not look again at jobs that it could not admit to the flavor: they stay pending until another "
            f"workload ends or their queue changes ({defect.note})",
            f"update to {defect.update}, or change the ClusterQueues of this flavor in the same release",
            Severity.WARNING,
            at_key=changed[0] in now,
        )


@check("change/flavor-topology", severity=WARNING, needs=ChangedQueues)
def flavor_topology(change: ChangedQueues) -> Iterator[tuple[Manifest, Breach]]:
    """Report a flavor that only jobs with a topology request can use from now on.

    Of a flavor only jobs get something that ask for a topology, as it got one, and the queue has another flavor
    without one; or as the queue got such another flavor. A job that waits asks for what its runtime said when it
    was queued, so it never comes to that flavor. Those that run go on. Where all flavors of a queue have a
    topology, nobody has to ask.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go checkPodSetAndFlavorMatchForTAS: all
    may have it where it has no topology, or where all flavors of the queue have one.
    """
    before, after = change.before, change.after
    closed: dict[str, list[str]] = {}
    for name, queue in sorted(after.tree.queues.items()):
        was = before.tree.queues.get(name)
        if was is not None and has_users(before, name):
            for flavor in sorted(_for_all(before, was) & (queue.flavors - _for_all(after, queue))):
                closed.setdefault(flavor, []).append(name)
    for flavor, queues in closed.items():
        yield after.of("ResourceFlavor")[flavor], _closed(flavor, queues)


def _for_all(known: Queues, queue: ClusterQueue) -> frozenset[str]:
    """The flavors of which jobs get something that ask for no topology."""
    flavors = known.of("ResourceFlavor")
    plain = {
        name
        for name in queue.flavors
        if name in flavors and not string(mapping(flavors[name].body, "spec").get("topologyName"))
    }
    return frozenset(plain or queue.flavors)


def _closed(flavor: str, queues: Sequence[str]) -> Breach:
    return Breach(
        ("spec", "topologyName"),
        "change/flavor-topology",
        f"in {listed(queues)} only jobs that ask for a topology get something of `{flavor}` from now on",
        "the queue has a flavor without one as well; jobs that wait and ask for none never come to this one, and jobs"
        " that run go on",
        "let those that wait begin before, or have them submitted again on a runtime that asks for it; or give every"
        " flavor of the queue a topology",
        Severity.WARNING,
    )


_REBOOTS = "change/reboots"
_NEW, _GONE = "new", "in the next release no more"
_SELECTORS = ("nodeSelector", "machineConfigPoolSelector")


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a kind does to nodes.

    Attributes:
        effect: what its operator does to `{nodes}`, some at a time.
        fields: of `spec`, a change of which does it; all where none is named.
        goes_alone: whether nothing happens when the object goes.
    """

    effect: str
    fields: tuple[str, ...] = ()
    goes_alone: bool = False


_RESTARTS = "restarts {nodes}"
_LOADS = "drains {nodes}, and loads the driver anew"
_MCO = "machineconfiguration.openshift.io"
_KINDS: Mapping[tuple[str, str], _Kind] = {
    ("sriovnetwork.openshift.io", "SriovNetworkNodePolicy"): _Kind(
        "drains {nodes}, and restarts those whose NICs need it",
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
        "restarts those of {nodes} whose RDMA mode is another", ("nodeSelector", "rdmaMode"), goes_alone=True
    ),
    (_MCO, "MachineConfig"): _Kind(_RESTARTS),
    (_MCO, "KubeletConfig"): _Kind(_RESTARTS),
    (_MCO, "ContainerRuntimeConfig"): _Kind(_RESTARTS),
    ("performance.openshift.io", "PerformanceProfile"): _Kind(_RESTARTS),
    ("mellanox.com", "NicClusterPolicy"): _Kind(_LOADS, ("ofedDriver",)),
    ("mellanox.com", "NicNodePolicy"): _Kind(_LOADS, ("ofedDriver",)),
}


@check("change/reboots", severity=WARNING, needs=Change)
def reboots(change: Change) -> Iterator[tuple[Manifest, Breach]]:
    """Report an update that drains or restarts nodes.

    An object comes, changes or goes by which an operator drains or restarts nodes, and jobs that run there stop:
    virtual functions of NICs (SriovNetworkNodePolicy: `numVfs`, `mtu`, `nicSelector`, …), the RDMA mode
    (SriovNetworkPoolConfig), MachineConfigs, KubeletConfigs, PerformanceProfiles, and the driver of NVIDIA's
    network operator. It says which nodes, and how many at a time: as the annotation `mpigen.dev/reboots` tells, or
    by the selector. Of a first release it is an info.
    """
    old, new = change.old, change.new
    before = {each.identity: each for each in old if (each.group, each.kind) in _KINDS}
    alike: dict[tuple[str, str], list[tuple[Manifest, Path]]] = {}
    for manifest in new:
        if kind := _KINDS.get((manifest.group, manifest.kind)):
            was = before.pop(manifest.identity, None)
            if fields := _changed(was, manifest, kind):
                same = alike.setdefault((_said(was, manifest, fields), _effect(manifest, kind)), [])
                same.append((manifest, _path(manifest, fields[0])))
    for gone in before.values():
        kind = _KINDS[gone.group, gone.kind]
        if not kind.goes_alone and _does_it(gone, kind):
            alike.setdefault((_GONE, _effect(gone, kind)), []).append((gone, ("metadata", "name")))
    severity = Severity.WARNING if old else Severity.INFO
    for (what, effect), ((first, path), *others) in alike.items():
        yield first, _breach(path, f"{_named(first.name, len(others), what)}: {effect}", severity)


def _does_it(manifest: Manifest, kind: _Kind) -> bool:
    spec = mapping(manifest.body, "spec")
    return not kind.fields or any(spec.get(field) for field in kind.fields if field not in _SELECTORS)


def _changed(was: Manifest | None, now: Manifest, kind: _Kind) -> tuple[str, ...]:
    """The fields of the spec that differ and do something to nodes."""
    if was is None:
        return ("",) if _does_it(now, kind) else ()
    before, after = mapping(was.body, "spec"), mapping(now.body, "spec")
    fields = kind.fields or tuple(sorted({*before, *after}))
    return tuple(field for field in fields if before.get(field) != after.get(field))


def _path(manifest: Manifest, field: str) -> Path:
    return ("spec", field) if field in mapping(manifest.body, "spec") else ("spec",)


def _said(was: Manifest | None, now: Manifest, fields: tuple[str, ...]) -> str:
    """What changes."""
    if was is None:
        return _NEW
    before, after = mapping(was.body, "spec"), mapping(now.body, "spec")
    changes = (f"`{each}` was {written(before.get(each))}, and becomes {written(after.get(each))}" for each in fields)
    return "; ".join(changes)


def _named(name: str, others: int, what: str) -> str:
    """What comes or goes is told by its name, and what changes by that."""
    if what not in (_NEW, _GONE):
        return what
    return f"`{name}` and {others} more are {what}" if others else f"`{name}` is {what}"


def _breach(path: Path, what: str, severity: Severity) -> Breach:
    return Breach(
        path,
        _REBOOTS,
        what,
        "jobs with a pod on such a node fail; only a runtime with `restarts` starts them again, and they continue from "
        "a checkpoint only if their program saves and loads one",
        "let them end before: close their queues with `stopPolicy: Hold`; apply it when the nodes can be missed",
        severity,
    )


def _effect(manifest: Manifest, kind: _Kind) -> str:
    """As the object says itself, or of the nodes that it selects."""
    if said := string(mapping(manifest.body, "metadata", "annotations").get(REBOOTS)):
        return f"it {said}"
    spec = mapping(manifest.body, "spec")
    selector = next((spec[field] for field in _SELECTORS if spec.get(field)), None)
    role = string(mapping(manifest.body, "metadata", "labels").get(f"{_MCO}/role"))
    which = (
        f"the nodes with {written(selector)}"
        if selector
        else f"the nodes of MachineConfigPool `{role}`"
        if role
        else "all nodes"
    )
    return f"its operator {kind.effect.format(nodes=which)}"
