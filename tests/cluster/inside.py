"""Compile and run our Go tests inside a package of an upstream program, because they call functions without export."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from generator.schemas.go_tool import run_go
from tests.cluster.build import SCRATCH, alone, cache
from tests.cluster.modules import module_folder
from tests.cluster.versions import HERE, Program


def compiled(program: Program, package: str, *tests: str) -> Path:
    """Return the test binary of an upstream package that has our tests in place of its own.

    Go refuses new files in its module cache, so the tests are compiled in a copy of the module. The first build takes
    minutes. The binary stays in the cache under a digest of its sources.

    Args:
        program: such as `kueue`, in one version.
        package: the folder of the package in the program's module.
        tests: the Go files, below tests/cluster/go.

    Raises:
        EngineError: there is no Go, or the build failed.
    """
    files = [HERE / "go" / test for test in tests]
    binary = cache() / f"{program.name}-{program.version}-tests-{_digest(program, package, files)}"
    cache().mkdir(parents=True, exist_ok=True)
    with alone(binary.name):
        if not binary.is_file():
            with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{SCRATCH}{binary.name}-") as scratch:
                _compile(program, package, files, Path(scratch)).replace(binary)
    return binary


def asked(binary: Path, test: str, questions: object, **environment: str) -> list[str]:
    """Run one test of a binary, which reads QUESTIONS, a JSON file, and writes ANSWERS. Return the lines of ANSWERS.

    Raises:
        RuntimeError: the test failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        question, answer = Path(scratch) / "questions.json", Path(scratch) / "answers.jsonl"
        question.write_text(json.dumps(questions))
        variables = {**os.environ, "QUESTIONS": str(question), "ANSWERS": str(answer), **environment}
        command = [str(binary), f"-test.run=^{test}$", "-test.timeout=0"]
        done = subprocess.run(command, env=variables, cwd=scratch, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{test} failed: {done.stdout}{done.stderr}")
        return answer.read_text().splitlines()


def _compile(program: Program, package: str, files: list[Path], scratch: Path) -> Path:
    module = scratch / "module"
    shutil.copytree(module_folder(program), module, copy_function=shutil.copyfile)
    folder = module / package
    folder.chmod(0o755)
    for upstream_test in folder.glob("*_test.go"):
        upstream_test.unlink()
    for file in files:
        shutil.copyfile(file, folder / file.name)
    built = scratch / "tests"
    run_go(["test", "-vet=off", "-mod=readonly", "-trimpath", "-c", "-o", str(built), f"./{package}"], module)
    return built


def _digest(program: Program, package: str, files: list[Path]) -> str:
    """Return a digest of all that decides the content of the binary; go.sum pins the module."""
    digest = hashlib.sha256(f"{package} {platform.system()} {platform.machine()}".encode())
    for file in (program.folder / "go.sum", *files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
