"""Read the folders of tests/fixtures/policy-cases: policies, the objects that they read, and cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from generator import pipeline
from generator.config.policy_cases import is_case_file, load_cases
from generator.gitops.argocd import is_applied
from generator.manifests import Manifest, read
from generator.upstream.kubernetes.admission_policies.cases import Case
from tests.conftest import ROOT

PLATFORM = "platform.yaml"
"""The file that a folder may have in place of rendered manifests."""
FOLDERS = sorted(path for path in (ROOT / "tests/fixtures/policy-cases").iterdir() if path.is_dir())


@dataclass(frozen=True, slots=True)
class CaseFolder:
    """The content of a folder.

    Attributes:
        manifests: what is in the cluster.
        files: the cases of each file.
    """

    manifests: tuple[Manifest, ...]
    files: dict[str, list[Case]]

    @classmethod
    def of(cls, folder: Path) -> CaseFolder:
        """Read all YAML below a folder."""
        texts = {path: path.read_bytes() for path in sorted(folder.rglob("*.yaml"))}
        cases = {path.name: load_cases(path, text) for path, text in texts.items() if is_case_file(path, text)}
        return cls(tuple(_manifests(texts)), cases)


def _manifests(texts: dict[Path, bytes]) -> Iterator[Manifest]:
    for path, text in texts.items():
        if path.name == PLATFORM:
            tree = pipeline.render(*pipeline.load(path))
            yield from (found for found in tree if is_applied(found.file))
        elif not is_case_file(path, text):
            yield from read(text, str(path))
