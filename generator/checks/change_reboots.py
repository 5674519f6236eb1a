"""change/reboots: which nodes an update drains or restarts, with the jobs that run on them.

Sources: sriov-network-operator v1.6.0 pkg/daemon/daemon.go, api/v1/helper.go NeedToUpdateSriov; machine-config-operator
7ff337a docs/MachineConfigDaemon.md; cluster-node-tuning-operator d2394aa docs/performanceprofile (it makes a
MachineConfig and a KubeletConfig); Mellanox/network-operator v26.4.1 api/v1alpha1 DriverUpgradePolicySpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from generator.checks.change_immutable import written
from generator.checks.finding import Breach, Severity
from generator.documents.load import Path
from generator.facts.names import REBOOTS
from generator.manifests import Manifest
from generator.objects.fields import mapping, string

_CHECK = "change/reboots"
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


def reboots(
    old: Sequence[Manifest], new: Sequence[Manifest], _targets: Mapping[str, str]
) -> Iterator[tuple[Manifest, Breach]]:
    """What comes, changes or goes, and takes nodes away: once for all that is alike, of a first release as an info."""
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
        _CHECK,
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
