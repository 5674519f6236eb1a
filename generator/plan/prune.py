"""The topic `prune`: objects that an update removes, and what their deletion destroys.

mpigen's Application sets `PruneLast`, so Argo CD deletes all removed objects together, after it has applied all others.
If one of them has the sync option `Prune=confirm`, Argo CD waits for a confirmation before it deletes any of them
(argo-cd v3.2.1, gitops-engine 13d5172 pkg/sync/sync_context.go getSyncTasks, runTasks).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from generator.checks.change.queues import queue_removed
from generator.checks.objects import Change, ChangedObject
from generator.checks.quota.queues import KUEUE
from generator.documents.messages import format_names
from generator.facts.names import SYNC_OPTIONS
from generator.manifests import Manifest
from generator.objects.fields import mapping, string, strings
from generator.plan.effect import Effect, Risk
from generator.plan.subjects import Statement, Teams, merge, plural
from generator.plan.trees import find_lenders

_TOPIC = "prune"
_ARGOCD = "argoproj.io"
_EXTERNAL_SECRETS = "external-secrets.io"


def find_prune_effects(change: Change) -> Iterator[Effect]:
    """Yield the removed teams, namespaces, volume claims, Secrets, ExternalSecrets and used ClusterQueues."""
    removed = change.all_removed
    if not removed:
        return
    gone = {item.name for item in removed if (item.group, item.kind) == ("", "Namespace")}
    order = _order(change)
    statements = [*_namespaces(change, gone, order), *_claims(removed, gone, order), *_secrets(removed, gone)]
    statements += _queues(change)
    yield from merge(_TOPIC, statements)


def _order(change: Change) -> tuple[str, ...]:
    """Return sentences about the time of the deletion; empty without an Application."""
    applications = change.of_new(_ARGOCD, "Application")
    if not applications:
        return ()
    options = {
        option
        for item in applications
        for option in strings(mapping(item.body, "spec", "syncPolicy").get("syncOptions"))
    }
    when = (
        "Argo CD prunes all removed objects together, after it has applied all other objects"
        if "PruneLast=true" in options
        else "Argo CD prunes the removed objects in the reverse order of their sync waves"
    )
    if any(_asks(item) for item in change.all_removed):
        return (when, "before it prunes any of them, Argo CD waits until a user confirms the deletion")
    return (when,)


def _asks(item: Manifest) -> bool:
    options = string(mapping(item.body, "metadata", "annotations").get(SYNC_OPTIONS))
    return "Prune=confirm" in [option.strip() for option in options.split(",")]


def _namespaces(change: Change, gone: set[str], order: tuple[str, ...]) -> Iterator[Statement]:
    teams = Teams.of(change)
    kept = {teams.of_namespace(item.name) for item in change.of_new("", "Namespace")}
    removed, lenders = {item.identity for item in change.all_removed}, find_lenders(change)
    by_team: dict[str, list[str]] = {}
    for name in sorted(gone):
        by_team.setdefault(teams.of_namespace(name), []).append(name)
    for team, names in by_team.items():
        objects = _belongings(change, set(names))
        place = f"{plural('namespace', len(names))} {format_names(names)}"
        loses = "Kubernetes deletes all objects in it" if len(names) == 1 else "Kubernetes deletes all objects in them"
        rest = f"{loses}, such as running jobs, volume claims and Secrets"
        gone_objects = [item for item in objects if item.identity in removed]
        details = (*order, f"the update removes {_count(gone_objects)}")
        objects = (*objects, *lenders)
        if team in kept:
            yield Statement("team", team, "loses", f"the {place}: {rest}", Risk.HIGH, details, objects)
        elif names == [team]:
            yield Statement("team", team, "is", f"removed with its namespace: {rest}", Risk.HIGH, details, objects)
        else:
            yield Statement("team", team, "is", f"removed with the {place}: {rest}", Risk.HIGH, details, objects)


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


def _count(objects: Sequence[Manifest]) -> str:
    """Return the number of objects of each kind, in the order of their names: `1 ClusterQueue, 5 NetworkPolicies`."""
    kinds = Counter(item.kind for item in objects)
    return ", ".join(f"{count} {plural(kind, count)}" for kind, count in sorted(kinds.items()))


def _claims(removed: Sequence[Manifest], gone: set[str], order: tuple[str, ...]) -> Iterator[Statement]:
    for item in removed:
        if (item.group, item.kind) == ("", "PersistentVolumeClaim") and item.namespace not in gone:
            rest = "removed, and its data is deleted if the reclaim policy of its volume is `Delete`"
            name = f"{item.namespace}/{item.name}"
            yield Statement("volume claim", name, "is", rest, Risk.HIGH, order, (item,))


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
    """Yield the removed ClusterQueues that remaining namespaces use. The topic `queues` has removed LocalQueues."""
    for breach in queue_removed(change):
        item = breach.manifest
        if item and item.kind == "ClusterQueue":
            rest = (
                "removed, but namespaces that stay use it: pending jobs are never admitted, and running jobs complete"
            )
            yield Statement("ClusterQueue", item.name, "is", rest, Risk.HIGH, (), (item,))
