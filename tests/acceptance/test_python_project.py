"""Test that the project of `mpigen init --python` runs with two commands, is typed, and replaces no file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from generator.config.python_file import find_shadowed_module
from tests.conftest import Run

FILES = {
    *("mpigen_platform.py", "site_runtimes.py", "mpigen.toml", "pyproject.toml", ".gitignore", "README.md"),
    *(
        "checks/__init__.py",
        "checks/company.py",
        "tests/__init__.py",
        "tests/test_company.py",
        "tests/test_runtimes.py",
    ),
    ".github/workflows/mpigen.yml",
}


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python tool in the project."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_project_runs_with_two_commands_and_is_typed(tmp_path: Path, mpigen: Run) -> None:
    started = mpigen("init", "--python")
    assert started.returncode == 0
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == FILES
    assert started.stdout.endswith("next: mpigen synth mpigen_platform.py && pytest\n")
    assert [path for path in tmp_path.glob("*.py") if find_shadowed_module(path)] == []
    ran = mpigen("synth", "mpigen_platform.py")
    assert (ran.returncode, ran.stderr) == (0, "")
    (runtime,) = tmp_path.glob("output/my-cluster/cluster/runtimes/openmpi-cached.yaml")
    assert "mountPath: /cache" in runtime.read_text()
    tested = python(tmp_path, "pytest", "-q", "-p", "no:cacheprovider")
    assert "4 passed" in tested.stdout, tested.stdout
    typed = python(tmp_path, "mypy", "--strict", "--no-incremental", "--follow-imports=silent", ".")
    assert typed.returncode == 0, typed.stdout


def test_the_rule_of_the_project_reports_a_team_without_a_cost_center(mpigen: Run) -> None:
    mpigen("init", "--python")
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {mpigen.dev/tenant: a}}\n"
    ran = mpigen("validate", "-", stdin=namespace)
    assert ran.returncode == 1
    assert "acme/cost-center: Namespace a" in ran.stdout + ran.stderr


def test_the_workflow_of_the_project_runs_its_python(tmp_path: Path, mpigen: Run) -> None:
    mpigen("init", "--python")
    text = (tmp_path / ".github/workflows/mpigen.yml").read_text()
    assert "PLATFORM: mpigen_platform.py" in text
    assert "MPIGEN_NO_PYTHON" not in text
    assert "python3 -m pytest" in text
    assert "mpigen synth" in text


def test_all_files_that_exist_are_reported_and_none_is_written(tmp_path: Path, mpigen: Run) -> None:
    for name in ("README.md", "mpigen.toml"):
        (tmp_path / name).write_text("mine\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/__init__.py").write_text("")
    before = sorted(tmp_path.rglob("*"))
    ran = mpigen("init", "--python")
    assert ran.returncode == 2
    assert [line.partition(":")[0] for line in ran.stderr.replace("error: ", "").splitlines()] == [
        "tests/__init__.py",
        "mpigen.toml",
        "README.md",
    ]
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "README.md").read_text() == "mine\n"


@pytest.mark.parametrize("option", [["--ci", "gitlab"], ["--example", "eks-p5"]])
def test_options_of_other_files_are_rejected(option: list[str], tmp_path: Path, mpigen: Run) -> None:
    ran = mpigen("init", "--python", *option)
    assert ran.returncode == 2
    assert "--python writes its own platform and workflow" in ran.stderr
    assert list(tmp_path.iterdir()) == []
