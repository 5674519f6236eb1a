"""A failure of a platform file in Python is invalid input with a line of the user's file, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from generator import Platform
from generator.config.python_file import find_shadowed_module, run_platform_file
from generator.errors import ConfigError, ExitCode
from tests.conftest import EXAMPLES, ROOT

POOL = 'Pool(name="cpu", nodes=4, allocatable={"cpu": 64, "memory": "256Gi"})'
SOUND = f"from generator import Platform, Pool\nplatform = Platform(platform='prod', release='1.0.0', pools=[{POOL}])\n"

WRONG = {
    "not Python": ("x = 1\nplatform = (\n", ["fleet.py:2:12: not Python: '(' was never closed"]),
    "not text": (
        "x = 1\ny = '\udce9'\n",
        ["fleet.py:2:"],
    ),
    "an exception": (
        "def load():\n    return {}['pools']\n\n\nload()\n",
        ["fleet.py:2: KeyError: 'pools'; fix the platform file"],
    ),
    "an exception of several lines": (
        "raise ValueError('one\\ntwo')\n",
        ["fleet.py:1: ValueError: one; fix the platform file"],
    ),
    "an exception without words": ("raise ValueError\n", ["fleet.py:1: ValueError; fix the platform file"]),
    "an exception below the user's code": (
        "import json\n\njson.loads('{')\n",
        ["fleet.py:3: JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"],
    ),
    "an endless recursion": (
        "def deeper(): return deeper()\ndeeper()\n",
        ["fleet.py:1: RecursionError: maximum recursion depth exceeded"],
    ),
    "a slip in code that is made on the fly": (
        "import ast\n\nast.literal_eval('1 +')\n",
        ["fleet.py:3: SyntaxError: invalid syntax (<unknown>, line 1); fix the platform file"],
    ),
    "an exit": ("import sys\nsys.exit(0)\n", ["fleet.py:2: SystemExit: 0; fix the platform file"]),
    "an exception that is no Exception": (
        "class Stop(BaseException):\n    pass\n\nraise Stop('now')\n",
        ["fleet.py:4: Stop: now; fix the platform file"],
    ),
    "an exception whose text fails": (
        "class Mute(Exception):\n    def __str__(self): raise SystemExit(0)\n\nraise Mute\n",
        ["fleet.py:4: Mute; fix the platform file"],
    ),
    "the end of a generator": ("raise GeneratorExit\n", ["fleet.py:1: GeneratorExit; fix the platform file"]),
    "a module that is not there": (
        "import no_such_module\n",
        ["fleet.py:1: ModuleNotFoundError: No module named 'no_such_module'; fix the platform file"],
    ),
    "a wrong pool": (
        "from generator import Pool\n\nPool(name='GPU', nodes=0, allocatable={'cpu': 'many'}, colour='green')\n",
        [
            "fleet.py:3: Pool.name: `GPU` is not a Kubernetes name; use at most 63 lower-case letters,",
            "fleet.py:3: Pool.nodes: `0` is too small; write at least 1",
            "fleet.py:3: Pool.allocatable.cpu: `many` is not a quantity; write it like 64, 500m or 256Gi",
            "fleet.py:3: Pool.colour: there is no field `colour` here; write one of: allocatable, daemons,",
        ],
    ),
    "a wrong platform": (
        SOUND.replace("'1.0.0'", "1.0").replace("'prod'", "'Prod'"),
        [
            "fleet.py:2: platform: `Prod` is not a Kubernetes name; ",
            "fleet.py:2: release: `release` must be a string, not the number `1.0`; write three numbers",
        ],
    ),
    "a contradiction": (
        SOUND.replace("Pool\n", "Pool, Runtime\n").replace(
            ", pools", ", runtimes=[Runtime(name='a', pool='gpu')], pools"
        ),
        ["fleet.py:2: runtimes.a.pool: there is no pool `gpu`; did you mean `cpu`?"],
    ),
    "a model of the user's own": (
        "import pydantic\n\n\nclass Team(pydantic.BaseModel):\n    size: float\n\n\nTeam(size='big')\n",
        ["fleet.py:8: Team.size: `big`: Input should be a valid number, unable to parse string as a number"],
    ),
}


def run(folder: Path, text: str) -> ConfigError:
    """Run a platform file that is named from its own folder, and return what is wrong with it."""
    (folder / "fleet.py").write_bytes(text.encode("utf-8", "surrogateescape"))
    before = Path.cwd()
    os.chdir(folder)
    try:
        with pytest.raises(ConfigError) as caught:
            run_platform_file(Path("fleet.py"))
    finally:
        os.chdir(before)
    assert caught.value.exit_code is ExitCode.INVALID_INPUT
    return caught.value


@pytest.mark.parametrize("case", WRONG)
def test_a_failure_is_reported_with_its_line(tmp_path: Path, case: str) -> None:
    text, said = WRONG[case]
    lines = str(run(tmp_path, text)).splitlines()
    assert len(lines) == len(said)
    assert all(line.startswith(expected) for line, expected in zip(lines, said, strict=True)), lines


def test_a_syntax_error_in_an_imported_file_is_reported_in_that_file(tmp_path: Path) -> None:
    (tmp_path / "teams_of_acme.py").write_text("teams = [\n", "utf-8")
    said = str(run(tmp_path, "x = 1\nfrom teams_of_acme import teams\n"))
    assert said == "teams_of_acme.py:1:9: not Python: '[' was never closed"


@pytest.mark.parametrize("name", ["missing.py", "."])
def test_a_missing_file_is_invalid_input(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"(No such file or directory|is a folder, not a file); name a platform\.yaml"
    ):
        run_platform_file(tmp_path / name)


def test_errors_of_mpigen_are_not_wrapped(tmp_path: Path) -> None:
    text = "from generator import load_platform\nload_platform('missing.yaml')\n"
    assert str(run(tmp_path, text)).startswith("missing.yaml: cannot be read: ")


def test_an_interrupt_stays_an_interrupt(tmp_path: Path) -> None:
    file = tmp_path / "fleet.py"
    file.write_text("raise KeyboardInterrupt\n", "utf-8")
    with pytest.raises(KeyboardInterrupt):
        run_platform_file(file)


def test_a_valid_file_runs_and_does_not_change_the_import_path(tmp_path: Path) -> None:
    file = tmp_path / "fleet.py"
    file.write_text(SOUND, "utf-8")
    before = list(sys.path)
    platform = run_platform_file(file)["platform"]
    assert isinstance(platform, Platform)
    assert platform.pool("cpu").nodes == 4
    assert sys.path == before


def test_output_of_the_file_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fleet.py"
    file.write_text("print('hello')\n", "utf-8")
    run_platform_file(file)
    assert tuple(capsys.readouterr()) == ("", "hello\n")


def test_an_unreadable_path_is_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        run_platform_file(tmp_path / f"{'x' * 300}.py")


@pytest.mark.parametrize("name", ["platform.py", "types.py", "yaml.py", "generator.py", "cdk8s.py", "pytest.py"])
def test_a_file_that_replaces_an_installed_module_is_recognized(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SOUND, "utf-8")
    assert find_shadowed_module(tmp_path / name) == Path(name).stem


@pytest.mark.parametrize("name", ["mpigen_platform.py", "prod-east.py", "fleet.py", "prod.east.py"])
def test_any_other_name_replaces_no_module(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SOUND, "utf-8")
    assert find_shadowed_module(tmp_path / name) == ""
    assert isinstance(run_platform_file(tmp_path / name)["platform"], Platform)


def test_no_file_of_an_example_replaces_an_installed_module() -> None:
    assert [path for path in ROOT.glob("examples/*/*.py") if find_shadowed_module(path)] == []


@pytest.mark.slow
@pytest.mark.parametrize("start", [["-m", "pytest", "--version"], ["-m", "mypy", "--version"], ["-c", "import pytest"]])
def test_python_tools_start_in_the_folder_of_the_python_example(start: list[str]) -> None:
    subprocess.run([sys.executable, *start], cwd=EXAMPLES["custom-python"].parent, check=True, capture_output=True)
