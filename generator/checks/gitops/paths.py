"""reference/path, gitops/no-files, gitops/not-applied, gitops/applied-twice: the files that GitOps engines apply."""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Iterator, Sequence

from generator.checks.finding import listed
from generator.checks.gitops.applied import Applied, applied_by, candidate_files
from generator.checks.gitops.deliveries import (
    Delivery,
    Root,
    Wiring,
    clean,
    find_scope,
    matching_files,
    matching_folders,
)
from generator.checks.registry import WARNING, Breach, check
from generator.checks.tree import Tree
from generator.facts.names import MANAGED_BY
from generator.manifests import Manifest
from generator.objects.fields import items, mapping, string
from generator.upstream.argocd.application_sets import UNKNOWN
from generator.upstream.argocd.patterns import compile_glob
from generator.upstream.kueue.configuration import is_configuration

_NOT_SERVED = ("audit.k8s.io", "argoproj.io", "kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io", "mpigen.dev")
"""The groups of the objects of a release that an admin applies, or that no API server serves."""


@check("reference/path", severity=WARNING, needs=Wiring)
def path(wiring: Wiring) -> Iterator[Breach]:
    """Report a path that is no folder of the repository of an Application, ApplicationSet, Kustomization or source.

    Argo CD reports a ComparisonError, `app path does not exist`, and applies nothing. Flux reports ArtifactFailed,
    `kustomization path not found`. An ApplicationSet whose git generator matches no folder creates no Application. The
    check renders the paths of an ApplicationSet from its `list`, `git`, `matrix` and `merge` generators. For Flux, the
    check also reports a path that `sparseCheckout` or `ignore` of the GitRepository leaves out.

    The check reports a path only if the repository is on disk: a Git remote has its URL, or other paths of its
    Applications exist. The finding is a warning, because the Application may read another revision.

    Source: argo-cd v3.2.1 util/app/path/path.go Path; kustomize-controller v1.7.3
    internal/controller/kustomization_controller.go KustomizationReconciler.reconcile; source-controller v1.7.3
    internal/controller/gitrepository_controller.go GitRepositoryReconciler.validateSparseCheckoutPaths
    """
    for delivery in wiring.deliveries:
        if (place := delivery.place) is None or delivery.root is None:
            continue
        if not wiring.tree.is_folder(place):
            yield _missing(delivery, delivery.root, place, wiring.tree)
    yield from _missing_of_generators(wiring)
    missing = [*_missing_of_sources(wiring)]
    yield from missing or _left_out(wiring)


_APPLIES_NOTHING = {
    "Argo CD": "Argo CD applies nothing (ComparisonError: app path does not exist)",
    "Flux": "Flux applies nothing (ArtifactFailed: kustomization path not found)",
}


def _missing(delivery: Delivery, root: Root, place: str, tree: Tree) -> Breach:
    folder = delivery.folder
    message, fix = f"the repository has no folder `{folder}`", f"add the folder, or {_correction(folder, root, tree)}"
    if tree.is_file(place):
        message, fix = f"`{folder}` is a file, not a folder", "name the folder of the file"
    elif delivery.origin:
        message = f"{delivery.origin} renders the path `{folder}`, which is no folder of the repository"
        fix = "add the folder, or correct the template or its parameters"
    return Breach(delivery.field, message, _APPLIES_NOTHING[delivery.engine], fix, delivery.owner, value=delivery.path)


def _correction(folder: str, root: Root, tree: Tree) -> str:
    """Return a fix: the path to write instead, if a folder with a similar path exists."""
    parent = folder
    while parent:
        parent = posixpath.dirname(parent)
        if (place := root.place(parent)) and tree.is_folder(place):
            folders = [posixpath.join(parent, name) for name in tree.folders_below(place) or ()]
            if close := difflib.get_close_matches(folder, folders, n=1, cutoff=0.8):
                return f"correct the path to `{close[0]}`"
            break
    return "correct the path"


def _files_at(place: str, delivery: Delivery, tree: Tree) -> Sequence[str]:
    """Return the files below the folder of a delivery, relative to the root of the repository."""
    return [posixpath.join(delivery.folder, file) for file in tree.files_below(place) or ()]


def _is_left_out(delivery: Delivery, place: str, tree: Tree) -> bool:
    files = _files_at(place, delivery, tree)
    return bool(files) and not any(map(delivery.source.has, files))


def _left_out(wiring: Wiring) -> Iterator[Breach]:
    """Yield a breach for each GitRepository that does not download the folder of a Kustomization."""
    folders: dict[int, list[Delivery]] = {}
    for delivery in wiring.deliveries:
        place = delivery.place
        if place and delivery.is_flux and wiring.tree.is_folder(place) and _is_left_out(delivery, place, wiring.tree):
            folders.setdefault(id(delivery.source.manifest), []).append(delivery)
    for deliveries in folders.values():
        first, source = deliveries[0], deliveries[0].source.manifest
        if source is None:
            continue
        keys = [key for key in ("sparseCheckout", "ignore") if key in first.source.body]
        names = listed(sorted({delivery.folder for delivery in deliveries}))
        yield Breach(
            ("spec", keys[-1]),
            f"{' or '.join(f'`{key}`' for key in keys)} leaves out folders of Kustomizations: {names}",
            _APPLIES_NOTHING["Flux"],
            "add the folder to `sparseCheckout`, or remove the pattern from `ignore`",
            source if wiring.has(source) else first.owner,
            at_key=True,
        )


def _missing_of_generators(wiring: Wiring) -> Iterator[Breach]:
    for owner, place, pattern, root in wiring.everything.generators:
        text = string(pattern.get("path"))
        is_folder = place[-3] == "directories"
        matches = (matching_folders if is_folder else matching_files)(text, root, wiring.tree)
        if wiring.has(owner) and matches is not None and not matches and text:
            yield Breach(
                place,
                f"`{text}` matches no {'folder' if is_folder else 'file'} of the repository",
                "the ApplicationSet creates no Application for this pattern, and deletes its earlier Applications",
                "correct the pattern, or add the folder" if is_folder else "correct the pattern, or add the file",
                owner,
                value=text,
            )


def _missing_of_sources(wiring: Wiring) -> Iterator[Breach]:
    sources = {
        delivery.source.manifest.identity: delivery for delivery in wiring.everything.all if delivery.source.manifest
    }
    for delivery in sources.values():
        source, root = delivery.source.manifest, delivery.root
        if source is None or root is None or not wiring.has(source):
            continue
        for number, folder in enumerate(items(delivery.source.body.get("sparseCheckout"))):
            place = root.place(clean(folder)) if isinstance(folder, str) else None
            if place and not wiring.tree.exists(place):
                yield Breach(
                    ("spec", "sparseCheckout", number),
                    f"the repository has no folder `{folder}`",
                    "Flux downloads nothing (GitOperationFailed: sparse checkout dir does not exist)",
                    f"remove the entry, or {_correction(clean(str(folder)), root, wiring.tree)}",
                    source,
                    value=folder,
                )


@check("gitops/no-files", severity=WARNING, needs=Wiring)
def no_files(wiring: Wiring) -> Iterator[Breach]:
    """Report an Application or a Kustomization that applies no file of its folder.

    Argo CD reads only the files at the top of a folder unless `directory.recurse` is true. `include` and `exclude`
    select files by their path below the folder, and `*` matches `/` too. A pattern with a mistake matches nothing. With
    `prune`, the engine deletes the objects that it applied before. The check reports a folder of Argo CD only if it has
    files that a pattern leaves out, or files in subfolders.

    Source: argo-cd v3.2.1 reposerver/repository/repository.go getPotentiallyValidManifestFile; fluxcd/pkg/kustomize
    v1.24.0 kustomize_generator.go Generator.generateKustomization
    """
    for delivery in wiring.deliveries:
        applied = applied_by(delivery, wiring.tree)
        if applied is None or applied.files or not applied.is_direct:
            continue
        if delivery.is_flux and _is_left_out(delivery, delivery.place or "", wiring.tree):
            continue  # reference/path reports it
        if delivery.is_flux:
            yield _without_files(delivery, f"the folder `{delivery.folder}` has no YAML file", "correct the path")
            continue
        settings = mapping(delivery.settings, "directory")
        below = wiring.tree.files_below(delivery.place or "") or ()
        if candidate_files(delivery, wiring.tree):
            faulty = [key for key in ("include", "exclude") if _is_faulty(string(settings.get(key)))]
            keys = faulty or [key for key in ("include", "exclude") if settings.get(key)]
            message = f"{' and '.join(f'`{key}`' for key in keys)} left no file of the folder `{delivery.folder}`"
            fix = "write patterns for paths below the folder, such as `{cluster/*,site/*.yaml}`"
            yield _without_files(delivery, message.replace(" left ", " leave " if len(keys) > 1 else " leaves "), fix)
        elif any(_has_objects(file, delivery, wiring.tree) for file in below):
            message = f"the folder `{delivery.folder}` has files only in subfolders, which Argo CD does not read"
            yield _without_files(delivery, message, "set `directory.recurse` to true, or name a subfolder")


def _is_faulty(pattern: str) -> bool:
    return compile_glob(pattern) is None


def _has_objects(file: str, delivery: Delivery, tree: Tree) -> bool:
    is_manifest = file.endswith((".yaml", ".yml"))
    return is_manifest and bool(tree.objects_in(posixpath.join(delivery.place or "", file)))


def _without_files(delivery: Delivery, message: str, fix: str) -> Breach:
    why = f"{delivery.engine} applies nothing, and with `prune` it deletes the objects that it applied before"
    return Breach(delivery.field, message, why, fix, delivery.owner, value=delivery.path)


@check("gitops/not-applied", severity=WARNING, needs=Wiring)
def not_applied(wiring: Wiring) -> Iterator[Breach]:
    """Report files of a release of mpigen that no Application and no Kustomization applies.

    The objects in these files never reach the cluster, or stay as they were: revoked permissions stay valid. Often a
    pattern in `include` or `exclude`, a path, or `sparseCheckout` was changed by hand. The check needs all files of the
    release, and folders on disk for all its Applications. It reads the objects with the label
    `app.kubernetes.io/managed-by: mpigen`.

    Source: argo-cd v3.2.1 reposerver/repository/repository.go getPotentiallyValidManifestFile
    """
    release = _release_of(wiring)
    if not wiring.objects.files or release is None:
        return
    mine = [delivery for delivery in wiring.everything.all if _is_in(delivery.owner, release, wiring.tree)]
    everything = [item for delivery in mine if (item := applied_by(delivery, wiring.tree))]
    is_unclear = len(everything) < len(mine) or not all(item.files for item in everything)
    if is_unclear or any(_missing_of_generators(wiring)):
        return  # an unknown path, or one that another check reports
    applied = {file for item in everything for file in item.files}
    lacking: dict[str, None] = {}
    for manifest in (*wiring.objects.manifests, *wiring.objects.others):
        file = wiring.tree.path_of(manifest.file)
        if file not in applied and file.startswith(f"{release.rstrip('/')}/") and _is_generated(manifest):
            lacking.setdefault(file.removeprefix(f"{release.rstrip('/')}/"))
    if lacking:
        owner = _nearest(mine, release, sorted(lacking))
        kind = "Kustomization" if owner.is_flux else "Application"
        count = "1 file" if len(lacking) == 1 else f"{len(lacking)} files"
        yield Breach(
            owner.field,
            f"no {kind} applies {count} of the release: {listed(sorted(lacking))}",
            f"{owner.engine} neither creates nor updates these objects, and with `prune` it deletes them",
            "correct the paths and patterns, or run `mpigen synth`, which writes them again",
            owner.owner,
            value=owner.path,
        )


def _release_of(wiring: Wiring) -> str | None:
    """Return the folder of the release of the objects; None if they belong to no release."""
    for delivery in wiring.deliveries:
        folders = wiring.tree.parents_of(wiring.tree.folder_of(delivery.owner))
        if release := next(filter(wiring.tree.is_release, folders), ""):
            return release
    return None


def _is_in(owner: Manifest, release: str, tree: Tree) -> bool:
    return f"{tree.folder_of(owner)}/".startswith(f"{release.rstrip('/')}/")


def _is_generated(manifest: Manifest) -> bool:
    is_mine = all(manifest.labels.get(key) == value for key, value in MANAGED_BY.items())
    return is_mine and manifest.group not in _NOT_SERVED and not is_configuration(manifest)


def _nearest(deliveries: Sequence[Delivery], release: str, files: Sequence[str]) -> Delivery:
    """Return the delivery whose folder is nearest to the files; of several, one with `include`."""

    def rank(delivery: Delivery) -> tuple[int, bool]:
        place = delivery.place or ""
        common = max(len(posixpath.commonpath((place or "/", posixpath.join(release, file)))) for file in files)
        is_above = any(posixpath.join(release, file).startswith(f"{place}/") for file in files)
        return common if place else 0, is_above and "include" in mapping(delivery.settings, "directory")

    return max(deliveries, key=rank)


@check("gitops/applied-twice", severity=WARNING, needs=Wiring)
def applied_twice(wiring: Wiring) -> Iterator[Breach]:
    """Report an object that two Applications, or two Kustomizations, of one folder apply to the same cluster.

    Each engine marks an object with the Application or Kustomization that owns it. Argo CD reports a
    SharedResourceWarning, and both Applications overwrite this mark in turn. Flux does the same with its labels. If one
    of the two is deleted, or its path changes, the engine deletes the object of the other one.

    The check compares only Applications and Kustomizations whose own files are in one folder, because other folders can
    belong to other clusters. It reads no objects that kustomize patches or renames.

    Source: argo-cd v3.2.1 controller/state.go appStateManager.CompareAppState: SharedResourceWarning;
    kustomize-controller v1.7.3
    internal/controller/kustomization_controller.go KustomizationReconciler.prune
    """
    users: dict[tuple[str, ...], list[Delivery]] = {}
    shared: dict[tuple[int, int], tuple[Delivery, Delivery, dict[str, None]]] = {}
    for delivery in wiring.deliveries:
        applied = applied_by(delivery, wiring.tree)
        folder, cluster = wiring.tree.folder_of(delivery.owner), _cluster_of(delivery)
        if applied is None or not applied.is_exact or not folder or UNKNOWN in cluster:
            continue
        for identity, resource in _identify(delivery, applied, wiring):
            others = users.setdefault((folder, delivery.engine, cluster, *identity), [])
            first = next(iter(others), delivery)
            if first.name != delivery.name:  # two objects of one name are alternatives
                shared.setdefault((id(first), id(delivery)), (first, delivery, {}))[2].setdefault(resource)
            others.append(delivery)
    for first, delivery, resources in shared.values():
        yield Breach(
            delivery.field,
            f"{first.label} also applies {listed([*resources])}",
            f"{delivery.engine} changes the owner of the objects again and again, and if one of the two is deleted, it "
            "deletes the objects of the other",
            "leave the objects out of one of the two",
            delivery.owner,
            value=delivery.path,
        )


def _cluster_of(delivery: Delivery) -> str:
    """Return an identity of the cluster to which a delivery applies its objects."""
    if delivery.is_flux:
        config = mapping(delivery.spec, "kubeConfig")
        return f"{mapping(config, 'secretRef').get('name')}/{mapping(config, 'configMapRef').get('name')}"
    destination = mapping(delivery.spec, "destination")
    return string(destination.get("server")) or string(destination.get("name"))


def _identify(delivery: Delivery, applied: Applied, wiring: Wiring) -> Iterator[tuple[tuple[str, str, str, str], str]]:
    """Yield the identity of each object that a delivery applies, in its namespace, and its name for messages."""
    default = "" if delivery.is_flux else string(mapping(delivery.spec, "destination").get("namespace"))
    for item in applied.objects:
        group, kind, namespace, name = item.manifest.identity
        is_namespaced = find_scope(item.manifest, wiring) != "Cluster"
        namespace = (item.namespace or namespace or default) if is_namespaced else ""
        if name and not any(mark in f"{namespace}{name}" for mark in ("$", UNKNOWN)):
            yield (group, kind, namespace, name), f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
