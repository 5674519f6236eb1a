"""platform/shadowed-module: the name of a platform file in Python replaces an installed module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from generator.config.python_file import shadowed_module
from generator.hazards.hazard import Hazard


def file_name_hazards(file: Path) -> Iterator[Hazard]:
    """Report a platform file in Python that Python would import instead of an installed module of its name."""
    module = shadowed_module(file) if file.suffix == ".py" else ""
    if module:
        yield Hazard(
            check="platform/shadowed-module",
            path=(),
            message=f"the file `{file.name}` has the name of the Python module `{module}`",
            why=f"in its folder, pytest, mypy and an interactive Python import it instead of `{module}` and fail",
            fix="rename the file, for example to mpigen_platform.py",
        )
