"""Find the lines and columns of the keys of a TOML text, because `tomllib` does not report them."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any

_HEADER = re.compile(r"\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?")
_PAIR = re.compile(
    r"""\s*(?P<key>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=(?P<value>.*)"""
)
_Path = tuple[str | int, ...]


class TomlPlaces:
    """The lines and columns of the keys of a valid TOML text.

    Args:
        text: the text.
        prefix: the table that paths are relative to.
    """

    def __init__(self, text: str, prefix: _Path) -> None:
        self._lines = text.splitlines()
        self._places = {path[len(prefix) :]: place for path, place in self._walk() if path[: len(prefix)] == prefix}

    def find(self, path: _Path) -> tuple[int, int]:
        """Return the 1-based line and column of a key or table; for a missing key, of its nearest table."""
        nearest = path
        while nearest and nearest not in self._places:
            nearest = nearest[:-1]
        return self._places.get(nearest, (1, 1))

    def _walk(self) -> Iterator[tuple[_Path, tuple[int, int]]]:
        table: _Path = ()
        counts: Counter[_Path] = Counter()
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            column = len(line) - len(line.lstrip()) + 1
            if pair := _PAIR.fullmatch(line):
                path = (*table, *_keys(pair["key"]))
                value, end = self._value(pair["value"], number)
                yield path, (number + 1, column)
                yield from self._items(path, value, number, end)
                number = end
            elif header := _HEADER.fullmatch(line):
                table = _keys(header[2])
                table = tuple(
                    step for part in self._numbered(table, counts, is_list=header[1] == "[[") for step in part
                )
                yield table, (number + 1, column)
            number += 1

    @staticmethod
    def _numbered(keys: _Path, counts: Counter[_Path], *, is_list: bool) -> Iterator[_Path]:
        """Yield the keys of a table header, with the index of the newest item after the name of each list of tables."""
        for length in range(1, len(keys) + 1):
            name = keys[:length]
            if is_list and length == len(keys):
                counts[name] += 1
            yield (keys[length - 1], counts[name] - 1) if counts[name] else (keys[length - 1],)

    def _value(self, begun: str, number: int) -> tuple[Any, int]:
        """Return a value and the number of its last line.

        Args:
            begun: the text of the value in its first line.
            number: the number of that line.
        """
        for end in range(number, len(self._lines)):
            text = "\n".join([begun, *self._lines[number + 1 : end + 1]])
            try:
                return tomllib.loads(f"value ={text}")["value"], end
            except tomllib.TOMLDecodeError:
                continue
        return None, number

    def _items(self, path: _Path, value: Any, start: int, end: int) -> Iterator[tuple[_Path, tuple[int, int]]]:
        """Yield (path, (line, column)) of each string in a list of strings: its first occurrence in the text."""
        for index, item in enumerate(value if isinstance(value, list) else ()):
            for number in range(start, end + 1):
                column = self._lines[number].find(item) if isinstance(item, str) and item else -1
                if column >= 0:
                    yield (*path, index), (number + 1, column + 1)
                    break


def _keys(text: str) -> _Path:
    """Return the parts of a dotted key: `a."b.c"` → `("a", "b.c")`."""
    data: Any = tomllib.loads(f"{text} = 0")
    keys = []
    while isinstance(data, dict):
        ((key, data),) = data.items()
        keys.append(key)
    return tuple(keys)
