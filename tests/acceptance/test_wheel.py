"""Test that the wheel works when installed into an empty environment, without the source tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of an environment with only the wheel and its locked dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(constraints(folder)), str(wheel)], check=True)
    return python.parent


def constraints(folder: Path) -> Path:
    """Return the locked versions without hashes, which a new wheel lacks, or extras, which pip refuses here."""
    lines = (ROOT / "requirements" / "dev.lock").read_text().splitlines()
    pins = [line.removesuffix(" \\") for line in lines if "==" in line and not line.startswith((" ", "#"))]
    pins = [re.sub(r"\[[^]]*\]", "", pin) for pin in pins]
    file = folder / "constraints.txt"
    file.write_text("\n".join(pins))
    return file


def test_init_synth_and_validate_work_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    environment = {"PATH": str(installed), "HOME": str(tmp_path / "home")}
    commands = (
        ["init", "--example", "openshift-h100"],
        ["synth", "platform.yaml"],
        ["validate", "output"],
        ["schemas", "list"],
    )
    for arguments in commands:
        ran = subprocess.run(
            [str(installed / "mpigen"), *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, ""), arguments
    assert (
        "0 findings"
        in subprocess.run(
            [str(installed / "mpigen"), "validate", "output"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


def test_the_wheel_imports_nothing_from_the_source_tree(installed: Path, tmp_path: Path) -> None:
    command = [str(installed / "python"), "-c", "import generator; print(generator.__file__)"]
    ran = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=True)
    assert str(ROOT) not in ran.stdout
