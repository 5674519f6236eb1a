"""Parse YAML into plain data, fast; reject duplicate keys, alias bombs and deep nesting.

Texts in a simple style have a faster parser, `block`. For other texts, the parser reads the events of libyaml, because
libyaml's composer recurses in C and loses duplicate keys. The result has no positions: `locate` parses the text again
for the few places that messages need.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType
from typing import Any, cast

import yaml
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from generator.documents.block import read_block
from generator.documents.conflicts import explain_by_marker, reject_conflict
from generator.documents.messages import format_value
from generator.documents.scalars import Resolver, Scalar
from generator.errors import DocumentError, Problem

Path = tuple[str | int, ...]

MAX_DEPTH = 128  # levels; the deepest upstream CRD nests about 60
MAX_NODES = 200_000  # with expanded aliases, in one stream; an alias bomb exceeds it within a few lines
_MAX_KEY = 2**63 - 1  # the largest numeric key
_CORE = "tag:yaml.org,2002:"
_STR = f"{_CORE}str"
_CONTAINER_TAGS = {"!", f"{_CORE}map", f"{_CORE}seq"}
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    f"{_CORE}bool": (bool,),
    f"{_CORE}int": (int,),
    f"{_CORE}float": (int, float),
    f"{_CORE}null": (NoneType,),
}
_ESCAPED_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")
_resolved = Resolver()


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document: its data, its index in the stream, and the 1-based line of its first node."""

    data: Any
    index: int
    line: int


def load(text: str | bytes) -> Iterator[Document]:
    """Yield every document of a stream.

    Raises:
        DocumentError: the text is not YAML that Kubernetes clients accept, or it is too large or too deep (MAX_NODES,
            MAX_DEPTH), or it has conflict markers of Git. The error has the line and column.
    """
    raw = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    blocks = read_block(raw)
    if blocks is not None:
        yield from (Document(data, index, line) for index, (data, line) in enumerate(blocks))
        return
    reject_conflict(raw)
    document = read_json(raw)
    if document is not None:
        yield document
        return
    try:
        yield from read_events(raw)
    except DocumentError as error:
        raise explain_by_marker(error, raw) from None


def load_file(text: str | bytes, file: object) -> list[Document]:
    """Return the documents of a file, without empty ones.

    Raises:
        DocumentError: as for `load`; each problem has the name of the file.
    """
    try:
        return [document for document in load(text) if document.data is not None]
    except DocumentError as error:
        raise DocumentError(tuple(replace(problem, file=str(file)) for problem in error.problems)) from None


def read_json(raw: bytes) -> Document | None:
    """Return the document of a JSON text with an object, in a fifth of the time that the events of libyaml take.

    Return None for any other text, which `read_events` then reads: also JSON with an error, with letters outside of
    ASCII, or with parts that libyaml reads in another way.
    """
    text = raw.strip()
    if not text.startswith(b"{") or not text.endswith(b"}") or not text.isascii() or _NOT_JSON.search(text):
        return None
    try:
        data = json.loads(
            text, object_pairs_hook=_unique, parse_int=_number, parse_float=_number, parse_constant=_number
        )
    except (ValueError, RecursionError):
        return None
    if _is_deep(data):
        return None
    return Document(data, 0, raw[: raw.index(b"{")].count(b"\n") + 1)


_LONGEST_KEY = 1024
"""The most characters of a key that is not after `?` (YAML 1.2.2, section 7.4.2)."""
_NOT_JSON = re.compile(rb"[\t\x7f]|\\u[dD]")
"""Characters and escapes that libyaml reads in another way than JSON."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping.

    Raises:
        ValueError: a key appears twice, or may be too long for YAML: JSON can write a character as up to 6.
    """
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice")
    if pairs and max(map(len, result)) > _LONGEST_KEY // 6:
        raise ValueError("a long key")
    return result


def _number(text: str) -> Scalar:
    """Return the number that a plain scalar has in YAML.

    Raises:
        ValueError: it is no number, or not finite.
    """
    value = _resolved[text]
    if isinstance(value, str) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("not a number in YAML")
    return value


def _is_deep(value: Any) -> bool:
    """Return True if a value is nested more than MAX_DEPTH levels deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]
    return bool(level)


def read_events(raw: bytes, *, keeps_last: bool = False) -> Iterator[Document]:
    """Yield every document of a stream, from the events of libyaml.

    Args:
        raw: the text.
        keeps_last: True to keep the last of several equal keys of a mapping, instead of an error.

    Raises:
        DocumentError: the text is not YAML that Kubernetes clients accept, or it is too large or too deep (MAX_NODES,
            MAX_DEPTH). The error has the line and column.
    """
    try:
        yield from _Builder(raw, keeps_last=keeps_last).documents()
        _reject_escaped_slash(raw)
    except yaml.MarkedYAMLError as error:
        raise not_yaml(error, raw) from None
    except yaml.reader.ReaderError as error:
        raise not_text(error, raw) from None


def _reject_escaped_slash(raw: bytes) -> None:
    r"""Reject the escape sequence `\/` of YAML 1.2 and JSON, except in a stream of JSON.

    libyaml accepts the sequence. Source: sigs.k8s.io/yaml v1.4.0 goyaml.v2/scannerc.go
    yaml_parser_scan_flow_scalar; kustomize reads with go.yaml.in/yaml/v3, which rejects the sequence too.

    Raises:
        DocumentError: a double-quoted string has the sequence.
    """
    if b"\\/" not in raw or raw.lstrip().startswith(b"{"):
        return
    text = raw.decode()
    for event in yaml.parse(raw, yaml.CSafeLoader):
        if isinstance(event, ScalarEvent) and event.style == '"':
            start, end = (cast("yaml.Mark", mark) for mark in (event.start_mark, event.end_mark))
            if _ESCAPED_SLASH.search(text[start.index : end.index]):
                message = "Kubernetes clients reject the escape sequence `\\/` in a double-quoted string"
                raise error_at(message, "write `/` without the backslash", start)


class _Builder:
    """A builder of the data of one event stream.

    Attributes:
        anchors: name → the value, its number of nodes and its depth; None while the value is still being read.
        nodes: the number of nodes of the document so far, with expanded aliases.
        expanded: the number of nodes from aliases in the stream so far.
        deepest: the deepest level of the innermost anchored value that is still being read, or of the document.
        keeps_last: True to keep the last of several equal keys.
    """

    __slots__ = ("anchors", "deepest", "expanded", "keeps_last", "next_event", "nodes")

    def __init__(self, raw: bytes, *, keeps_last: bool = False) -> None:
        self.keeps_last = keeps_last
        self.next_event: Callable[[], Any] = yaml.CSafeLoader(raw).get_event
        self.anchors: dict[str, tuple[Any, int, int] | None] = {}
        self.nodes = 0
        self.expanded = 0
        self.deepest = 0

    def documents(self) -> Iterator[Document]:
        """Yield the documents of the stream.

        Raises:
            DocumentError: the stream is not YAML that Kubernetes clients accept.
        """
        index = 0
        self.next_event()  # the start of the stream
        while type(start := self.next_event()) is not StreamEndEvent:  # else the start of a document
            if start.version not in (None, (1, 1)):
                raise error_at("Kubernetes clients reject this `%YAML` version", "remove the line", start.start_mark)
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
        return _scalar(event) if kind is ScalarEvent else self._value(event, kind, depth)

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
        while type(event := next_event()) is ScalarEvent:
            key = event.value
            if event.implicit[0] and key == "<<":
                if inherited is not None:
                    raise _repeated("`<<`", "merge several mappings with one list, such as `<<: [*a, *b]`", event)
                inherited = _inherited(self._node(next_event(), depth), result, event.start_mark)
                continue
            if event.tag is not None or (event.implicit[0] and type(_resolved[key]) is not str):
                key = key_text(event)
            if event.anchor is not None:
                self.anchors[event.anchor] = (event.value, 1, 0)
            if key in result and not self.keeps_last:
                raise _repeated(format_value(key), "remove one of the two keys", event)
            value = next_event()
            result[key] = self._node(value, depth)
        _expect_end(event)
        return result if inherited is None else {**inherited, **result}

    def _sequence(self, depth: int) -> list[Any]:
        result: list[Any] = []
        while type(event := self.next_event()) is not SequenceEndEvent:
            result.append(self._node(event, depth))
        return result

    def _reach(self, event: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise error_at(f"nested more than {MAX_DEPTH} levels deep", "reduce the nesting", event.start_mark)
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
            raise error_at(
                f"the alias {format_value(f'*{name}')} refers to no anchor above it",
                "define it with `&` first",
                event.start_mark,
            )
        anchored = self.anchors[name]
        if anchored is None:
            raise error_at(
                f"the alias {format_value(f'*{name}')} refers to the value that contains it",
                "write the value out",
                event.start_mark,
            )
        value, size, levels = anchored
        self._reach(event, depth + levels)
        self.nodes += size
        self.expanded += size
        if self.expanded > MAX_NODES:
            raise error_at(
                f"the aliases expand to more than {MAX_NODES:,} nodes", "write the values out", event.start_mark
            )
        return value


def _expect_end(event: Any) -> None:
    if type(event) is not MappingEndEvent:
        fix = "write a plain string, and quote a string with brackets"
        raise error_at("a key must be a string", fix, event.start_mark)


def _repeated(key: str, fix: str, event: Any) -> DocumentError:
    return error_at(f"the key {key} appears twice in this mapping", fix, event.start_mark)


def _scalar(event: Any) -> Scalar:
    value = _resolved[event.value] if event.implicit[0] else _explicit(event)
    if type(value) is float and not math.isfinite(value):
        raise error_at(
            f"{format_value(event.value)} is not a number in JSON",
            "put it in quotes if it is a string",
            event.start_mark,
        )
    return value


def _explicit(event: Any) -> Scalar:
    """Return the value of a quoted or tagged scalar: a string, or the type of a tag such as `!!int`.

    Raises:
        DocumentError: the tag is not supported, or the value does not fit it.
    """
    if event.tag is None or event.tag in (_STR, "!"):
        return str(event.value)
    if event.tag not in _SCALAR_TAGS:
        raise _foreign(event)
    value = _resolved[event.value]
    if type(value) not in _SCALAR_TAGS[event.tag]:
        tag = event.tag.replace(_CORE, "!!")
        raise error_at(
            f"{format_value(event.value)} is not a value of its tag `{tag}`", "remove the tag", event.start_mark
        )
    return value


def _foreign(event: Any) -> DocumentError:
    tag = event.tag.replace(_CORE, "!!")
    return error_at(f"the tag {format_value(tag)} is not allowed", "remove it", event.start_mark)


def key_text(event: Any) -> str:
    """Return a key as a string; other scalars are converted as in sigs.k8s.io/yaml `convertToJSONableObject`.

    Raises:
        DocumentError: the key is empty or null, or a number whose spelling Go changes.
    """
    value = _scalar(event)
    if value is None:
        raise error_at("a key is empty or null", "give the key a name", event.start_mark)
    if isinstance(value, bool):
        return str(value).lower()
    if _is_rewritten(value, event.value):
        raise error_at(
            f"the key {format_value(event.value)} is a number, whose spelling Kubernetes clients change",
            "put it in quotes",
            event.start_mark,
        )
    return str(event.value if isinstance(value, float) else value)


def _is_rewritten(key: Scalar, text: str) -> bool:
    """Return True if Go rewrites a numeric key: a float of over six digits (`%g`), an integer over 63 bits."""
    if isinstance(key, float):
        return text != f"{key:.6g}"
    return isinstance(key, int) and key > _MAX_KEY


def _inherited(value: Any, before: dict[str, Any], mark: Any) -> dict[str, Any]:
    """Return the keys that `<<` merges into a mapping. Earlier sources override later sources; own keys override both.

    In goyaml.v2, unlike in other parsers, a source overrides own keys above `<<`, so such keys are rejected.
    """
    result: dict[str, Any] = {}
    for source in value if isinstance(value, list) else [value]:
        if not isinstance(source, dict):
            raise error_at("`<<` merges mappings only", "refer to a mapping", mark)
        for key, item in source.items():
            if key in before:
                message = f"`<<` sets {format_value(key)}, which a line above it sets"
                raise error_at(message, "write `<<` before the keys that override it", mark)
            result.setdefault(key, item)
    return result


_UNCLOSED_QUOTE = "found unexpected end of stream", "found unexpected document indicator"


@cache
def read_problems() -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Read two tables: a problem of libyaml → (message, fix), and a word in a rarer problem → fix."""
    text = pathlib.Path(__file__).with_name("yaml_problems.yaml").read_bytes()
    table = yaml.load(text, yaml.CSafeLoader)
    return {row["problem"]: (row["message"], row["fix"]) for row in table["problems"]}, table["rare"]


def error_at(message: str, fix: str, mark: Any) -> DocumentError:
    """Return the error at a position (`mark`) of libyaml."""
    return DocumentError((Problem(message, fix, line=mark.line + 1, column=mark.column + 1),))


_QUOTED = r"""(?P<key>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,{}"']+)\s*$"""
_KEY_IN_BRACES, _KEY_OF_LINE = re.compile(rf"[{{,]\s*{_QUOTED}"), re.compile(rf"^\s*(?:- +)*{_QUOTED}")


def _length_before(text: str, mark: Any, *, is_flow: bool) -> int:
    """Return the number of characters of the key before a `:`, with its quotes; 0 if no key can be there."""
    match = (_KEY_IN_BRACES if is_flow else _KEY_OF_LINE).search(text[mark.index - mark.column : mark.index])
    return len(match["key"]) if match else 0


def not_yaml(error: yaml.MarkedYAMLError, raw: bytes) -> DocumentError:
    """Return the error for a text that libyaml cannot scan or parse."""
    mark: Any = error.problem_mark or error.context_mark
    start: Any = error.context_mark or mark
    problem = str(error.problem)
    text = raw.decode(errors="replace")
    character = text[mark.index : mark.index + 1]
    if character == "\t" or "tab character" in problem:
        return error_at("a tab is not allowed here, because YAML indents with spaces", "indent with spaces", mark)
    length = _length_before(text, mark, is_flow="',' or" in problem) if character == ":" else 0
    if length > _LONGEST_KEY:
        message = f"the key before this `:` has {length} characters, and YAML allows {_LONGEST_KEY}"
        return error_at(message, "shorten the key", mark)
    written = text.rstrip()
    end = yaml.Mark("", len(written), written.count("\n"), len(written.rpartition("\n")[2]), text, len(written))
    message, fix = read_problems()[0].get(problem) or _rare_problem(problem, str(error.context or ""))
    if mark.index >= len(written):
        if "node content" in problem:
            message, fix = "the document ends before this bracket is closed", "close it"
        mark = start if start.index < len(written) else end
    elif problem in _UNCLOSED_QUOTE:
        mark = start
    return error_at(message.format(start=start.line + 1, character=character), fix, mark)


def _rare_problem(problem: str, context: str) -> tuple[str, str]:
    """Return the message and the fix for a rare problem of libyaml."""
    problem = f"{context}, {problem}" if context else problem
    fixes = (fix for word, fix in read_problems()[1].items() if word in problem)
    message = f"invalid YAML: {problem}".replace("{", "{{").replace("}", "}}")
    return message, next(fixes, "quote a string with special characters")


def not_text(error: yaml.reader.ReaderError, raw: bytes) -> DocumentError:
    """Return the error for bytes that are not UTF-8, or characters that YAML forbids."""
    try:
        raw.decode()
    except UnicodeDecodeError as wrong:
        offset, message, fix = wrong.start, f"the byte 0x{raw[wrong.start]:02X} is not UTF-8", "save the file as UTF-8"
    else:
        offset, message = error.position, f"control character U+{error.character:04X} is not allowed"
        fix = f'remove it, or write it as "\\u{error.character:04x}"' if error.character else "save the file as UTF-8"
    before = raw[:offset]
    column = len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1
    return DocumentError((Problem(message, fix, line=before.count(b"\n") + 1, column=column),))
