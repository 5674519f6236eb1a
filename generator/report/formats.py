"""The output formats of every command that reports findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from generator.report.result import Result


def _renderer(module: str) -> Callable[[Result], str]:
    def render(result: Result) -> str:
        text: str = import_module(f"generator.report.{module}").render(result)
        return text

    return render


RENDERERS: Mapping[str, Callable[[Result], str]] = {
    name: _renderer(name) for name in ("text", "json", "sarif", "junit", "github", "gitlab")
}
"""Format → its renderer. Each one is imported when it is used, because every command lists the formats."""
