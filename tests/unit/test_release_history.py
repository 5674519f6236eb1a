"""Test which release a new one replaces, and that a tagged version never changes."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from generator.documents.files import MAX_FILE
from generator.errors import ConfigError, DocumentError, OutputError
from generator.manifests import Manifest, read
from generator.release import LOCK, Release, find_replaced, find_tagged, find_unraised, is_uncommitted, write
from generator.release.git import Repository
from generator.release.history import next_version

NAMED = "kind: Namespace\nmetadata:\n  name: {}\n"


def release(*names: str, version: str = "1.0.0") -> tuple[Release, list[Manifest]]:
    """Return a release with a file for each name, and its manifests."""
    files = {f"{name}.yaml": NAMED.format(name) for name in names}
    tree = [found for file, text in files.items() for found in read(text, file)]
    return Release("prod", version, files, "0" * 64, {}), tree


def put(root: Path, *names: str, version: str = "1.0.0") -> Path:
    return write(release(*names, version=version)[0], root).folder


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=tests", "-c", "user.email=tests@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with release 1.0.0 of two files below output/, committed on `main`."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    put(tmp_path / "output", "a", "b")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "start")
    return tmp_path


def replaced(home: Path, against: str = "", *names: str) -> list[str]:
    """Return the place and the name of each object of the replaced release."""
    tree = find_replaced(home, against)
    return [f"{found.file}: {found.name}" for found in tree.manifests(*release(*names))] if tree else []


# The release that a new one replaces


def test_a_first_release_replaces_nothing(tmp_path: Path) -> None:
    assert find_replaced(tmp_path / "output/prod") is None


def test_without_git_the_release_on_disk_is_replaced(tmp_path: Path) -> None:
    home = put(tmp_path, "a", "b")
    assert replaced(home, "", "a") == [f"replaced:{home}/a.yaml: a", f"replaced:{home}/b.yaml: b"]


def test_the_committed_release_is_replaced_even_if_the_disk_differs(repository: Path) -> None:
    home = put(repository / "output", "a", "c")
    assert replaced(home) == ["HEAD:output/prod/a.yaml: a", "HEAD:output/prod/b.yaml: b"]
    tree = find_replaced(home)
    assert tree
    assert tree.texts["HEAD:output/prod/b.yaml"] == NAMED.format("b")


def test_a_release_that_is_not_committed_yet_is_replaced_on_disk(repository: Path) -> None:
    home = put(repository / "elsewhere", "c")
    assert replaced(home) == [f"replaced:{home}/c.yaml: c"]


def test_a_release_on_disk_is_uncommitted_if_git_should_have_it(repository: Path) -> None:
    home = put(repository / "elsewhere", "c")
    tree = find_replaced(home)
    assert tree
    assert is_uncommitted(tree, home)
    (repository / ".gitignore").write_text("/elsewhere/\n")
    assert not is_uncommitted(tree, home)
    committed = find_replaced(repository / "output/prod")
    assert committed
    assert not is_uncommitted(committed, repository / "output/prod")


def test_a_release_outside_of_git_is_not_uncommitted(tmp_path: Path) -> None:
    home = put(tmp_path, "a")
    tree = find_replaced(home)
    assert tree
    assert not is_uncommitted(tree, home)


def test_a_repository_without_commits_has_no_committed_release(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert replaced(put(tmp_path, "a")) == [f"replaced:{tmp_path}/prod/a.yaml: a"]


def test_another_revision_or_folder_is_replaced_on_request(repository: Path, tmp_path: Path) -> None:
    home = put(repository / "output", "c", version="1.1.0")
    git(repository, "commit", "--all", "--message", "next")
    assert replaced(home, "HEAD~1") == ["HEAD~1:output/prod/a.yaml: a", "HEAD~1:output/prod/b.yaml: b"]
    other = put(tmp_path / "other", "d")
    assert replaced(home, str(other)) == [f"{other}/d.yaml: d"]


def test_a_revision_without_the_release_has_nothing_to_replace(repository: Path) -> None:
    assert find_replaced(repository / "output/test", "main") is None


def test_an_unknown_revision_is_rejected(repository: Path) -> None:
    for name in ("v9", "--help", "main:output", ""):
        if name:
            with pytest.raises(ConfigError, match="--against: there is no revision"):
                find_replaced(repository / "output/prod", name)


def test_a_revision_needs_a_repository(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`main` is no folder, and .* is in no Git repository"):
        find_replaced(tmp_path / "prod", "main")


def test_a_missing_git_program_is_reported(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="git cannot be run: No such file or directory; install git"):
        find_replaced(repository / "output/prod")


def test_manual_edits_of_the_replaced_release_are_read(tmp_path: Path) -> None:
    home = put(tmp_path, "a", "b", "c")
    (home / "a.yaml").write_text(NAMED.format("other"))
    (home / "b.yaml").unlink()
    (home / "hand.yaml").write_text(NAMED.format("hand"))
    assert replaced(home, "", "a", "b", "c") == [f"replaced:{home}/a.yaml: other", f"replaced:{home}/c.yaml: c"]


def test_an_unchanged_file_is_not_parsed_again(repository: Path) -> None:
    wanted, rendered = release("a")
    marked = [replace(manifest, body={**manifest.body, "marked": True}) for manifest in rendered]
    tree = find_replaced(repository / "output/prod")
    assert tree
    assert ["marked" in found.body for found in tree.manifests(wanted, marked)] == [True, False]


def test_an_unreadable_file_is_reported_with_its_location(tmp_path: Path) -> None:
    home = put(tmp_path, "a")
    (home / "a.yaml").write_text("a: [")
    with pytest.raises(DocumentError, match="closed") as caught:
        replaced(home)
    assert caught.value.problems[0].file == f"replaced:{home}/a.yaml"
    (home / "a.yaml").unlink()
    (home / "a.yaml").symlink_to(home / LOCK)
    with pytest.raises(OutputError, match="the operating system reports"):
        replaced(home)


def test_a_damaged_lock_is_reported(repository: Path) -> None:
    lock = repository / "output/prod" / LOCK
    lock.write_text("{}")
    git(repository, "commit", "--all", "--message", "damage")
    with pytest.raises(OutputError, match=r"HEAD:output/prod/release\.json: cannot be read: a field"):
        replaced(lock.parent)
    with pytest.raises(OutputError, match=r"release\.json: cannot be read: a field"):
        replaced(lock.parent, str(lock.parent))


# Tagged versions


def test_a_tagged_version_never_changes(repository: Path) -> None:
    home = repository / "output/prod"
    changed = release("a", "c")[0]
    assert find_tagged(changed, home) == []
    git(repository, "tag", "prod/1.0.0")
    (problem,) = find_tagged(changed, home)
    assert problem.message == "release 1.0.0 differs from the files under its tag `prod/1.0.0`: b.yaml, c.yaml"
    assert problem.fix == "set `release: 1.0.1` in the platform file, because a tagged release never changes"
    assert find_tagged(release("a", "b")[0], home) == []
    assert find_tagged(release("a", "c", version="1.1.0")[0], home) == []


def test_the_application_of_a_tagged_version_may_select_another_version(repository: Path) -> None:
    git(repository, "tag", "prod/1.0.0")
    same = release("a", "b")[0]
    pinned = replace(same, files={**same.files, "argocd/application.yaml": "x\n"}, inputs="1" * 64)
    assert find_tagged(pinned, repository / "output/prod") == []


def test_a_branch_with_the_name_of_a_tag_is_no_tag(repository: Path) -> None:
    git(repository, "branch", "prod/1.0.0")
    assert find_tagged(release("c")[0], repository / "output/prod") == []


@pytest.mark.parametrize(
    ("count", "end"), [(10, "n08.yaml, n09.yaml"), (11, "n08.yaml, n09.yaml and 1 more"), (13, " and 3 more")]
)
def test_a_list_of_changed_files_has_at_most_ten_names(repository: Path, count: int, end: str) -> None:
    git(repository, "tag", "prod/1.0.0")
    changed = release("a", "b", *(f"n{number:02}" for number in range(count)))[0]
    (problem,) = find_tagged(changed, repository / "output/prod")
    assert problem.message.endswith(end)


def test_other_content_needs_another_version(repository: Path) -> None:
    home = repository / "output/prod"
    assert find_unraised(home, "main") == []
    put(repository / "output", "a")
    (problem,) = find_unraised(home, "main")
    assert problem.message == "release 1.0.0 differs from `main`: b.yaml"
    assert problem.fix == "set `release: 1.0.1` in the platform file, and run `mpigen synth`"
    put(repository / "output", "a", version="1.0.1")
    assert find_unraised(home, "main") == []
    assert find_unraised(put(repository / "output2", "x"), "main") == []


@pytest.mark.parametrize(
    ("version", "after"),
    [
        ("1.0.0", "1.0.1"),
        ("1.0.9", "1.0.10"),
        ("1.0.99", "1.0.100"),
        ("1.0.129", "1.0.130"),
        ("1.0.199", "1.0.200"),
        ("2.0.0-rc.1", "2.0.0-rc.2"),
        ("1.2.3-beta", "1.2.4-beta"),
    ],
)
def test_the_next_version_raises_the_last_number(version: str, after: str) -> None:
    assert next_version(version) == after


# The git program


def test_a_hostile_repository_runs_no_program(repository: Path) -> None:
    trap, run = repository / "trap", repository / "ran"
    trap.write_text(f"#!/bin/sh\ntouch {run}\ncat\n")
    trap.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil diff=evil\n")
    git(repository, "add", ".")
    git(repository, "commit", "--message", "attributes")
    settings = ("core.fsmonitor", "core.pager", "filter.evil.smudge", "diff.evil.textconv", "core.sshCommand")
    for setting in (*settings, "alias.cat-file", "uploadpack.packObjectsHook"):
        git(repository, "config", setting, str(trap))
    assert len(replaced(repository / "output/prod")) == 2
    assert not run.exists()


def test_a_missing_object_is_not_fetched(repository: Path, tmp_path: Path) -> None:
    run = tmp_path / "ran"
    for setting, value in {
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::sh -c touch% {run}",
        "protocol.ext.allow": "always",
    }.items():
        git(repository, "config", setting, value)
    (blob,) = (item for path, item in Repository(repository).files("HEAD", "output/prod").items() if path == "a.yaml")
    (repository / ".git/objects" / blob.id[:2] / blob.id[2:]).unlink()
    with pytest.raises(ConfigError, match="is missing in this clone; run `git fetch"):
        replaced(repository / "output/prod")
    assert not run.exists()


def test_links_and_unusual_names_are_read(repository: Path) -> None:
    (repository / "odd").mkdir()
    for name in ("ü\n.yaml", "-x", "a b"):
        (repository / "odd" / name).write_text(name)
    (repository / "odd/link").symlink_to("a b")
    git(repository, "add", ".")
    git(repository, "commit", "--message", "odd")
    reader = Repository(repository)
    files = reader.files(reader.commit("HEAD"), "odd")
    assert dict(zip(files, reader.read(files.values()), strict=True)) == {
        name: name.encode() for name in ("-x", "a b", "ü\n.yaml")
    }
    assert list(reader.files(reader.commit("HEAD"), "odd/a b")) == [""]
    assert reader.files(reader.commit("HEAD"), "none") == {}


def test_a_committed_file_is_read_up_to_the_limit(repository: Path) -> None:
    reader = Repository(repository)
    blob = reader.files("HEAD", "output/prod")["a.yaml"]
    assert next(reader.read([replace(blob, size=MAX_FILE)])).startswith(b"kind: Namespace")
    with pytest.raises(ConfigError, match="a file of more than 10,000,000 bytes"):
        next(reader.read([replace(blob, size=MAX_FILE + 1)]))


def test_missing_folders_belong_to_a_repository(repository: Path) -> None:
    found = Repository.around(repository / "not/yet")
    assert found
    assert found.path_of(repository / "not/yet") == "not/yet"
    assert found.path_of(repository) == ""
