"""Folders of an image: which ones a volume must not hide."""

from __future__ import annotations

from functools import cache

from generator.facts.table import read_table


def hidden_by(path: str) -> str:
    """Return what is wrong with a volume at a path, such as `hides the devices`; '' if nothing is.

    Args:
        path: an absolute path without `.` and `..`.
    """
    place = _resolved(path)
    for folder, holds, is_closed in _folders():
        if folder == place:
            return f"hides {holds}"
        if _is_within(folder, place):
            return f"hides {holds} (`{folder}`)"
        if is_closed and _is_within(place, folder):
            return f"lies in `{folder}`, which holds {holds}"
    return ""


def software_hidden_by(path: str) -> str:
    """Return what images usually keep in the folder at a path; '' if nothing that MPI needs."""
    rows = read_table("folders")["software"]
    return next((str(row["holds"]) for row in rows if row["path"] == _resolved(path)), "")


def is_below(path: str, folder: str) -> bool:
    """Return True if a path leads to something inside a folder."""
    place, around = _resolved(path), _resolved(folder)
    return place != around and _is_within(place, around)


@cache
def _folders() -> tuple[tuple[str, str, bool], ...]:
    """Return the folders with what they hold, and whether nothing may be mounted below them; `/` comes first."""
    rows = read_table("folders")["folders"]
    found = {(_resolved(row["path"]), row["holds"], row.get("below") == "refused") for row in rows}
    return tuple(sorted(found))


@cache
def _aliases() -> tuple[tuple[str, str], ...]:
    return tuple((row["link"], row["to"]) for row in read_table("folders")["aliases"])


def _resolved(path: str) -> str:
    return next((f"{target}{path[len(link) :]}" for link, target in _aliases() if _is_within(path, link)), path)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
