"""The examples that `mpigen init` starts from: kept in `examples/`, and carried in the wheel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from generator.errors import OutputError, Problem

EXAMPLES = ("cpu-kubernetes", "openshift-h100", "roce-h200", "eks-p5", "university", "custom-python", "catalogue")
PLATFORM_FILES = ("platform.yaml", "mpigen_platform.py")
"""The names of an example's platform file. Every other file of the folder is one that it reads."""

_SCHEMA = "platform.schema.json"
_SCHEMA_LINE = re.compile(r"(?m)^# yaml-language-server: \$schema=.*$")


def start(example: str, folder: Path) -> list[Path]:
    """Copy an example into a folder, with the schema beside it; the platform file comes first.

    Raises:
        OutputError: a file is there already, or cannot be written; then none is written.
    """
    from generator.config.platform import platform_schema

    sources = sorted(_home(example).glob("*.*"), key=lambda path: (path.name not in PLATFORM_FILES, path.name))
    texts = {source.name: _SCHEMA_LINE.sub(_schema_line, source.read_text("utf-8")) for source in sources}
    texts[_SCHEMA] = platform_schema()
    files = {folder / name: text for name, text in texts.items()}
    try:
        taken = [path for path in files if path.is_symlink() or path.exists()]
        if taken:
            fix = "name another folder, or remove it"
            raise OutputError(tuple(Problem("is there already", fix, file=str(path)) for path in taken))
        folder.mkdir(parents=True, exist_ok=True)
        _write(files)
    except OSError as error:
        place = str(error.filename or folder)
        raise OutputError((Problem(f"cannot be written: {error.strerror}", file=place),)) from None
    return list(files)


def _write(files: Mapping[Path, str]) -> None:
    """All of them or, whatever comes between, none; never through a link, never over what came there meanwhile."""
    written: list[Path] = []
    try:
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _schema_line(_match: re.Match[str]) -> str:
    return f"# yaml-language-server: $schema={_SCHEMA}"


def _home(example: str) -> Path:
    """In a wheel beside this module, in a source checkout at the top."""
    package = Path(__file__).parent
    carried = package / "data" / "examples" / example
    return carried if carried.is_dir() else package.parent / "examples" / example
