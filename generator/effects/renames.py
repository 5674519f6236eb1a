"""Teams and platforms that an update renames: `renamedFrom` of the platform file names the earlier team or platform.

If an update deletes the folder of the earlier name while Argo CD still has the ApplicationSet of this name, its
generator finds no folder of a team, so Argo CD deletes the Applications of all teams, and their finalizer deletes all
objects that still have the tracking id of these Applications (argo-cd v3.2.1
applicationset/controllers/applicationset_controller.go ApplicationSetReconciler.deleteInCluster; argo-cd v3.2.1
controller/appcontroller.go ApplicationController.finalizeApplicationDeletion). If the folder stays, the Applications of
both names apply the same objects, and each one
replaces the tracking id of the other, because both have `selfHeal`.

Flux fails to fetch a revision without the folder, and keeps the last one (source-controller v1.7.3
internal/controller/gitrepository_controller.go GitRepositoryReconciler.validateSparseCheckoutPaths), so its
Kustomizations of both names apply
the same objects in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from generator.checks.change.removals import Departures
from generator.checks.objects import Change
from generator.effects.effect import Effect, Risk
from generator.effects.subjects import plural
from generator.objects.platform_name import find_rename, find_renamed

_ENGINES = (("argoproj.io", "ApplicationSet"), ("kustomize.toolkit.fluxcd.io", "Kustomization"))


def find_renames(change: Change) -> Mapping[str, str]:
    """Return earlier name → present name of each team that the update renames.

    Before the update, only the earlier team exists; after it, only the present one; and the update removes the
    namespace with the earlier name. If the update keeps this namespace, for example with the label of the present team,
    the result lacks the team.
    """
    departures = Departures.of(change)
    gone = {item.name for item in change.removed("", "Namespace")} & (departures.before - departures.after)
    new = departures.after - departures.before
    return {earlier: team for team, earlier in departures.renames.items() if earlier in gone and team in new}


def find_platform_rename(change: Change) -> Iterator[Effect]:
    """Yield the rename of the platform, with the number of objects of each kind that get another name.

    The old objects of the change already have their new names (generator/objects/platform_name.py), so no other effect
    names them.
    """
    names = find_rename(change.old, change.new)
    if names is None:
        return
    earlier, name = names
    renamed = find_renamed(change.old, change.new, earlier, name)
    argocd, flux = (any((item.group, item.kind) == engine for item in change.new) for engine in _ENGINES)
    text = f"platform `{earlier}` is renamed to `{name}`: namespaces and jobs stay, but "
    steps = "the page `Rename a platform` has the steps"
    if argocd:
        text += (
            f"if you delete the folder `{earlier}` first, Argo CD deletes the Applications of all teams, "
            "and after a confirmation their objects"
        )
        first = f"the ApplicationSet `{earlier}-tenants` and the Applications of `{earlier}` without their objects"
        details = [
            f"before you merge, delete {first}: {steps}",
            "Applications of both names would apply the same objects again and again",
        ]
    elif flux:
        text += "Kustomizations of both names apply the same objects until you delete the old ones"
        details = [f"before you merge, delete the Kustomizations of `{earlier}` without their objects: {steps}"]
    else:
        text += "the objects with the earlier name stay until you delete them"
        details = [steps]
    kinds = Counter(item.kind for item in renamed)
    counts = ", ".join(f"{count} {plural(kind, count)}" for kind, count in sorted(kinds.items()))
    details.append(f"new names: {counts}")
    yield Effect("prune", Risk.HIGH, f"platform {earlier}", text, tuple(details), tuple(renamed), earlier, name)


def find_orphan_effects(names: Iterable[str], output: str, source: str) -> Iterator[Effect]:
    """Yield an effect for each release that stays, although the platform file no longer writes it.

    Args:
        names: the names of the platforms.
        output: the folder of the releases.
        source: the name of the platform file.
    """
    for name in names:
        text = f"the release `{name}` stays in `{output}/{name}`, but `{source}` does not write it: the GitOps engine "
        text += "keeps applying the release, and no later change of the platform file reaches its objects"
        yield Effect("prune", Risk.HIGH, f"platform {name}", text, describe_orphan(name))


def describe_orphan(name: str) -> tuple[str, ...]:
    """Return sentences about the ways to continue, to rename or to remove a release that no platform file writes."""
    return (
        f"to continue the release as an environment, set `environments.ENVIRONMENT.platform: {name}`",
        f"to rename it, set `environments.ENVIRONMENT.renamedFrom: {name}`: the page `Rename a platform` has the steps",
        "if its cluster gets the release of an environment, both releases apply the same objects again and again",
    )
