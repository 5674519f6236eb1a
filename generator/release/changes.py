"""`CHANGES.md` in a release: a section for each version, with the plan of its change, the newest first.

The lock does not list the file. Its text depends on the release before, and equal platform files must give equal locks.
"""

from __future__ import annotations

import re

CHANGES = "CHANGES.md"
_INTRODUCTION = "# Changes\n\n`mpigen plan --write` adds a section for each release. Argo CD does not read this file."
_SECTION = re.compile(r"^(?=## )", re.MULTILINE)


def add_section(text: str, section: str) -> str:
    """Return the text of CHANGES.md with a section before all others. It replaces a section with the same heading.

    Args:
        text: the text of CHANGES.md; empty if the file is missing.
        section: a heading such as `## 1.1.0`, and the lines below it.
    """
    first, *sections = _SECTION.split(text)
    heading = _heading_of(section)
    others = [other for other in sections if _heading_of(other) != heading]
    return "\n\n".join(part.strip() for part in (first.strip() or _INTRODUCTION, section, *others)) + "\n"


def has_section(text: str, section: str) -> bool:
    """Return True if CHANGES.md has exactly this section."""
    return section.strip() in (other.strip() for other in _SECTION.split(text)[1:])


def _heading_of(section: str) -> str:
    return section.partition("\n")[0].strip()
