"""`--no-python` and MPIGEN_NO_PYTHON keep every command from running Python of the repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from generator.cli.main import mpigen as commands
from tests.conftest import EXAMPLES, Run

MARK = "this file of the repository ran"
PYTHON = f"import sys\nprint({MARK!r}, file=sys.stderr)\n"
"""Python that prints a line, so that a test sees that it ran."""
JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train, namespace: team-a}
spec: {runtimeRef: {name: openmpi}}
"""
READERS = {
    "synth": ("synth", "mpigen_platform.py"),
    "plan": ("plan", "mpigen_platform.py"),
    "upgrade": ("upgrade", "mpigen_platform.py", "--to", "kueue=0.20"),
    "queues": ("queues", "--release", "mpigen_platform.py"),
    "runtimes": ("runtimes", "--release", "mpigen_platform.py"),
    "runtimes list": ("runtimes", "list", "--release", "mpigen_platform.py"),
    "runtimes show": ("runtimes", "show", "openmpi", "--release", "mpigen_platform.py"),
    "fabrics": ("fabrics", "mpigen_platform.py"),
    "can-i": ("can-i", "user:ada", "get", "pods", "mpigen_platform.py"),
    "reach": ("reach", "--matrix", "mpigen_platform.py"),
    "expect": ("expect", "mpigen_platform.py", "--write"),
    "drift": ("drift", "mpigen_platform.py", "job.yaml"),
    "policy test": ("policy", "test", "mpigen_platform.py"),
    "check-job": ("check-job", "job.yaml", "--release", "mpigen_platform.py"),
    "compile": ("compile", "job.yaml", "--release", "mpigen_platform.py"),
    "audit": ("audit", "job.yaml", "--release", "mpigen_platform.py"),
    "image check": ("image", "check", ".", "--runtime", "openmpi", "--platform", "mpigen_platform.py"),
    "job new": ("job", "new", "--release", "mpigen_platform.py", "--runtime", "openmpi"),
}
"""Command → its arguments with a platform in Python."""
WITH_OWN_CHECKS = {
    "synth": ("synth", EXAMPLES["cpu-kubernetes"]),
    "validate": ("validate", "job.yaml"),
    "policy test": ("policy", "test", "job.yaml"),
    "check-job": ("check-job", "job.yaml", "--release", EXAMPLES["cpu-kubernetes"]),
    "audit": ("audit", "job.yaml", "--release", EXAMPLES["cpu-kubernetes"]),
    "checks list": ("checks",),
    "checks test": ("checks", "test"),
    "plugins": ("plugins",),
    "explain": ("explain", "schema/unknown-field"),
}
"""Command → its arguments in a repository whose settings name own checks."""
RUNS_NO_PYTHON = {
    *(
        "diagnose",
        "init",
        "job again",
        "job status",
        "promote",
        "verify",
        "pack",
        "schema",
        "schemas list",
        "schemas locations",
        "schemas compile",
        "versions",
        "completion",
    ),
}
"""The commands that read neither a platform nor the settings."""


@pytest.fixture(autouse=True)
def repository(tmp_path: Path) -> None:
    """Write a platform and a check in Python, and a job."""
    (tmp_path / "mpigen_platform.py").write_text(PYTHON)
    (tmp_path / "own.py").write_text(PYTHON)
    (tmp_path / "job.yaml").write_text(JOB)


def leaves(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the full name of each command that is not a group."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_every_command_that_runs_python_has_the_option() -> None:
    with_option = {
        name for name, command in leaves(commands) if any(option.name == "no_python" for option in command.params)
    }
    assert {name for name, _ in leaves(commands)} - with_option == RUNS_NO_PYTHON
    assert with_option - READERS.keys() - WITH_OWN_CHECKS.keys() == set()


@pytest.mark.parametrize("command", READERS)
def test_a_platform_in_python_is_refused(mpigen: Run, command: str) -> None:
    for arguments, variables in (
        ((*READERS[command], "--no-python"), {}),
        (READERS[command], {"MPIGEN_NO_PYTHON": "1"}),
    ):
        done = mpigen(*arguments, **variables)
        assert done.returncode == 2, done.stderr
        assert "mpigen_platform.py: mpigen would run this Python file, and `--no-python`" in done.stderr
        assert done.stdout == ""
        assert MARK not in done.stderr
    assert MARK in mpigen(*READERS[command], MPIGEN_NO_PYTHON="0").stderr


@pytest.mark.parametrize("command", WITH_OWN_CHECKS)
def test_own_checks_are_refused(mpigen: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "mpigen.toml").write_text('checks = ["own.py"]\n')
    done = mpigen(*WITH_OWN_CHECKS[command], "--no-python")
    assert done.returncode == 2
    assert done.stderr.startswith("error: mpigen.toml:1:12: ")
    assert "own.py: mpigen would run this Python file, and `--no-python`" in done.stderr
    assert MARK not in done.stderr
    assert MARK in mpigen(*WITH_OWN_CHECKS[command]).stderr


def test_job_new_refuses_own_checks_before_it_writes_the_job(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "mpigen.toml").write_text('checks = ["own.py"]\n')
    arguments = ("job", "new", "--release", EXAMPLES["cpu-kubernetes"], "--runtime", "openmpi", "--output", "new.yaml")
    done = mpigen(*arguments, "--no-python", "--", "mpirun", "./a")
    assert (done.returncode, done.stdout, (tmp_path / "new.yaml").exists()) == (2, "", False)
    assert MARK not in done.stderr


def test_yaml_needs_no_python(mpigen: Run) -> None:
    assert mpigen("synth", EXAMPLES["cpu-kubernetes"], "--no-python").returncode == 0
    assert mpigen("validate", "output", MPIGEN_NO_PYTHON="true").returncode == 0


def test_a_misspelt_variable_is_refused(mpigen: Run) -> None:
    done = mpigen("queues", "--release", "mpigen_platform.py", MPIGEN_NO_PYTHON="maybe")
    assert (done.returncode, MARK in done.stderr) == (2, False)
    assert "'maybe' is not a valid boolean" in done.stderr
