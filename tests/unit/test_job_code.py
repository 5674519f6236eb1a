"""Test the ConfigMap with the program of a job."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator.cli.code import read_code
from generator.documents.emit import BriefEmitter
from generator.documents.folder import read_folder
from generator.errors import ConfigError, InputError
from generator.jobs.code import FOLDER, LARGEST, config_map, find_faults, mount
from tests.unit.test_release_history import git

NAMES = st.from_regex(r"[a-z0-9_]{1,4}(/[a-z_ ]{1,3})?(\.py)?", fullmatch=True)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_folder_has_its_files_without_hidden_ones_and_caches(tmp_path: Path) -> None:
    ours = {"train.py": b"a", "lib/net.py": b"b", "data.bin": b"\xff"}
    hidden = {".git/config": b"x", ".env": b"x", "lib/__pycache__/net.pyc": b"x"}
    assert read_folder(write(tmp_path, ours | hidden)) == ours
    assert read_folder(tmp_path / "train.py") == {"train.py": b"a"}


def test_the_pods_have_every_file_at_its_path(tmp_path: Path) -> None:
    code = read_folder(write(tmp_path, {"train.py": b"a", "lib/net.py": "\u00e4".encode(), "data.bin": b"\xff"}))
    made = config_map(code, "train-code", "team-a", owner="ada")
    assert made["metadata"] == {
        "name": "train-code",
        "namespace": "team-a",
        "annotations": {"mpigen.dev/owner": "ada"},
    }
    contents = {
        **{key: text.encode() for key, text in made["data"].items()},
        **{key: base64.b64decode(text) for key, text in made["binaryData"].items()},
    }
    volume = mount(code, "train-code")
    assert (volume.source, volume.name, volume.path, volume.mode) == ("configmap", "train-code", FOLDER, 0o555)
    assert {path: contents[key] for key, path in volume.items.items()} == code


def test_files_of_one_folder_need_no_paths() -> None:
    assert mount({"train.py": b"", "run.sh": b""}, "code").items == {}


@given(st.dictionaries(NAMES, st.binary(max_size=3), min_size=1, max_size=20))
def test_no_two_files_have_one_key(code: dict[str, bytes]) -> None:
    made = config_map(code, "code", "team-a", owner="ada")
    assert len(made.get("data", {})) + len(made.get("binaryData", {})) == len(code)


@given(
    st.dictionaries(
        NAMES,
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.binary(max_size=5),
        min_size=1,
        max_size=3,
    )
)
def test_the_printed_config_map_has_the_bytes_of_every_file(files: dict[str, str | bytes]) -> None:
    code = {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
    printed = BriefEmitter().emit([config_map(code, "code", "team-a", owner="ada")])
    (made,) = yaml.safe_load_all(printed)
    texts = {key: text.encode() for key, text in made.get("data", {}).items()}
    others = {key: base64.b64decode(text) for key, text in made.get("binaryData", {}).items()}
    assert sorted((texts | others).values()) == sorted(code.values())


def test_files_that_do_not_fit_are_rejected_with_the_largest() -> None:
    (problem,) = find_faults({"model.bin": b"x" * LARGEST, "train.py": b"a"})
    assert "the files have 1,048,594 bytes, and a ConfigMap can have 1,048,576" in str(problem)
    assert "the largest file is `model.bin` with 1,048,576" in str(problem)
    assert list(find_faults({"model.bin": b"x" * (LARGEST - 9)})) == []


def test_a_path_without_files_is_rejected(tmp_path: Path) -> None:
    assert read_folder(tmp_path) == {}
    with pytest.raises(InputError, match=r"absent\.py"):
        read_folder(tmp_path / "absent.py")


def test_a_revision_has_the_files_that_git_stores(tmp_path: Path) -> None:
    write(tmp_path, {"src/train.py": b"old", "src/lib/net.py": b"b", "src/.env": b"x", "README.md": b"c"})
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    git(tmp_path, "tag", "v1")
    write(tmp_path, {"src/train.py": b"new", "src/@v1/a": b"d"})
    assert read_code(f"{tmp_path}/src@v1") == {"train.py": b"old", "lib/net.py": b"b"}
    assert read_code(f"{tmp_path}/src/train.py@v1") == {"train.py": b"old"}
    assert read_code(f"{tmp_path}/src")["train.py"] == b"new"
    assert read_code(f"{tmp_path}/src/@v1") == {"a": b"d"}  # a folder with this name


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("https://github.com/org/repo@v1", "is on a server, and mpigen contacts none"),
        ("git@github.com:org/repo", "is on a server, and mpigen contacts none"),
        ("{folder}@v1", "is in no Git repository; name a folder of a clone, or remove `@v1`"),
        ("{folder}", "has no file; name a folder with the program"),
    ],
)
def test_code_that_is_not_here_is_rejected(code: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match=re.escape(told)):
        read_code(code.format(folder=tmp_path))


def test_a_link_in_a_revision_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, {"src/util.py": b"a", "src/.hidden/x": b"b"})
    (tmp_path / "src/link.py").symlink_to("util.py")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    with pytest.raises(click.BadParameter, match=re.escape("has the link `link.py` in `HEAD`")):
        read_code(f"{tmp_path}/src@HEAD")
    assert read_code(f"{tmp_path}/src/util.py@HEAD") == {"util.py": b"a"}
    assert read_code(f"{tmp_path}/src/util.py@HEAD@{{0}}") == {"util.py": b"a"}


def test_a_long_name_is_rejected() -> None:
    with pytest.raises((InputError, click.BadParameter)):
        read_code("a" * 300 + "@HEAD")


def test_a_folder_that_a_revision_lacks_is_rejected(tmp_path: Path) -> None:
    git(write(tmp_path, {"train.py": b""}), "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    with pytest.raises(click.BadParameter, match="/absent@HEAD` has no file"):
        read_code(f"{tmp_path}/absent@HEAD")


def test_an_unknown_revision_is_rejected(tmp_path: Path) -> None:
    git(write(tmp_path, {"train.py": b""}), "init", "--quiet")
    with pytest.raises(ConfigError, match="there is no revision `v2`"):
        read_code(f"{tmp_path}@v2")
