"""Test CHANGES.md of a release: the plan of each version, which only `plan --write` writes and `verify` compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.test_diff import git
from tests.conftest import EXAMPLES, Run

HOME = "output/cpu-kubernetes"
FIRST = """\
# Changes

`mpigen plan --write` adds a section for each release. Argo CD does not read this file.

## 1.1.0

- **low** version: release 1.1.0 replaces 1.0.0
- **medium** access: group `new` gets the role `edit` in team `team-sim`
"""


@pytest.fixture
def repository(tmp_path: Path, mpigen: Run) -> Path:
    """Return a repository with release 1.0.0 on `main`, and release 1.1.0 on the checked-out branch `change`."""
    (tmp_path / "platform.yaml").write_text(EXAMPLES["cpu-kubernetes"].read_text())
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    release(tmp_path, mpigen)
    git(tmp_path, "checkout", "--quiet", "-b", "change")
    release(tmp_path, mpigen, "group:sim]", "group:sim, group:new]", "1.1.0")
    return tmp_path


def release(folder: Path, mpigen: Run, old: str = "", new: str = "", version: str = "1.0.0") -> None:
    """Change the platform file, render it, and commit the release."""
    file = folder / "platform.yaml"
    lines = [f"release: {version}" if line.startswith("release:") else line for line in file.read_text().splitlines()]
    file.write_text("\n".join([*lines, ""]).replace(old, new) if old else "\n".join([*lines, ""]))
    assert mpigen("synth", "platform.yaml").returncode == 0
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", version)


def write(mpigen: Run, against: str = "main") -> None:
    ran = mpigen("plan", HOME, "--against", against, "--write")
    assert ran.returncode == 0, ran.stderr


def test_the_plan_of_a_version_is_written(repository: Path, mpigen: Run) -> None:
    write(mpigen)
    file = repository / HOME / "CHANGES.md"
    assert file.read_text() == FIRST
    write(mpigen)
    assert file.read_text() == FIRST
    assert mpigen("verify", "output", "--against", "main").returncode == 0


def test_the_next_version_adds_its_section_before_the_others(repository: Path, mpigen: Run) -> None:
    write(mpigen)
    release(repository, mpigen, "group:new]", "group:new, group:late]", "1.2.0")
    write(mpigen, "change~1")
    git(repository, "add", ".")
    rows = git(repository, "diff", "--cached", "--numstat").split()
    assert rows == ["5", "0", f"{HOME}/CHANGES.md"]
    text = (repository / HOME / "CHANGES.md").read_text()
    assert text.index("## 1.2.0") < text.index("group `late`") < text.index("## 1.1.0") < text.index("group `new`")


def test_the_file_changes_no_lock_and_synth_keeps_it(repository: Path, mpigen: Run) -> None:
    lock = (repository / HOME / "release.json").read_bytes()
    write(mpigen)
    ran = mpigen("synth", "platform.yaml")
    assert "CHANGES.md" not in ran.stdout
    assert (repository / HOME / "release.json").read_bytes() == lock
    assert (repository / HOME / "CHANGES.md").read_text() == FIRST
    assert mpigen("verify").returncode == 0


def test_a_stale_section_fails_the_comparison(repository: Path, mpigen: Run) -> None:
    write(mpigen)
    release(repository, mpigen, "group:new]", "group:other]", "1.1.0")
    ran = mpigen("verify", "output", "--against", "main")
    assert ran.returncode == 1
    assert (
        f"{HOME}/CHANGES.md: does not describe the change from `main` to release 1.1.0; "
        f"run `mpigen plan {HOME} --against main --write`"
    ) in ran.stdout + ran.stderr
    write(mpigen)
    assert mpigen("verify", "output", "--against", "main").returncode == 0


def test_the_plan_of_the_same_version_is_not_written(repository: Path, mpigen: Run) -> None:
    ran = mpigen("plan", HOME, "--write")
    assert ran.returncode == 2
    assert (
        "`HEAD:output/cpu-kubernetes` has release 1.1.0 too, so the plan is not the change of a version" in ran.stderr
    )
    assert mpigen("plan", "platform.yaml", "--write").returncode == 2
    assert not (repository / HOME / "CHANGES.md").exists()


def test_two_pull_requests_that_take_the_same_version_conflict(repository: Path, mpigen: Run) -> None:
    git(repository, "checkout", "--quiet", "main")
    git(repository, "checkout", "--quiet", "-b", "other")
    release(repository, mpigen, "group:sim]", "group:sim, group:other]", "1.1.0")
    git(repository, "checkout", "--quiet", "main")
    git(repository, "merge", "--quiet", "change")
    git(repository, "checkout", "--quiet", "other")
    ran = mpigen("verify", "output", "--against", "main")
    assert ran.returncode == 1
    assert "release 1.1.0 differs from `main`" in ran.stdout + ran.stderr
    assert "set `release: 1.1.1` in the platform file, and run `mpigen synth`" in ran.stdout + ran.stderr
