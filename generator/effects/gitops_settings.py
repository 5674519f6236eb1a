"""Changed settings of GitOps objects: gitops_settings.yaml has the meanings of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from generator.checks.objects import ChangedObject
from generator.documents.load import Path
from generator.documents.messages import escape_control, parse_path
from generator.effects.effect import Risk
from generator.effects.subjects import Statement
from generator.facts.table import read_rows
from generator.manifests import Manifest
from generator.objects.fields import mapping


@dataclass(frozen=True, slots=True)
class _Setting:
    """A row of gitops_settings.yaml."""

    group: str
    kinds: tuple[str, ...]
    path: str
    default: str
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    any: Mapping[str, str] = field(default_factory=dict)

    def read(self, item: Manifest) -> str:
        """Return the value of an object; for a mapping, `present`."""
        steps = [str(step) for step in _parse(self.path)]
        bodies = [item.body, mapping(item.body, "spec", "template")] if item.kind == "ApplicationSet" else [item.body]
        values = [value for body in bodies if (value := mapping(body, *steps[:-1]).get(steps[-1])) is not None]
        if not values:
            return self.default
        value = values[-1]
        if isinstance(value, dict):
            return "present"
        return str(value).lower() if isinstance(value, bool) else str(value)

    def describe(self, was: str, now: str) -> tuple[str, Risk] | None:
        """Return the predicate of the sentence about a change, and its risk; None for a value without a meaning."""
        row = self.values.get(now) or self.any
        if not row or was == now:
            return None
        names = [f"`{escape_control(value)}`" if value != "absent" else "none" for value in (was, now)]
        return row["text"].replace("{before}", names[0]).replace("{after}", names[1]), Risk(row["risk"])


@cache
def _settings() -> tuple[_Setting, ...]:
    return read_rows("gitops_settings", "rows", _Setting, "generator.effects")


@cache
def _parse(text: str) -> Path:
    return parse_path(text)


def compare_settings(item: ChangedObject) -> Iterator[Statement]:
    """Yield a statement for each changed setting of an object of a GitOps engine, but none for the parts of another."""
    changed: list[str] = []
    for setting in sorted(_settings(), key=lambda one: one.path):
        if item.new.group != setting.group or item.new.kind not in setting.kinds:
            continue
        was, now = (setting.read(side) for side in (item.old, item.new))
        meaning = setting.describe(was, now)
        if meaning and not any(setting.path.startswith(f"{path}.") for path in changed):
            changed.append(setting.path)
            verb, _, rest = meaning[0].partition(" ")
            yield Statement(item.new.kind, item.new.name, verb, rest, meaning[1], (), (item.new,), was, now)
