"""`environments`: whole platforms from one base and the differences of each environment, such as dev, stage and prod.

The differences are merged into the base before pydantic reads the result, so the rules of a platform hold for each
environment. `Merged.place_of` translates a path of the result back into the path in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from generator.config.mistakes import Mistake, mistakes_in
from generator.config.model.fields import Name, Section, Steps
from generator.documents.messages import format_names, format_value
from generator.errors import ConfigError, Problem, suggest

ENVIRONMENTS = "environments"
WITHOUT = "without"
"""The field of an environment that lists the entries of the base that the environment does not have."""

_OPTION = "--environment"


class _Origin(NamedTuple):
    """The places in the file of a value of a merged platform.

    Attributes:
        base: the path of the value in the base; None if the base does not set the value, or a difference replaces it.
        difference: the path of the value in the environment; None if the environment does not set the value.
        children: key, or position in the merged list → its origin, if the value has parts of both.
    """

    base: Steps | None
    difference: Steps | None
    children: dict[str | int, _Origin]


@dataclass(frozen=True, slots=True)
class Merged:
    """The platform of an environment, or of a file without environments.

    Attributes:
        environment: the name of the environment; empty for a file without environments.
        data: the platform as YAML data, without the field `environments`.
        mistakes: the mistakes that the merge finds, with paths in the file.
    """

    environment: str
    data: dict[str, Any]
    mistakes: Sequence[Mistake] = ()
    _origin: _Origin = field(default_factory=lambda: _Origin((), None, {}))

    def place_of(self, path: Steps) -> Steps:
        """Translate a path in `data` into the path in the file.

        The path of a value that the environment sets leads into the environment. A missing field has the path of its
        section in the base.
        """
        origin, rest = self._origin, path
        while rest and rest[0] in origin.children:
            origin, rest = origin.children[rest[0]], rest[1:]
        places = (origin.base, origin.difference) if rest else (origin.difference, origin.base)
        return (*next(place for place in places if place is not None), *rest)

    def in_file(self, mistake: Mistake) -> Mistake:
        """Return a mistake of `data` with its path in the file."""
        return replace(mistake, path=self.place_of(mistake.path))


def find_environments(data: Any) -> tuple[str, ...]:
    """Return the names of the environments of a platform file, in its order; empty if the file declares none."""
    declared = data.get(ENVIRONMENTS) if isinstance(data, dict) else None
    return tuple(map(str, declared)) if isinstance(declared, dict) else ()


def merge(data: dict[str, Any], environment: str) -> Merged:
    """Return the platform of an environment of a platform file.

    Mappings are merged key by key, and lists of entries with names entry by entry. All other values of the environment
    replace the values of the base, and null removes a value of the base.

    Args:
        data: the data of the file.
        environment: the name of one of its environments; empty if the file declares no environments.
    """
    base = {key: value for key, value in data.items() if key != ENVIRONMENTS}
    if not environment:
        return Merged("", base, tuple(_find_wrong_declaration(data)))
    here = (ENVIRONMENTS, environment)
    difference = data[ENVIRONMENTS][environment]
    merger = _Merger()
    if difference is None:
        difference = {}
    if not isinstance(difference, dict):
        merger.report(here, f"{format_value(difference)} is not a mapping", "write each difference as `field: value`")
        difference = {}
    wrong_name = _find_wrong_name(environment)
    merger.mistakes += wrong_name
    if ENVIRONMENTS in difference:
        message = "an environment has no environments of its own"
        merger.report((*here, ENVIRONMENTS), message, "move the entry to the top-level `environments`", is_of_key=True)
    base, kept = merger.leave_out(base, difference.get(WITHOUT), (*here, WITHOUT))
    rest = {key: value for key, value in difference.items() if key not in (ENVIRONMENTS, WITHOUT)}
    merged, origin = merger.merge_mappings(base, rest, _Origin((), here, kept))
    if isinstance(base.get("platform"), str) and "platform" not in rest and not wrong_name:
        merged["platform"] = f"{base['platform']}-{environment}"
        if isinstance(base.get("renamedFrom"), str) and "renamedFrom" not in rest:
            merged["renamedFrom"] = f"{base['renamedFrom']}-{environment}"
    elif "renamedFrom" not in rest:
        merged.pop("renamedFrom", None)  # the earlier name of the base is not the name of this environment
    return Merged(environment, merged, tuple(merger.mistakes), origin)


def _find_wrong_declaration(data: dict[str, Any]) -> Iterator[Mistake]:
    if find_environments(data):  # one of them has an empty name
        yield from _find_wrong_name("")
    elif ENVIRONMENTS in data:
        message = f"{format_value(data[ENVIRONMENTS])} is not a mapping with an environment"
        fix = "write each environment as `name: {field: value}`, or remove the field"
        yield Mistake((ENVIRONMENTS,), message, fix)


def _find_wrong_name(name: str) -> list[Mistake]:
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        mistakes = mistakes_in(error, Section, (ENVIRONMENTS, name))
        return [replace(mistake, is_of_key=True) for mistake in mistakes]
    return []


@dataclass(slots=True)
class _Merger:
    """A merge of one environment, which collects the mistakes of its differences."""

    mistakes: list[Mistake] = field(default_factory=list)

    def report(self, path: Steps, message: str, fix: str, *, is_of_key: bool = False) -> None:
        """Add a mistake."""
        self.mistakes.append(Mistake(path, message, fix, is_of_key))

    def leave_out(
        self, base: dict[str, Any], without: Any, path: Steps
    ) -> tuple[dict[str, Any], dict[str | int, _Origin]]:
        """Return the base without the entries that an environment leaves out, and the origins of the shorter lists."""
        fix = "write the names of entries for each section, such as `without: {tenants: [team-a]}`"
        if without is None:
            return base, {}
        if not isinstance(without, dict):
            self.report(path, f"{format_value(without)} is not a mapping", fix)
            return base, {}
        shorter, origins = dict(base), {}
        for section, names in without.items():
            entries: Any = base.get(section)
            if not _is_named(entries):
                known = [key for key, value in base.items() if _is_named(value)]
                message = f"the base has no list of named entries {format_value(section)}"
                self.report((*path, section), message, suggest(str(section), known), is_of_key=True)
            elif not isinstance(names, list):
                self.report((*path, section), f"{format_value(names)} is not a list of names", fix)
            else:
                known = [entry["name"] for entry in entries]
                for position, name in enumerate(names):
                    if name not in known:
                        self._report_unknown((*path, section, position), name, section, known)
                left = [position for position, name in enumerate(known) if name not in names]
                shorter[section] = [entries[position] for position in left]
                children: dict[str | int, _Origin] = {
                    new: _Origin((section, old), None, {}) for new, old in enumerate(left)
                }
                origins[section] = _Origin((section,), None, children)
        return shorter, origins

    def merge_mappings(
        self, base: dict[str, Any], difference: dict[str, Any], origin: _Origin
    ) -> tuple[dict[str, Any], _Origin]:
        """Return the base with the values of a difference, and the origin of the result; `origin` is the base's."""
        merged, children = dict(base), dict(origin.children)
        for key in base:
            children.setdefault(key, _Origin((*(origin.base or ()), key), None, {}))
        for key, value in difference.items():
            place = (*(origin.difference or ()), key)
            if value is None:
                if key not in base:
                    message = f"the base does not set `{key}`, so null removes nothing"
                    self.report(place, message, "write a value, or remove this line")
                merged.pop(key, None)
                children.pop(key, None)
            else:
                before = children.get(key, _Origin(None, None, {}))
                merged[key], children[key] = self._merge(base.get(key), value, before._replace(difference=place))
        return merged, origin._replace(children=children)

    def _merge(self, base: Any, difference: Any, origin: _Origin) -> tuple[Any, _Origin]:
        if isinstance(base, dict) and isinstance(difference, dict):
            return self.merge_mappings(base, difference, origin)
        if _is_named(base) and _is_list_of_mappings(difference):
            return self._merge_entries(base, difference, origin)
        return difference, _Origin(None, origin.difference, {})

    def _merge_entries(
        self, base: list[dict[str, Any]], difference: list[dict[str, Any]], origin: _Origin
    ) -> tuple[list[Any], _Origin]:
        """Merge the entries of an environment into the entries of the base with the same names."""
        here, section = origin.difference or (), str((origin.difference or ("",))[-1])
        children: dict[str | int, _Origin] = {
            position: origin.children.get(position, _Origin((*(origin.base or ()), position), None, {}))
            for position in range(len(base))
        }
        merged: list[Any] = list(base)
        known = [entry["name"] for entry in base]
        seen: set[object] = set()
        for position, entry in enumerate(difference):
            place, name = (*here, position), entry.get("name")
            if name is None:
                fix = f"write the name of the entry in the base: {format_names(known, 'or')}"
                self.report(place, "this entry has no `name`, so it matches no entry of the base", fix)
            elif name not in known:
                self._report_unknown((*place, "name"), name, section, known)
            elif name in seen:
                self.report((*place, "name"), f"{format_value(name)} occurs twice", "join the two entries")
            else:
                at = known.index(name)
                merged[at], children[at] = self.merge_mappings(base[at], entry, children[at]._replace(difference=place))
            seen.add(str(name))
        return merged, origin._replace(children=children)

    def _report_unknown(self, path: Steps, name: object, section: str, known: Sequence[str]) -> None:
        message = f"{format_value(name)} is no entry of `{section}` in the base"
        self.report(path, message, suggest(str(name), known))


def _is_named(value: Any) -> bool:
    """Return True for a list of entries that each have a name."""
    return _is_list_of_mappings(value) and all(isinstance(entry.get("name"), str) for entry in value)


def _is_list_of_mappings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


@dataclass(slots=True)
class _Selection:
    """The environment that the user selects, and whether mpigen has read a file with it."""

    name: str
    is_used: bool = False


_SELECTION: ContextVar[_Selection | None] = ContextVar("environment", default=None)


@contextmanager
def select_environment(name: str) -> Iterator[None]:
    """Read each platform file as its environment `name` while the body runs.

    Raises:
        ConfigError: the body reads no platform file, so the selection has no effect.
    """
    selection = _Selection(name)
    token = _SELECTION.set(selection)
    try:
        yield
    finally:
        _SELECTION.reset(token)
    if not selection.is_used:
        fix = "name a platform.yaml with `environments`, or remove the option"
        raise ConfigError((Problem("no platform file is read, so the environment has no effect", fix, path=_OPTION),))


def selected_environment() -> str:
    """Return the environment that the user selects; empty if the user selects none."""
    selection = _SELECTION.get()
    if selection is None:
        return ""
    selection.is_used = True
    return selection.name


def find_equal_names(names: Mapping[str, str]) -> Iterator[Mistake]:
    """Yield a mistake for each environment whose platform has the name of an earlier one.

    Args:
        names: environment → the name of its platform.
    """
    first: dict[str, str] = {}
    for environment, name in names.items():
        other = first.setdefault(name, environment)
        if other != environment:
            message = f"the environments `{other}` and `{environment}` both have the platform name `{name}`"
            fix = "write another `platform`, or remove it: the default is `<platform>-<environment>`"
            yield Mistake((ENVIRONMENTS, environment, "platform"), message, fix)


def require_environment(data: dict[str, Any], name: str, file: str, line: int) -> None:
    """Check that a name is an environment of a platform file, or is empty for a file without environments.

    Raises:
        ConfigError: the file does not declare the environment, or declares environments and `name` is empty.
    """
    known = find_environments(data)
    if name in known or not (name or known):
        return
    if not name:
        message = f"this file declares the environments {format_names(known)}, and the command is about one of them"
        fix = f"name one of them, such as `{_OPTION} {known[-1]}`, or `mpigen promote {known[-1]}`"
        problem = Problem(message, fix, file, line, path=ENVIRONMENTS)
    elif known:
        problem = Problem(f"there is no environment `{name}`", suggest(name, known), file, line, path=ENVIRONMENTS)
    else:
        message = f"this file declares no environments, so there is no environment `{name}`"
        problem = Problem(message, f"remove {_OPTION}, or add `{ENVIRONMENTS}: {{{name}: {{}}}}`", file, line)
    raise ConfigError((problem,))


def reject_environment(name: str, file: str) -> None:
    """Check that no environment is named for a platform in Python.

    Raises:
        ConfigError: an environment is named.
    """
    if name := name or selected_environment():
        fix = f'let the file start from `load_platform("platform.yaml", "{name}")`, and remove {_OPTION}'
        raise ConfigError((Problem("a platform in Python declares no environments", fix, file),))
