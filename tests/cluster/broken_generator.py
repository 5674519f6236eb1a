"""Render with a copy of the generator that has one deliberate mistake."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import yaml

import generator
from generator import manifests
from generator.manifests import Manifest
from tests.cluster.argocd_order import in_order
from tests.cluster.argocd_scope import by_applier
from tests.conftest import ROOT

_MUTATIONS = Path(__file__).with_name("mutations.yaml")
_RENDERER = Path(__file__).with_name("renderer.py")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A deliberate mistake in the generator.

    Attributes:
        name: name of the mutation and of its platform.
        why: its effect in production.
        file: module of the generator.
        text: code that the file contains exactly `times` times.
        replacement: the wrong code.
        caught_by: judge → a part of its complaint.
        offline: the check of mpigen that finds it too; empty if only a cluster does.
    """

    name: str
    why: str
    file: str
    text: str
    replacement: str
    caught_by: Mapping[str, str]
    offline: str = ""
    times: int = 1

    def applied(self) -> str:
        """The text of the file with the mistake.

        Raises:
            ValueError: the text is not there exactly `times` times.
        """
        before = (ROOT / self.file).read_text()
        if before.count(self.text) != self.times:
            raise ValueError(f"{self.file} has {self.text!r} {before.count(self.text)} times: adapt {self.name}")
        return before.replace(self.text, self.replacement)


def mutations() -> list[Mutation]:
    """Return all reviewed mutations."""
    return [Mutation(**entry) for entry in yaml.safe_load(_MUTATIONS.read_text())]


def render(mutations: Iterable[tuple[Mutation | None, Path]], folder: Path) -> Iterator[list[Manifest]]:
    """Render the objects that Argo CD would apply, with a copy of the generator per mutation.

    Args:
        mutations: the mistake, or none, and the platform file.
        folder: where the copies go.

    Raises:
        ValueError: a mutation does not fit the generator any more.
        RuntimeError: a copy was not what ran, or it failed.
    """
    with subprocess.Popen([sys.executable, "-P", _RENDERER], stdin=PIPE, stdout=PIPE, text=True) as renderer:
        assert renderer.stdin
        assert renderer.stdout
        for number, (mutation, platform_file) in enumerate(mutations):
            copy = _copy(folder / str(number), mutation)
            print(json.dumps([str(copy), str(platform_file)]), file=renderer.stdin, flush=True)
            answer = json.loads(renderer.stdout.readline() or "{}")
            if "tree" not in answer:
                raise RuntimeError(f"{mutation.name if mutation else 'the generator'} does not render: {answer}")
            own, applied = by_applier(_read(answer["tree"]))
            yield [*in_order(own), *in_order(applied)]


def _copy(folder: Path, mutation: Mutation | None) -> Path:
    """A folder with the package as it would be with the mistake; the times of compiled modules are kept."""
    shutil.copytree(Path(generator.__file__).parent, folder / "generator")
    if mutation:
        (folder / mutation.file).write_text(mutation.applied())
    return folder


def _read(files: Mapping[str, str]) -> list[Manifest]:
    return [manifest for file, text in sorted(files.items()) for manifest in manifests.read(text, file)]
