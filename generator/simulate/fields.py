"""Manifests from anywhere may have any shape: what is not of the shape that is asked for is as good as absent."""

from __future__ import annotations

from collections.abc import Mapping

from generator.documents import shape
from generator.manifests import Body

mapping, texts = shape.mapping, shape.texts


def mappings(value: object) -> tuple[Body, ...]:
    """The mappings of a list, or none."""
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def text(value: object, default: str = "") -> str:
    """A text that is not empty, or the default, as where the API server fills it in."""
    return value if isinstance(value, str) and value else default


def labels(value: object) -> Mapping[str, str]:
    """A mapping of texts to texts, without what is none."""
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}


def whole(value: object, default: int) -> int:
    """A whole number, or the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default
