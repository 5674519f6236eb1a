"""The citations of upstream code: where mpigen says which function of which module it follows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.conftest import ROOT

_TABLE: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("modules.yaml").read_bytes())
MODULES: dict[str, str] = _TABLE["modules"]
"""The name in a citation, such as `kueue` → the Go module."""
_STAGING = frozenset(_TABLE["staging"])
_STAGED = re.compile(r"staging/src/k8s\.io/([\w-]+)/(.+)")
_FOLDERS = ("generator", "tests", "docs")
_SUFFIXES = {".md", ".py", ".yaml"}
_MODULE = re.compile(r"(?<![\w./-])((?:[\w.-]+/)*[\w.-]+) v(\d+\.\d+\.\d+)(?![\w.]*-\d)")
_FILE = r"(?:[\w.-]+/)*[\w.-]+\.(?:go|yaml|yml|proto|json)\b"
_FOLDER = r"(?:[\w.-]+/)+[\w-]+(?![\w/.])"
_PATH = re.compile(rf"(?<![\w/.-])(?:{_FILE}|{_FOLDER})")
_NAME = re.compile(r"[A-Za-z_]\w+")
_END = re.compile(r'"""|\n\s*\n|\n[ #*-]*(?:Returns|Raises|Args|Attributes):|\n- |\n  - |\n\S+:')
_LONGEST = 600


class Place(NamedTuple):
    """A line of a file in the repository."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation of a file of a module.

    Attributes:
        release: the name of the release that has the module, such as kubernetes or kueue.
        module: the Go module.
        version: the version of the module, such as 1.34.2, or 0.34.2 for a staging module of Kubernetes.
        path: the file, or a folder, in the module.
        words: the words after the path. The names of functions are among them.
        place: the line of the citation.
    """

    release: str
    module: str
    version: str
    path: str
    words: frozenset[str]
    place: Place


def read_citations(root: Path = ROOT) -> Iterator[Citation]:
    """Yield the citations of all files of the repository."""
    for folder in _FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in _SUFFIXES and file.is_file():
                yield from find_citations(file.read_text("utf-8", "replace"), file.relative_to(root).as_posix())


def find_citations(text: str, file: str) -> Iterator[Citation]:
    """Yield the citations of a text. A module and its version hold until the next module."""
    mentions = [*_MODULE.finditer(text)]
    for mention, after in zip(mentions, [*mentions[1:], None], strict=False):
        name = mention[1].removeprefix("k8s.io/")
        if name not in MODULES and name not in _STAGING:
            continue
        rest = text[mention.end() : after.start() if after else None][:_LONGEST]
        end = _END.search(rest)
        rest = rest[: end.start()] if end else rest
        paths = [*_PATH.finditer(rest)]
        for path, later in zip(paths, [*paths[1:], None], strict=False):
            words = _NAME.findall(rest[path.end() : later.start() if later else None])
            line = text.count("\n", 0, mention.end() + path.start()) + 1
            yield _locate(name, mention[2], path[0], frozenset(words), Place(file, line))


def _locate(name: str, version: str, path: str, words: frozenset[str], place: Place) -> Citation:
    if staged := _STAGED.fullmatch(path):
        name, version, path = staged[1], version.replace("1.", "0.", 1), staged[2]
    if name in _STAGING:
        return Citation("kubernetes", f"k8s.io/{name}", version, path, words, place)
    return Citation(name, MODULES[name], version, path, words, place)
