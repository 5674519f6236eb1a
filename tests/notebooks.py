"""Run the example notebooks, and write their outputs anew: `python -m tests.notebooks`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
ON_A_CLUSTER = "cluster"
"""The tag of cells that need a cluster."""


def replay(text: str, folder: Path) -> str:
    """Return the text of a notebook with the outputs of its cells, which run in a folder with the example releases."""
    notebook = json.loads(text)
    shutil.copytree(ROOT / "output", folder / "output")
    names: dict[str, Any] = {}
    with _inside(folder):
        for number, cell in enumerate((cell for cell in notebook["cells"] if _is_run(cell)), start=1):
            said = StringIO()
            with redirect_stdout(said):
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            lines = said.getvalue().splitlines(keepends=True)
            cell["execution_count"] = number
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _is_run(cell: Any) -> bool:
    return cell["cell_type"] == "code" and ON_A_CLUSTER not in cell["metadata"].get("tags", ())


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> None:
    """Write the outputs of all notebooks anew."""
    for file in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            file.write_text(replay(file.read_text("utf-8"), Path(folder)), "utf-8")


if __name__ == "__main__":
    main()
