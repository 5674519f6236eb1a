"""Plain data → the YAML that people would write: what is short stands on one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yaml import events

from generator.documents.emit import Emitter
from generator.documents.scalars import is_plain_safe

_WIDEST = 110  # letters, quotes included
_ONE_LINE_MAPPING = events.MappingStartEvent(None, None, implicit=True, flow_style=True)
_MAPPING_END = events.MappingEndEvent()
_ONE_LINE_SEQUENCE = events.SequenceStartEvent(None, None, implicit=True, flow_style=True)
_SEQUENCE_END = events.SequenceEndEvent()


class BriefEmitter(Emitter):
    """Writes on one line what fits there: a list of words, and a mapping without a list in it."""

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
            write(_MAPPING_END)
        elif isinstance(value, list | tuple):
            write(_ONE_LINE_SEQUENCE)
            for item in value:
                self._one_line(item, write)
            write(_SEQUENCE_END)
        elif isinstance(value, str) and not (is_plain_safe(value) and ":" not in value):
            # libyaml takes no `:` in an unquoted text between brackets, and would quote it with a tag.
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
    return bool(value) and all(map(_is_word, parts)) and len(repr(value)) <= _WIDEST


def _is_word(part: object) -> bool:
    return not isinstance(part, Mapping | list | tuple) and "\n" not in str(part)
