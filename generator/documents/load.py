"""YAML text → plain data, fast, with duplicate keys, bombs and bottomless nesting refused.

Built on libyaml's event stream, which unlike its composer neither recurses in C nor loses duplicate keys. Positions are
not kept while loading: `locate` walks the text again for the few places that a message needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from generator.documents.scalars import Resolver, Scalar
from generator.documents.syntax import not_text, not_yaml, shown, unreadable
from generator.errors import DocumentError

Path = tuple[str | int, ...]

MAX_DEPTH = 128  # levels; the deepest upstream CRD nests about 60
MAX_NODES = 200_000  # that the aliases of one stream may expand to; an alias bomb passes it within a few lines
_MAX_KEY = 2**63 - 1  # of a key that is a number
_CORE = "tag:yaml.org,2002:"
_STR = f"{_CORE}str"
_CONTAINER_TAGS = {"!", f"{_CORE}map", f"{_CORE}seq"}
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    f"{_CORE}bool": (bool,),
    f"{_CORE}int": (int,),
    f"{_CORE}float": (int, float),
    f"{_CORE}null": (NoneType,),
}
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
    raw = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    try:
        yield from _Builder(raw).documents()
    except yaml.MarkedYAMLError as error:
        raise not_yaml(error, raw) from None
    except yaml.reader.ReaderError as error:
        raise not_text(error, raw) from None


class _Builder:
    """Builds the data of one event stream.

    Attributes:
        anchors: name → value, its nodes and its levels; None while the value is still being read.
        nodes: of the document so far, aliases expanded.
        expanded: nodes that aliases brought into the stream so far.
        deepest: the deepest level of the innermost anchored value that is still being read, or of the document.
    """

    __slots__ = ("anchors", "deepest", "expanded", "next_event", "nodes")

    def __init__(self, raw: bytes) -> None:
        self.next_event: Callable[[], Any] = yaml.CSafeLoader(raw).get_event
        self.anchors: dict[str, tuple[Any, int, int] | None] = {}
        self.nodes = 0
        self.expanded = 0
        self.deepest = 0

    def documents(self) -> Iterator[Document]:
        index = 0
        self.next_event()  # the start of the stream
        while type(start := self.next_event()) is not StreamEndEvent:  # else the start of a document
            if start.version not in (None, (1, 1)):
                raise unreadable(
                    "a `%YAML` version that clients of Kubernetes refuse", "remove the line", start.start_mark
                )
            self.anchors, self.nodes, self.deepest = {}, 0, 0
            first = self.next_event()
            yield Document(self._node(first, 0), index, first.start_mark.line + 1)
            self.next_event()  # the end of the document
            index += 1

    def _node(self, event: Any, depth: int) -> Any:
        kind = type(event)
        if kind is AliasEvent:
            return self._alias(event, depth)
        if event.anchor is not None:
            return self._anchored(event, kind, depth)
        return self._value(event, kind, depth)

    def _value(self, event: Any, kind: type, depth: int) -> Any:
        if kind is ScalarEvent:
            return _scalar(event)
        self._enter(event, depth + 1)
        value: Any = (self._mapping if kind is MappingStartEvent else self._sequence)(depth + 1)
        self.nodes += 1 + len(value)
        return value

    def _anchored(self, event: Any, kind: type, depth: int) -> Any:
        nodes, deepest, self.deepest = self.nodes, self.deepest, depth
        value = self._value(event, kind, depth)
        self.anchors[event.anchor] = (value, self.nodes - nodes, self.deepest - depth)
        self.deepest = max(deepest, self.deepest)
        return value

    def _mapping(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        inherited: dict[str, Any] | None = None
        next_event = self.next_event
        while type(event := next_event()) is not MappingEndEvent:
            if type(event) is not ScalarEvent:
                raise unreadable(
                    "a key that is not a text",
                    "write a plain string, and put a text with brackets in quotes",
                    event.start_mark,
                )
            key = event.value
            if event.implicit[0] and key == "<<":
                if inherited is not None:
                    raise unreadable("the key `<<` is written twice", "give one of them a list", event.start_mark)
                inherited = _inherited(self._node(self.next_event(), depth), result, event.start_mark)
                continue
            if event.tag is not None or (event.implicit[0] and type(_resolved[key]) is not str):
                key = key_text(event)
            if event.anchor is not None:
                self.anchors[event.anchor] = (event.value, 1, 0)
            if key in result:
                raise unreadable(f"the key {shown(key)} is written twice", "keep one of the two", event.start_mark)
            value = next_event()
            is_plain = type(value) is ScalarEvent and value.anchor is None
            result[key] = _scalar(value) if is_plain else self._node(value, depth)
        return {**inherited, **result} if inherited else result

    def _sequence(self, depth: int) -> list[Any]:
        result: list[Any] = []
        while type(event := self.next_event()) is not SequenceEndEvent:
            result.append(self._node(event, depth))
        return result

    def _reach(self, event: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise unreadable(f"nested more than {MAX_DEPTH} levels deep", "flatten it", event.start_mark)
        self.deepest = max(self.deepest, depth)

    def _enter(self, event: Any, depth: int) -> None:
        self._reach(event, depth)
        if event.tag is not None and event.tag not in _CONTAINER_TAGS:
            raise _foreign(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = None

    def _alias(self, event: Any, depth: int) -> Any:
        name = event.anchor
        if name not in self.anchors:
            raise unreadable(
                f"the alias {shown(f'*{name}')} has no anchor before it", "define it with `&` first", event.start_mark
            )
        anchored = self.anchors[name]
        if anchored is None:
            raise unreadable(
                f"the alias {shown(f'*{name}')} stands inside what it names", "write the value out", event.start_mark
            )
        value, size, levels = anchored
        self._reach(event, depth + levels)
        self.nodes += size
        self.expanded += size
        if self.expanded > MAX_NODES:
            raise unreadable(
                f"aliases expand to more than {MAX_NODES:,} nodes", "write the values out", event.start_mark
            )
        return value


def _scalar(event: Any) -> Scalar:
    value = _resolved[event.value] if event.implicit[0] else _explicit(event)
    if type(value) is float and not math.isfinite(value):
        raise unreadable(
            f"{shown(event.value)} is a number that JSON does not have", "put a text in quotes", event.start_mark
        )
    return value


def _explicit(event: Any) -> Scalar:
    """A quoted or tagged scalar: a string, unless a core tag says otherwise."""
    if event.tag is None or event.tag in (_STR, "!"):
        return str(event.value)
    if event.tag not in _SCALAR_TAGS:
        raise _foreign(event)
    value = _resolved[event.value]
    if type(value) not in _SCALAR_TAGS[event.tag]:
        tag = event.tag.replace(_CORE, "!!")
        raise unreadable(f"{shown(event.value)} is not what its tag `{tag}` says", "remove the tag", event.start_mark)
    return value


def _foreign(event: Any) -> DocumentError:
    tag = event.tag.replace(_CORE, "!!")
    return unreadable(f"the tag {shown(tag)} has no place in a manifest", "remove it", event.start_mark)


def key_text(event: Any) -> str:
    """A key as text; one that is not a string becomes one, as in sigs.k8s.io/yaml `convertToJSONableObject`."""
    value = _scalar(event)
    if value is None:
        raise unreadable("an empty or null key", "give the key a name", event.start_mark)
    if isinstance(value, bool):
        return str(value).lower()
    if _is_rewritten(value, event.value):
        raise unreadable(
            f"the key {shown(event.value)} is a number that clients rewrite", "put it in quotes", event.start_mark
        )
    return str(event.value if isinstance(value, float) else value)


def _is_rewritten(key: Scalar, text: str) -> bool:
    """Go writes float keys with `%g` for 32 bits: six digits are safe. It has no form for integers beyond 63 bits."""
    if isinstance(key, float):
        return text != f"{key:.6g}"
    return isinstance(key, int) and key > _MAX_KEY


def _inherited(value: Any, before: dict[str, Any], mark: Any) -> dict[str, Any]:
    """What `<<` brings into a mapping: earlier sources win over later ones, the mapping's own keys over all.

    goyaml.v2 lets the source win over keys that stand before it, other readers do not: such keys are refused.
    """
    result: dict[str, Any] = {}
    for source in value if isinstance(value, list) else [value]:
        if not isinstance(source, dict):
            raise unreadable("`<<` merges mappings only", "point it at a mapping", mark)
        for key, item in source.items():
            if key in before:
                what = f"`<<` brings {shown(key)}, which stands above it"
                raise unreadable(what, "write `<<` before the keys that override it", mark)
            result.setdefault(key, item)
    return result
