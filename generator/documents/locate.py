"""Find the line and column of a JSON path: parse the text again with positions, only when a message needs one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from yaml import CSafeLoader, events

from generator.documents.load import Path, key_text

Position = tuple[int, int]


class Place(NamedTuple):
    """The 1-based positions of a node.

    Attributes:
        node: the position of a scalar value; for a mapping, a list or an absent value, the same as `key`.
        key: the position of the key of the node, or of the node itself if it is a list item or the whole document.
    """

    node: Position
    key: Position


def locate(text: str | bytes, index: int, path: Path) -> Position:
    """Return the 1-based line and column of `path` in document `index` of a valid YAML text.

    A path that does not exist gets the position of its nearest existing parent.
    """
    return locate_all(text, index, [path])[path].node


def locate_all(text: str | bytes, index: int, paths: Iterable[Path]) -> dict[Path, Place]:
    """Return path → the positions of the value and of the key at the path, for several paths of document `index`."""
    return {path: place for (_, path), place in locate_everywhere(text, ((index, path) for path in paths)).items()}


def locate_everywhere(text: str | bytes, requests: Iterable[tuple[int, Path]]) -> dict[tuple[int, Path], Place]:
    """Return the places of paths in several documents: (document index, path) → place, in one pass."""
    paths_by_index: dict[int, set[Path]] = {}
    for index, path in requests:
        paths_by_index.setdefault(index, set()).add(path)
    walk, at = _Walk(text), -1
    places: dict[tuple[int, Path], Place] = {}
    for index in sorted(paths_by_index):
        nodes = walk.visit(index - at, paths_by_index[index])
        places |= {(index, path): _nearest(nodes, path) for path in paths_by_index[index]}
        at = index
    return places


def _nearest(nodes: dict[Path, Place], path: Path) -> Place:
    if path in nodes:
        return nodes[path]
    while path not in nodes:
        path = path[:-1]
    return Place(nodes[path].node, nodes[path].node)


class _Walk:
    """A pass through a stream that enters the requested paths of some documents, and skips the rest."""

    def __init__(self, text: str | bytes) -> None:
        self.next_event: Callable[[], Any] = CSafeLoader(text).get_event
        self.paths: set[Path] = set()
        self.places: dict[Path, Place] = {}

    def visit(self, documents: int, paths: set[Path]) -> dict[Path, Place]:
        """Advance to the start of the `documents`-th next document, and return the places of the paths there.

        The result also has the places of the parents of each path.
        """
        for _ in range(documents):
            while type(self.next_event()) is not events.DocumentStartEvent:
                pass
        self.paths = {path[:length] for path in paths for length in range(len(path) + 1)}
        self.places = {}
        root = self.next_event()
        self._visit(root, (), root)
        return self.places

    def _visit(self, event: Any, path: Path, holder: Any) -> None:
        has_text = type(event) is events.ScalarEvent and (event.value or not event.implicit[0])
        self.places[path] = Place(_position(event if has_text else holder), _position(holder))
        if type(event) is events.MappingStartEvent:
            while type(key := self.next_event()) is not events.MappingEndEvent:
                self._child(self.next_event(), (*path, key_text(key)), key)
        elif type(event) is events.SequenceStartEvent:
            position = 0
            while type(item := self.next_event()) is not events.SequenceEndEvent:
                self._child(item, (*path, position), item)
                position += 1

    def _child(self, event: Any, path: Path, holder: Any) -> None:
        if path in self.paths:
            self._visit(event, path, holder)
            return
        depth = 0
        while True:
            if type(event) in (events.MappingStartEvent, events.SequenceStartEvent):
                depth += 1
            elif type(event) in (events.MappingEndEvent, events.SequenceEndEvent):
                depth -= 1
            if depth == 0:
                return
            event = self.next_event()


def _position(event: Any) -> Position:
    return event.start_mark.line + 1, event.start_mark.column + 1
