"""Test that the nightly run runs all steps, repeats only failed steps, and starts again for another commit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import nightly
from tests.conftest import ROOT
from tests.nightly import MADE, STEPS, Result, commit, run, summary

ALL = ONE, TWO, THREE = "one", "two", "three"
Nightly = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with one commit."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    change(root, "first")
    return root


@pytest.fixture
def run_all(repository: Path, tmp_path: Path) -> Nightly:
    """Return a function that runs three steps, of which some fail, and returns their outcomes."""

    def made(*broken: str, fresh: bool = False, during: Callable[[], object] = lambda: None) -> list[tuple[str, str]]:
        def execute(step: str, _only: Sequence[str]) -> list[str] | None:
            during()
            return [] if step in broken else None

        results = run(ALL, repository, tmp_path / "record.json", execute=execute, fresh=fresh)
        return [(result.step, result.outcome) for result in results]

    return made


def git(root: Path, *arguments: str) -> None:
    person = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", *person, *arguments], cwd=root, check=True)


def change(root: Path, text: str) -> None:
    (root / "file").write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", text)


def outcomes(*words: str) -> list[tuple[str, str]]:
    return [(step, word) for step, word in zip(ALL, words, strict=True)]


def test_a_step_that_fails_does_not_stop_the_others(run_all: Nightly) -> None:
    assert run_all(TWO) == outcomes("passed", "failed", "passed")


def test_the_same_commit_goes_on_with_the_failed_steps(run_all: Nightly) -> None:
    run_all(ONE, TWO)
    assert run_all() == outcomes("passed", "passed", "passed before")
    assert run_all(*ALL) == outcomes("passed before", "passed before", "passed before")


def test_another_commit_starts_with_the_first_step(run_all: Nightly, repository: Path) -> None:
    run_all()
    change(repository, "second")
    assert run_all(TWO) == outcomes("passed", "failed", "passed")


def test_a_fresh_run_runs_all_steps_again(run_all: Nightly) -> None:
    run_all()
    assert run_all(THREE, fresh=True) == outcomes("passed", "passed", "failed")
    assert run_all() == outcomes("passed before", "passed before", "passed")


def test_a_changed_work_tree_is_neither_recorded_nor_skipped(run_all: Nightly, repository: Path) -> None:
    run_all()
    (repository / "new").touch()
    assert commit(repository) == ""
    assert run_all() == outcomes("passed", "passed", "passed")


def test_a_step_that_changes_the_work_tree_is_not_recorded(run_all: Nightly, repository: Path) -> None:
    run_all(during=(repository / "new").touch)
    (repository / "new").unlink()
    assert run_all() == outcomes("passed", "passed", "passed")


def test_a_committed_record_that_a_step_writes_is_no_change(run_all: Nightly, repository: Path) -> None:
    record = repository / MADE[0]
    record.parent.mkdir(parents=True)
    run_all(during=record.touch)
    assert run_all(*ALL) == outcomes("passed before", "passed before", "passed before")


@pytest.mark.parametrize(("again", "outcome"), [(None, "passed"), (["b"], "failed")])
def test_failed_tests_of_a_cluster_step_run_once_more_alone(
    repository: Path, tmp_path: Path, again: list[str] | None, outcome: str
) -> None:
    runs: list[tuple[str, ...]] = []

    def execute(_step: str, only: Sequence[str]) -> list[str] | None:
        runs.append(tuple(only))
        return again if only else ["a", "b"]

    (result,) = run(["cluster-rest"], repository, tmp_path / "record.json", execute=execute)
    assert (runs, result.outcome, result.repeated) == ([(), ("a", "b")], outcome, ("a", "b"))
    assert "failed at the first try: a" in summary([result], "")


def test_failed_tests_of_another_step_do_not_run_again(repository: Path, tmp_path: Path) -> None:
    (result,) = run(["test"], repository, tmp_path / "record.json", execute=lambda _step, _only: ["a"])
    assert (result.outcome, result.repeated) == ("failed", ())


def test_pytest_runs_again_the_tests_that_the_nightly_run_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real pytest reads and writes the file of failed tests, in two processes as the Makefile starts it."""
    (tmp_path / "Makefile").write_text(f"cluster-x:\n\t{sys.executable} -m pytest -n 2 tests\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "tests" / "test_it.py").write_text(
        "import pathlib\n"
        "def test_good(): pathlib.Path('good').open('a').write('x')\n"
        "def test_flaky():\n"
        "    tries = pathlib.Path('tries')\n"
        "    tries.open('a').write('x')\n"
        "    assert tries.read_text() == 'xx'\n"
    )
    monkeypatch.setattr(nightly, "ROOT", tmp_path)
    monkeypatch.setattr(nightly, "FAILED", tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed")
    git(tmp_path, "init", "--quiet")
    (result,) = run(["cluster-x"], tmp_path, tmp_path / "record.json", execute=nightly.execute)
    assert (result.outcome, result.repeated) == ("passed", ("tests/test_it.py::test_flaky",))
    assert (tmp_path / "good").read_text() == "x"


def test_the_summary_lists_steps_with_outcome_and_duration() -> None:
    results = [Result(ONE, "passed before", 781), Result(TWO, "failed", 5), Result(THREE, "passed", 61)]
    assert summary(results, "8fa83639").splitlines() == [
        "one        passed before   13 min  1 s",
        "two        failed           0 min  5 s",
        "three      passed           1 min  1 s",
        "all steps                  14 min  7 s",
        "commit 8fa83639",
    ]
    assert "no step is recorded, because the work tree differs" in summary(results, "")


def test_every_step_is_a_target_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for step in STEPS:
        assert f"\n{step}:" in makefile


def test_the_record_is_in_a_folder_that_git_ignores() -> None:
    assert nightly.RECORD.parent.name in (ROOT / ".gitignore").read_text().split()
