"""Trees of files: the entries of a root filesystem without the content of files, and the layers of an image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

Kind = Literal["file", "folder", "link", "other"]
"""The kind of an entry; `other` for devices, pipes and sockets."""
Place = tuple[str, ...]
"""The names on the way from the root to an entry. No name before the last is a link."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a folder or a link.

    Attributes:
        kind: its kind.
        mode: its permissions, as in chmod.
        user: the id of its owner.
        group: the id of its group.
        target: the target of a link; else empty.
    """

    kind: Kind
    mode: int = 0o755
    user: int = 0
    group: int = 0
    target: str = ""


class Root(Protocol):
    """A root filesystem."""

    def entry(self, place: Place) -> Entry | None:
        """Return the entry at a place, without following a link; None if there is none."""

    def names(self, place: Place) -> Iterable[str]:
        """Return the names in the folder at a place."""

    def text(self, place: Place) -> str:
        """Return the content of the file at a place; empty if the content was not kept."""


@dataclass(slots=True)
class Folder:
    """A folder of a layer, or of a root filesystem in memory.

    Attributes:
        entry: its entry.
        children: name → file, link or folder.
        removed: the names that a layer removes from the layers below.
        is_opaque: True if a layer removes all names from the layers below.
        is_implied: True if the layer has files in the folder, but not the folder itself.
    """

    entry: Entry = Entry("folder")
    children: dict[str, Entry | Folder] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    is_opaque: bool = False
    is_implied: bool = False

    def find(self, place: Place) -> Entry | Folder | None:
        """Return the child at a place; None if there is none."""
        child: Entry | Folder | None = self
        for name in place:
            child = child.children.get(name) if isinstance(child, Folder) else None
        return child


def add_layer(below: Folder, layer: Folder) -> None:
    """Change a root filesystem as a layer on top of it does.

    As in overlayfs, a folder of the layer hides a file or link of the same name, and adds to a folder.

    Source: linux Documentation/filesystems/overlayfs.rst ("Upper and Lower"), and image-spec v1.1.1 layer.md
    ("Whiteouts").
    """
    pairs = [(below, layer)]
    while pairs:
        lower, upper = pairs.pop()
        if not upper.is_implied:
            lower.entry = upper.entry
        if upper.is_opaque:
            lower.children.clear()
        for name in upper.removed:
            lower.children.pop(name, None)
        for name, child in upper.children.items():
            known = lower.children.get(name)
            if isinstance(known, Folder) and isinstance(child, Folder):
                pairs.append((known, child))
            else:
                lower.children[name] = child


@dataclass(frozen=True, slots=True)
class Tree:
    """A root filesystem in memory.

    Attributes:
        top: its uppermost folder.
        texts: place → content of the few files whose content was kept.
    """

    top: Folder
    texts: dict[Place, str] = field(default_factory=dict)

    def entry(self, place: Place) -> Entry | None:
        """Return the entry at a place; None if there is none."""
        child = self.top.find(place)
        return child.entry if isinstance(child, Folder) else child

    def names(self, place: Place) -> Iterator[str]:
        """Yield the names in the folder at a place."""
        child = self.top.find(place)
        yield from child.children if isinstance(child, Folder) else ()

    def text(self, place: Place) -> str:
        """Return the content of a file if it was kept."""
        return self.texts.get(place, "")
