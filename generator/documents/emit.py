"""Write plain data as YAML: deterministic bytes that every YAML parser reads alike."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from yaml import CSafeDumper, events

from generator.documents.scalars import MAX_INTEGER, MIN_INTEGER, is_plain_safe

_UNFOLDED = 2**31 - 1  # columns; lines are never folded, which keeps diffs small
_DOCUMENT_START = events.DocumentStartEvent(explicit=True)
_DOCUMENT_END = events.DocumentEndEvent()
_MAPPING_START = events.MappingStartEvent(None, None, implicit=True, flow_style=False)
_MAPPING_END = events.MappingEndEvent()
_SEQUENCE_START = events.SequenceStartEvent(None, None, implicit=True, flow_style=False)
_SEQUENCE_END = events.SequenceEndEvent()


class Emitter:
    """A writer of YAML documents. It caches scalar events, because manifests repeat their strings."""

    def __init__(self) -> None:
        self._strings: dict[str, events.ScalarEvent] = {}

    def emit(self, documents: Iterable[Mapping[str, Any]]) -> str:
        """Return all documents as one text. Each starts with `---` and keeps the order of its keys.

        Raises:
            TypeError: a value has no YAML form that every parser reads alike.
        """
        stream = io.StringIO()
        emitter = CSafeDumper(stream, allow_unicode=True, width=_UNFOLDED)
        write: Callable[[events.Event], None] = emitter.emit
        write(events.StreamStartEvent(encoding="utf-8"))
        for document in documents:
            write(_DOCUMENT_START)
            self._node(document, write)
            write(_DOCUMENT_END)
        write(events.StreamEndEvent())
        return stream.getvalue()

    def _node(self, value: Any, write: Any) -> None:
        if isinstance(value, str):
            write(self._strings.get(value) or self._string(value))
        elif isinstance(value, Mapping):
            write(_MAPPING_START)
            for key, item in value.items():
                write(self._strings.get(key) or self._string(key))
                self._node(item, write)
            write(_MAPPING_END)
        elif isinstance(value, list | tuple):
            write(_SEQUENCE_START)
            for item in value:
                self._node(item, write)
            write(_SEQUENCE_END)
        else:
            write(_plain(_literal(value)))

    def _string(self, text: str) -> events.ScalarEvent:
        if not isinstance(text, str):
            raise TypeError(f"a key must be a string, not {text!r}")
        if is_plain_safe(text):
            event = _plain(text)
        elif any("\ud800" <= letter <= "\udfff" for letter in text):
            raise TypeError(f"{text!r} contains half of a surrogate pair")
        else:
            event = events.ScalarEvent(None, None, (False, True), text, style="|" if _is_block(text) else '"')
        self._strings[text] = event
        return event


def _plain(text: str) -> events.ScalarEvent:
    return events.ScalarEvent(None, None, (True, False), text)


def _literal(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise TypeError(f"{value} does not fit into 64 bits")
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return _float(value)
    raise TypeError(f"{value!r} has no form in JSON")


def _float(value: float) -> str:
    text = repr(value)
    mantissa, exponent_mark, exponent = text.partition("e")
    if not exponent_mark:
        return text
    # YAML 1.1 requires a dot and a signed exponent in a float.
    dotted = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{dotted}e{exponent if exponent[0] in '+-' else '+' + exponent}"


def _is_block(text: str) -> bool:
    """Return True if a literal block preserves a text: several printable lines, without blanks at their ends."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and text.replace("\n", "").isprintable()
        and text[0] not in " \n"
        and not any(line.endswith(" ") for line in lines)
    )


_MAX_WIDTH = 110  # characters, including quotes
_ONE_LINE_MAPPING = events.MappingStartEvent(None, None, implicit=True, flow_style=True)
_BRIEF_MAPPING_END = events.MappingEndEvent()
_ONE_LINE_SEQUENCE = events.SequenceStartEvent(None, None, implicit=True, flow_style=True)
_BRIEF_SEQUENCE_END = events.SequenceEndEvent()


class BriefEmitter(Emitter):
    """An emitter that writes short lists of scalars, and short mappings without lists, on one line."""

    def _node(self, value: Any, write: Any) -> None:
        if _is_brief(value):
            self._one_line(value, write)
        else:
            super()._node(value, write)

    def _one_line(self, value: Any, write: Any) -> None:
        if isinstance(value, Mapping):
            write(_ONE_LINE_MAPPING)
            for key, item in value.items():
                self._one_line(key, write)
                self._one_line(item, write)
            write(_BRIEF_MAPPING_END)
        elif isinstance(value, list | tuple):
            write(_ONE_LINE_SEQUENCE)
            for item in value:
                self._one_line(item, write)
            write(_BRIEF_SEQUENCE_END)
        elif isinstance(value, str) and not (is_plain_safe(value) and ":" not in value):
            # libyaml rejects `:` in a plain scalar between brackets, and would add a tag.
            write(events.ScalarEvent(None, None, (False, True), value, style='"'))
        else:
            super()._node(value, write)


def _is_brief(value: object) -> bool:
    if isinstance(value, Mapping):
        parts = [*value, *(item for item in value.values() if not (isinstance(item, Mapping) and _is_brief(item)))]
    elif isinstance(value, list | tuple):
        parts = list(value)
    else:
        return False
    return bool(value) and all(map(_is_word, parts)) and len(repr(value)) <= _MAX_WIDTH


def _is_word(part: object) -> bool:
    return not isinstance(part, Mapping | list | tuple) and "\n" not in str(part)
