"""YAML text → plain data, fast, with duplicate keys, bombs and bottomless nesting refused.

Built on libyaml's event stream, which unlike its composer neither recurses in C nor loses duplicate keys. Positions are
not kept while loading: `locate` walks the text again for the few places that a message needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from yaml import events

from generator.documents.scalars import Resolver, Scalar
from generator.errors import DocumentError, Problem

Path = tuple[str | int, ...]

MAX_DEPTH = 128  # levels; the deepest upstream CRD nests about 60
MAX_NODES = 1_000_000  # containers after alias expansion; an alias bomb passes it within a few lines
_STR = "tag:yaml.org,2002:str"
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null")}
_resolved = Resolver()


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its data, its index in the stream, and the 1-based line of its first node."""

    data: Any
    index: int
    line: int


def load(text: str | bytes) -> Iterator[Document]:
    """Read every document of a stream, lazily.

    Raises:
        DocumentError: at the first place that cannot be read, with its line and column.
    """
    try:
        builder = _Builder(text)
        yield from builder.documents()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _unreadable(_syntax_message(error, text, mark), mark) from None
    except yaml.reader.ReaderError as error:
        raise DocumentError((Problem(f"not a text: {error.reason}", "save the file as UTF-8"),)) from None


def _syntax_message(error: yaml.MarkedYAMLError, text: str | bytes, mark: Any) -> str:
    raw = text if isinstance(text, bytes) else text.encode()
    line = raw.splitlines()[mark.line] if mark and mark.line < raw.count(b"\n") + 1 else b""
    if mark and line[: mark.column + 1].endswith(b"\t"):
        return "a tab where YAML allows only spaces; indent with spaces"
    return f"not YAML: {', '.join(part for part in (error.context, error.problem) if part)}"


def _unreadable(message: str, mark: Any) -> DocumentError:
    what, _, fix = message.partition("; ")
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return DocumentError((Problem(what, fix, line=line, column=column),))


class _Builder:
    """Turns one event stream into data. Holds what a document's anchors stand for and how large it has grown."""

    __slots__ = ("anchors", "next_event", "nodes")

    def __init__(self, text: str | bytes) -> None:
        self.next_event: Callable[[], Any] = yaml.CSafeLoader(text).get_event
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.nodes = 0

    def documents(self) -> Iterator[Document]:
        index = 0
        self.next_event()  # the start of the stream
        while type(self.next_event()) is not events.StreamEndEvent:  # else the start of a document
            self.anchors, self.nodes = {}, 0
            first = self.next_event()
            yield Document(self._node(first, 0), index, first.start_mark.line + 1)
            self.next_event()  # the end of the document
            index += 1

    def _node(self, event: Any, depth: int) -> Any:
        kind = type(event)
        if kind is events.AliasEvent:
            return self._alias(event)
        before = self.nodes
        value: Any
        if kind is events.ScalarEvent:
            value = _resolved[event.value] if event.implicit[0] else _explicit(event)
        elif kind is events.MappingStartEvent:
            value = self._mapping(event, depth + 1)
        else:
            value = self._sequence(event, depth + 1)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, self.nodes - before)
        return value

    def _mapping(self, start: Any, depth: int) -> dict[str, Any]:
        self._enter(start, depth)
        result: dict[str, Any] = {}
        merged: list[Any] = []
        while type(event := self.next_event()) is not events.MappingEndEvent:
            if type(event) is not events.ScalarEvent:
                raise _unreadable("a key that is not a scalar; write a plain string as the key", event.start_mark)
            key = event.value
            if event.implicit[0]:
                if key == "<<":
                    merged.append((event.start_mark, self._node(self.next_event(), depth)))
                    continue
                if type(_resolved[key]) is not str:
                    key = _key(_resolved[key], event)
            if key in result:
                raise _unreadable(f"the key `{key}` is written twice; keep one of the two", event.start_mark)
            result[key] = self._node(self.next_event(), depth)
        return _merge(result, merged) if merged else result

    def _sequence(self, start: Any, depth: int) -> list[Any]:
        self._enter(start, depth)
        result: list[Any] = []
        while type(event := self.next_event()) is not events.SequenceEndEvent:
            result.append(self._node(event, depth))
        return result

    def _enter(self, event: Any, depth: int) -> None:
        self.nodes += 1
        if depth > MAX_DEPTH:
            raise _unreadable(f"nested more than {MAX_DEPTH} levels deep; flatten it", event.start_mark)

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self.anchors:
            raise _unreadable(
                f"the alias `*{event.anchor}` has no anchor before it; define `&{event.anchor}` first", event.start_mark
            )
        value, size = self.anchors[event.anchor]
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise _unreadable(
                f"aliases expand to more than {MAX_NODES:,} nodes; write the values out", event.start_mark
            )
        return value


def _explicit(event: Any) -> Scalar:
    """A quoted or tagged scalar: a string, unless a core tag says otherwise."""
    if event.tag is None or event.tag in (_STR, "!"):
        return str(event.value)
    if event.tag in _TAGS:
        return _resolved[event.value]
    raise _unreadable(f"the tag `{event.tag}` is not one that Kubernetes reads; remove it", event.start_mark)


def _key(value: Scalar, event: Any) -> str:
    """A key that is not a string becomes one, as in sigs.k8s.io/yaml `convertToJSONableObject`."""
    if value is None:
        raise _unreadable("an empty or null key; give the key a name", event.start_mark)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _merge(own: dict[str, Any], merged: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Apply `<<`: earlier sources win over later ones, the mapping's own keys over all."""
    result: dict[str, Any] = {}
    for mark, value in merged:
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise _unreadable("`<<` merges mappings only; point it at a mapping", mark)
            for key, item in source.items():
                result.setdefault(key, item)
    return {**result, **own}
