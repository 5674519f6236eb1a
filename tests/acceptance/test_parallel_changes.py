"""Test two pull requests that start from the same release: after a merge, the plan names only its own change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from generator import pipeline
from tests.acceptance.test_diff import git, repository
from tests.plan import describe

__all__ = ["repository"]


@pytest.fixture(autouse=True)
def folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in the repository."""
    monkeypatch.chdir(repository)


def change(repository: Path, branch: str, team: str) -> None:
    """Give a team one node more in a branch that starts at `main`, and commit the release."""
    git(repository, "checkout", "--quiet", "-b", branch, "main")
    edit(repository / "platform.yaml", team)
    pipeline.synth(repository / "platform.yaml", Path("output"), pipeline.Choices())
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", branch)


def edit(file: Path, team: str) -> None:
    """Give a team one node more."""
    before, name, after = file.read_text().partition(f"  - name: {team}\n")
    assert name
    file.write_text(before + name + after.replace("cpu: 5", "cpu: 6", 1))


def planned(source: str) -> list[str]:
    """Return the sentences of the plan against `main`."""
    effects = pipeline.plan(Path(source), Path("output"), "main").effects
    return [line for line in describe(effects).splitlines() if not line.startswith("  ")]


def test_the_second_pull_request_names_only_its_own_change(repository: Path) -> None:
    change(repository, "first", "aero")
    change(repository, "second", "maths")
    (second,) = planned("platform.yaml")
    assert second.startswith("low quota: team `maths` owns 6 instead of 5 nodes")
    git(repository, "checkout", "--quiet", "main")
    git(repository, "merge", "--quiet", "--ff-only", "first")

    git(repository, "checkout", "--quiet", "second")
    own, lost = planned("output/university")[::-1]
    assert own == second
    assert lost.startswith("medium quota: team `aero` owns 5 instead of 6 nodes")

    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "--quiet", "main")
    conflicts = git(repository, "diff", "--name-only", "--diff-filter=U").splitlines()
    assert "output/university/release.json" in conflicts
    assert "platform.yaml" not in conflicts
    git(repository, "checkout", "--quiet", "main", "--", "output")
    pipeline.synth(Path("platform.yaml"), Path("output"), pipeline.Choices())
    assert planned("output/university") == [second]
