"""The topic `destination`: the cluster to which Argo CD applies the release."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.objects import Change, ChangedObject
from generator.effects.effect import Effect, Risk
from generator.facts.names import ARGOCD_FOLDER
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string

_GROUP = "argoproj.io"
_DETAILS = (
    "Argo CD deletes no object of the old cluster, and updates none: revoked permissions stay valid there",
    "Argo CD moves no jobs, volumes and Secrets to the new cluster",
)


def find_destination_effects(change: Change) -> Iterator[Effect]:
    """Yield an effect for each pair of clusters between which Applications move.

    Argo CD compares only the new cluster with the release (argo-cd v3.2.1 controller/state.go CompareAppState reads the
    live objects of `destCluster`).
    """
    moved: dict[tuple[str, str], list[Manifest]] = {}
    for item in ChangedObject.between(change):
        pair = (_destination(item.old), _destination(item.new))
        if item.new.group == _GROUP and item.new.file.startswith(f"{ARGOCD_FOLDER}/") and pair[0] != pair[1]:
            moved.setdefault(pair, []).append(item.new)
    for (before, after), objects in sorted(moved.items()):
        text = f"Argo CD applies the release to the cluster `{after}` instead of `{before}`"
        yield Effect("destination", Risk.HIGH, f"cluster {after}", text, _DETAILS, tuple(objects), before, after)


def _destination(item: Manifest) -> str:
    """Return the cluster of an Application, of the Applications of an ApplicationSet, or of an AppProject."""
    spec = mapping(item.body, "spec")
    if item.kind == "ApplicationSet":
        spec = mapping(spec, "template", "spec")
    if item.kind == "AppProject":
        servers = {string(entry.get("server")) for entry in mappings(spec.get("destinations"))}
        return servers.pop() if len(servers) == 1 else ""
    destination = mapping(spec, "destination")
    return string(destination.get("server")) or string(destination.get("name"))
