"""Readers of the files of mpigen's packages, such as tables of facts: NAME.yaml, in the form of NAME.schema.json.

The functions that build manifests read no other files.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from generator.documents.load import load

Row = TypeVar("Row")


@cache
def read_text(package: str, *path: str) -> str:
    """Return the text of a file in a package.

    Raises:
        OSError: the package has no such file.
    """
    data = pkgutil.get_data(package, "/".join(path))  # importing importlib.resources takes longer than all reads
    if data is None:
        raise FileNotFoundError(f"{package} has no files")
    return data.decode()


@cache
def read_table(name: str, package: str = "generator.facts") -> dict[str, Any]:
    """Return the content of NAME.yaml in a package. Callers must not change it, because it is cached."""
    (document,) = load(read_text(package, f"{name}.yaml"))
    content: dict[str, Any] = document.data
    return content


@cache
def read_rows(name: str, key: str, row_type: Callable[..., Row], package: str = "generator.facts") -> tuple[Row, ...]:
    """Return the list at a key of NAME.yaml as objects of `row_type`, which get only the keys that are its fields."""
    fields = inspect.signature(row_type).parameters.keys()
    rows = ({_snake_case(field): value for field, value in row.items()} for row in read_table(name, package)[key])
    return tuple(row_type(**{field: _freeze(value) for field, value in row.items() if field in fields}) for row in rows)


def _snake_case(key: str) -> str:
    return re.sub("(?=[A-Z])", "_", key).lower()


def _freeze(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
