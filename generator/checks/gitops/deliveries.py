"""Deliveries: the folders of repositories that Applications of Argo CD and Kustomizations of Flux apply.

mpigen finds the folder of a repository on disk by its Git remote, or by the paths of the Applications: the folder at or
above their files in which most of these paths exist. A repository without such a folder is unknown, and no check
reports its paths. Two repositories never have the same folder. So a path in another repository is no mistake.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath

from generator.checks.objects import Objects
from generator.checks.tree import Tree
from generator.documents.load import Path
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, string, strings
from generator.schemas.catalog import Catalog
from generator.upstream.argocd.application_sets import UNKNOWN, Files, Parameters, render_applications
from generator.upstream.argocd.patterns import Ignored, compile_path_match, literal_start

ARGO = "argoproj.io"
FLUX = ("kustomize.toolkit.fluxcd.io", "Kustomization")
FLUX_SOURCES = "source.toolkit.fluxcd.io"
_DEFAULT_BRANCHES = frozenset({"", "HEAD", "main", "master", "trunk"})
_URL = re.compile(r"(?:[a-z+]+://)?(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+(?=/))?[:/]+(?P<path>.+?)(?:\.git)?/*")


def identify_repository(url: str) -> str:
    """Return host and path of a repository in lower case, the same for its ssh and https URLs."""
    match = _URL.fullmatch(url.strip().lower())
    return f"{match['host']}/{match['path']}" if match else url.strip().lower()


@dataclass(frozen=True, slots=True)
class Root:
    """The place of a repository, or of one of its folders, among the files.

    Attributes:
        folder: the absolute path of the folder.
        prefix: the path of this folder in the repository; empty for the whole repository.
    """

    folder: str
    prefix: str = ""

    def place(self, path: str) -> str | None:
        """Return the absolute path of a file or folder of the repository; None if it is outside of the folder."""
        if self.prefix and path != self.prefix and not path.startswith(f"{self.prefix}/"):
            return None
        below = path.removeprefix(self.prefix).strip("/")
        return posixpath.join(self.folder, below) if below else self.folder


@dataclass(frozen=True)
class Source:
    """A repository at a revision.

    Attributes:
        key: the identity of the repository: host and path, or the name of an object of Flux.
        revision: the branch, tag or commit; empty for the default branch.
        body: the `spec` of the object of Flux that downloads the repository; empty for Argo CD.
        manifest: the object of Flux; None if no file has it, and for Argo CD.
    """

    key: str
    revision: str
    body: Body
    manifest: Manifest | None = None

    def has(self, file: str) -> bool:
        """Return True if Flux downloads a file: `sparseCheckout` has it, and `ignore` does not exclude it.

        Source: source-controller v1.7.3 internal/controller/gitrepository_controller.go
        GitRepositoryReconciler.reconcileArtifact; go-git v5.16.3 plumbing/format/index/index.go Index.SkipUnless
        """
        starts = [clean(path) for path in strings(self.body.get("sparseCheckout"))]
        is_downloaded = not starts or any(file.startswith(start) for start in starts)
        return is_downloaded and file not in self._ignored

    @cached_property
    def _ignored(self) -> Ignored:
        return Ignored(string(self.body.get("ignore")))

    def includes(self, path: str) -> bool:
        """Return True if `include` copies another repository to a path, so that the path is in another repository."""
        targets = (
            clean(string(item.get("toPath")) or string(mapping(item, "repository").get("name")))
            for item in mappings(self.body.get("include"))
        )
        return any(path == target or path.startswith(f"{target}/") for target in targets)


@dataclass(frozen=True)
class Delivery:
    """A folder that an Application or a Kustomization applies.

    Attributes:
        owner: the Application, ApplicationSet or Kustomization.
        field: the path of the folder in the owner.
        name: the name of the Application or Kustomization.
        spec: the `spec` of the Application or Kustomization.
        settings: the source of the Application; the `spec` for a Kustomization.
        path: the folder as the owner writes it, after an ApplicationSet has rendered it.
        source: the repository.
        origin: the parameters of the ApplicationSet, such as `element 2 of the list`; empty for other owners.
        root: the place of the repository; None if it is not among the files.
    """

    owner: Manifest
    field: Path
    name: str
    spec: Body
    settings: Body
    path: str
    source: Source
    origin: str = ""
    root: Root | None = None

    @property
    def is_flux(self) -> bool:
        """True for a Kustomization of Flux."""
        return self.owner.group != ARGO

    @property
    def engine(self) -> str:
        """The GitOps engine, for messages."""
        return "Flux" if self.is_flux else "Argo CD"

    @property
    def folder(self) -> str:
        """The folder, relative to the root of the repository; empty for the root."""
        return clean(self.path)

    @property
    def place(self) -> str | None:
        """The absolute path of the folder; None if the files do not show it."""
        if self.root is None or UNKNOWN in self.path or self.source.includes(self.folder):
            return None
        return self.root.place(self.folder)

    @property
    def label(self) -> str:
        """The Application or Kustomization for messages, such as ``Application `queues` ``."""
        kind = "Kustomization" if self.is_flux else "Application"
        return f"{kind} `{self.name}`" if UNKNOWN not in self.name else f"{self.owner.kind} `{self.owner.name}`"


def clean(path: str) -> str:
    """Return a path in a repository without `./`, `..` and outer slashes; empty for the root."""
    normal = posixpath.normpath("/" + path.strip().lstrip("/"))
    return normal.strip("/")


@dataclass(frozen=True)
class _Claim:
    """A path that should be in a repository, which helps to find the repository on disk."""

    source: Source
    manifest: Manifest
    path: str


@dataclass(frozen=True)
class Deliveries:
    """The deliveries of all files of a run.

    Attributes:
        tree: the files.
        all: the deliveries, in the order of their files.
        generators: (ApplicationSet, path of a pattern, pattern, root) of each pattern of a git generator.
    """

    tree: Tree
    all: Sequence[Delivery]
    generators: Sequence[tuple[Manifest, Path, Body, Root]]

    @classmethod
    def read(cls, tree: Tree) -> Deliveries:
        """Read the Applications, ApplicationSets and Kustomizations, and find their repositories."""
        sources = {
            (item.kind, item.namespace, item.name): item for item in tree.manifests if item.group == FLUX_SOURCES
        }
        owners = [item for item in tree.manifests if (item.group, item.kind) in _OWNERS]
        closed = Files(lambda _: None, lambda _: None)
        first = [delivery for owner in owners for delivery in _read_owner(owner, sources, closed)]
        claims = [_Claim(item.source, item.owner, item.folder) for item in first if UNKNOWN not in item.path]
        claims += (
            _Claim(_git_source(generator), owner, literal_start(string(pattern.get("path"))))
            for owner in owners
            for _, generator, pattern in _git_patterns(owner)
        )
        roots = _Roots(tree, claims)
        placed, patterns = list[Delivery](), list[tuple[Manifest, Path, Body, Root]]()
        for owner in owners:
            if is_changed(owner, tree):
                continue
            files = _files_of(owner, roots, tree)
            placed += (_with_root(delivery, roots) for delivery in _read_owner(owner, sources, files))
            for path, generator, pattern in _git_patterns(owner):
                if root := roots.of(_git_source(generator), owner):
                    patterns.append((owner, path, pattern, root))
        return cls(tree, placed, patterns)


_NEAR = 4
"""The number of folders, from that of a file upwards, in which mpigen searches for a kustomization with the file."""


def is_changed(manifest: Manifest, tree: Tree) -> bool:
    """Return True if a kustomization that changes its objects, for example by patches, has the file of a manifest.

    A patch of the kustomization can change the paths in such an object, so the file does not show the applied paths.
    """
    parents = [*tree.parents_of(tree.folder_of(manifest))]
    if tree.is_rendered or not any(find_kustomization(folder, tree) for folder in parents[:_NEAR]):
        return False
    top = next(filter(tree.is_clone, parents), parents[min(len(parents), _NEAR) - 1])
    changed = tree.view(_create_cache)
    if top not in changed:
        changed[top] = _find_changed(top, tree)
    return tree.path_of(manifest.file) in changed[top]


def find_kustomization(folder: str, tree: Tree) -> str:
    """Return the path of the kustomization file of a folder; empty if the folder has none."""
    return next((path for name in KUSTOMIZATIONS if tree.is_file(path := f"{folder}/{name}")), "")


KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The names of a kustomization file."""


def _create_cache(_: Tree) -> dict[str, frozenset[str]]:
    return {}


def _find_changed(top: str, tree: Tree) -> frozenset[str]:
    """Return the files below a folder whose objects a kustomization changes."""
    from generator.documents.kustomize import Kustomizations  # which few runs need

    files = [FilePath(top, file) for file in tree.files_below(top) or () if posixpath.basename(file) in KUSTOMIZATIONS]
    kustomizations = Kustomizations(files)
    return frozenset(
        str(path)
        for item in kustomizations.named
        if not item.is_plain
        for part in kustomizations.closure(item)
        for path in part.resources
    )


@dataclass(frozen=True)
class Wiring:
    """The deliveries whose owners are in one release, or in no release.

    Attributes:
        objects: the objects of the release.
        everything: the deliveries of all files of the run.
        deliveries: the deliveries of the owners in `objects`.
    """

    objects: Objects
    everything: Deliveries
    deliveries: Sequence[Delivery]

    @classmethod
    def read(cls, objects: Objects) -> Wiring | None:
        """Return the deliveries; None if the files around the objects are unknown."""
        if objects.tree is None:
            return None
        everything = objects.tree.view(Deliveries.read)
        mine = {id(manifest) for manifest in (*objects.manifests, *objects.others)}
        return cls(objects, everything, [item for item in everything.all if id(item.owner) in mine])

    def has(self, manifest: Manifest) -> bool:
        """Return True if a manifest is one of the objects of the release."""
        return id(manifest) in self._ids

    @cached_property
    def _ids(self) -> frozenset[int]:
        return frozenset(id(manifest) for manifest in (*self.objects.manifests, *self.objects.others))

    @property
    def tree(self) -> Tree:
        """The files of the run."""
        return self.everything.tree

    @cached_property
    def scopes(self) -> Mapping[tuple[str, str], str]:
        """(group, kind) → `Cluster` or `Namespaced`, for the CustomResourceDefinitions in the files."""
        specs = (mapping(item.body, "spec") for item in self.tree.manifests if item.kind == "CustomResourceDefinition")
        return {
            (string(spec.get("group")), string(mapping(spec, "names").get("kind"))): string(spec.get("scope"))
            for spec in specs
        }

    @cached_property
    def catalog(self) -> Catalog:
        """The schemas of the target versions."""
        return Catalog.bundled(self.objects.targets)


def find_scope(manifest: Manifest, wiring: Wiring) -> str:
    """Return `Cluster` or `Namespaced` for the kind of an object; empty for a kind that the files do not define."""
    if manifest.kind == "CustomResourceDefinition":
        return "Cluster"
    scope = wiring.scopes.get((manifest.group, manifest.kind))
    return scope or wiring.catalog.scope(manifest.api_version, manifest.kind) or ""


_OWNERS = {(ARGO, "Application"), (ARGO, "ApplicationSet"), FLUX}


def is_wiring(manifest: Manifest) -> bool:
    """Return True if the checks of this family report the manifest."""
    is_owner = (manifest.group, manifest.kind) in {*_OWNERS, (ARGO, "AppProject")}
    return is_owner or manifest.group == FLUX_SOURCES


def _read_owner(owner: Manifest, sources: Mapping[tuple[str, str, str], Manifest], files: Files) -> Iterator[Delivery]:
    spec = mapping(owner.body, "spec")
    if owner.kind == "Application":
        yield from _of_application(owner, owner.name, spec, ("spec",))
    elif owner.kind == "ApplicationSet":
        for body, parameters in render_applications(spec, files):
            name = string(mapping(body, "metadata").get("name"))
            yield from _of_application(owner, name, mapping(body, "spec"), ("spec", "template", "spec"), parameters)
    else:
        reference = mapping(spec, "sourceRef")
        identity = (
            string(reference.get("kind")),
            string(reference.get("namespace"), owner.namespace),
            string(reference.get("name")),
        )
        manifest = sources.get(identity)
        body = mapping(manifest.body, "spec") if manifest else {}
        url = string(body.get("url"))
        revision = " ".join(strings([*mapping(body, "ref").values()]))
        key = identify_repository(url) if url else "/".join(identity)
        source = Source(key, _normalize_revision(revision), body, manifest)
        path = string(spec.get("path"))
        yield Delivery(owner, ("spec", "path"), owner.name, spec, spec, path, source)


def _normalize_revision(revision: str) -> str:
    name = revision.removeprefix("refs/heads/")
    return "" if name in _DEFAULT_BRANCHES else name


def _of_application(
    owner: Manifest, name: str, spec: Body, start: Path, parameters: Parameters | None = None
) -> Iterator[Delivery]:
    """Yield a delivery for each source of an Application that has a path."""
    places: list[tuple[Path, Body]] = [
        ((*start, "sources", number), source) for number, source in indexed_mappings(spec.get("sources"))
    ]
    places = places or [((*start, "source"), mapping(spec, "source"))]
    if dry := mapping(spec, "sourceHydrator", "drySource"):
        places = [((*start, "sourceHydrator", "drySource"), dry)]
    for path, source in places:
        folder, url = source.get("path"), string(source.get("repoURL"))
        if isinstance(folder, str) and folder and url and not source.get("chart") and UNKNOWN not in url:
            revision = _normalize_revision(string(source.get("targetRevision")))
            origin = parameters.origin if parameters else ""
            repository = Source(identify_repository(url), revision, {})
            yield Delivery(owner, (*path, "path"), name, spec, source, folder, repository, origin)


def _git_patterns(owner: Manifest) -> Iterator[tuple[Path, Body, Body]]:
    """Yield (path, generator, pattern) for each pattern of the git generators of an ApplicationSet.

    Exclusions, and patterns and URLs with parameters are left out.
    """
    if owner.kind != "ApplicationSet":
        return
    waiting: list[tuple[Path, object]] = [(("spec", "generators"), mapping(owner.body, "spec").get("generators"))]
    while waiting:
        path, value = waiting.pop(0)
        for number, generator in indexed_mappings(value):
            waiting += (
                ((*path, number, kind, "generators"), mapping(generator, kind).get("generators"))
                for kind in ("matrix", "merge")
            )
            git = mapping(generator, "git")
            for key in ("directories", "files"):
                for index, pattern in indexed_mappings(git.get(key)):
                    text = f"{pattern.get('path')}{git.get('repoURL')}"
                    if pattern.get("exclude") is not True and "{{" not in text:
                        yield (*path, number, "git", key, index, "path"), git, pattern


def _git_source(generator: Body) -> Source:
    revision = _normalize_revision(string(generator.get("revision")))
    return Source(identify_repository(string(generator.get("repoURL"))), revision, {})


def _key(source: Source) -> tuple[str, str]:
    return source.key, source.revision


def _with_root(delivery: Delivery, roots: _Roots) -> Delivery:
    return replace(delivery, root=roots.of(delivery.source, delivery.owner))


def _files_of(owner: Manifest, roots: _Roots, tree: Tree) -> Files:
    """Return the files that the git generators of an ApplicationSet read."""

    def find_folders(generator: Body) -> Sequence[str] | None:
        root = roots.of(_git_source(generator), owner)
        return _folders_of(generator, root, tree) if root else None

    def find_texts(generator: Body) -> Mapping[str, bytes] | None:
        root = roots.of(_git_source(generator), owner)
        return _texts_of(generator, root, tree) if root else None

    return Files(find_folders, find_texts)


def matching_folders(pattern: str, root: Root, tree: Tree) -> Sequence[str] | None:
    """Return the folders of a repository that match a pattern of a git generator; None if the files do not show them.

    Source: argo-cd v3.2.1 applicationset/generators/git.go GitGenerator.filterApps, which calls path.Match
    """
    expression, start = compile_path_match(pattern), literal_start(pattern)
    place = root.place(start)
    if place is None or expression is None:
        return None
    folders = tree.folders_below(place) if tree.is_folder(place) else ()
    if folders is None:
        return None
    paths = [posixpath.join(start, folder) if start else folder for folder in folders]
    is_visible = (path for path in (start, *paths) if path and "/." not in f"/{path}")
    return [path for path in is_visible if expression.fullmatch(path)]


def matching_files(pattern: str, root: Root, tree: Tree) -> Sequence[str] | None:
    """Return the files of a repository that match a pattern of a git generator; None if the files do not show them.

    Source: argo-cd v3.2.1 util/git/client.go nativeGitClient.LsFiles, which calls `git ls-files`, whose `*` matches `/`
    too
    """
    expression, start = compile_path_match(pattern, "."), literal_start(pattern)
    place = root.place(start)
    if place is None or expression is None:
        return None
    if tree.is_file(place):
        return [start]
    files = tree.files_below(place) if tree.is_folder(place) else ()
    if files is None:
        return None
    paths = [posixpath.join(start, file) if start else file for file in files]
    return [path for path in paths if start == pattern or expression.fullmatch(path)]


def _folders_of(generator: Body, root: Root, tree: Tree) -> Sequence[str] | None:
    """Return the folders of a git generator; None if the files do not show them."""
    chosen: dict[str, None] = {}
    excluded: set[str] = set()
    for item in mappings(generator.get("directories")):
        pattern = string(item.get("path"))
        folders = matching_folders(pattern, root, tree) if UNKNOWN not in pattern else None
        if folders is None:
            return None
        if item.get("exclude") is True:
            excluded.update(folders)
        else:
            chosen.update(dict.fromkeys(folders))
    return sorted(chosen.keys() - excluded)


def _texts_of(generator: Body, root: Root, tree: Tree) -> Mapping[str, bytes] | None:
    """Return path → text of the files of a git generator; None if the files do not show them."""
    texts: dict[str, bytes] = {}
    excluded: set[str] = set()
    for item in mappings(generator.get("files")):
        pattern = string(item.get("path"))
        files = matching_files(pattern, root, tree) if UNKNOWN not in pattern else None
        if files is None or tree.is_rendered:
            return None
        if item.get("exclude") is True:
            excluded.update(files)
        else:
            texts |= {file: tree.text_of(root.place(file) or "") for file in files}
    return {file: texts[file] for file in sorted(texts) if file not in excluded}


_CERTAIN = 1_000_000
"""The score of a repository that is a remote of the Git clone."""
_Key = tuple[str, str]
"""A repository and a revision."""


class _Roots:
    """The places of repositories among the files, for each object that names a repository.

    A place is a folder at or above the file of the object, with a score: the number of steps of the claimed paths that
    exist in it. Only claims of files below the folder count. Two repositories never have the same place.
    """

    def __init__(self, tree: Tree, claims: Sequence[_Claim]) -> None:
        self._tree = tree
        self._claimed: dict[_Key, dict[str, dict[str, None]]] = {}
        for claim in claims:
            by_folder = self._claimed.setdefault(_key(claim.source), {})
            for folder in tree.parents_of(tree.folder_of(claim.manifest)):
                by_folder.setdefault(folder, {}).setdefault(claim.path)
        self._scores = {key: self._score(key[0], by_folder) for key, by_folder in self._claimed.items()}
        totals: Counter[tuple[str, str]] = Counter()
        for (repository, _), scores in self._scores.items():
            for root, score in scores.items():
                totals[repository, root.folder] += score
        self._best: dict[str, str] = {}
        self._certain: dict[str, str] = {}
        for (repository, folder), total in sorted(totals.items(), key=lambda row: (-row[1], row[0])):
            self._best.setdefault(folder, repository)
            if total >= _CERTAIN:
                self._certain.setdefault(folder, repository)

    def _score(self, repository: str, by_folder: Mapping[str, Mapping[str, None]]) -> Mapping[Root, int]:
        tree, scores = self._tree, dict[Root, int]()
        for folder, paths in by_folder.items():
            score = sum(path.count("/") + 1 for path in paths if path and tree.exists(posixpath.join(folder, path)))
            if tree.is_clone(folder) and repository in map(identify_repository, tree.remotes_of(folder)):
                score += _CERTAIN
            if score:
                scores[Root(folder)] = score
        return scores

    def of(self, source: Source, manifest: Manifest) -> Root | None:
        """Return the place of a repository for an object that names it; None if the repository is not on disk."""
        key, tree = _key(source), self._tree
        folders = dict.fromkeys(tree.parents_of(tree.folder_of(manifest)))
        scores = {root: score for root, score in self._scores.get(key, {}).items() if root.folder in folders}
        if not scores:
            scores = {
                root: score
                for folder in filter(tree.is_release, folders)
                for root, score in _score_release(
                    tree, folder, filter(None, self._claimed.get(key, {}).get(folder, ()))
                )
            }
        if not scores:
            return None
        root = max(scores, key=lambda root: (scores[root], tree.is_clone(root.folder), len(root.prefix)))
        clone = next(filter(tree.is_clone, folders), "")
        owners = (self._certain.get(clone, source.key), self._best.get(root.folder, source.key))
        return root if owners == (source.key, source.key) else None


def _score_release(tree: Tree, folder: str, paths: Iterable[str]) -> Iterator[tuple[Root, int]]:
    """Yield the possible paths of a release in its repository, each with a score: the number of claims that fit.

    The repository may be elsewhere: a release that mpigen renders is not on disk yet. One claimed path below the
    release exists, or two claimed paths have the same start.
    """
    steps = [path.split("/") for path in paths]
    prefixes = dict.fromkeys("/".join(names[:number]) for names in steps for number in range(1, len(names) + 1))
    for prefix in prefixes:
        root = Root(folder, prefix)
        places = [(path, place) for path in map("/".join, steps) if (place := root.place(path))]
        existing = sum(path != prefix and tree.exists(place) for path, place in places)
        same = sum(path == prefix for path, _ in places)
        if existing or (same and len(places) > 1):
            yield root, (2 * existing + same) * (len(steps) + 1) + len(places)
