"""The topic `destination`: the revision of a release that the GitOps engine applies, and the cluster of the release."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.objects import Change, ChangedObject
from generator.effects.effect import Effect, Risk
from generator.facts.names import ARGOCD_FOLDER
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string, strings

_GROUP = "argoproj.io"
_FLUX_SOURCE = "source.toolkit.fluxcd.io"
_FLUX = ("kustomize.toolkit.fluxcd.io", "Kustomization")
_KUBECONFIGS = {"Secret": "secretRef", "ConfigMap": "configMapRef"}
_DETAILS = (
    "{0} deletes no object of the old cluster, and updates none: revoked permissions stay valid there",
    "{0} moves no jobs, volumes and Secrets to the new cluster",
)


def find_destination_effects(change: Change) -> Iterator[Effect]:
    """Yield an effect for each pair of clusters between which the release moves, and for each other revision."""
    yield from _find_clusters(change)
    yield from _find_revisions(change)


def _find_clusters(change: Change) -> Iterator[Effect]:
    """Yield an effect for each pair of clusters between which Applications of Argo CD or Kustomizations of Flux move.

    Argo CD compares only the new cluster with the release (argo-cd v3.2.1 controller/state.go
    appStateManager.CompareAppState reads the
    live objects of `destCluster`). Flux applies and prunes with a client of the new cluster (kustomize-controller
    v1.7.3 internal/controller/kustomization_controller.go KustomizationReconciler.reconcile; kustomize-controller
    v1.7.3 internal/controller/kustomization_controller.go KustomizationReconciler.prune).
    """
    moved: dict[tuple[str, str, str], list[Manifest]] = {}
    for item in ChangedObject.between(change):
        engine = "Flux" if (item.new.group, item.new.kind) == _FLUX else "Argo CD"
        is_of_argocd = item.new.group == _GROUP and item.new.file.startswith(f"{ARGOCD_FOLDER}/")
        pair = (_destination(item.old), _destination(item.new))
        if (is_of_argocd or engine == "Flux") and pair[0] != pair[1]:
            moved.setdefault((engine, *pair), []).append(item.new)
    for (engine, before, after), objects in sorted(moved.items()):
        text = f"Argo CD applies the release to the cluster `{after}` instead of `{before}`"
        if engine == "Flux":
            text = f"Flux applies the release to {_describe(after)} instead of {_describe(before)}"
        details = tuple(detail.format(engine) for detail in _DETAILS)
        subject = f"cluster {after}".rstrip()
        yield Effect("destination", Risk.HIGH, subject, text, details, tuple(objects), before, after)


def _describe(kubeconfig: str) -> str:
    """Return the cluster of a Kustomization of Flux in words, from the kind and the name of its kubeconfig."""
    kind, _, name = kubeconfig.partition(" ")
    return f"the cluster of the {kind} `{name}`" if kubeconfig else "the cluster that Flux runs in"


def _destination(item: Manifest) -> str:
    """Return the cluster of an Application, of the Applications of an ApplicationSet, or of an AppProject.

    For a Kustomization of Flux, return the object with its kubeconfig, such as `Secret prod-eu`, or an empty string.
    """
    spec = mapping(item.body, "spec")
    if (item.group, item.kind) == _FLUX:
        config = mapping(spec, "kubeConfig")
        names = {kind: string(mapping(config, field).get("name")) for kind, field in _KUBECONFIGS.items()}
        return next((f"{kind} {name}" for kind, name in names.items() if name), "")
    if item.kind == "ApplicationSet":
        spec = mapping(spec, "template", "spec")
    if item.kind == "AppProject":
        servers = {string(entry.get("server")) for entry in mappings(spec.get("destinations"))}
        return servers.pop() if len(servers) == 1 else ""
    destination = mapping(spec, "destination")
    return string(destination.get("server")) or string(destination.get("name"))


def _find_revisions(change: Change) -> Iterator[Effect]:
    """Yield an effect for each pair of revisions between which Applications, or the source of Flux, move.

    The objects of this change are not the objects that the engine applies from the new revision, so their number and
    their meaning are unknown here.
    """
    moved: dict[tuple[str, str, str], list[Manifest]] = {}
    for item in ChangedObject.between(change):
        engine = "Flux" if item.new.group == _FLUX_SOURCE else "Argo CD"
        pair = (_revision(item.old), _revision(item.new))
        if all(pair) and pair[0] != pair[1]:
            moved.setdefault((engine, *pair), []).append(item.new)
    for (engine, before, after), objects in sorted(moved.items()):
        text = f"{engine} applies the revision `{after}` instead of `{before}`"
        details = ["this plan compares the files on disk"]
        if objects[0].kind != "OCIRepository":
            details.append("`mpigen promote` prints the plan between both revisions")
        yield Effect(
            "destination", Risk.MEDIUM, f"revision {after}", text, tuple(details), tuple(objects), before, after
        )


def _revision(item: Manifest) -> str:
    """Return the revision of an Application, of the Applications of an ApplicationSet, or of a source of Flux."""
    spec = mapping(item.body, "spec")
    if item.group == _FLUX_SOURCE:
        return next(iter(strings([*mapping(spec, "ref").values()])), "")
    if item.group != _GROUP or item.kind not in ("Application", "ApplicationSet"):
        return ""
    if item.kind == "ApplicationSet":
        spec = mapping(spec, "template", "spec")
    return string(mapping(spec, "source").get("targetRevision"))
