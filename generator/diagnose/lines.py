"""A line of a log: its text, and its time, host and rank by the prefixes of kubectl, mpirun and torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        # kubectl logs --prefix
        r"\[pod/(?P<pod>[^/\]]+)/[^\]]+\] ",
        # kubectl logs --timestamps, and most loggers of Python
        r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[ :] ?",
        # mpirun --tag-output, horovodrun
        r"(?:\w{3} \w{3} +\d+ [\d:.]+ \d{4})?\[(?:[\w.@-]*,)?(?P<rank>\d+)\]<std(?:out|err|diag)>: ?",
        # torch
        r"\[rank(?P<rank>\d+)\]: ?",
        # mpiexec.hydra -prepend-rank
        r"\[(?P<rank>\d+)\] (?=\D)",
    )
)
_SECONDS = re.compile(r"\[(?P<seconds>1\d{9})\.\d+\] ")  # UCX
_HOSTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<host>[a-z][\w.-]*):\d+:\d+ \[\d+\] ",  # NCCL
        r"\[(?P<host>[a-z][\w.-]*):\d+ *[:\]]",  # Open MPI, UCX
        r"(?P<host>[a-z][a-z0-9.-]*-\d+(?:\.[\w.-]+)?): (?=\S)",  # pdsh
    )
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log, or a message of a controller.

    Attributes:
        source: the file, or the object with the message.
        number: the 1-based number of the line; 0 for a message.
        text: the line without its prefixes.
        time: the time in UTC, such as `2026-11-28T10:00:03`; empty if unknown.
        host: the host that printed the line; empty if unknown.
        rank: the rank that printed the line; None if unknown.
    """

    source: str
    number: int
    text: str
    time: str = ""
    host: str = ""
    rank: int | None = None


def parse_line(source: str, number: int, text: str) -> Line:
    """Return a line of a log with its parts.

    >>> parse_line("a.log", 3, "2026-11-28T10:00:03.5Z [1,7]<stderr>:node-1:12:34 [0] NCCL WARN")
    Line(source='a.log', number=3, text='node-1:12:34 [0] NCCL WARN', time='2026-11-28T10:00:03', host='node-1', rank=7)
    """
    parts: dict[str, str] = {}
    at = 0
    while prefix := next((match for pattern in _PREFIXES if (match := pattern.match(text, at))), None):
        parts = {**prefix.groupdict(), **parts}
        at = prefix.end()
    rest = text[at:].rstrip()
    if seconds := _SECONDS.match(rest):
        start = datetime.fromtimestamp(int(seconds["seconds"]), UTC)
        parts.setdefault("time", start.strftime("%Y-%m-%dT%H:%M:%S"))
        rest = rest[seconds.end() :]
    host = next((match["host"] for pattern in _HOSTS if (match := pattern.match(rest))), "")
    rank = parts.get("rank")
    time = parts.get("time", "").replace(" ", "T")
    return Line(source, number, rest, time, host or parts.get("pod", ""), int(rank) if rank else None)
