"""Test two pull requests that start from the same release: plans, merges, and the lock after a merge."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from generator import pipeline
from generator.release import verify
from tests.acceptance.test_diff import git, repository
from tests.conftest import Run
from tests.plan import describe

__all__ = ["repository"]

HOME = Path("output/university")
LOCK = HOME / "release.json"


@pytest.fixture(autouse=True)
def folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in the repository."""
    monkeypatch.chdir(repository)


def render() -> None:
    pipeline.synth(Path("platform.yaml"), Path("output"), pipeline.Choices())


def change(repository: Path, branch: str, team: str, version: str = "1.0.0", start: str = "main") -> None:
    """Give a team one node more in a branch that starts at `start`, and commit the release."""
    git(repository, "checkout", "--quiet", "-b", branch, start)
    edit(repository / "platform.yaml", team)
    raise_release(version)
    render()
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", branch)


def edit(file: Path, team: str) -> None:
    """Give a team one node more."""
    before, name, after = file.read_text().partition(f"  - name: {team}\n")
    assert name
    file.write_text(before + name + after.replace("cpu: 5", "cpu: 6", 1))


def raise_release(version: str) -> None:
    """Set `release` in the platform file."""
    file = Path("platform.yaml")
    lines = [f"release: {version}" if line.startswith("release:") else line for line in file.read_text().splitlines()]
    file.write_text("\n".join(lines) + "\n")


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
    render()
    assert planned("output/university") == [second]


# A merge of two branches that both raise the release


def conflict(repository: Path, *command: str) -> None:
    """Run a git command that stops because of conflicts."""
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, *command)
    assert git(repository, "diff", "--name-only", "--diff-filter=U")


@pytest.fixture
def branches(repository: Path) -> Path:
    """Return the repository with the branches `first`, merged into `main`, and `second`: both have release 1.1.0."""
    change(repository, "first", "aero", "1.1.0")
    change(repository, "second", "maths", "1.1.0")
    git(repository, "branch", "--force", "main", "first")
    return repository


def assert_merged(repository: Path, mpigen: Run, version: str = "1.1.0") -> None:
    """Require that the release has both changes, equals a release in an empty folder, and is valid."""
    assert verify(HOME) == []
    git(repository, "add", "--all")
    assert git(repository, "diff", "--cached", "--check") == ""
    validated = mpigen("validate", "output")
    assert (validated.returncode, "0 findings" in validated.stdout) == (0, True), validated.stdout
    fresh = mpigen("synth", "platform.yaml", "--output", "fresh")
    assert fresh.returncode == 0, fresh.stdout
    assert git(repository, "diff", "--no-index", "fresh/university", str(HOME)) == ""
    assert f'"version": "{version}"' in LOCK.read_text()
    for team in ("aero", "maths"):
        assert "cpu: 6" in Path("platform.yaml").read_text().partition(f"  - name: {team}\n")[2][:200]


@pytest.mark.parametrize("command", ["merge", "rebase"])
def test_synth_finishes_a_merge(branches: Path, mpigen: Run, command: str) -> None:
    conflict(branches, command, "main")
    verified = mpigen("verify", "output")
    assert "`<<<<<<<` is a conflict marker" in verified.stderr + verified.stdout
    if command == "rebase":
        git(branches, "checkout", "--ours", str(LOCK))
    written = mpigen("synth", "platform.yaml")
    assert written.returncode == 0, written.stdout + written.stderr
    assert "replaces the merge of two releases; run `git add output/university`" in written.stdout
    assert "both sides of the merge have release 1.1.0: set `release: 1.1.1`" in written.stdout
    raise_release("1.2.0")
    written = mpigen("synth", "platform.yaml")
    assert (written.returncode, "both sides" in written.stdout) == (0, False)
    git(branches, "add", ".")
    if command == "merge":
        git(branches, "commit", "--quiet", "--message", "merge")
    else:
        git(branches, "-c", "core.editor=true", command, "--continue")
    assert_merged(branches, mpigen, "1.2.0")
