"""Test that commands read only regular files of limited size, and reject others before they block or fill memory."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest

from generator.checks.files import manifest_files
from generator.cli.main import run
from generator.documents.files import MAX_FILE, MAX_STDIN, read_file, read_stream
from generator.errors import InputError
from tests.conftest import EXAMPLES

PLATFORM = "cpu-kubernetes"
ODD = {
    "large": "is 50,000,000 bytes large, and mpigen reads files of at most 10,000,000 bytes",
    "pipe": "is a pipe, which mpigen does not read",
    "socket": "is a socket, which mpigen does not read",
    "zero": "is a device, which mpigen does not read",
    "link": "is a pipe, which mpigen does not read",
    "loop": "cannot be read: Too many levels of symbolic links",
    "dangling": "is a dangling symbolic link",
}
COMMANDS = {
    "synth": ("synth",),
    "runtimes": ("runtimes", "--release"),
    "runtimes show": ("runtimes", "show", "openmpi", "--release"),
    "fabrics": ("fabrics",),
    "job new": ("job", "new", "--runtime", "openmpi", "--release"),
    "validate": ("validate",),
    "validate --since": ("validate", "sound.yaml", "--since"),
    "queues": ("queues", "--release"),
    "can-i": ("can-i",),
    "policy test": ("policy", "test"),
    "policy test --cases": ("policy", "test", "policies.yaml", "--cases"),
}


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a folder with one of each unreadable file, and some readable ones."""
    for suffix in (".yaml", ".py"):
        with (tmp_path / f"large{suffix}").open("wb") as file:
            file.truncate(50_000_000)
        os.mkfifo(tmp_path / f"pipe{suffix}")
        (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
        (tmp_path / f"link{suffix}").symlink_to(f"pipe{suffix}")
        (tmp_path / f"loop{suffix}").symlink_to(f"loop{suffix}")
        (tmp_path / f"dangling{suffix}").symlink_to("nowhere")
    shutil.copy(EXAMPLES[PLATFORM], tmp_path / "platform.yaml")
    (tmp_path / "sound.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    (tmp_path / "policies.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    monkeypatch.chdir(tmp_path)  # the name of a socket has at most 107 letters
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        first.bind("socket.yaml")
        second.bind("socket.py")
        yield tmp_path


def printed(*arguments: str, stdin: bytes = b"") -> tuple[int, str]:
    """Run a command line in this process, and return its exit code and output."""
    with click.testing.CliRunner().isolation(input=stdin) as streams:
        code = run(list(arguments))
        return code, (streams[0].getvalue() + streams[1].getvalue()).decode()


@pytest.mark.parametrize("suffix", [".yaml", ".py"])
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_rejects_files_that_are_not_regular_or_too_large(
    command: str, name: str, suffix: str, odd: Path
) -> None:
    assert odd.is_dir()
    code, output = printed(*COMMANDS[command], f"{name}{suffix}")
    if command == "validate --since" and name in {"loop", "dangling"}:  # then it is a Git revision
        assert (code, "is no file or folder, and `sound.yaml` is in no Git repository" in output) == (2, True), output
    elif "--" in command and name in {"loop", "dangling"}:  # options of click that need an existing path
        assert (code, "does not exist" in output) == (2, True), output
    else:
        assert (code, ODD[name] in output) == (1 if command.startswith("validate") else 2, True), output
    assert "mpigen has a bug" not in output


@pytest.mark.parametrize("command", ["validate", "queues --release", "can-i", "policy test"])
def test_endless_standard_input_is_rejected(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = printed(*command.split(), "-", stdin=b"#" * (MAX_STDIN + 1))
    assert (code, "standard input does not end within 50,000,000 bytes" in output) == (2, True), output


def test_a_stream_is_read_up_to_its_limit() -> None:
    stream = io.BytesIO(b"x" * 9_000_000)
    with pytest.raises(InputError, match=r"standard input does not end within 3,000,000 bytes"):
        read_stream(stream, "standard input", 3_000_000)
    assert stream.tell() == 3_000_001
    assert read_stream(io.BytesIO(b"x" * 3_000_000), "standard input", 3_000_000) == b"x" * 3_000_000


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_bytes(b"x" * MAX_FILE)
    assert read_file(file) == b"x" * MAX_FILE
    file.write_bytes(b"x" * (MAX_FILE + 1))
    with pytest.raises(InputError, match="is 10,000,001 bytes large"):
        read_file(file)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_a_file_without_a_size_is_read_up_to_the_limit() -> None:
    """Files below /proc are regular files with size 0, whose real size appears only on reading."""
    content = read_file(Path("/proc/self/cmdline"))
    assert Path("/proc/self/cmdline").stat().st_size == 0
    assert read_file(Path("/proc/self/cmdline"), len(content)) == content
    with pytest.raises(InputError, match=f"does not end, and mpigen reads files of at most {len(content) - 1} bytes"):
        read_file(Path("/proc/self/cmdline"), len(content) - 1)


@pytest.mark.parametrize("name", ["a\0b", "a\udfff", "x" * 5000, "a/../../\0"])
def test_an_impossible_file_name_is_rejected(name: str) -> None:
    with pytest.raises(InputError, match="cannot be read: "):
        read_file(Path(name))


def test_files_are_searched_up_to_a_limit(tmp_path: Path) -> None:
    files = tuple(tmp_path / f"{number}.yaml" for number in range(4))
    for file in files:
        file.write_text("")
    assert manifest_files([tmp_path], limit=4).files == files
    with pytest.raises(InputError, match="more than 3 files below"):
        manifest_files([tmp_path], limit=3)


@pytest.mark.parametrize("command", ["validate", "queues --release", "can-i"])
def test_symlink_cycles_are_not_followed(command: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "up").symlink_to("..")
    (inner / "sound.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    assert printed(*command.split(), str(tmp_path))[0] == 0


@pytest.mark.parametrize("command", ["validate", "queues --release", "can-i"])
@pytest.mark.parametrize(
    ("target", "is_read"),
    [
        ("inside.yaml", True),
        ("sub/../inside.yaml", True),
        ("../other.yaml", True),  # in the Git work tree
        ("../.git/config.yaml", False),
        ("../../secret.yaml", False),
        ("SECRET", False),
        ("chain", False),
    ],
)
def test_a_link_out_of_the_repository_is_not_read(command: str, target: str, is_read: bool, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    folder = tmp_path / "repository/manifests"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "repository/.git").mkdir()
    sound = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"
    for file in (folder / "inside.yaml", tmp_path / "repository/other.yaml"):
        file.write_text(sound)
    for file in (secret, tmp_path / "repository/.git/config.yaml"):
        file.write_text("kind: x\npassword: [hunter2\n")
    (folder / "chain").symlink_to(secret)
    (folder / "link.yaml").symlink_to(secret if target == "SECRET" else target)
    for path in (folder, folder / "link.yaml"):
        code, output = printed(*command.split(), str(path))
        assert "hunter2" not in output
        assert (code == 0, "is a symbolic link to a file outside of" in output) == (is_read, not is_read), output


@pytest.mark.parametrize(("target", "is_read"), [("inside.yaml", True), ("../secret.yaml", False)])
def test_a_link_out_of_a_folder_without_a_repository_is_not_read(target: str, is_read: bool, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "inside.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    (tmp_path / "secret.yaml").write_text("kind: x\npassword: [hunter2\n")
    (folder / "link.yaml").symlink_to(target)
    code, output = printed("validate", str(folder))
    assert (code == 0, "hunter2" in output) == (is_read, False)
    assert "is a symbolic link" not in printed("validate", str(folder / "link.yaml"))[1]  # the user names the link


def test_folders_deeper_than_the_recursion_limit_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(1200):
        os.mkdir("a")  # noqa: PTH102 - a path of that length has to be made step by step
        os.chdir("a")
    Path("sound.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    os.chdir(tmp_path)
    code, output = printed("validate", "a")
    subprocess.run(["rm", "-r", "a"], check=True)  # shutil.rmtree recurses, so pytest could not
    assert (code, "1 object in 1 file" in output) == (0, True), output
