"""gitops/cycle, gitops/wave: the order in which the GitOps engines apply objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from generator.checks.finding import Severity, listed
from generator.checks.gitops.applied import applied_by
from generator.checks.gitops.deliveries import FLUX, Wiring
from generator.checks.graph import Reference, State, references
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.facts.names import SYNC_WAVE
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, string, strings

_HOOK = "argocd.argoproj.io/hook"
_PHASES = ("PreSync", "Sync", "PostSync")
_INTEGER = re.compile(r"[+-]?\d+")
_HAVE_HEALTH = frozenset({"DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"})
"""Kinds with pods whose health Argo CD knows, and for which it waits (gitops-engine 13d5172 pkg/health)."""


@check("gitops/cycle", severity=ERROR, needs=Objects)
def cycle(objects: Objects) -> Iterator[Breach]:
    """Report Kustomizations of Flux that depend on each other in a circle.

    Flux applies a Kustomization only when all Kustomizations in its `dependsOn` are ready. In a circle, none of them
    ever is: `DependencyNotReady`, and Flux applies none of their objects.

    Source: kustomize-controller v1.7.3 internal/controller/kustomization_controller.go
    KustomizationReconciler.checkDependencies
    """
    kustomizations = [item for item in objects.others if (item.group, item.kind) == FLUX]
    depends = {(item.namespace, item.name): [name for _, name in _dependencies(item)] for item in kustomizations}
    reported: set[tuple[str, str]] = set()
    for item in kustomizations:
        identity = (item.namespace, item.name)
        for number, name in _dependencies(item):
            way = _find_way(name, identity, depends)
            if way and not reported.intersection(way):
                reported.update(way)
                names = " → ".join(f"`{step[1]}`" for step in (identity, *way))
                yield Breach(
                    ("spec", "dependsOn", number, "name"),
                    f"`dependsOn` is a circle: {names}",
                    "each Kustomization waits for the next one (DependencyNotReady), so Flux applies none of them",
                    "remove one of these dependencies",
                    item,
                    value=name[1],
                )


def _dependencies(item: Manifest) -> list[tuple[int, tuple[str, str]]]:
    rows = indexed_mappings(mapping(item.body, "spec").get("dependsOn"))
    return [(number, (string(row.get("namespace"), item.namespace), string(row.get("name")))) for number, row in rows]


def _find_way(
    start: tuple[str, str], end: tuple[str, str], depends: Mapping[tuple[str, str], Sequence[tuple[str, str]]]
) -> Sequence[tuple[str, str]]:
    """Return the shortest way of dependencies from one Kustomization to another; empty if there is none."""
    waiting: list[tuple[tuple[str, str], ...]] = [(start,)]
    visited = {start}
    while waiting:
        way = waiting.pop(0)
        if way[-1] == end:
            return way
        for name in depends.get(way[-1], ()):
            if name not in visited:
                visited.add(name)
                waiting.append((*way, name))
    return ()


@dataclass(frozen=True, slots=True, order=True)
class _Moment:
    """The time at which Argo CD applies an object: the position of its phase, and its wave."""

    phase: int
    wave: int

    def __str__(self) -> str:
        """Return the phase and the wave for messages."""
        return f"wave {self.wave}" if self.phase == 1 else f"{_PHASES[self.phase]}, wave {self.wave}"


def _moment(manifest: Manifest) -> _Moment | None:
    """Return the time at which Argo CD applies an object; None for a hook that runs only on failure or deletion.

    Source: gitops-engine 13d5172 pkg/sync/syncwaves/waves.go; gitops-engine 13d5172 pkg/sync/sync_tasks.go
    """
    annotations = mapping(manifest.body, "metadata", "annotations")
    text = string(annotations.get(SYNC_WAVE))
    wave = int(text) if _INTEGER.fullmatch(text) else 0
    hooks = [hook.strip() for hook in string(annotations.get(_HOOK)).split(",") if hook.strip()]
    phases = [_PHASES.index(hook) for hook in hooks if hook in _PHASES]
    if hooks and not phases:
        return None
    return _Moment(min(phases, default=1), wave)


@check("gitops/wave", severity=ERROR, needs=Wiring)
def wave(wiring: Wiring) -> Iterator[Breach]:
    """Report an object that an Application applies in an earlier sync wave than an object that it needs.

    Argo CD applies a wave only after all objects of earlier waves are applied and healthy. If an object is in an
    earlier wave than its Namespace or its CustomResourceDefinition, the API server rejects the object, and the sync
    fails before Argo CD creates the other one. If a Deployment is in an earlier wave than its ConfigMap, the Deployment
    never becomes healthy, and Argo CD never applies the ConfigMap. For other kinds, the finding is a warning: the
    object has no effect until the later wave, and a health check for its kind stops the sync. Hooks count too:
    `PreSync` is before all waves.

    An object that exists in the cluster already hides the mistake until the next installation.

    Source: gitops-engine 13d5172 pkg/sync/sync_context.go syncContext.Sync; gitops-engine 13d5172
    pkg/sync/sync_tasks.go
    """
    late_objects: dict[int, _Late] = {}
    for delivery in wiring.deliveries:
        applied = None if delivery.is_flux else applied_by(delivery, wiring.tree)
        manifests = [item.manifest for item in applied.objects] if applied else []
        if len({_moment(manifest) for manifest in manifests}) < 2:  # noqa: PLR2004 - one wave has no order
            continue
        options = strings(mapping(delivery.spec, "syncPolicy").get("syncOptions"))
        created = string(mapping(delivery.spec, "destination").get("namespace"))
        created = created if "CreateNamespace=true" in options else ""
        for early, late, reason, severity in _find_needs(manifests, wiring.objects, created):
            before, after = _moment(early), _moment(late)
            if before is not None and after is not None and before < after and wiring.has(late):
                entry = late_objects.setdefault(id(late), _Late(late, after, before, reason, severity))
                entry.add(early, before, reason, severity)
    yield from (entry.report() for entry in late_objects.values())


@dataclass(slots=True)
class _Late:
    """An object that Argo CD applies after objects that need it.

    Attributes:
        manifest: the object.
        moment: the time at which Argo CD applies it.
        needed: the earliest time at which another object needs it.
        reason: the effect of the most severe case.
        severity: the severity of the most severe case.
        users: the objects that need it.
    """

    manifest: Manifest
    moment: _Moment
    needed: _Moment
    reason: str
    severity: Severity
    users: dict[str, None] = field(default_factory=dict)

    def add(self, user: Manifest, needed: _Moment, reason: str, severity: Severity) -> None:
        """Add an object that needs this object at an earlier time."""
        self.users.setdefault(user.resource)
        self.needed = min(self.needed, needed)
        if severity is ERROR and self.severity is not ERROR:
            self.reason, self.severity = reason, severity

    def report(self) -> Breach:
        """Return the breach of this object."""
        fix = f"set the sync wave of the {self.manifest.kind} to {self.needed.wave} or lower"
        if self.needed.phase != self.moment.phase:
            fix = f"make the {self.manifest.kind} a hook of the same phase, or remove the annotation `{_HOOK}`"
        verb = "needs" if len(self.users) == 1 else "need"
        users = f"{listed([*self.users])} {verb} it in {self.needed}"
        return Breach(
            ("metadata", "annotations", SYNC_WAVE),
            f"the {self.manifest.kind} `{self.manifest.name}` is in {self.moment}, but {users}",
            self.reason,
            fix,
            self.manifest,
            severity=self.severity,
        )


def _find_needs(
    manifests: Sequence[Manifest], objects: Objects, created: str
) -> Iterator[tuple[Manifest, Manifest, str, Severity]]:
    """Yield (object, object that it needs, effect of the wrong order, severity) of the objects of an Application."""
    namespaces = {item.name: item for item in manifests if (item.group, item.kind) == ("", "Namespace")}
    defined = {
        (string(mapping(item.body, "spec").get("group")), string(mapping(item.body, "spec", "names").get("kind"))): item
        for item in manifests
        if item.kind == "CustomResourceDefinition"
    }
    for item in manifests:
        if (late := namespaces.get(item.namespace)) and item.namespace != created:
            yield item, late, "the API server rejects the object (namespace not found), so the sync fails", ERROR
        if late := defined.get((item.group, item.kind)):
            yield item, late, "the API server does not serve the kind yet, so the sync fails", ERROR
    by_identity = {item.identity: item for item in manifests}
    for reference in references(Objects(tuple(manifests), objects.targets)):
        is_parameter = reference.manifest.kind == "Namespace"  # policies read it when a user submits a TrainJob
        if reference.state is State.PRESENT and not (reference.is_optional or is_parameter):
            for identity in reference.identities:
                if (late := by_identity.get(identity)) and late is not reference.manifest:
                    yield reference.manifest, late, *_effect(reference)


def _effect(reference: Reference) -> tuple[str, Severity]:
    if reference.manifest.kind in _HAVE_HEALTH:
        return f"{reference.link.why}, so the object never becomes healthy, and the later wave never starts", ERROR
    return f"until the later wave, this object has no effect: {reference.link.why}", WARNING
