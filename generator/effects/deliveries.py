"""The topic `gitops`: the objects that Argo CD and Flux apply from the files of a release, and how they apply them.

A delivery is the set of files that an Application of Argo CD or a Kustomization of Flux applies. An update can change
this set although all files stay: by a path, by a pattern of Argo CD (`include`, `exclude`, the generators of an
ApplicationSet), or by the files that a source of Flux leaves out (`ignore`, `sparseCheckout`).

Argo CD prunes the objects that an Application no longer applies. It skips the sync of an Application that applies no
object any more, unless `allowEmpty` is set (argo-cd v3.2.1 controller/appcontroller.go ApplicationController.autoSync).
It deletes an
Application that an ApplicationSet no longer generates, and with the finalizer also the objects of the Application
(argo-cd v3.2.1 applicationset/controllers/applicationset_controller.go ApplicationSetReconciler.deleteInCluster;
argo-cd v3.2.1 applicationset/utils/utils.go Render.RenderTemplateParams). Flux prunes objects that a Kustomization no
longer applies. If the artifact lacks the folder of
the Kustomization, Flux reports an error and changes nothing (kustomize-controller v1.7.3
internal/controller/kustomization_controller.go KustomizationReconciler.reconcile).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from generator.checks.gitops.applied import applied_by
from generator.checks.gitops.deliveries import Deliveries, Delivery, is_wiring
from generator.checks.objects import Change, ChangedObject
from generator.checks.tree import Tree
from generator.effects.effect import Effect, Risk
from generator.effects.gitops_settings import compare_settings
from generator.effects.projects import compare_projects
from generator.effects.prune import count_kinds
from generator.effects.subjects import Statement, merge
from generator.facts.names import FLUX_PRUNE, SYNC_OPTIONS
from generator.manifests import Manifest
from generator.objects.fields import mapping, string, strings
from generator.upstream.argocd.application_sets import UNKNOWN

_TOPIC = "gitops"
_FINALIZER = "resources-finalizer.argocd.argoproj.io"
_KEPT = {"Prune=false", "Delete=false"}
_Identity = tuple[str, str, str, str]
_Key = tuple[str, str, str]
"""The engine, the namespace of the owner, and the name of an Application or Kustomization."""


def find_gitops_effects(change: Change) -> Iterator[Effect]:
    """Yield the deliveries that apply other files, AppProjects that permit more or less, and changed settings.

    The topic `prune` reports the removed Kustomizations of Flux, and `destination` the other clusters and revisions.
    """
    changed = [item for item in ChangedObject.between(change) if is_wiring(item.new)]
    statements = [statement for item in changed for statement in (*compare_projects(item), *compare_settings(item))]
    removed = [item for item in change.all_removed if item.kind == "ApplicationSet" and is_wiring(item)]
    removed += [item for item in change.all_removed if item.kind == "Application" and is_wiring(item)]
    if changed or removed:
        statements += _Comparison(change, removed).statements()
    yield from merge(_TOPIC, _join_details(statements))


def _join_details(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield statements, with the details of all objects that have the same sentence, so that `merge` joins them."""
    groups: dict[tuple[object, ...], list[Statement]] = {}
    for item in statements:
        groups.setdefault((item.noun, item.verb, item.rest, item.risk), []).append(item)
    for group in groups.values():
        lines = tuple(f"{item.name}: {detail}" for item in group for detail in item.details)
        yield from (replace(item, details=lines) if len(group) > 1 else item for item in group)


@dataclass(frozen=True)
class _Side:
    """The deliveries of the files before or after an update."""

    manifests: Sequence[Manifest]

    @cached_property
    def tree(self) -> Tree:
        """The files."""
        return Tree(self.manifests, {item.file for item in self.manifests})

    @cached_property
    def deliveries(self) -> Mapping[_Key, Sequence[Delivery]]:
        """The deliveries by their names. A name with an unknown part is left out."""
        by_key: dict[_Key, list[Delivery]] = {}
        for item in Deliveries.read(self.tree).all:
            by_key.setdefault(_key(item), []).append(item)
        return by_key

    @cached_property
    def unknown(self) -> set[_Identity]:
        """The owners with a delivery whose name the files do not show."""
        return {item.owner.identity for key, items in self.deliveries.items() if UNKNOWN in key[2] for item in items}

    def objects(self, key: _Key) -> Mapping[_Identity, Manifest] | None:
        """Return the objects that the deliveries of a name apply; None if the files do not show all of them."""
        objects: dict[_Identity, Manifest] = {}
        for delivery in self.deliveries.get(key, ()):
            applied = applied_by(delivery, self.tree)
            if applied is None or not applied.is_exact:
                return None
            objects |= {item.manifest.identity: item.manifest for item in applied.objects}
        return objects


def _key(delivery: Delivery) -> _Key:
    return delivery.engine, delivery.owner.namespace, delivery.name


@dataclass(frozen=True)
class _Comparison:
    """The deliveries before and after an update.

    Attributes:
        change: the update.
        removed: the removed Applications and ApplicationSets.
    """

    change: Change
    removed: Sequence[Manifest]

    @cached_property
    def before(self) -> _Side:
        """The deliveries before the update."""
        return _Side(self.change.old)

    @cached_property
    def after(self) -> _Side:
        """The deliveries after the update."""
        return _Side(self.change.new)

    @cached_property
    def _causes(self) -> Mapping[_Identity, Manifest]:
        changed = {item.new.identity: item.new for item in ChangedObject.between(self.change) if is_wiring(item.new)}
        return changed | {item.identity: item for item in self.removed}

    @cached_property
    def _applied(self) -> set[_Identity]:
        """The objects that any delivery applies after the update."""
        return {identity for key in self.after.deliveries for identity in self.after.objects(key) or ()}

    @cached_property
    def _kept(self) -> set[_Identity]:
        """The objects that the files have before and after the update."""
        return {item.identity for item in self.change.new}

    def statements(self) -> Iterator[Statement]:
        """Yield a statement for each delivery that applies other objects although their files stay."""
        for key, deliveries in self.before.deliveries.items():
            cause = self._cause(key, deliveries)
            if cause is None or UNKNOWN in key[2] or deliveries[0].owner.identity in self.after.unknown:
                continue
            old = self.before.objects(key)
            if not old:
                continue
            new = self.after.objects(key)
            if key not in self.after.deliveries:
                if self._is_still_owned(deliveries[0]):
                    continue
                yield from self._gone(deliveries[0], old, cause)
            elif new is None:
                yield _describe_other_folder(deliveries[0], self.after.deliveries[key][0], old, cause)
            else:
                yield from self._compare(self.after.deliveries[key][0], old, new, cause)
        for key, deliveries in self.after.deliveries.items():
            yield from self._more(key, deliveries)

    def _cause(self, key: _Key, deliveries: Sequence[Delivery]) -> Manifest | None:
        """Return the changed or removed object that decides what a delivery applies: its owner, or its source."""
        for delivery in (*deliveries, *self.after.deliveries.get(key, ())):
            for item in (delivery.owner, delivery.source.manifest):
                if item is not None and item.identity in self._causes:
                    return self._causes[item.identity]
        return None

    def _is_still_owned(self, delivery: Delivery) -> bool:
        """Return True if the owner stays, but its files do not show the Applications that it creates."""
        owner = next((item for item in self.change.new if item.identity == delivery.owner.identity), None)
        if owner is None:
            return False
        spec = mapping(owner.body, "spec")
        source = mapping(spec, "template", "spec", "source")
        return owner.kind != "ApplicationSet" or bool(spec.get("templatePatch")) or not source.get("path")

    def _gone(self, delivery: Delivery, old: Mapping[_Identity, Manifest], cause: Manifest) -> Iterator[Statement]:
        """Yield the Applications that the update removes, or that an ApplicationSet no longer creates."""
        lost = [item for identity, item in old.items() if identity in self._kept - self._applied]
        if delivery.is_flux or not lost:
            return
        by = (
            ""
            if delivery.owner.kind == "Application"
            else f" because of the generators of ApplicationSet `{cause.name}`"
        )
        if _has_finalizer(delivery.owner):
            rest = f"deleted with all objects{by}"
        else:
            rest = f"deleted{by}: the objects stay on the cluster, and Argo CD applies no later change of them"
        if _waits(lost, "Delete=confirm"):
            rest += ", after a user confirms the deletion"
        details = (f"the objects are {count_kinds(lost)}",)
        yield Statement("Application", delivery.name, "is", rest, Risk.HIGH, details, (cause,))

    def _compare(
        self, delivery: Delivery, old: Mapping[_Identity, Manifest], new: Mapping[_Identity, Manifest], cause: Manifest
    ) -> Iterator[Statement]:
        lost = [item for identity, item in old.items() if identity in self._kept - self._applied]
        if not lost:
            return
        details = (f"the objects are {count_kinds(lost)}",)
        by = (
            ""
            if cause.identity == delivery.owner.identity
            else f", because {cause.kind} `{cause.name}` leaves them out"
        )
        noun = "Kustomization" if delivery.is_flux else "Application"
        count = f"{len(lost)} {'object' if len(lost) == 1 else 'objects'}"
        if not new:
            rest = f"no file any more{by}: {_emptied(delivery, lost)}"
            yield Statement(noun, delivery.name, "applies", rest, Risk.HIGH, details, (cause,))
        else:
            rest = f"{count} whose files stay{by}: {_pruned(delivery, lost)}"
            yield Statement(noun, delivery.name, "loses", rest, Risk.HIGH, details, (cause,))

    def _more(self, key: _Key, deliveries: Sequence[Delivery]) -> Iterator[Statement]:
        """Yield the deliveries that apply further objects, which the files already had."""
        cause = self._cause(key, deliveries)
        before = self.before.objects(key) if key in self.before.deliveries else None
        if cause is None or UNKNOWN in key[2] or before is None:
            return
        known = {item.identity for item in self.change.old}
        earlier = {identity for one in self.before.deliveries for identity in self.before.objects(one) or ()}
        new = self.after.objects(key) or {}
        more = [item for identity, item in new.items() if identity in known - earlier]
        if more:
            noun = "Kustomization" if deliveries[0].is_flux else "Application"
            rest = f"also {len(more)} {'object' if len(more) == 1 else 'objects'} that the engine did not apply before"
            details = (f"the objects are {count_kinds(more)}",)
            yield Statement(noun, deliveries[0].name, "applies", rest, Risk.MEDIUM, details, (cause,))


def _describe_other_folder(
    old: Delivery, new: Delivery, objects: Mapping[_Identity, Manifest], cause: Manifest
) -> Statement:
    """Return the statement about a delivery of a folder that the release does not have."""
    noun = "Kustomization" if old.is_flux else "Application"
    lost = list(objects.values())
    rest = f"the folder `{new.folder}` instead of `{old.folder}`, and no file of the release is in that folder: "
    rest += f"if the folder lacks the {len(lost)} objects, {_pruned(new, lost)}"
    rest += "; without the folder, the engine applies nothing"
    details = (f"the objects are {count_kinds(lost)}",)
    return Statement(noun, old.name, "applies", rest, Risk.HIGH, details, (cause,))


def _emptied(delivery: Delivery, lost: Sequence[Manifest]) -> str:
    """Describe what an engine does with the objects of a delivery that has no file any more."""
    automated = mapping(delivery.spec, "syncPolicy", "automated")
    if delivery.is_flux:
        missing = "; if the artifact lacks the folder, Flux reports an error and changes nothing"
        return _pruned(delivery, lost) + (missing if delivery.spec.get("prune") is True else "")
    if automated.get("prune") is True and automated.get("allowEmpty") is not True:
        return "Argo CD skips the sync, so the objects stay on the cluster, and get no later change"
    return _pruned(delivery, lost)


def _pruned(delivery: Delivery, lost: Sequence[Manifest]) -> str:
    """Describe what an engine does with objects that a delivery no longer applies."""
    if delivery.is_flux:
        is_pruned = delivery.spec.get("prune") is True
        kept = [item for item in lost if _annotation(item, FLUX_PRUNE) == "disabled"]
        engine = "Flux"
    else:
        automated = mapping(delivery.spec, "syncPolicy", "automated")
        is_pruned = automated.get("prune") is True
        kept = [item for item in lost if _options(item) & _KEPT]
        engine = "Argo CD"
    if not is_pruned or len(kept) == len(lost):
        return f"{engine} keeps them on the cluster, and applies no later change of them"
    confirmed = " after a user confirms the deletion" if not delivery.is_flux and _waits(lost, "Prune=confirm") else ""
    rest = f", except {len(kept)}" if kept else ""
    return f"{engine} deletes them{rest}{confirmed}"


def _has_finalizer(owner: Manifest) -> bool:
    """Return True if Argo CD deletes the objects of a deleted Application."""
    if owner.kind == "Application":
        return _FINALIZER in str(mapping(owner.body, "metadata").get("finalizers"))
    finalizers = strings(mapping(owner.body, "spec", "template", "metadata").get("finalizers"))
    is_kept = mapping(owner.body, "spec", "syncPolicy").get("preserveResourcesOnDeletion") is True
    return any(_FINALIZER in one for one in finalizers) or not (finalizers or is_kept)


def _waits(items: Sequence[Manifest], option: str) -> bool:
    return any(option in _options(item) for item in items)


def _options(item: Manifest) -> set[str]:
    return {option.strip() for option in _annotation(item, SYNC_OPTIONS).split(",")}


def _annotation(item: Manifest, name: str) -> str:
    return string(mapping(item.body, "metadata", "annotations").get(name))
