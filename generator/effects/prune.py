"""The topic `prune`: objects that an update removes, and what their deletion destroys.

If an update removes the folder of a tenant, mpigen's ApplicationSet deletes the Application of the tenant. Before Argo
CD deletes any object of the tenant, it waits for a confirmation if one of them has the sync option `Delete=confirm`
(argo-cd v3.2.1 controller/appcontroller.go ApplicationController.finalizeApplicationDeletion). Argo CD prunes all other
removed objects in
the reverse order of their waves. It waits for a confirmation before a wave in which an object has the sync option
`Prune=confirm`. Objects with the sync option `PruneLast`, or all objects if the Application has this option, are in the
last wave (gitops-engine 13d5172 pkg/sync/sync_context.go getSyncTasks; gitops-engine 13d5172 pkg/sync/sync_context.go
runTasks).

If an update removes the folder of a tenant, Flux deletes the Kustomization of the tenant. With `deletionPolicy: Orphan`
Flux then keeps all objects of the tenant, and an admin deletes them. Flux prunes all other removed objects after it has
applied the new ones, except objects with the annotation `prune: disabled` (kustomize-controller v1.7.3
internal/controller/kustomization_controller.go KustomizationReconciler.reconcile; kustomize-controller v1.7.3
internal/controller/kustomization_controller.go KustomizationReconciler.prune; kustomize-controller v1.7.3
internal/controller/kustomization_controller.go KustomizationReconciler.finalize).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from generator.checks.change.queues import queue_removed
from generator.checks.change.removals import Departures
from generator.checks.objects import Change, ChangedObject
from generator.checks.quota.queues import KUEUE
from generator.documents.messages import escape_control, format_names
from generator.effects.effect import Effect, Risk
from generator.effects.renames import find_platform_rename, find_renames
from generator.effects.subjects import Statement, Teams, conjugate, merge, plural
from generator.effects.teams import describe_team, find_belongings
from generator.effects.trees import find_lenders
from generator.facts.names import CATALOGUE_LABEL, FLUX_PRUNE, SCHEDULES_OF, SYNC_OPTIONS
from generator.manifests import Manifest
from generator.objects.fields import mapping, string, strings

_TOPIC = "prune"
_ARGOCD = "argoproj.io"
_FLUX = "kustomize.toolkit.fluxcd.io"
_DELETING = ("Delete", "WaitForTermination")
"""Deletion policies with which Flux deletes the objects of a removed Kustomization."""
_EXTERNAL_SECRETS = "external-secrets.io"
_FOLDER_NAME = "{{.path.basenameNormalized}}"
_TENANT_FILE = re.compile(r"tenants/(?P<tenant>[^/]+)/.")


def find_prune_effects(change: Change) -> Iterator[Effect]:
    """Yield the rename of the platform, and the removed objects that matter.

    These are removed teams, namespaces, volume claims, Secrets, ExternalSecrets, and ClusterQueues in use. A removed
    ClusterQueue is in use if a LocalQueue of a remaining namespace refers to it, or if the old files have no LocalQueue
    at all. With Flux, also yield the removed objects that Flux keeps, and removed Kustomizations of folders that stay.
    """
    yield from find_platform_rename(change)
    removed = change.all_removed
    if not removed:
        return
    gone = {item.name for item in removed if (item.group, item.kind) == ("", "Namespace")}
    statements = [*_namespaces(change, gone), *_claims(change, gone), *_secrets(removed, gone)]
    statements += [*_queues(change), *_kept_by_flux(change), *_left_by_flux(change)]
    yield from merge(_TOPIC, statements)


def _order(change: Change, items: Sequence[Manifest]) -> tuple[str, ...]:
    """Return sentences about the time at which the GitOps engine deletes removed objects; empty without an engine."""
    if change.of_new(_FLUX, "Kustomization"):
        return (*_order_of_flux(change, items),)
    applications = change.of_new(_ARGOCD, "Application")
    if not applications:
        return ()
    options = {
        option
        for item in applications
        for option in strings(mapping(item.body, "spec", "syncPolicy").get("syncOptions"))
    }
    if names := _applications_of_tenants(change, items):
        deleted = f"Argo CD deletes the {plural('Application', len(names))} {format_names(names)} with all objects"
        if any("Delete=confirm" in _options(item) for item in items):
            return (deleted, "before it deletes any of them, Argo CD waits until a user confirms the deletion")
        return (deleted,)
    asking = [item for item in change.all_removed if "Prune=confirm" in _options(item)]
    if "PruneLast=true" in options:
        when = "Argo CD prunes all removed objects together, after it has applied all other objects"
        confirmed = "before it prunes any of them, Argo CD waits until a user confirms the deletion"
    else:
        when = "Argo CD prunes the removed objects in the reverse order of their sync waves"
        if all("PruneLast=true" in _options(item) for item in asking):
            when = "Argo CD prunes objects with the sync option `PruneLast` after it has applied all other objects"
        confirmed = "before it prunes objects with the sync option `Prune=confirm`, Argo CD waits for a confirmation"
    return (when, confirmed) if asking else (when,)


def _order_of_flux(change: Change, items: Sequence[Manifest]) -> Iterator[str]:
    """Yield sentences about the removed objects that Flux deletes, and about the objects that it keeps."""
    gone = [item for item in _removed_kustomizations(change) if any(is_applied_by(item, other) for other in items)]
    if gone and all(mapping(item.body, "spec").get("deletionPolicy") == "Orphan" for item in gone):
        names = [item.name for item in gone]
        noun = plural("Kustomization", len(names))
        yield f"Flux deletes only the {noun} {format_names(names)}, and keeps all objects of the team"
        yield "after the users have saved their data, an admin deletes the objects of the team"
        return
    yield "Flux prunes removed objects after it has applied all other objects"
    if any(map(_is_kept_by_flux, items)):
        yield f"Flux keeps objects with the annotation `{FLUX_PRUNE}: disabled` until an admin deletes them"


def _removed_kustomizations(change: Change) -> list[Manifest]:
    return [item for item in change.all_removed if (item.group, item.kind) == (_FLUX, "Kustomization")]


def _left_by_flux(change: Change) -> Iterator[Statement]:
    """Yield the removed Kustomizations whose folders the release keeps, although no other Kustomization applies them.

    Source: kustomize-controller v1.7.3 internal/controller/kustomization_controller.go finalizerShouldDeleteResources
    """
    kept = change.of_new(_FLUX, "Kustomization")
    for item in _removed_kustomizations(change):
        spec = mapping(item.body, "spec")
        left = [other for other in change.new if is_applied_by(item, other)]
        is_pruned = any(is_applied_by(parent, item) and mapping(parent.body, "spec").get("prune") for parent in kept)
        if not left or not is_pruned or any(is_applied_by(other, left[0]) for other in kept):
            continue
        folder = left[0].file.rpartition("/")[0]
        policy = string(spec.get("deletionPolicy"), "MirrorPrune")
        is_deleting = policy in _DELETING or (policy == "MirrorPrune" and spec.get("prune") is True)
        deleted = [other for other in change.old if is_applied_by(item, other) and not _is_kept_by_flux(other)]
        rest = "removed without the objects that Flux applies: "
        if is_deleting and deleted and not spec.get("suspend"):
            rest += f"Flux deletes these objects ({count_kinds(deleted)})"
        else:
            rest += "Flux keeps these objects on the cluster, and applies no later change of them"
        risk = Risk.HIGH if is_deleting else Risk.MEDIUM
        details = (f"the folder of these objects is `{folder}`",) if risk is Risk.HIGH else ()
        yield Statement("Kustomization", item.name, "is", rest, risk, details, (item,))


def is_applied_by(kustomization: Manifest, item: Manifest) -> bool:
    """Return True if an object is in the folder that a Kustomization applies."""
    folder = item.file.rpartition("/")[0]
    return bool(folder) and string(mapping(kustomization.body, "spec").get("path")).endswith(f"/{folder}")


def _is_kept_by_flux(item: Manifest) -> bool:
    return mapping(item.body, "metadata", "annotations").get(FLUX_PRUNE) == "disabled"


def _kept_by_flux(change: Change) -> Iterator[Statement]:
    """Yield the removed objects that Flux keeps, except objects of removed teams, Namespaces and volume claims."""
    if not change.of_new(_FLUX, "Kustomization"):
        return
    gone = _removed_kustomizations(change)
    teams = {item.file.split("/")[1] for item in change.all_removed for removed in gone if is_applied_by(removed, item)}
    for item in change.all_removed:
        is_of_team = _tenant_folder(item.file) in teams
        if _is_kept_by_flux(item) and not is_of_team and item.kind not in ("Namespace", "PersistentVolumeClaim"):
            name = f"{item.namespace}/{item.name}" if item.namespace else item.name
            rest = "removed from the release, but Flux keeps the object until an admin deletes it"
            yield Statement(item.kind, name, "is", rest, Risk.LOW, (), (item,))


def _options(item: Manifest) -> set[str]:
    options = string(mapping(item.body, "metadata", "annotations").get(SYNC_OPTIONS))
    return {option.strip() for option in options.split(",")}


def _applications_of_tenants(change: Change, items: Sequence[Manifest]) -> list[str]:
    """Return the names of the Applications of removed tenant folders that apply these removed objects.

    The list is empty if an object is in no folder `tenants/<team>`, or if the new release still has one of the folders.
    """
    templates = [
        string(mapping(item.body, "spec", "template", "metadata").get("name"))
        for item in change.of_new(_ARGOCD, "ApplicationSet")
    ]
    folders = {_tenant_folder(item.file) for item in items}
    kept = {_tenant_folder(item.file) for item in change.new}
    if len(templates) != 1 or _FOLDER_NAME not in templates[0] or "" in folders or folders & kept:
        return []
    return [templates[0].replace(_FOLDER_NAME, folder) for folder in sorted(folders)]


def _tenant_folder(file: str) -> str:
    match = _TENANT_FILE.match(file)
    return match["tenant"] if match else ""


def _namespaces(change: Change, gone: set[str]) -> Iterator[Statement]:
    teams = Teams.of(change)
    kept = {teams.of_namespace(item.name) for item in change.of_new("", "Namespace")}
    removed, lenders = {item.identity for item in change.all_removed}, find_lenders(change)
    renames = find_renames(change)
    by_team: dict[str, list[str]] = {}
    for name in sorted(gone):
        by_team.setdefault(teams.of_namespace(name), []).append(name)
    for team, names in by_team.items():
        objects = _belongings(change, set(names))
        place = f"{plural('namespace', len(names))} {format_names(names)}"
        loses = "Kubernetes deletes all objects in it" if len(names) == 1 else "Kubernetes deletes all objects in them"
        rest = f"{loses}, such as running jobs, volume claims and Secrets"
        gone_objects = [item for item in objects if item.identity in removed]
        namespaces = [item for item in gone_objects if item.kind == "Namespace"]
        if all(CATALOGUE_LABEL in item.labels for item in namespaces):
            continue
        details = (
            *_order(change, namespaces),
            f"the update removes {count_kinds(gone_objects)}",
            *_acknowledgements(change, names),
        )
        objects = (*objects, *lenders)
        if team in renames:
            new = renames[team]
            gained = [item.name for item in change.added("", "Namespace") if teams.of_namespace(item.name) == new]
            starts = f"{plural('namespace', len(gained))} {format_names(gained)} {conjugate('starts', len(gained))}"
            rest = f"renamed to `{new}`, but Kubernetes cannot rename a namespace: the {starts} empty, and Kubernetes "
            rest += f"deletes the {place} with all objects, such as running jobs, volume claims and Secrets"
            details = (
                f"team `{new}` is {describe_team(change, new, gained)}",
                *_claims_that_stay(change, names),
                *details,
            )
            objects = (*objects, *find_belongings(change, gained))
            yield Statement("team", team, "is", rest, Risk.HIGH, details, objects)
        elif team in kept and all(SCHEDULES_OF in item.labels for item in namespaces):
            text = f"the {place} of its schedules, which has no training jobs and no volume claims"
            yield Statement("team", team, "loses", text, Risk.LOW, details, objects)
        elif team in kept:
            yield Statement("team", team, "loses", f"the {place}: {rest}", Risk.HIGH, details, objects)
        elif names == [team]:
            yield Statement("team", team, "is", f"removed with its namespace: {rest}", Risk.HIGH, details, objects)
        else:
            yield Statement("team", team, "is", f"removed with the {place}: {rest}", Risk.HIGH, details, objects)


def _acknowledgements(change: Change, namespaces: Sequence[str]) -> Iterator[str]:
    """Yield a sentence with the reason and the last day of each acknowledgement of removed namespaces."""
    departures = Departures.of(change)
    removed = [item for item in change.removed("", "Namespace") if item.name in namespaces]
    rows = [departures.acknowledgement_of(item) or {} for item in removed]
    texts = [(string(row.get("until")), escape_control(string(row.get("reason")))) for row in rows if row]
    for until, reason in dict.fromkeys(texts):
        yield f"the platform file acknowledges the removal until {until}: {reason}"


def _claims_that_stay(change: Change, namespaces: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about the earlier volume claims of these namespaces, whose data a rename does not move."""
    claims = [item for item in change.of_old("", "PersistentVolumeClaim") if item.namespace in namespaces]
    if claims:
        names = format_names([f"{item.namespace}/{item.name}" for item in claims])
        yield f"the data of the {plural('volume claim', len(claims))} {names} does not move to the new namespace"


def _belongings(change: Change, names: set[str]) -> tuple[Manifest, ...]:
    """Return the objects that change because the update removes these namespaces.

    These are the removed namespaces and their objects, further removed objects in the folders of the Namespace files,
    and changed ClusterQueues to which removed LocalQueues refer.
    """
    inside = [
        item
        for item in change.all_removed
        if item.namespace in names or ((item.group, item.kind) == ("", "Namespace") and item.name in names)
    ]
    folders = {item.file.rpartition("/")[0] for item in inside if item.kind == "Namespace"} - {""}
    near = [item for item in change.all_removed if item.file.rpartition("/")[0] in folders]
    queues = {string(mapping(item.body, "spec").get("clusterQueue")) for item in inside if item.kind == "LocalQueue"}
    changed = [
        item.new
        for item in ChangedObject.between(change)
        if (item.new.group, item.new.kind) == (KUEUE, "ClusterQueue") and item.new.name in queues
    ]
    return tuple({item.identity: item for item in (*inside, *near, *changed)}.values())


def count_kinds(objects: Sequence[Manifest]) -> str:
    """Return the number of objects of each kind, in the order of their names: `1 ClusterQueue, 5 NetworkPolicies`."""
    kinds = Counter(item.kind for item in objects)
    return ", ".join(f"{count} {plural(kind, count)}" for kind, count in sorted(kinds.items()))


def _claims(change: Change, gone: set[str]) -> Iterator[Statement]:
    for item in change.all_removed:
        if (item.group, item.kind) == ("", "PersistentVolumeClaim") and item.namespace not in gone:
            rest = "removed, and its data is deleted if the reclaim policy of its volume is `Delete`"
            name = f"{item.namespace}/{item.name}"
            yield Statement("volume claim", name, "is", rest, Risk.HIGH, _order(change, [item]), (item,))


def _secrets(removed: Sequence[Manifest], gone: set[str]) -> Iterator[Statement]:
    for item in removed:
        name = f"{item.namespace}/{item.name}"
        if item.namespace in gone:
            continue
        if (item.group, item.kind) == (_EXTERNAL_SECRETS, "ExternalSecret"):
            target = mapping(item.body, "spec", "target")
            secret = string(target.get("name"), item.name)
            is_owner = string(target.get("creationPolicy"), "Owner") == "Owner"
            effect = "is deleted with it" if is_owner else "stays, and gets no new values"
            rest = f"removed: the Secret `{secret}` {effect}"
            yield Statement("ExternalSecret", name, "is", rest, Risk.HIGH if is_owner else Risk.MEDIUM, (), (item,))
        elif (item.group, item.kind) == ("", "Secret"):
            yield Statement("Secret", name, "is", "removed", Risk.HIGH, (), (item,))


def _queues(change: Change) -> Iterator[Statement]:
    """Yield the removed ClusterQueues that remaining namespaces use. The topic `queues` reports LocalQueues."""
    for breach in queue_removed(change):
        item = breach.manifest
        if item and item.kind == "ClusterQueue":
            rest = (
                "removed, but namespaces that stay use it: pending jobs are never admitted, and running jobs complete"
            )
            yield Statement("ClusterQueue", item.name, "is", rest, Risk.HIGH, (), (item,))
