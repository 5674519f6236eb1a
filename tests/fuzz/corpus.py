"""The inputs that are mutated: the examples, the fixtures and the output of this repository."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from generator.documents.load import load
from generator.errors import DocumentError
from tests.checks import CASES
from tests.conftest import ROOT, small_platform

_LARGEST = 60_000
"""Bytes of an input: many small cases find more than a few large ones."""
_MOST_VALUES = 40
"""Values that are kept of one key."""


@dataclass(slots=True)
class Corpus:
    """Inputs of one kind, with their words.

    Attributes:
        groups: files that belong together, as name → documents.
        sound: groups that mpigen accepts unchanged; empty if unknown.
        texts: raw contents of files.
        values: key → values from all files.
    """

    groups: list[dict[str, list[Any]]] = field(default_factory=list)
    sound: list[dict[str, list[Any]]] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def with_jobs(self) -> list[dict[str, list[Any]]]:
        """The groups with a TrainJob."""
        return [group for group in self.groups if any(is_job(item) for items in group.values() for item in items)]

    def add(self, files: dict[str, bytes]) -> None:
        """Add files that belong together; invalid YAML is kept as text only."""
        group: dict[str, list[Any]] = {}
        for name, text in files.items():
            if len(text) > _LARGEST:
                continue
            self.texts.append(text)
            try:
                group[name] = [document.data for document in load(text) if document.data is not None]
            except DocumentError:
                continue
            for data in group[name]:
                self._learn(data)
        if group:
            self.groups.append(group)

    def _learn(self, data: Any) -> None:
        if isinstance(data, dict):
            for key, value in data.items():
                known = self.values.setdefault(key, [])
                if len(known) < _MOST_VALUES:
                    known.append(value)
                self._learn(value)
        elif isinstance(data, list):
            for item in data:
                self._learn(item)


def is_job(document: object) -> bool:
    """Return True if a document is a TrainJob."""
    return isinstance(document, dict) and document.get("kind") == "TrainJob"


def runtimes_of(group: dict[str, list[Any]]) -> list[str]:
    """Return the names of the runtimes of Trainer in a group."""
    documents = [item for items in group.values() for item in items if isinstance(item, dict)]
    kinds = ("ClusterTrainingRuntime", "TrainingRuntime")
    names = [item.get("metadata", {}).get("name") for item in documents if item.get("kind") in kinds]
    return [name for name in names if isinstance(name, str)]


def _read(*files: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files}


@cache
def platforms() -> Corpus:
    """Return the platform files."""
    from generator.documents.emit import Emitter

    corpus = Corpus()
    for file in sorted(ROOT.glob("examples/*/platform.yaml")):
        corpus.add(_read(file))
    corpus.add({"platform.yaml": Emitter().emit([small_platform()]).encode()})
    corpus.sound += corpus.groups
    for file in sorted(ROOT.glob("tests/fixtures/broken/*.yaml")):
        corpus.add(_read(file))
    return corpus


@cache
def manifests() -> Corpus:
    """Return the manifests by folder: fixtures of checks, and releases of the examples."""
    corpus = Corpus()
    folders = {file.parent for file in ROOT.glob("tests/fixtures/**/*.yaml")} - {ROOT / "tests/fixtures/broken"}
    folders |= {file.parent for file in ROOT.glob("output/**/*.yaml")}
    for folder in sorted(folders):
        corpus.add(_read(*sorted(folder.glob("*.yaml"))))
    for case in CASES.values():
        if case.family != "platform":
            corpus.add({f"{case.name}.yaml": case.bad.encode()})
    return corpus


@cache
def cases() -> Corpus:
    """Return files of cases for `policy test`, of this repository's own policies."""
    corpus = Corpus()
    own = ROOT / "generator/config/release_cases.yaml"
    for file in (own, *sorted(ROOT.glob("tests/fixtures/policy-cases/**/*.yaml"))):
        text = file.read_bytes()
        if b"cases:" in text:
            corpus.add({file.name: text})
    return corpus
