"""Build the programs of a control plane, once per content: `python -m tests.cluster.build [core|default|previous]`.

`core` is the control plane of the set `default`, without the programs that only some tests need.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from generator.errors import EngineError, Problem
from generator.schemas.go_tool import run_go
from generator.schemas.kubeconform import cache_folder
from tests.cluster.modules import module_folder
from tests.cluster.versions import Program, versions

_AT_ONCE = 2
SCRATCH = ".build-"
"""The prefix of temporary folders of a build."""


def cache() -> Path:
    """Return the folder of built binaries."""
    return cache_folder(os.environ, Path.home()) / "control-plane"


def build(program: Program) -> Path:
    """Return the binary of a program, and build it if needed.

    A build that is interrupted leaves nothing that a later one could take for a binary, and the next one cleans up.

    Raises:
        EngineError: there is no Go, or the build failed.
    """
    binary = cache() / f"{program.name}-{program.version}-{_content(program)}"
    if binary.is_file():
        return binary
    remove_leftovers()
    with alone(binary.name):
        _remove_leftovers_of(binary.name)
        if not binary.is_file():
            _report(f"building {program.name} {program.version}, which takes minutes the first time")
            started = time.monotonic()
            _build(program, binary)
            _report(f"built {program.name} {program.version} in {time.monotonic() - started:.0f} s")
    return binary


def remove_leftovers() -> None:
    """Remove leftovers of killed builds; a running build holds its program's lock."""
    for name in {scratch.name.removeprefix(SCRATCH).rpartition("-")[0] for scratch in cache().glob(f"{SCRATCH}*")}:
        with suppress(BlockingIOError, PermissionError), alone(name, fcntl.LOCK_NB):
            _remove_leftovers_of(name)


def _remove_leftovers_of(name: str) -> None:
    """Remove leftovers of one program. The caller holds its lock, but an orphaned compiler may still write."""
    for scratch in cache().glob(f"{SCRATCH}{name}-*"):
        shutil.rmtree(scratch, ignore_errors=True)


def _build(program: Program, binary: Path) -> None:
    with _scratch(program, binary.name) as scratch:
        fresh = scratch / "program"
        _rewrite(program, scratch)
        linked = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in program.linked.items())])
        options = ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={linked}"]
        options += ["-cover", f"-coverpkg={','.join((program.package, *program.covered))}"] if program.covered else []
        run_go(["build", *options, "-o", str(fresh), program.package], scratch)
        fresh.replace(binary)


def _rewrite(program: Program, scratch: Path) -> None:
    """Put our copy of the upstream main package beside the pins, because Go forbids overlays of its module cache."""
    source = module_folder(program) if program.rewritten else scratch
    for file, (old, new) in program.rewritten.items():
        text = (source / file).read_text()
        if text.count(old) != 1:
            problem = f"{program.module}@{program.version} has {old} {text.count(old)} times in {file}, not once"
            raise EngineError((Problem(problem, "read the file and correct `rewritten` in versions.json"),))
        (scratch / Path(file).name).write_text(text.replace(old, new))


def _inputs(program: Program) -> list[Path]:
    """The files that Go builds from, in a fixed order."""
    return [program.folder / "go.mod", program.folder / "go.sum", *sorted(program.folder.parent.glob("*.go"))]


def _content(program: Program) -> str:
    """A digest of everything that decides what the binary is."""
    digest = hashlib.sha256()
    for file in _inputs(program):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    rest = [program.package, dict(program.linked), dict(program.rewritten), platform.system(), platform.machine()]
    rest += [program.covered] if program.covered else []
    digest.update(json.dumps(rest).encode())
    return digest.hexdigest()[:16]


@contextmanager
def _scratch(program: Program, name: str) -> Iterator[Path]:
    """A Go module of our own in a folder that Go may write to; where it is, a rename makes the binary appear whole."""
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{SCRATCH}{name}-") as folder:
        for file in _inputs(program):
            shutil.copyfile(file, Path(folder) / file.name)
        yield Path(folder)


@contextmanager
def alone(name: str, options: int = 0) -> Iterator[None]:
    """Lock a program while it is built, so that a second build waits. The kernel frees the lock on exit."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX | options)
        yield


def _report(line: str) -> None:
    print(f"control plane: {line}", file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    """Build a set. Two programs at once, because the linker uses one processor and the end of a build few more."""
    remove_leftovers()
    name = sys.argv[1] if len(sys.argv) > 1 else "default"
    wanted = versions("default").control_plane if name == "core" else [*versions(name).programs.values()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(build, wanted))


if __name__ == "__main__":
    main()
