"""The files around manifests: a release that mpigen renders, or the folders on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

from generator.documents.files import read_file
from generator.errors import DocumentError, InputError
from generator.manifests import Manifest, read

LOCK = "release.json"
_MOST = 50_000
"""The most files below one folder that mpigen lists."""
_REMOTE = re.compile(r"^\s*url\s*=\s*(\S+)\s*$", re.MULTILINE)
_SKIPPED = b"+argocd:skip-file-rendering"
"""A comment in a file that Argo CD then does not apply (argo-cd v3.2.1 reposerver/repository/repository.go)."""
V = TypeVar("V")


class Tree:
    """The files around the manifests of a run. Paths are absolute; a rendered release has the root `/`."""

    def __init__(
        self,
        manifests: Sequence[Manifest],
        rendered: Collection[str] | None = None,
        folders: Mapping[str, Path] | None = None,
    ) -> None:
        """Index the manifests by their files. The disk is read only when a method needs it.

        Args:
            manifests: all manifests of the run.
            rendered: the files of a release that is not on disk; None to read the disk.
            folders: the name of a text that kustomize renders → the folder of the kustomization.
        """
        self.manifests = manifests
        self._rendered = None if rendered is None else {f"/{file}" for file in rendered}
        self._folders = folders or {}

    def view(self, read: Callable[[Tree], V]) -> V:
        """Return the result of a function that reads the tree. The function runs once for the tree.

        Args:
            read: the function.
        """
        if read not in self._views:
            self._views[read] = read(self)
        return cast("V", self._views[read])

    @cached_property
    def _views(self) -> dict[Callable[[Tree], object], object]:
        return {}

    @property
    def is_rendered(self) -> bool:
        """True if the files are a release that is not on disk."""
        return self._rendered is not None

    def folder_of(self, manifest: Manifest) -> str:
        """Return the folder of the file of a manifest; empty for a manifest of standard input."""
        if manifest.file in self._folders:
            return os.path.abspath(self._folders[manifest.file])  # noqa: PTH100 - texts, which are faster
        file = self.path_of(manifest.file)
        return os.path.dirname(file) if self.is_file(file) else ""  # noqa: PTH120

    def path_of(self, file: str) -> str:
        """Return the absolute path of a file of the run."""
        return f"/{file}" if self.is_rendered else os.path.abspath(file)  # noqa: PTH100

    def is_file(self, path: str) -> bool:
        """Return True if there is a regular file at a path."""
        return path in self._rendered if self._rendered is not None else os.path.isfile(path)  # noqa: PTH113

    def is_folder(self, path: str) -> bool:
        """Return True if there is a folder at a path."""
        return path in self._rendered_folders if self.is_rendered else os.path.isdir(path)  # noqa: PTH112

    def exists(self, path: str) -> bool:
        """Return True if there is a file or a folder at a path."""
        return self.is_file(path) or self.is_folder(path)

    @cached_property
    def _rendered_folders(self) -> Collection[str]:
        folders = {"/"}
        for file in self._rendered or ():
            folders.update(str(parent) for parent in Path(file).parents)
        return folders

    def files_below(self, folder: str) -> Sequence[str] | None:
        """Return the files below a folder, sorted and relative to the folder; None if there are too many.

        The folder `.git` is left out.
        """
        if folder not in self._listed:
            self._listed[folder] = self._list(folder)
        return self._listed[folder]

    @cached_property
    def _listed(self) -> dict[str, Sequence[str] | None]:
        return {}

    def _list(self, folder: str) -> Sequence[str] | None:
        start = folder.rstrip("/") + "/"
        if self._rendered is not None:
            return sorted(file.removeprefix(start) for file in self._rendered if file.startswith(start))
        files: list[str] = []
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if name != ".git")
            below = f"{parent}/".removeprefix(start)
            files += (below + name for name in sorted(names))
            if len(files) > _MOST:
                return None
        return sorted(files)

    def folders_below(self, folder: str) -> Sequence[str] | None:
        """Return the folders below a folder, sorted and relative to it; None if there are too many files."""
        files = self.files_below(folder)
        if files is None:
            return None
        parents = {parent.as_posix() for file in files for parent in Path(file).parents}
        return sorted(parents - {"."})

    def text_of(self, path: str) -> bytes:
        """Return the text of a file on disk; empty for an unreadable file, and in a rendered release."""
        if not self.is_rendered:
            with suppress(InputError):
                return read_file(Path(path))
        return b""

    def objects_in(self, path: str) -> Sequence[Manifest] | None:
        """Return the manifests in a file; None if the file is not YAML, or has a document that is not an object."""
        if path not in self._objects:
            self._objects[path] = self._read(path)
        return self._objects[path]

    @cached_property
    def _objects(self) -> dict[str, Sequence[Manifest] | None]:
        return {}

    def _read(self, path: str) -> Sequence[Manifest] | None:
        if _SKIPPED in (text := self.text_of(path)):
            return ()
        if path in self._known:
            return self._known[path]
        try:
            objects = list(read(text, path))
        except DocumentError:
            return None
        return None if any(item.instead or not item.kind for item in objects) else objects

    @cached_property
    def _known(self) -> Mapping[str, Sequence[Manifest]]:
        known: dict[str, list[Manifest]] = {}
        paths: dict[str, str] = {}
        for manifest in self.manifests:
            file = manifest.file
            if file not in paths:
                paths[file] = self.path_of(file)
            known.setdefault(paths[file], []).append(manifest)
        return known

    def parents_of(self, folder: str) -> Iterator[str]:
        """Yield a folder and the folders above it, up to the root of its Git clone. The root `/` of a disk is left out.

        Args:
            folder: the folder; empty for none.
        """
        while folder and (folder != "/" or self.is_rendered):
            yield folder
            parent = os.path.dirname(folder)  # noqa: PTH120
            if parent == folder or self.is_clone(folder):
                return
            folder = parent

    def is_clone(self, folder: str) -> bool:
        """Return True if a folder is the root of a Git clone or of a worktree."""
        return not self.is_rendered and os.path.exists(f"{folder}/.git")  # noqa: PTH110

    def is_release(self, folder: str) -> bool:
        """Return True if a folder is a release of mpigen."""
        return folder == "/" if self.is_rendered else self.is_file(f"{folder}/{LOCK}")

    def remotes_of(self, folder: str) -> Sequence[str]:
        """Return the URLs of the remotes of a Git clone; empty without remotes."""
        settings = Path(folder, ".git", "config")
        if Path(folder, ".git").is_file():  # a worktree, which names the folder of its clone
            name = self.text_of(f"{folder}/.git").decode(errors="replace").partition("gitdir:")[2].strip()
            settings = Path(folder, name).parent.parent / "config"
        return _REMOTE.findall(self.text_of(str(settings)).decode(errors="replace"))
