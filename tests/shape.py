"""The shape of the package in numbers: `python -m tests.shape`.

A module that is short and has a single importer, in its own folder, is usually a part of that importer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grimp

from tests.conftest import ROOT

SHORT = 60
"""Lines below which a module with a single importer beside it needs a reason to stand alone."""


def line_counts() -> dict[str, int]:
    """Return the number of lines of each module of the package, without empty `__init__.py` files' folders."""
    return {str(path.relative_to(ROOT)): _lines(path) for path in sorted((ROOT / "generator").rglob("*.py"))}


def lonely_modules() -> dict[str, str]:
    """Return short modules that one neighbour alone imports, with that neighbour."""
    graph = grimp.build_graph("generator", exclude_type_checking_imports=False, cache_dir=None)
    lonely = {}
    for module in sorted(graph.modules):
        path = ROOT / f"{module.replace('.', '/')}.py"
        if not path.exists() or _lines(path) >= SHORT:
            continue
        importers = graph.find_modules_that_directly_import(module)
        if len(importers) == 1 and module.rpartition(".")[0] == min(importers).rpartition(".")[0]:
            lonely[module] = min(importers)
    return lonely


def _lines(path: Path) -> int:
    return path.read_text("utf-8").count("\n")


def main() -> None:
    """Print the numbers, and the modules that are short and have a single importer."""
    counts, lonely = line_counts(), lonely_modules()
    sys.stdout.write(f"{len(counts)} modules, {sum(counts.values())} lines, {len(lonely)} short with one neighbour\n")
    sys.stdout.write("".join(f"  {module} < {importer}\n" for module, importer in lonely.items()))


if __name__ == "__main__":
    main()
