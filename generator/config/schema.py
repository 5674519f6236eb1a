"""The JSON Schema of platform.yaml, with the docstrings of the models as descriptions."""

from __future__ import annotations

import json
from typing import Any

from generator.config.platform import Platform


def platform_schema() -> str:
    """Return the schema as JSON text: the same bytes for the same models."""
    schema = Platform.model_json_schema(by_alias=True)
    content = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mpigen platform",
        **_untitled(schema),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _untitled(node: Any) -> Any:
    """Remove pydantic's titles, which repeat each field's name, and join the lines of docstrings."""
    if isinstance(node, list):
        return [_untitled(item) for item in node]
    if not isinstance(node, dict):
        return " ".join(node.split()) if isinstance(node, str) else node
    return {key: _untitled(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))}
