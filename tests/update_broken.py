"""Record the problems of every broken platform file again: `python -m tests.update_broken`.

Then read the diff of `tests/fixtures/broken/*.txt` as the user would: place, path, value, and what to write instead.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from generator.config.load import load_platform
from generator.errors import ConfigError
from tests.conftest import ROOT

BROKEN = ROOT / "tests/fixtures/broken"
FILE = Path("platform.yaml")


def complaint(content: bytes) -> str:
    """Return the problems of a platform file named platform.yaml in its own folder.

    Raises:
        AssertionError: nothing is.
    """
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            FILE.write_bytes(content)
            load_platform(FILE)
        except ConfigError as error:
            return f"{error}\n"
        finally:
            os.chdir(before)
    raise AssertionError("nothing is wrong with it")


def main() -> None:
    """Record every expectation."""
    for file in sorted(BROKEN.glob("*.yaml")):
        file.with_suffix(".txt").write_text(complaint(file.read_bytes()), "utf-8")


if __name__ == "__main__":
    main()
