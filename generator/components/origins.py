"""Find the hook that sets a field of a generated runtime, so that a finding about the field names the hook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from generator.components.hooks import Hooks
from generator.documents.load import Path
from generator.documents.python import shorten_path
from generator.hazards.sources import Cause
from generator.manifests import Body


@dataclass(frozen=True)
class Origins:
    """The hooks of an MpiRuntime, and its objects without the values of single hooks.

    Attributes:
        hooks: the hooks.
        build: returns the objects without the values of one hook; with an empty name, all values.
        number: the position of the object in the result of `build`.
    """

    hooks: Hooks
    build: Callable[[str], Sequence[Body]]
    number: int
    _built: dict[str, Body] = field(default_factory=dict)

    def find(self, body: Body, path: Path, file: str) -> Cause | None:
        """Return the method of the hook that sets a field; None if no hook sets it, or if the hook is uncertain.

        A hook sets the field if the field has another value, or is missing, without this hook.

        Args:
            body: the object of the release, after all patches.
            path: the path of the field in the object.
            file: the platform file.
        """
        if _differs(body, self._without(""), path):  # a patch sets the field
            return None
        names = [name for name in self.hooks.overridden if _differs(body, self._without(name), path)]
        place = self.hooks.place_of(names[0]) if len(names) == 1 else None
        if place is None or not place.file:
            return None
        return Cause(file=shorten_path(place.file, file), line=place.line, name=place.name)

    def _without(self, hook: str) -> Body:
        if hook not in self._built:
            self._built[hook] = self.build(hook)[self.number]
        return self._built[hook]


def _differs(value: Any, other: Any, path: Path) -> bool:
    """Return True if two objects certainly differ in the field at a path of the first object.

    Items of lists are compared by their names, because a hook shifts the positions of other items. A mapping or a list
    differs only if the other object lacks it, because a finding about it may concern a part that is equal.
    """
    for step in path:
        if isinstance(value, dict) and isinstance(other, dict) and step in value:
            if step not in other:
                return True
            value, other = value[step], other[step]
        elif isinstance(value, list) and isinstance(other, list) and isinstance(step, int) and step < len(value):
            value = value[step]
            if value in other:
                return False
            name = value.get("name") if isinstance(value, dict) else None
            named = [one for one in other if name and isinstance(one, dict) and one.get("name") == name]
            if len(named) != 1:
                return not named
            (other,) = named
        else:
            return False
    return not isinstance(value, dict | list) and value != other
