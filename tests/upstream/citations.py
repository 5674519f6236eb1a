"""The citations of upstream code: where mpigen says which declaration of which module it follows.

A citation has one form: `MODULE VERSION PATH DECLARATION`, such as `kueue v0.19.2 pkg/scheduler/scheduler.go
Scheduler.nominate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.conftest import ROOT

_TABLE: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("modules.yaml").read_bytes())
_STAGING = frozenset(_TABLE["staging"])
MODULES: dict[str, str] = _TABLE["modules"] | {name: f"k8s.io/{name}" for name in _STAGING}
"""The name in a citation, such as `kueue` → the Go module."""
RELEASES = tuple(sorted(_TABLE["modules"]))
"""The names of the modules that have a version of their own."""
_FOLDERS = ("generator", "tests", "docs")
_SUFFIXES = {".md", ".py", ".yaml"}
_SKIPPED = (
    "tests/upstream/",
    "tests/unit/test_upstream",
    "docs/checks/",
    "docs/reference/phases.md",
    "docs/reference/upstream-defects.md",
    "docs/troubleshooting/",
)
_SPACE = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:#:?[ \t]*)?(?![ \t]*\n))"
_NAMES = "|".join(map(re.escape, sorted(MODULES, key=len, reverse=True)))
_VERSION = r"v\d+\.\d+\.\d+(?:[-+][\w.+-]*\w)?|(?=[a-f]*\d)[0-9a-f]{7,40}(?![\w-])"
_FILE = r"(?:[\w.-]+/)*[\w.-]*\w\.(?:go|ya?ml|proto|json|md|mod|rst|sh)\b(?!/)"
_FOLDER = r"(?:[\w-]+/)+[\w-]+(?=[\s,;:.)`'\"}]|$)"
_WORD = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?(?![\w/-]|\.\w)"
_CITATION = re.compile(
    rf"(?<![\w./-])(?P<module>{_NAMES}){_SPACE}(?P<version>{_VERSION}){_SPACE}"
    rf"(?:(?P<path>(?:[\w.-]+/)*[\w.-]*\w\.go\b(?!/))(?:(?P<gap>{_SPACE})(?P<name>{_WORD}))?|(?P<other>{_FILE}|{_FOLDER}))"
)
_GO_FILE = re.compile(r"(?<![\w.])[\w./{},*-]*\w\.go\b(?!/)")
_FOREIGN = re.compile(rf"(?<![\w./-])[\w.-]+/[\w.-]+(?:{_SPACE}(?:{_VERSION}))?{_SPACE}$")


class Place(NamedTuple):
    """A line of a file in the repository."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation of a declaration or a file of a module.

    Attributes:
        release: the name of the release that has the module, such as kubernetes or kueue.
        module: the Go module.
        version: the version of the module, such as v1.34.2, or the beginning of a commit.
        path: the file, or a folder, in the module.
        name: the declaration, such as `Pod` or `Scheduler.nominate`; empty for the whole file.
        place: the line of the citation.
    """

    release: str
    module: str
    version: str
    path: str
    name: str
    place: Place

    def __str__(self) -> str:
        return f"{self.module} {self.version} {self.path} {self.name}".rstrip()

    @property
    def url(self) -> str:
        """The address of the file on GitHub."""
        module = re.sub(r"/v\d+$", "", self.module)
        for prefix, home in (("sigs.k8s.io/", "kubernetes-sigs"), ("k8s.io/", "kubernetes")):
            module = re.sub(f"^{prefix}", f"github.com/{home}/", module)
        return f"https://{module}/blob/{self.version}/{self.path}"


def read_texts(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield the files of the repository that can have citations, each with its text."""
    for folder in _FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            name = file.relative_to(root).as_posix()
            if file.suffix in _SUFFIXES and file.is_file() and not name.startswith(_SKIPPED):
                yield name, file.read_text("utf-8", "replace")


def read_citations(root: Path = ROOT) -> Iterator[Citation]:
    """Yield the citations of all files of the repository."""
    for file, text in read_texts(root):
        yield from find_citations(text, file)


def find_citations(text: str, file: str) -> Iterator[Citation]:
    """Yield the citations of a text."""
    for match in _CITATION.finditer(text):
        name = match["module"]
        yield Citation(
            "kubernetes" if name in _STAGING else name,
            MODULES[name],
            match["version"],
            match["path"] or match["other"],
            match["name"] if match["name"] and _continues(text, match, file) else "",
            Place(file, text.count("\n", 0, match.start()) + 1),
        )


def _continues(text: str, match: re.Match[str], file: str) -> bool:
    """Return True if the word after a path belongs to the same comment or string, and is no key of a YAML file."""
    if "\n" not in match["gap"]:
        return True
    line = text[text.rfind("\n", 0, match.start("gap")) + 1 : match.start("gap")]
    is_comment = re.search(r"(?:^|\s)#\s", line) is not None
    if is_comment != ("#" in match["gap"]):
        return False
    return is_comment or not file.endswith(".yaml") or re.match(r":(?:\s|$)", text[match.end() :][:2]) is None


@cache
def _own_go_files(root: Path) -> tuple[str, ...]:
    return tuple(
        f"/{file.relative_to(root).as_posix()}" for folder in _FOLDERS for file in (root / folder).rglob("*.go")
    )


def find_malformed(text: str, file: str, root: Path = ROOT) -> Iterator[tuple[Place, str]]:
    """Yield the Go files that a text names outside of a citation, each with its line.

    A text can also name files of this repository, files of a repository `owner/name` that the watch does not compare,
    and values that are paths.
    """
    cited = [match.span() for match in _CITATION.finditer(text)]
    for match in _GO_FILE.finditer(text):
        start, end = match.span()
        if any(first <= start and end <= last for first, last in cited):
            continue
        if text[start - 1 : start] == text[end : end + 1] and text[end : end + 1] in {'"', "'"}:
            continue
        own = any(name.endswith(f"/{match[0]}") for name in _own_go_files(root))
        if own or match[0].startswith("//pkg.go") or _FOREIGN.search(text[max(start - 200, 0) : start]):
            continue
        yield Place(file, text.count("\n", 0, start) + 1), match[0]
