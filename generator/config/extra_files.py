"""Read the files that `extra` of a platform.yaml names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath

from generator import manifests
from generator.config.model.fields import invalid
from generator.config.model.patches import find_incomplete
from generator.documents.files import find_link_problem, read_file
from generator.documents.messages import format_value
from generator.errors import DocumentError, InputError
from generator.manifests import Body

_FIX = "write one or more Kubernetes objects, each with `apiVersion`, `kind` and `metadata.name`"


def file_reader(platform_file: Path) -> Callable[[str], list[Body]]:
    """Return the function that reads the objects of a file named relative to a platform file.

    The function raises a PydanticCustomError if the file cannot be read, or holds no objects.
    """

    def read(name: str) -> list[Body]:
        if not name or PurePosixPath(name).is_absolute() or PureWindowsPath(name).is_absolute():
            fix = "write a path relative to the platform file, such as extra/objects.yaml"
            raise invalid(f"{format_value(name)} is not a relative path", fix)
        file = platform_file.parent / name
        if escape := find_link_problem(file, platform_file):
            raise invalid(f"{format_value(name)} {escape.message}", escape.fix)
        try:
            objects = list(manifests.read(read_file(file), name))
        except (InputError, DocumentError) as error:
            problem = error.problems[0]
            place = f"line {problem.line} of the file: " if problem.line else ""
            raise invalid(f"{format_value(name)}: {place}{problem.message}", problem.fix) from None
        if not objects:
            raise invalid(f"{format_value(name)} holds no object", _FIX)
        for number, manifest in enumerate(objects, 1):
            fault = "it is not an object" if manifest.instead else find_incomplete(manifest.body)
            if fault:
                raise invalid(f"{format_value(name)}: object {number} of the file: {fault}", _FIX)
        return [manifest.body for manifest in objects]

    return read
