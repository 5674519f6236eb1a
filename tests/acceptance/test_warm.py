"""Test that a run of `mpigen` that forks from a process with its imports equals a run in a new Python."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, Run

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, lables: {}}\n"
RUNS: list[tuple[list[str], dict[str, str]]] = [
    (["synth", str(EXAMPLES["cpu-kubernetes"])], {}),
    (["validate", "-", "--format", "json"], {"stdin": NAMESPACE}),
    (["validate", "-"], {"stdin": ""}),
    (["checks"], {"COLUMNS": "60"}),
    (["plugins"], {}),
    (["nothing"], {}),
    (["synth", "mpigen_platform.py"], {"MPIGEN_NO_PYTHON": "1"}),
    (["synth", "mpigen_platform.py"], {"TZ": "Asia/Kathmandu"}),
    ([], {"_MPIGEN_COMPLETE": "bash_complete", "COMP_WORDS": "mpigen sy", "COMP_CWORD": "1"}),
]
SCRIPT = """\
import os, sys, time
print(os.getcwd(), sys.argv[1:], time.tzname, os.environ.get("OWN"), "PATH" in os.environ, file=sys.stderr, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("arguments", "environment"), RUNS, ids=range(len(RUNS)))
def test_a_fork_equals_a_new_process(
    arguments: list[str], environment: dict[str, str], mpigen: Run, cold_mpigen: Run, tmp_path: Path
) -> None:
    results = []
    for run, folder in ((mpigen, tmp_path / "warm"), (cold_mpigen, tmp_path / "cold")):
        folder.mkdir()
        (folder / "mpigen_platform.py").write_text("raise ValueError(__file__[-18:])\n")
        ran = run(*arguments, cwd=folder, **environment)
        files = {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.yaml")}
        results.append((ran.returncode, ran.stdout, ran.stderr, files))
    assert results[0] == results[1]


def test_a_fork_has_its_own_folder_variables_and_end(
    mpigen: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mpigen_platform.py").write_text(SCRIPT)
    monkeypatch.delenv("PATH")
    ran = mpigen("synth", "mpigen_platform.py", TZ="Asia/Kathmandu", OWN="own")
    printed = f"{tmp_path} ['synth', 'mpigen_platform.py'] ('+0545', '+0545') own False\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGKILL, "", printed)
    assert mpigen("synth", "mpigen_platform.py").stderr.endswith(" None False\n"), "a fork leaves no variable"


def test_variables_that_python_reads_at_its_start_need_a_new_process(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nprint('new', file=sys.stderr)\n")
    assert mpigen("--version").stderr == ""
    assert mpigen("--version", PYTHONPATH=str(tmp_path)).stderr == "new\n"
