"""Where in a text a JSON path stands: read again with positions, only when a message needs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yaml import CSafeLoader, events

from generator.documents.load import Path

Position = tuple[int, int]


def locate(text: str | bytes, index: int, path: Path) -> Position:
    """The 1-based line and column of `path` in document number `index` of a readable text.

    A scalar is located at its value, a mapping or list at the key that holds it, a path that does not exist at its
    nearest existing parent.
    """
    stream = _Stream(text)
    stream.skip_documents(index)
    return stream.find(path)


class _Stream:
    def __init__(self, text: str | bytes) -> None:
        self.next_event: Callable[[], Any] = CSafeLoader(text).get_event
        self.next_event()  # the start of the stream
        self.next_event()  # the start of a document

    def skip_documents(self, count: int) -> None:
        for _ in range(count):
            self.skip(self.next_event())
            self.next_event()  # the end of the document
            self.next_event()  # the start of the next

    def find(self, path: Path) -> Position:
        event = self.next_event()
        best = _position(event)
        for step in path:
            found = self._enter(event, step)
            if found is None:
                return best
            event, holder = found
            best = _position(event if type(event) is events.ScalarEvent and event.value else holder)
        return best

    def _enter(self, event: Any, step: str | int) -> tuple[Any, Any] | None:
        """Move to the child `step` of a container: its first event, and the event that names it."""
        if type(event) is events.MappingStartEvent:
            while type(key := self.next_event()) is not events.MappingEndEvent:
                value = self.next_event()
                if key.value == str(step):
                    return value, key
                self.skip(value)
        elif type(event) is events.SequenceStartEvent:
            position = 0
            while type(item := self.next_event()) is not events.SequenceEndEvent:
                if position == step:
                    return item, item
                self.skip(item)
                position += 1
        return None

    def skip(self, event: Any) -> None:
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


def format_path(path: Path, root: str = "") -> str:
    """Write a path for people: `spec.containers[0].image`; keys with dots or slashes are quoted.

    >>> format_path(("metadata", "labels", "example.com/a", 0))
    'metadata.labels["example.com/a"][0]'
    """
    text = root
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step and all(letter.isalnum() or letter in "-_$" for letter in step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text
