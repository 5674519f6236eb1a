"""The files and objects that a delivery applies, as far as the files show them."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from generator.checks.gitops.deliveries import KUSTOMIZATIONS, Delivery, find_kustomization
from generator.checks.tree import Tree
from generator.manifests import Manifest
from generator.objects.fields import mapping, string
from generator.upstream.argocd.patterns import compile_glob

_MANIFEST = re.compile(r".*\.(?:yaml|yml|json|jsonnet)", re.DOTALL)
"""The files that Argo CD reads in a folder (argo-cd v3.2.1 reposerver/repository/repository.go manifestFile)."""
_OF_FLUX = re.compile(r".*\.ya?ml", re.DOTALL)
_DEEPEST = 20
"""The most kustomizations that use each other in a row."""


@dataclass(frozen=True, slots=True)
class AppliedObject:
    """An object that a delivery applies.

    Attributes:
        manifest: the object as its file has it.
        file: the absolute path of the file.
        namespace: the namespace that the engine or a kustomization sets; empty if it sets none.
    """

    manifest: Manifest
    file: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Applied:
    """The files and the objects that a delivery applies.

    Attributes:
        files: the absolute paths of the files.
        objects: the objects.
        is_exact: True if these are all objects, with the names and namespaces that the engine applies. Otherwise, a
            kustomization or a patch can change them, or a file cannot be read.
        is_direct: True if the engine reads the files of the folder, without a kustomization.
    """

    files: tuple[str, ...]
    objects: tuple[AppliedObject, ...]
    is_exact: bool
    is_direct: bool


def read_applied(delivery: Delivery, tree: Tree) -> Applied | None:
    """Return the files and objects that a delivery applies.

    Return None if the folder is not among the files, or if Helm, Jsonnet or a plugin generates the objects.
    """
    place = delivery.place
    if place is None or not tree.is_folder(place) or (not delivery.is_flux and _is_generated(delivery, place, tree)):
        return None
    is_rendered = find_kustomization(place, tree) and not mapping(delivery.settings, "directory")
    if is_rendered or delivery.is_flux:
        reader = _KustomizeReader(delivery, tree)
        reader.read(place, reader.set_namespace, 0)
        return Applied(
            tuple(dict.fromkeys(reader.files)), tuple(reader.objects), reader.is_exact, is_direct=not is_rendered
        )
    files = select_files(delivery, tree)
    if files is None:
        return None
    paths = tuple(posixpath.join(place, file) for file in files)
    objects: list[AppliedObject] = []
    is_exact = True
    for path in paths:
        manifests = None if path.endswith(".jsonnet") else tree.objects_in(path)
        is_exact = is_exact and manifests is not None
        objects += (AppliedObject(manifest, path, "") for manifest in manifests or ())
    return Applied(paths, tuple(objects), is_exact, is_direct=True)


def _is_generated(delivery: Delivery, place: str, tree: Tree) -> bool:
    """Return True if Helm or a plugin generates the objects of an Application."""
    is_named = any(key in delivery.settings for key in ("helm", "plugin"))
    is_chart = not mapping(delivery.settings, "directory") and tree.is_file(f"{place}/Chart.yaml")
    return is_named or is_chart


def select_files(delivery: Delivery, tree: Tree) -> Sequence[str] | None:
    """Return the files of a folder that Argo CD applies, relative to the folder; None if a pattern is unknown.

    Source: argo-cd v3.2.1 reposerver/repository/repository.go getPotentiallyValidManifestFile: `exclude` takes
    precedence, and a pattern that does not compile matches nothing
    """
    files = candidate_files(delivery, tree)
    settings = mapping(delivery.settings, "directory")
    include, exclude = string(settings.get("include")), string(settings.get("exclude"))
    if files is None or "\0" in include + exclude:
        return None
    included, excluded = compile_glob(include), compile_glob(exclude)
    return [
        file
        for file in files
        if not (exclude and excluded and excluded.fullmatch(file))
        and not (include and not (included and included.fullmatch(file)))
    ]


def candidate_files(delivery: Delivery, tree: Tree) -> Sequence[str] | None:
    """Return the files that Argo CD reads in a folder before it applies `include` and `exclude`; None if unknown."""
    files = tree.files_below(delivery.place or "")
    if files is None:
        return None
    is_deep = mapping(delivery.settings, "directory").get("recurse") is True
    return [file for file in files if _MANIFEST.fullmatch(file) and (is_deep or "/" not in file)]


class _KustomizeReader:
    """Reads the objects of a kustomization, or of a folder for which Flux generates a kustomization.

    Source: fluxcd/pkg/kustomize v1.24.0 kustomize_generator.go Generator.generateKustomization; fluxcd/pkg/kustomize
    v1.24.0 kustomize_generator.go scanManifests
    """

    def __init__(self, delivery: Delivery, tree: Tree) -> None:
        self.delivery = delivery
        self.tree = tree
        self.files: list[str] = []
        self.objects: list[AppliedObject] = []
        spec = delivery.spec if delivery.is_flux else mapping(delivery.settings, "kustomize")
        self.set_namespace = string(spec.get("targetNamespace" if delivery.is_flux else "namespace"))
        self.is_exact = not any(
            spec.get(key)
            for key in ("patches", "patchesStrategicMerge", "patchesJson6902", "components", "namePrefix", "nameSuffix")
        )

    def read(self, folder: str, namespace: str, depth: int) -> None:
        """Read a folder.

        Args:
            folder: the absolute path of the folder.
            namespace: the namespace that an outer kustomization sets; empty for none.
            depth: the number of outer kustomizations.
        """
        from generator.documents.kustomize import read_kustomization  # which few runs need

        file = find_kustomization(folder, self.tree)
        if not file:
            if self.delivery.is_flux and depth == 0:
                self._read_all(folder, namespace)
            else:
                self.is_exact = False
            return
        kustomization = None if self.tree.is_rendered or depth > _DEEPEST else read_kustomization(Path(file))
        self.files.append(file)
        if kustomization is None:
            self.is_exact = False
            return
        self.is_exact = self.is_exact and kustomization.is_plain and not kustomization.obstacles
        for path in map(os.fspath, kustomization.resources):
            if self.tree.is_folder(path):
                self.read(path, namespace or kustomization.namespace, depth + 1)
            else:
                self._add(path, namespace or kustomization.namespace)

    def _read_all(self, folder: str, namespace: str) -> None:
        """Read all files below a folder. A folder below it with a kustomization is read as such."""
        files = self.tree.files_below(folder)
        self.is_exact = self.is_exact and files is not None
        inner = {posixpath.dirname(file) for file in files or () if posixpath.basename(file) in KUSTOMIZATIONS}
        outer = sorted(name for name in inner if not any(name != other and _is_below(name, other) for other in inner))
        for name in outer:
            self.read(posixpath.join(folder, name), namespace, 1)
        for file in files or ():
            path = posixpath.join(folder, file)
            is_inside = any(_is_below(file, name) for name in inner)
            if not is_inside and _OF_FLUX.fullmatch(file) and self._is_downloaded(path):
                self._add(path, namespace)

    def _is_downloaded(self, path: str) -> bool:
        root = self.delivery.root
        relative = posixpath.relpath(path, root.folder) if root else path
        return self.delivery.source.has(posixpath.join(root.prefix if root else "", relative))

    def _add(self, path: str, namespace: str) -> None:
        self.files.append(path)
        manifests = self.tree.objects_in(path)
        self.is_exact = self.is_exact and manifests is not None
        self.objects += (AppliedObject(manifest, path, namespace) for manifest in manifests or ())


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def applied_by(delivery: Delivery, tree: Tree) -> Applied | None:
    """Return the files and objects that a delivery applies, as `read_applied` does. The result is cached."""
    cache = tree.view(_create_cache)
    if id(delivery) not in cache:
        cache[id(delivery)] = read_applied(delivery, tree)
    return cache[id(delivery)]


def _create_cache(_: Tree) -> dict[int, Applied | None]:
    return {}
