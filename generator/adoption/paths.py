"""Patterns of file paths, as settings and waivers write them."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANINGS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches(pattern: str, path: str) -> bool:
    """Return True if a pattern names a file, or a folder above it. `*` stays within a folder, and `**` does not."""
    return _compile(pattern).fullmatch(path) is not None


@lru_cache(1_000)
def _compile(pattern: str) -> re.Pattern[str]:
    written = pattern.removeprefix("./").rstrip("/")
    parts = "".join(_MEANINGS.get(part, re.escape(part)) for part in _PARTS.findall(written))
    return re.compile(f"{parts}(?:/.*)?" if written not in ("", ".") else ".*", re.DOTALL)


def relative(file: str, root: Path) -> str:
    """Return the path of a file below a folder, with `/` on every system; as it is if it lies elsewhere."""
    try:
        path = Path(os.path.relpath(file, root))
    except ValueError:  # another drive of Windows
        return file
    return path.as_posix()
