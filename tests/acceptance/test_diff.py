"""Test that the Git diff of a release shows only the lines that the change of the platform concerns."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.platforms import platform_file
from tests.conftest import EXAMPLES, Run

TEAM = """\
tenants:
  - name: newcomers
    quota: {cpu: 2}
    access: {submit: [group:newcomers]}
"""

QUOTA = "  - name: robotics\n    cohort: systems\n    quota: {mi300x: 1, cpu: 5}\n"


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=tests", "-c", "user.email=tests@example.com", "-c", "commit.gpgsign=false"]
    ran = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout


@pytest.fixture
def repository(tmp_path: Path, mpigen: Run) -> Path:
    """Return a repository with the committed release of the example `university`."""
    (tmp_path / "platform.yaml").write_text(EXAMPLES["university"].read_text())
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    assert mpigen("synth", "platform.yaml").returncode == 0
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    return tmp_path


def changed(repository: Path, mpigen: Run, **texts: str) -> dict[str, tuple[int, int]]:
    """Replace texts in the platform file and render it. Return changed file → number of added and removed lines."""
    file = repository / "platform.yaml"
    text = file.read_text()
    for old, new in texts.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    file.write_text(text)
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    git(repository, "add", "--all")
    rows = [row.split("\t") for row in git(repository, "diff", "--cached", "--numstat", "--", "output").splitlines()]
    return {path.removeprefix("output/university/"): (int(added), int(removed)) for added, removed, path in rows}


def test_one_more_team_adds_its_own_files_and_its_own_lines(repository: Path, mpigen: Run) -> None:
    rows = changed(repository, mpigen, **{"tenants:\n": TEAM, "release: 1.0.0": "release: 1.1.0"})
    own = {path: rows.pop(path) for path in list(rows) if path.startswith("tenants/newcomers/")}
    assert {path.rpartition("/")[2] for path in own} == {
        "access.yaml",
        "catalogue.yaml",
        "isolation.yaml",
        "namespace.yaml",
        "queue.yaml",
        "quota.yaml",
    }
    lock = rows.pop("release.json")
    changed_lines = 2 + len(rows)  # the version, the inputs, and the digest of each shared file
    protections = 2  # the Pod Security level and the NetworkPolicy of the team
    assert lock == (len(own) + protections + changed_lines, changed_lines)
    assert sum(added + removed for added, removed in rows.values()) <= 20  # in files that all teams share


def test_one_changed_quota_is_a_diff_of_a_few_lines(repository: Path, mpigen: Run) -> None:
    rows = changed(repository, mpigen, **{QUOTA: QUOTA.replace("5", "6"), "release: 1.0.0": "release: 1.1.0"})
    assert {path.partition("/")[0] for path in rows} <= {"release.json", "tenants", "cluster"}
    assert sum(added + removed for added, removed in rows.values()) < 30


@pytest.mark.slow
def test_one_quota_of_500_teams_is_a_diff_of_a_few_lines(tmp_path: Path, mpigen: Run) -> None:
    file = platform_file(tmp_path, 500)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    assert mpigen("synth", file).returncode == 0
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    before, team, after = file.read_text().partition("  - name: team-00250\n")
    after = after.replace("h100: 2, cpu: 2", "h100: 1, cpu: 2", 1)
    file.write_text(before.replace("release: 1.0.0", "release: 1.1.0") + team + after)
    assert mpigen("synth", file).returncode == 0
    rows = [row.split("\t") for row in git(tmp_path, "diff", "--numstat", "--", "output").splitlines()]
    assert "output/bench-500/tenants/team-00250/queue.yaml" in {path for _, _, path in rows}
    assert sum(int(added) + int(removed) for added, removed, _ in rows) < 30, rows
