"""The source of two versions of a Go module, and its declarations."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from generator.schemas.go_tool import fetch_module

_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*"|`[^`]*`)|//[^\n]*|/\*.*?\*/', re.DOTALL)


class Source:
    """The files of a module at one version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._texts: dict[str, str | None] = {}

    @classmethod
    def fetch(cls, module: str, version: str) -> Source:
        """Download a module at a version, such as v1.34.2.

        Raises:
            EngineError: the module is unavailable.
        """
        return cls(fetch_module(module, version))

    def read(self, path: str) -> str | None:
        """Return the text of a file, or of the Go files of a folder without their tests; None if there is none."""
        if path not in self._texts:
            place = self.folder / path
            files = [file for file in sorted(place.glob("*.go")) if not file.stem.endswith("_test")]
            found = [place] if place.is_file() else files
            self._texts[path] = "\n".join(file.read_text("utf-8", "replace") for file in found) if found else None
        return self._texts[path]

    def declaration(self, path: str, name: str) -> str | None:
        """Return a function, `Type.Method`, type, variable or constant; None if the file has none of this name."""
        text = self.read(path)
        return None if text is None else find_declaration(text, name)


def find_declaration(text: str, name: str) -> str | None:
    """Return the declaration of a name in Go code that gofmt wrote; None without one. A method is `Type.Method`."""
    return "\n".join(declarations(text).get(name, ())) or None


_TOP = re.compile(
    r"^(?:func|type|var|const) [^\n]*(?:(?<=[({])\n(?:(?!func |type |var |const )[^\n]*\n)*?[)}][^\n]*)*", re.MULTILINE
)
_FUNCTION = re.compile(r"func (?:\((?:\w+ )?\*?(?P<type>\w+)[^)\n]*\) )?(?P<name>\w+)")
_SINGLE = re.compile(r"(?:type|var|const) (\w+)")
_GROUPED = re.compile(r"^\t(\w+)(?:, \w+)*[ \n=].*?(?=^\t\w|^\)|\Z)", re.MULTILINE | re.DOTALL)


@cache
def declarations(text: str) -> dict[str, list[str]]:
    """Return name → its declarations."""
    found: dict[str, list[str]] = {}
    for top in _TOP.finditer(text):
        if match := _FUNCTION.match(top[0]):
            found.setdefault(".".join(filter(None, match.group("type", "name"))), []).append(top[0])
        elif match := _SINGLE.match(top[0]):
            found.setdefault(match[1], []).append(top[0])
        else:
            for item in _GROUPED.finditer(top[0]):
                found.setdefault(item[1], []).append(item[0])
    return found


def normalize(code: str) -> str:
    """Return Go code without comments and without differences of white space."""
    return " ".join(_COMMENT.sub(lambda match: match[1] or " ", code).split())
