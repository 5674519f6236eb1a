"""Test the ConfigMap with the program of a job."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from generator.documents.emit import BriefEmitter
from generator.documents.folder import read_folder
from generator.errors import InputError
from generator.jobs.code import FOLDER, LARGEST, config_map, find_faults, mount

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
