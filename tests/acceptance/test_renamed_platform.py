"""Test the release of a renamed platform, from the plan to the deletion of the old folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from generator import pipeline
from tests.acceptance.test_diff import git, repository
from tests.conftest import Run
from tests.plan import describe

__all__ = ["repository"]
RENAME = "platform `university` is renamed to `campus`: namespaces and jobs stay"


@pytest.fixture(autouse=True)
def folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in the repository."""
    monkeypatch.chdir(repository)


def rename(repository: Path, earlier: str = "university", name: str = "campus") -> Path:
    """Rename the platform in its file, and return the file."""
    file = repository / "platform.yaml"
    text = file.read_text()
    file.write_text(text.replace("platform: university\n", f"platform: {name}\nrenamedFrom: {earlier}\n"))
    return file


def planned(source: Path, against: str = "") -> tuple[str, list[str]]:
    """Return the place of the release before the update, and the sentences of the plan."""
    done = pipeline.plan(source, Path("output"), against)
    return done.against, [line for line in describe(done.effects).splitlines() if not line.startswith("  ")]


def test_a_rename_is_one_effect_until_the_old_folder_is_gone(repository: Path, mpigen: Run) -> None:
    file = rename(repository)
    campus, university = Path("output/campus"), Path("output/university")
    before = {path: path.read_bytes() for path in university.rglob("*.*")}
    place, (line,) = planned(file)
    assert (place, line.startswith(f"high prune: {RENAME}")) == ("HEAD:output/university", True)

    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 0, ran.stdout
    keeps = "output/university keeps the release before the rename: the page `Rename a platform` has the next steps"
    assert f"  {keeps}" in ran.stdout.splitlines()
    assert {path: path.read_bytes() for path in university.rglob("*.*")} == before
    for source in (file, campus):
        assert planned(source) == ("HEAD:output/university", [line])
    ran = mpigen("validate", "output", "--since", "HEAD")
    assert (ran.returncode, "the change: 0 findings" in ran.stdout) == (0, True), ran.stdout

    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "rename")
    assert planned(file) == ("HEAD:output/campus", [])
    assert planned(file, "HEAD~1") == ("HEAD~1:output/university", [line])
    shutil.rmtree(university)
    assert planned(university) == ("HEAD:output/university", [line])
    ran = mpigen("validate", "output", "--since", "HEAD")
    assert (ran.returncode, "the change: 0 findings" in ran.stdout) == (0, True), ran.stdout
    assert "keeps the release" not in mpigen("synth", "platform.yaml").stdout


def test_a_rename_hides_no_other_change(repository: Path) -> None:
    file = rename(repository)
    text = file.read_text()
    file.write_text(
        text.replace(
            "  - name: robotics\n    cohort: systems\n    quota: {mi300x: 1, cpu: 5}",
            "  - name: robotics\n    cohort: systems\n    quota: {mi300x: 1, cpu: 4}",
        )
    )
    _, (first, second) = planned(file)
    assert first.startswith(f"high prune: {RENAME}")
    assert second.startswith("medium quota: team `robotics` owns 4 instead of 5 nodes")


def test_a_rename_from_an_unknown_name_is_reported(repository: Path, mpigen: Run) -> None:
    rename(repository, earlier="universty")
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 0
    words = "`renamedFrom` of the platform is `universty`, but there is no release with this name"
    place = "platform.yaml:5:14: warning: change/unknown-predecessor: Release campus renamedFrom"
    assert f"{place}: {words}" in ran.stdout.splitlines()


def test_a_change_that_a_rename_cannot_hide_is_refused(repository: Path, mpigen: Run) -> None:
    file = rename(repository)
    text = file.read_text()
    start, end = text.index("  - name: astro\n"), text.index("  - name:", text.index("  - name: astro\n") + 5)
    file.write_text(text[:start] + text[end:])
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 1
    assert "change/tenant-removed: Namespace astro" in ran.stdout
    assert not Path("output/campus").exists()
