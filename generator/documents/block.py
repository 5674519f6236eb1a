"""Parse block-style YAML in a third of the time that the events of libyaml take.

mpigen writes this style, and most manifests use it: ASCII text, block mappings and sequences, plain keys, and scalars
on one line or in a literal block. `read_block` leaves every other text to libyaml, also each text with an error, so
both parsers give the same documents. `tests/unit/test_documents_block.py` compares them on random texts.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import Any, NamedTuple

from generator.documents.scalars import Resolver, Scalar

_KEY = r"[A-Za-z_$/](?:[A-Za-z0-9_./$-]|:(?=[A-Za-z0-9])){0,250}"
_PLAIN = r"(?:[A-Za-z0-9_/.+$(^<=~]|-(?=[!-~]))(?:[!-9;-~]|:(?=[!-~])| +(?=[!\"$-9;-~]))*"
_DOUBLE = r"\"(?:[ !#-\[\]-~]|\\[\"\\nt])*\""
_SINGLE = r"'(?:[ -&(-~]|'')*'"
_LINE = re.compile(
    rf"(?P<dashes>(?:- )*)(?:(?P<key>{_KEY}):(?: +|$))?"
    rf"(?:(?P<plain>{_PLAIN})|(?P<double>{_DOUBLE})|(?P<single>{_SINGLE})|(?P<empty>\{{\}}|\[\])|(?P<literal>\|-?))?"
    r"(?: +#[ -~]*)? *"
)
_MAX_DEPTH = 60  # levels; `load` accepts more, and rejects too many
_MEMO_LIMIT = 50_000  # lines; a bound on memory for streams without repetition
_LONGEST_LINE = 200  # letters; longer lines rarely repeat


class _Line(NamedTuple):
    """A line without its indentation.

    Attributes:
        dashes: the number of sequence items that it starts.
        key: the key; empty if the line has only a value.
        has_value: False if the value is a mapping or sequence on the next lines, or absent.
        value: the scalar.
        opens: `|` or `|-` before a literal block, `{}` or `[]` for an empty collection; else empty.
    """

    dashes: int
    key: str
    has_value: bool
    value: Scalar
    opens: str


_IGNORED = _Line(0, "", False, None, "")
_lines: dict[str, _Line] = {"": _IGNORED}
_resolved = Resolver()


def read_block(raw: bytes) -> list[tuple[dict[str, Any], int]] | None:
    """Return the documents of a stream, each a mapping with the 1-based line of its first key.

    Return None if the stream needs a complete parser, or may have an error.
    """
    if not raw.isascii():
        return None
    try:
        return _Blocks(raw.decode("ascii").split("\n")).read()
    except _NotBlockError:
        return None


_FIRST_FIELD = re.compile(rb"  [A-Za-z]")
_SECTION = re.compile(rb"\n(?=  [A-Za-z])")
_ROOT_KEY = re.compile(rb"\n[^ \n]")
_LONGEST_SECTION = 10_000  # bytes; a bound on memory, together with the number of sections


def read_sections(raw: bytes) -> dict[str, Any] | None:
    """Return the document of a text that ends with `spec`, in a quarter of the time of `read_block` if texts repeat.

    Objects of one kind repeat most fields of their `spec`. So each field is parsed once, and all documents share its
    value: callers must not change it.

    Return None if the text has no such document, needs a complete parser, or may have an error.
    """
    head, key, spec = raw.partition(b"\nspec:\n")
    if not (key and _FIRST_FIELD.match(spec) and raw.isascii()) or _ROOT_KEY.search(spec):
        return None
    documents = read_block(head + b"\n")  # a literal block before `spec` ends with a newline
    sections = [_read_section(text) if len(text) < _LONGEST_SECTION else None for text in _SECTION.split(spec)]
    if documents is None or len(documents) != 1 or not all(sections):
        return None
    root = documents[0][0]
    fields = {name: value for section in sections if section for name, value in section.items()}
    return None if "spec" in root or len(fields) != len(sections) else {**root, "spec": fields}


@lru_cache(maxsize=2048)
def _read_section(text: bytes) -> dict[str, Any] | None:
    """Return the mapping with one field of a `spec`, or None."""
    documents = read_block(b"spec:\n%b\n" % text)
    if documents is None or len(documents) != 1:
        return None
    (fields,) = documents[0][0].values()
    return fields if isinstance(fields, dict) and len(fields) == 1 else None


class _NotBlockError(Exception):
    """A text that this parser does not read."""


class _Blocks:
    """A parser of the lines of a stream.

    Attributes:
        position: the index of the next line.
        container: the innermost mapping or sequence that the next line can continue.
        column: the column of its lines.
        around: the containers around it, each with its column.
        key: the key of `container` whose value is on the next lines; None if there is none.
    """

    __slots__ = ("around", "column", "container", "key", "lines", "position")

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.position = 0
        self._start({})

    def _start(self, root: dict[str, Any]) -> None:
        self.container: Any = root
        self.column = 0
        self.around: list[tuple[int, Any]] = []
        self.key: str | None = None

    def read(self) -> list[tuple[dict[str, Any], int]]:
        """Return the documents of the stream, each with the 1-based line of its first key.

        Raises:
            _NotBlockError: a line is in another style, or its indentation does not fit.
        """
        documents: list[tuple[dict[str, Any], int]] = []
        is_open = False  # after `---`
        while self._skip():
            if self.lines[self.position] == "---":
                if is_open:  # an empty document
                    raise _NotBlockError
                is_open = True
                self.position += 1
                continue
            line = self.position + 1
            documents.append((self._document(), line))
            is_open = False
        if is_open:
            raise _NotBlockError
        return documents

    def _skip(self) -> bool:
        """Skip empty lines and comments; return False at the end of the stream."""
        while self.position < len(self.lines):
            text = self.lines[self.position]
            if text == "---" or _parse(text.lstrip(" ")) is not _IGNORED:
                return True
            self.position += 1
        return False

    def _document(self) -> dict[str, Any]:
        """Return the mapping that starts at this line, and stop at `---` or at the end of the stream."""
        root: dict[str, Any] = {}
        self._start(root)
        lines, end = self.lines, len(self.lines)
        while self.position < end:
            text = lines[self.position]
            if text == "---":
                break
            self.position += 1
            rest = text.lstrip(" ")
            line = _lines.get(rest) or _parse(rest)
            if line is _IGNORED:
                continue
            column = len(text) - len(rest)
            if column != self.column or line.dashes or self.key is not None or type(self.container) is list:
                self._enter(column, line.dashes, is_item=not line.key)
            name = line.key
            if not name:
                self.container.append(line.value if not line.opens else self._opened(line.opens))
            elif name in self.container:
                raise _NotBlockError
            elif line.has_value:
                self.container[name] = line.value if not line.opens else self._opened(line.opens)
            else:
                self.key = name
        if self.key is not None:
            self.container[self.key] = None
        return root

    def _enter(self, column: int, dashes: int, *, is_item: bool) -> None:
        """Make the mapping or sequence of the next line the current one: one that is open, or a new one."""
        if self.key is not None:
            if column > self.column or (dashes and column == self.column):
                self._open(self.key, [] if dashes else {}, column)
            else:
                self.container[self.key] = None
            self.key = None
        while column < self.column or (not dashes and column == self.column and type(self.container) is list):
            if not self.around:
                raise _NotBlockError
            self.column, self.container = self.around.pop()
        if column != self.column or (type(self.container) is list) is not (dashes > 0):
            raise _NotBlockError
        for number in range(dashes - is_item, 0, -1):
            self._open(None, {} if number == 1 and not is_item else [], self.column + 2)

    def _open(self, key: str | None, inner: Any, column: int) -> None:
        """Add a container at a key, or as the next item of a sequence, and make it the current one."""
        if key is None:
            self.container.append(inner)
        else:
            self.container[key] = inner
        self.around.append((self.column, self.container))
        self.container, self.column = inner, column
        if len(self.around) > _MAX_DEPTH:
            raise _NotBlockError

    def _opened(self, opens: str) -> Any:
        return self._literal(opens, self.column) if opens[0] == "|" else {} if opens == "{}" else []

    def _literal(self, style: str, column: int) -> str:
        """Return the text of the literal block below a key in this column, without its last line break for `|-`."""
        lines, first = self.lines, self.position
        if first >= len(lines):
            raise _NotBlockError
        indent = len(lines[first]) - len(lines[first].lstrip(" "))
        if indent <= column or len(lines[first]) == indent:
            raise _NotBlockError
        margin = lines[first][:indent]
        while self.position < len(lines):
            line = lines[self.position]
            if line.isspace():
                raise _NotBlockError
            if line and not line.startswith(margin):
                break
            self.position += 1
        content = "\n".join(line[indent:] for line in lines[first : self.position]).rstrip("\n")
        if not (content + "x").replace("\n", "").isprintable():  # a tab, or a carriage return
            raise _NotBlockError
        is_cut = self.position == len(lines) and lines[-1] != ""  # the stream ends without a line break
        return content if style == "|-" or is_cut else content + "\n"


def _parse(text: str) -> _Line:
    """Return a line without its indentation, from the cache if possible.

    Raises:
        _NotBlockError: the line is in another style.
    """
    line = _lines.get(text) or _parse_new(text)
    if len(_lines) < _MEMO_LIMIT and len(text) <= _LONGEST_LINE:
        _lines[text] = line
    return line


def _parse_new(text: str) -> _Line:
    if text[0] == "#":
        if not text.isprintable():
            raise _NotBlockError
        return _IGNORED
    match = _LINE.fullmatch(text)
    if match is None:
        raise _NotBlockError
    dashes, key, plain, double, single, empty, literal = match.groups()
    opens = empty or literal or ""
    has_value = plain is not None or double is not None or single is not None or opens != ""
    if key is not None and type(_resolved[key]) is not str:
        raise _NotBlockError  # `load` converts it
    if key is None and not (has_value and dashes):
        raise _NotBlockError
    value: Scalar = None
    if plain is not None:
        value = _resolved[plain]
        if type(value) is float and not math.isfinite(value):
            raise _NotBlockError
    elif double is not None:
        value = json.loads(double) if "\\" in double else double[1:-1]
    elif single is not None:
        value = single[1:-1].replace("''", "'")
    return _Line(len(dashes) // 2, key or "", has_value, value, opens)
