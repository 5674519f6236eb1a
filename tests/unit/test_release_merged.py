"""Test that a release is written over a merge of two releases in Git, and that edits by hand are still found."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from generator.errors import OutputError
from generator.release import LOCK, Release, Written, find_replaced, verify, write
from tests.unit.test_release_history import git

START = {"a": "one", "b": "one", "c": "one", "gone": "one"}
LINES = "".join(f"{number}: {{}}\n" for number in range(20))


def release(version: str, **values: str) -> Release:
    """Return a release with a file of twenty lines for each name: `x/y` sets the first line to x, the last one to y."""
    files = {}
    for name, value in values.items():
        first, _, last = value.partition("/")
        files[f"{name}.yaml"] = f"first: {first}\n{LINES}last: {last or first}\n"
    return Release("prod", version, files, hashlib.sha256(repr((version, values)).encode()).hexdigest(), {})


def commit(root: Path, message: str, written: Release | None = None) -> None:
    if written:
        write(written, root / "output")
    git(root, "add", "--all")
    git(root, "commit", "--allow-empty", "--message", message)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the release folder on the branch `ours`; the branch `theirs` has another release of the same base.

    Both change `a` in the same line and `b` in different lines. `c` changes in theirs; each side has an own new file,
    and theirs removes `gone`.
    """
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path, "start", release("1.0.0", **START))
    git(tmp_path, "branch", "theirs")
    git(tmp_path, "checkout", "-b", "ours")
    commit(tmp_path, "ours", release("1.1.0", a="two", b="two/one", c="one", gone="one", mine="one"))
    git(tmp_path, "checkout", "theirs")
    commit(tmp_path, "theirs", release("1.1.0", a="three", b="one/three", c="three", other="one"))
    git(tmp_path, "checkout", "ours")
    return tmp_path / "output/prod"


MERGED = release("1.2.0", a="five", b="two/three", c="three", mine="one", other="one")


def run(home: Path, *commands: str) -> None:
    """Run git commands in the repository, also commands that stop because of conflicts."""
    for command in commands:
        who = ["-c", "user.name=tests", "-c", "user.email=tests@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *command.split()], cwd=home.parent.parent, check=False, capture_output=True)


def put(home: Path) -> Written:
    return write(MERGED, home.parent)


def names(home: Path) -> set[str]:
    return {file.name for file in home.iterdir()}


FILES = {"a.yaml", "b.yaml", "c.yaml", "mine.yaml", "other.yaml", LOCK}
MERGES = {
    "merge": ["merge theirs"],
    "diff3": ["-c merge.conflictStyle=diff3 merge theirs"],
    "zdiff3": ["-c merge.conflictStyle=zdiff3 merge theirs"],
    "rebase": ["rebase theirs"],
    "cherry-pick": ["cherry-pick theirs"],
    "from the other side": ["checkout theirs", "merge ours"],
    "style chosen later": ["merge theirs", "checkout --conflict=diff3 output"],
    "lock of ours": ["merge theirs", f"checkout --ours output/prod/{LOCK}"],
    "lock of theirs": ["merge theirs", f"checkout --theirs output/prod/{LOCK}"],
    "lock of ours, added": ["merge theirs", f"checkout --ours output/prod/{LOCK}", "add ."],
    "lock of ours in a rebase": ["rebase theirs", f"checkout --ours output/prod/{LOCK}"],
    "lock of HEAD": ["merge theirs", f"checkout HEAD output/prod/{LOCK}"],
    "folder of ours": ["merge theirs", "checkout --ours output"],
    "folder of theirs": ["merge theirs", "checkout --theirs output"],
    "lock removed": ["merge theirs", f"rm --quiet --force output/prod/{LOCK}"],
    "strategy option ours": ["merge -X ours theirs"],
    "strategy option theirs": ["merge -X theirs theirs"],
    "lock of ours, committed": ["merge theirs", f"checkout --ours output/prod/{LOCK}", "add .", "commit -m merge"],
    "markers committed": ["merge theirs", "add .", "commit -m merge"],
    "union": ["config merge.default union", "merge theirs"],
    "squash": ["merge --squash theirs"],
    "another algorithm": ["-c diff.algorithm=patience merge theirs"],
}


@pytest.mark.parametrize("commands", MERGES.values(), ids=MERGES)
def test_a_release_replaces_a_merge(home: Path, commands: list[str]) -> None:
    run(home, *commands)
    assert put(home).merged
    assert (verify(home), names(home)) == ([], FILES)


@pytest.mark.parametrize("commands", MERGES.values(), ids=MERGES)
@pytest.mark.parametrize("file", ["a", "b", "c", "mine", "other"])
def test_an_edit_by_hand_in_a_merge_is_rejected(home: Path, commands: list[str], file: str) -> None:
    run(home, *commands)
    path = home / f"{file}.yaml"
    path.write_text(path.read_text().replace("10: {}", "10: {hand: edited}"))
    before = {item.name: item.read_bytes() for item in home.iterdir()}
    with pytest.raises(OutputError) as caught:
        put(home)
    assert [(problem.file, "pass --discard-edits" in problem.fix) for problem in caught.value.problems] == [
        (str(path), True)
    ]
    assert {item.name: item.read_bytes() for item in home.iterdir()} == before
    write(MERGED, home.parent, discard_edits=True)
    assert (verify(home), names(home)) == ([], FILES)


def refused(home: Path) -> list[tuple[str, str]]:
    """Return the file name and the message of each problem for which the release is not written."""
    with pytest.raises(OutputError) as caught:
        put(home)
    return [(Path(problem.file).name, problem.message) for problem in caught.value.problems]


@pytest.mark.parametrize("command", ["merge theirs", "rebase theirs", "cherry-pick theirs"])
@pytest.mark.parametrize("file", ["b", "c"])
def test_an_edit_that_a_side_committed_is_rejected(home: Path, command: str, file: str) -> None:
    run(home, "checkout theirs")
    path = home / f"{file}.yaml"
    path.write_text(path.read_text().replace("10: {}", "10: {hand: edited}"))
    run(home, "commit --all -m edit", "checkout ours", command)
    assert [name for name, _ in refused(home)] == [path.name]


def test_a_file_that_is_deleted_by_hand_in_a_merge_is_rejected(home: Path) -> None:
    run(home, "merge theirs")
    (home / "c.yaml").unlink()
    assert refused(home) == [("c.yaml", "was deleted by hand")]


def test_a_file_of_the_user_is_kept_in_a_merge(home: Path) -> None:
    (home / "hand.yaml").write_text("kind: A\n")
    run(home, "add .", "commit -m hand", "merge theirs")
    assert put(home).kept == ("hand.yaml",)


def test_a_merge_of_another_folder_does_not_hide_edits(home: Path) -> None:
    run(home, "merge theirs")
    put(home)
    run(home, "add .", "commit -m merge")
    (home.parent.parent / "text").write_text("ours\n")
    run(home, "add .", "commit -m ours", "checkout -b other HEAD~", "merge --no-commit --no-ff ours")
    (home / "c.yaml").write_text("first: hand\n")
    assert [name for name, _ in refused(home)] == ["c.yaml"]


def test_verify_reports_the_files_of_a_merge_that_the_lock_does_not_list(home: Path) -> None:
    run(home, "merge theirs", f"checkout --ours output/prod/{LOCK}")
    (home / "c.yaml").write_text("first: hand\n")
    found = {Path(problem.file).name: problem.message for problem in verify(home)}
    merged = "is from a merge of two releases, and release.json does not list it"
    edited = {"c.yaml": "was edited by hand"}
    assert found == {**dict.fromkeys(["a.yaml", "b.yaml", "gone.yaml", "other.yaml"], merged), **edited}


def test_conflict_markers_in_a_lock_are_named(home: Path) -> None:
    run(home, "merge theirs")
    (problem,) = verify(home)
    text = (home / LOCK).read_text().splitlines()
    assert (problem.file, text[problem.line - 1][:7]) == (str(home / LOCK), "<<<<<<<")
    assert "`<<<<<<<` is a conflict marker" in problem.message
    assert "run `mpigen synth`" in problem.fix


def test_without_git_a_release_replaces_the_files_that_git_need_not_merge(home: Path) -> None:
    run(home, "merge theirs")
    (home.parent.parent / ".git").rename(home.parent.parent / "moved")
    assert [name for name, _ in refused(home)] == ["a.yaml"]  # the new release has the content of `b.yaml`
    run(home, "--git-dir=moved checkout --theirs output/prod/a.yaml")
    assert put(home).merged
    assert (verify(home), names(home)) == ([], FILES)


@pytest.mark.parametrize("start", ["1.0.0", "1.1.0"])
def test_a_version_of_both_sides_is_reported_if_both_raised_it(home: Path, start: str) -> None:
    if start == "1.1.0":
        run(home, "checkout -B main main", "branch -f base")
        commit(home.parent.parent, "again", release("1.1.0", **START))
        for branch, value in (("ours", "two"), ("theirs", "three")):
            run(home, f"checkout -B {branch} main")
            commit(home.parent.parent, branch, release("1.1.0", a=value))
    run(home, "checkout ours", "merge theirs")
    assert not write(release("1.2.0", a="five"), home.parent).repeats
    run(home, "checkout --merge output")
    assert write(release("1.1.0", a="five"), home.parent).repeats == (start == "1.0.0")


def test_a_conflict_that_is_committed_is_read_by_its_first_side(home: Path) -> None:
    run(home, "merge theirs", "add .", "commit -m merge")
    tree = find_replaced(home)
    assert tree
    assert tree.files["a.yaml"].startswith(b"first: two\n")
