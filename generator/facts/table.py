"""Read a table of facts: NAME.yaml of this package, whose form NAME.schema.json lays down."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return the content of NAME.yaml, which is not to be changed."""
    text = files("generator.facts").joinpath(f"{name}.yaml").read_text("utf-8")
    content: dict[str, Any] = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    return content
