"""The files of an image as the user of a container finds them, who follows links and has permissions."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from fnmatch import fnmatchcase

from generator.images.tree import Entry, Place, Root

_LINKS = 40  # linux include/linux/namei.h MAXSYMLINKS
_READ, _RUN = 4, 1


@dataclass(frozen=True, slots=True)
class User:
    """The user of a container, never root.

    Attributes:
        id: the id of the user.
        groups: the ids of all groups of the user.
    """

    id: int
    groups: frozenset[int]

    def may(self, right: int, entry: Entry) -> bool:
        """Return True if the permissions of an entry give the user a right: 4 to read, 1 to execute or to search."""
        digit = 6 if entry.user == self.id else 3 if entry.group in self.groups else 0
        return bool(entry.mode >> digit & right)


@dataclass(frozen=True, slots=True)
class Walk:
    """The files of a root filesystem as a user finds them."""

    root: Root
    user: User

    def find(self, path: str) -> tuple[Place, Entry] | None:
        """Return the place and entry of an absolute path, with all links followed; None if the user cannot reach it."""
        todo, place, links = deque(_split(path)), Place(), 0
        entry = self.root.entry(place)
        while todo and entry:
            name = todo.popleft()
            if entry.kind != "folder" or not self.user.may(_RUN, entry):
                return None
            if name == "..":
                place, entry = place[:-1], self.root.entry(place[:-1])
                continue
            child = self.root.entry((*place, name))
            if child is None or child.kind != "link":
                place, entry = (*place, name), child
                continue
            links += 1
            if links > _LINKS:
                return None
            todo.extendleft(reversed(_split(child.target)))
            if child.target.startswith("/"):
                place, entry = (), self.root.entry(())
        return (place, entry) if entry else None

    def is_program(self, path: str) -> bool:
        """Return True if the user can execute the file at a path: `[ -f PATH ] && [ -x PATH ]` of a shell."""
        target = self.find(path)
        return target is not None and target[1].kind == "file" and self.user.may(_RUN, target[1])

    def expand(self, pattern: str) -> list[str]:
        """Return the paths that match an absolute pattern of a shell. A path may not exist: only `*?[` are resolved."""
        paths = [""]
        for part in _split(pattern):
            matches = self._names if re.search(r"[*?[]", part) else lambda _, name: [name]
            paths = [f"{path}/{name}" for path in paths for name in matches(path, part)]
        return paths

    def _names(self, path: str, pattern: str) -> list[str]:
        """Return the names in a folder that match a pattern, if the user can read the folder."""
        target = self.find(path)
        if not target or target[1].kind != "folder" or not self.user.may(_READ, target[1]):
            return []
        names = sorted(self.root.names(target[0]))
        return [name for name in names if fnmatchcase(name, pattern) and (pattern[0] == "." or name[0] != ".")]


def _split(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]
