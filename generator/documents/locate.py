"""Where in a text a JSON path stands: read again with positions, only when a message needs one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from yaml import CSafeLoader, events

from generator.documents.load import Path, key_text

Position = tuple[int, int]


class Place(NamedTuple):
    """The 1-based lines and columns of one node.

    Attributes:
        node: of a scalar its value, of a mapping or a list the key that holds it.
        key: the key itself, or the start of the list item.
    """

    node: Position
    key: Position


def locate(text: str | bytes, index: int, path: Path) -> Position:
    """The 1-based line and column of `path` in document number `index` of a readable text.

    A path that does not exist is located at its nearest existing parent.
    """
    return locate_all(text, index, [path])[path].node


def locate_all(text: str | bytes, index: int, paths: Iterable[Path]) -> dict[Path, Place]:
    """The places of many paths of one document."""
    return {path: place for (_, path), place in locate_everywhere(text, ((index, path) for path in paths)).items()}


def locate_everywhere(text: str | bytes, wanted: Iterable[tuple[int, Path]]) -> dict[tuple[int, Path], Place]:
    """The places of many paths in many documents, each with its document's number, in one walk through the text."""
    asked: dict[int, set[Path]] = {}
    for index, path in wanted:
        asked.setdefault(index, set()).add(path)
    walk, at = _Walk(text), -1
    places: dict[tuple[int, Path], Place] = {}
    for index in sorted(asked):
        found = walk.visit(index - at, asked[index])
        places |= {(index, path): _nearest(found, path) for path in asked[index]}
        at = index
    return places


def _nearest(found: dict[Path, Place], path: Path) -> Place:
    if path in found:
        return found[path]
    while path not in found:
        path = path[:-1]
    return Place(found[path].node, found[path].node)


class _Walk:
    """One walk through a stream, into the wanted paths of some documents and past everything else."""

    def __init__(self, text: str | bytes) -> None:
        self.next_event: Callable[[], Any] = CSafeLoader(text).get_event
        self.wanted: set[Path] = set()
        self.found: dict[Path, Place] = {}

    def visit(self, documents: int, paths: set[Path]) -> dict[Path, Place]:
        """Go that many documents further, and find the paths and their parents there."""
        for _ in range(documents):
            while type(self.next_event()) is not events.DocumentStartEvent:
                pass
        self.wanted = {path[:length] for path in paths for length in range(len(path) + 1)}
        self.found = {}
        root = self.next_event()
        self._visit(root, (), root)
        return self.found

    def _visit(self, event: Any, path: Path, holder: Any) -> None:
        is_shown = type(event) is events.ScalarEvent and (event.value or not event.implicit[0])
        self.found[path] = Place(_position(event if is_shown else holder), _position(holder))
        if type(event) is events.MappingStartEvent:
            while type(key := self.next_event()) is not events.MappingEndEvent:
                self._child(self.next_event(), (*path, key_text(key)), key)
        elif type(event) is events.SequenceStartEvent:
            position = 0
            while type(item := self.next_event()) is not events.SequenceEndEvent:
                self._child(item, (*path, position), item)
                position += 1

    def _child(self, event: Any, path: Path, holder: Any) -> None:
        if path in self.wanted:
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
