"""Remember the inputs of the last run of the attack corpus on a real control plane, in record.json.

`python -m tests.attacks.record` prints a line about the inputs that have changed since. `make cluster-attacks` runs the
corpus, and then writes the record with `--write`. `make cluster-core` runs the corpus only if an input has changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.attacks.platforms import PLATFORMS, scene
from tests.cluster.versions import HERE as CLUSTER
from tests.cluster.versions import versions
from tests.conftest import ROOT

FILE = Path(__file__).with_name("record.json")
_FOLDER = Path(__file__).parent
_TESTS = ("tests/cluster/conftest.py", *(f"tests/cluster/test_attacks_{name}.py" for name in PLATFORMS))


@cache
def inputs() -> dict[str, str]:
    """Return name → digest of each input that decides the result of the attacks."""
    trees = [[found.body for found in scene(name).tree] for name in PLATFORMS]
    pins = [file for program in versions("default").control_plane for file in sorted(program.folder.iterdir())]
    return {
        "the rendered policies and objects": _digest([json.dumps(trees, sort_keys=True).encode()]),
        "the corpus": _of_files(sorted(_FOLDER.rglob("*.yaml"))),
        "the test harness": _of_files(sorted(_modules(_TESTS))),
        "the versions of the control plane": _of_files([*sorted(CLUSTER.glob("*.json")), *pins]),
    }


def recorded() -> dict[str, str]:
    """Return the inputs of the recorded run; empty without a record."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def changed_inputs() -> list[str]:
    """Return the names of the inputs that differ from the recorded run."""
    before = recorded()
    return [name for name, digest in inputs().items() if before.get(name) != digest]


def line(changed: list[str]) -> str:
    """Return the line that `make cluster-core` prints."""
    if not changed:
        return "attack corpus: not in this run, because its inputs are those of the recorded run"
    run = "record the new run with `make cluster-attacks`"
    if not recorded():
        return f"attack corpus: in this run, because there is no recorded run; {run}"
    return f"attack corpus: in this run, because {' and '.join(changed)} changed after the recorded run; {run}"


def main() -> None:
    """Print the line, or write the record."""
    if "--write" in sys.argv[1:]:
        FILE.write_text(json.dumps(inputs(), indent=2) + "\n")
    sys.stdout.write(f"{line(changed_inputs())}\n")


def _modules(files: Iterable[str]) -> set[Path]:
    """Return these Python files, and all modules of `tests` that they import, directly or indirectly."""
    found, new = set[Path](), {ROOT / file for file in files}
    while new:
        found |= new
        new = {module for file in new for module in _imported(file)} - found
    return found


def _imported(file: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tests":
            module = ROOT / str(node.module).replace(".", "/")
            named = [module / alias.name for alias in node.names]
            candidates = [path.with_suffix(".py") for path in (module, *named)]
            yield from (path for path in (*candidates, module / "__init__.py") if path.is_file())


def _of_files(files: Iterable[Path]) -> str:
    return _digest(part for file in files for part in (str(file.relative_to(ROOT)).encode(), file.read_bytes()))


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    main()
