"""Find the signatures of causes in logs of any size, and the first lines that look like errors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, BinaryIO

import re2

from generator.diagnose.lines import Line, parse_line
from generator.facts.causes.table import Cause, Signature, causes

_BLOCK = 16 << 20  # bytes that are read at once
_KEPT = 20
"""The lines that are kept for each text of a signature. Further lines are only counted."""
_ERRORS = 5
"""The lines without a signature that are kept."""
_CANDIDATES = 10_000
"""The lines with a word for errors that are examined, because a log can have millions of harmless ones."""
_LONGEST = 4096  # characters of a line
_MEMORY = 256 << 20  # bytes for RE2, whose automaton grows with the number of signatures
_ERROR = (
    rb"(?i)\b(?:errors?|exception|fatal|failed|failure|cannot|can't|could not|unable to|denied|refused|abort|aborted"
    rb"|aborting|killed|segfault|segmentation fault|core dumped|no such file|not found|panic|traceback|timed out)\b"
    rb"|(?:Error|Exception):"
)
_HARMLESS = re.compile(
    r"(?i)\b(?:0|no|without) (?:errors?|failures?)\b|\berrors?[ =:]+0\b|\b(?:debug|info|warn(?:ing)?)\b"
)
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Hit:
    """A line with the signature of a cause.

    Attributes:
        cause: the cause.
        signature: its signature.
        line: the line.
        order: the place of the line in all lines of all sources.
        values: the named groups of the pattern, such as `host`, without empty ones.
    """

    cause: Cause
    signature: Signature
    line: Line
    order: int
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """Return the host that failed; empty if the line has none."""
        return self.values.get("host", self.line.host)

    @property
    def rank(self) -> int | None:
        """Return the rank that failed; None if the line has none."""
        rank = self.values.get("rank", "")
        return int(rank) if rank.isdecimal() else self.line.rank


@dataclass(slots=True)
class Scan:
    """The errors in logs and messages.

    Attributes:
        hits: the lines with signatures in their order, the first ones of each signature.
        counts: name of a cause → the number of its lines.
        errors: the first lines without a signature that look like errors.
        lines: the number of lines.
    """

    hits: list[Hit] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    errors: list[Line] = field(default_factory=list)
    lines: int = 0
    _kept: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _examined: int = 0

    def read_log(self, source: str, stream: BinaryIO) -> None:
        """Add the lines of a log. `source`: its name in the report."""
        number, rest, last = 1, b"", b"\n"
        while block := stream.read(_BLOCK):
            last = block[-1:]
            block = rest + block
            end = block.rfind(b"\n") + 1 or (len(block) if len(block) > _BLOCK else 0)
            rest = block[end:]
            number += self._read_block(source, number, block[:end])
        number += self._read_block(source, number, rest)
        self.lines += number - (last == b"\n")

    def read_message(self, source: str, text: str, time: str = "", host: str = "") -> None:
        """Add a message of a controller, or the last lines of a container.

        Args:
            source: the object, for the report.
            text: the message.
            time: the time of the message, if its text has none.
            host: the pod that the message is about, if its text names no host.
        """
        for piece in text.splitlines():
            line = parse_line(source, 0, piece[:_LONGEST])
            line = replace(line, time=line.time or time, host=line.host or host)
            self.lines += 1
            self._add(line)

    def _read_block(self, source: str, first: int, block: bytes) -> int:
        """Add the lines of a part of a log that begins with the line `first`, and return their number."""
        self._read_errors(source, first, block)
        number, counted, last = first, 0, -1
        for match in _signatures().finditer(block):
            start = block.rfind(b"\n", 0, match.start()) + 1
            if start == last:
                continue
            last = start
            text = match.group().decode("ascii")
            self._kept[text] += 1
            if self._kept[text] > _KEPT:
                for name in {cause.cause for cause, _ in _by_text()[text]}:
                    self.counts[name] += 1
                continue
            number, counted = number + block.count(b"\n", counted, start), start
            self._add(_line_at(source, number, block, start, match.start()))
        return number - first + block.count(b"\n", counted)

    def _read_errors(self, source: str, first: int, block: bytes) -> None:
        """Add the lines of a part of a log that look like errors, until enough are known."""
        number, counted, last = first, 0, -1
        if len(self.errors) >= _ERRORS or self._examined >= _CANDIDATES:
            return
        for match in _errors().finditer(block):
            self._examined += 1
            if len(self.errors) >= _ERRORS or self._examined >= _CANDIDATES:
                return
            start = block.rfind(b"\n", 0, match.start()) + 1
            if start <= last:
                continue
            number, counted, last = number + block.count(b"\n", counted, start), start, start
            line = _line_at(source, number, block, start, match.start())
            if _TRACEBACK in line.text:
                line, last = _end_of_traceback(source, number, block, start)
            if not _HARMLESS.search(line.text) and not any(_matches(line.text)):
                self.errors.append(line)

    def _add(self, line: Line) -> None:
        names = set[str]()
        for cause, signature, values in _matches(line.text):
            if cause.cause not in names:
                names.add(cause.cause)
                self.counts[cause.cause] += 1
                self.hits.append(Hit(cause, signature, line, self.lines + line.number, values))


def _line_at(source: str, number: int, block: bytes, start: int, inside: int) -> Line:
    """Return the line at a place of a block; of a line that a program overwrites, the part at `inside`."""
    end = block.find(b"\n", inside)
    end = len(block) if end < 0 else end
    prefix = block[start : min(end, start + _LONGEST)].decode("utf-8", "replace")
    overwritten = block.rfind(b"\r", start, inside) + 1
    text = block[overwritten : min(end, overwritten + _LONGEST)].decode("utf-8", "replace") if overwritten else prefix
    return parse_line(source, number, text.rstrip("\r"))


def _end_of_traceback(source: str, number: int, block: bytes, start: int) -> tuple[Line, int]:
    """Return the last line of a traceback of Python, which has the exception, and its place in the block."""
    end = block.find(b"\n", start)
    while end >= 0:
        number, start = number + 1, end + 1
        end = block.find(b"\n", start)
        line = _line_at(source, number, block, start, start)
        if line.text and not line.text.startswith((" ", "\t")):
            return line, start
    return _line_at(source, number, block, start, start), start


def _matches(text: str) -> Iterator[tuple[Cause, Signature, Mapping[str, str]]]:
    """Yield the causes whose signature a line has, with the values of the named groups."""
    for known, rows in _by_text().items():
        if known in text:
            for cause, signature in rows:
                match = _pattern(signature.pattern).search(text) if signature.pattern else None
                if match or not signature.pattern:
                    groups: dict[str, Any] = match.groupdict() if match else {}
                    yield cause, signature, {name: value for name, value in groups.items() if value}


@cache
def _by_text() -> Mapping[str, list[tuple[Cause, Signature]]]:
    """Return text of a signature → its causes, the longest texts first."""
    rows = [(cause, signature) for cause in causes().values() for signature in cause.signatures]
    texts: dict[str, list[tuple[Cause, Signature]]] = {}
    for cause, signature in sorted(rows, key=lambda row: -len(row[1].text)):
        texts.setdefault(signature.text, []).append((cause, signature))
    return texts


@cache
def _signatures() -> Any:
    return _compile(b"|".join(re2.escape(text.encode()) for text in _by_text()))


@cache
def _errors() -> Any:
    return _compile(_ERROR)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _compile(pattern: bytes) -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY
    return re2.compile(pattern, options)
