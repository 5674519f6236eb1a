"""The settings file: `mpigen.toml`, or `[tool.mpigen]` in `pyproject.toml`, and its patterns of file paths."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.documents.files import read_file
from generator.documents.messages import format_value
from generator.errors import ConfigError, Problem, suggest

if TYPE_CHECKING:
    from generator.adoption.own_checks import OwnChecks
    from generator.adoption.plugins import Plugin
    from generator.adoption.toml_places import TomlPlaces
    from generator.checks.registry import Check, Suite

OWN_FILE = "mpigen.toml"
PROJECT_FILE = "pyproject.toml"
SCHEMA = Path(__file__).with_name("settings.schema.json")
_TABLE = ("tool", "mpigen")
_Step = str | int


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a waiver: the file, the 1-based line and column, and the path of the waiver inside the file."""

    file: str
    line: int
    column: int
    path: str


@dataclass(frozen=True, slots=True)
class Waiver:
    """A waiver: the repository accepts the findings of one check in some files until a day.

    Attributes:
        check: the id of the check.
        path: a pattern of these files; empty for a waiver in the annotation of an object.
        resource: the object with the finding, `Kind namespace/name`; empty for every object of these files.
        reason: the reason for accepting the findings.
        until: the last day on which mpigen accepts the findings.
        place: the line that declares the waiver.
    """

    check: str
    path: str
    resource: str
    reason: str
    until: dt.date
    place: Place


@dataclass(frozen=True, slots=True)
class PathSettings:
    """The checks to report and to ignore in the files that match the pattern `path`.

    mpigen reports a finding only if both this selection and the selection for all files include its check.
    """

    path: str
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a repository.

    Attributes:
        root: the base of the paths of findings in `paths`, in `waivers` and in the baseline. By default, the folder of
            the settings file.
        select: the checks and families to report; empty for all.
        ignore: the checks and families not to report.
        fail_on: the lowest severity that fails a run; empty for the default.
        baseline: the path of the baseline file, with the folder of the settings file; empty for none.
        schema_locations: folders with JSON Schemas or CustomResourceDefinitions of the user. Each path starts with the
            folder of the settings file.
        docs: the base URL of the published docs; empty if they are not published.
        paths: selections for some files.
        waivers: the findings that are accepted until a day.
        own: the checks in the files that the setting `checks` names, and of the active plugins.
        plugins: active plugin → its checks.
    """

    root: Path = field(default_factory=Path)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str = ""
    baseline: str = ""
    schema_locations: tuple[str, ...] = ()
    docs: str = ""
    paths: tuple[PathSettings, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    own: tuple[Check, ...] = ()
    plugins: Mapping[str, tuple[Check, ...]] = field(default_factory=dict)


def find_settings(folder: Path) -> Path | None:
    """Return the nearest settings file in a folder or its parents, up to the root of the Git repository; else None."""
    for parent in (folder, *folder.parents):
        if (own := parent / OWN_FILE).is_file():
            return own
        project = parent / PROJECT_FILE
        if project.is_file() and _has_table(project):
            return project
        if (parent / ".git").exists():
            return None
    return None


def _has_table(file: Path) -> bool:
    """Return True if a pyproject.toml contains the text `tool.mpigen`. `load_settings` reports errors of the file."""
    return b"tool.mpigen" in read_file(file)


def load_settings(file: Path, checks: Collection[str]) -> Settings:
    """Read a settings file, and load the files of checks and the plugins that it names.

    Args:
        file: a `pyproject.toml`, or a file of any other name with the same keys at its top.
        checks: the ids of mpigen's checks.

    Raises:
        ConfigError: the file or a file of checks is invalid. The error has every problem.
        InputError: the file cannot be read.
    """
    import tomllib

    from generator.adoption.toml_places import TomlPlaces

    try:
        text = read_file(file).decode()
        data: Any = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError((_syntax_problem(file, error),)) from None
    prefix = _TABLE if file.name == PROJECT_FILE else ()
    for key in prefix:
        data = data.get(key, {}) if isinstance(data, dict) else data
    places = TomlPlaces(text, prefix)
    own = _own_checks(file, data, places, checks)
    known = [*checks, *(check.id for check in own.checks)]
    mistakes = [*_mistakes(_as_json(data), known), *_mistakes_of_locations(file, data)]
    problems = [_problem(file, places, *mistake) for mistake in mistakes]
    if problems:
        raise ConfigError(tuple(sorted(problems, key=lambda problem: (problem.line, problem.column))))
    return replace(_settings(file, data, places), own=own.checks, plugins=own.of_plugins)


def load_suite(file: Path) -> Suite:
    """Return the checks of mpigen together with your own checks, so that a test can give them to `judge`.

    The other settings, such as waivers, have no effect on `judge`.

    Args:
        file: a `mpigen.toml`, or a `pyproject.toml` with the table `tool.mpigen`. Your own checks are in the files and
            plugins that its settings `checks` and `plugins` name.

    Raises:
        ConfigError: the file or one of your own checks is invalid. The error has every problem.
        InputError: the file cannot be read.
    """
    from generator.checks.registry import Suite

    return Suite(load_settings(file, Suite().ids()).own)


def _own_checks(file: Path, data: Any, places: TomlPlaces, checks: Collection[str]) -> OwnChecks:
    """Return the checks of the files that `checks` names, and of the plugins that `plugins` names.

    A key that is not a list of strings has none.

    Raises:
        ConfigError: a file, a plugin or a check is invalid. The error has every problem.
    """
    from generator.adoption.own_checks import CheckFile, OwnChecks, load_own_checks

    files, plugins = _names(data, "checks"), _names(data, "plugins")
    if not files and not plugins:
        return OwnChecks()
    fix = "name a Python file or a file of rules (.yaml), relative to the folder of this settings file"
    named = [
        CheckFile(file.parent / name, _problem(file, places, ("checks", n), "", fix)) for n, name in enumerate(files)
    ]
    active, problems = _find_plugins(
        {name: _problem(file, places, ("plugins", n), "", "") for n, name in enumerate(plugins)}
    )
    try:
        own = load_own_checks(named, checks, active)
    except ConfigError as error:
        raise ConfigError((*problems, *error.problems)) from None
    if problems:
        raise ConfigError(tuple(problems))
    return own


def _names(data: Any, key: str) -> list[str]:
    """Return the strings of a list in the settings; none if the key has another value."""
    named = data.get(key) if isinstance(data, dict) else None
    return named if isinstance(named, list) and all(isinstance(name, str) for name in named) else []


def _find_plugins(named: Mapping[str, Problem]) -> tuple[list[Plugin], list[Problem]]:
    """Return the installed plugins with these names, and the problems of other names."""
    if not named:
        return [], []
    from generator.adoption.plugins import find_plugins  # reads the metadata of every installed distribution

    return find_plugins(named)


def _syntax_problem(file: Path, error: ValueError) -> Problem:
    match = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error))
    message, line, column = (match[1], int(match[2]), int(match[3])) if match else (str(error), 0, 0)
    return Problem(f"is not TOML: {message}", "correct the syntax", str(file), line, column)


def _as_json(data: Any) -> Any:
    """Return the data with dates and times as strings, because JSON has no dates."""
    if isinstance(data, dict):
        return {key: _as_json(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_as_json(item) for item in data]
    return data.isoformat() if isinstance(data, dt.date | dt.time) else data


def _mistakes(data: Any, checks: Collection[str]) -> Iterator[tuple[tuple[_Step, ...], str, str]]:
    """Yield (path, message, fix) of each mistake in the settings. `checks` has the ids of all checks."""
    from generator.schemas.embedded import explain

    schema, engine = _engine()
    for violation in explain(engine.iter_errors(data), schema, data):
        fix = _fix(violation.expected)
        if violation.keyword == "additionalProperties":
            fix = suggest(str(violation.path[-1]), violation.candidates)
        elif violation.keyword == "required":
            fix = f"add `{violation.expected}`"
        yield violation.path, violation.message, fix
    for path, value in _values(data):
        yield from ((path, *mistake) for mistake in _mistakes_of_value(path, value, checks))


def _mistakes_of_value(path: tuple[_Step, ...], value: Any, checks: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (message, fix) of each mistake that the schema does not find."""
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    if key == "until" and not _is_date(value):
        yield f"`{value}` is not a date", "write a day such as 2027-03-31"
    if not isinstance(value, str):
        return
    if key in ("select", "ignore", "check") and not is_known(value, checks, has_families=key != "check"):
        yield f"there is no check `{value}`", suggest(value, checks)
    if key in ("reason", "path") and not value.strip():
        yield f"`{key}` is empty", "write why the finding is accepted" if key == "reason" else "name files or folders"


def _mistakes_of_locations(file: Path, data: Any) -> Iterator[tuple[tuple[_Step, ...], str, str]]:
    """Yield (path, message, fix) of each name in `schema-locations` that is no folder."""
    named = data.get("schema-locations") if isinstance(data, dict) else None
    for number, name in enumerate(named if isinstance(named, list) else ()):
        if isinstance(name, str) and not os.path.isdir(file.parent / name):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
            message = f"{format_value(name)} is not a folder"
            fix = "name a folder with JSON Schemas or CustomResourceDefinitions, relative to the folder of this file"
            yield ("schema-locations", number), message, fix


def _fix(expected: Any) -> str:
    if isinstance(expected, tuple):
        return f"write {' or '.join(str(value) for value in expected)}"
    return "correct the value by the schema that `mpigen schema settings` prints"


def is_known(check: str, checks: Collection[str], *, has_families: bool) -> bool:
    """Return True if a text is the id of a check or, with `has_families`, of a family, or if `checks` is empty."""
    return not checks or check in checks or (has_families and any(known.startswith(f"{check}/") for known in checks))


@cache
def _engine() -> tuple[dict[str, Any], Any]:
    import jsonschema_rs

    schema = json.loads(SCHEMA.read_text("utf-8"))
    return schema, jsonschema_rs.Draft202012Validator(schema)


def _values(data: Any, path: tuple[_Step, ...] = ()) -> Iterator[tuple[tuple[_Step, ...], Any]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, value in items:
        yield (*path, step), value
        yield from _values(value, (*path, step))


def _is_date(value: object) -> bool:
    try:
        dt.date.fromisoformat(str(value))
    except ValueError:
        return False
    return isinstance(value, str)


def _problem(file: Path, places: TomlPlaces, path: tuple[_Step, ...], message: str, fix: str) -> Problem:
    line, column = places.find(path)
    return Problem(message, fix, str(file), line, column, written_path(path))


def written_path(path: tuple[_Step, ...]) -> str:
    """Return a path as messages show it: `waivers[0].until`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _settings(file: Path, data: Mapping[str, Any], places: TomlPlaces) -> Settings:
    return Settings(
        root=file.parent,
        select=tuple(data.get("select", ())),
        ignore=tuple(data.get("ignore", ())),
        fail_on=data.get("fail-on", ""),
        baseline=str(file.parent / data["baseline"]) if data.get("baseline") else "",
        schema_locations=tuple(str(file.parent / name) for name in data.get("schema-locations", ())),
        docs=data.get("docs", ""),
        paths=tuple(
            PathSettings(entry["path"], tuple(entry.get("select", ())), tuple(entry.get("ignore", ())))
            for entry in data.get("paths", ())
        ),
        waivers=tuple(
            Waiver(
                check=entry["check"],
                path=entry["path"],
                resource=entry.get("resource", ""),
                reason=entry["reason"],
                until=dt.date.fromisoformat(str(entry["until"])),
                place=Place(str(file), *places.find(("waivers", number)), f"waivers[{number}]"),
            )
            for number, entry in enumerate(data.get("waivers", ()))
        ),
    )


_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANINGS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches(pattern: str, path: str) -> bool:
    """Return True if a pattern matches a path or a folder above it. `*` and `?` do not match `/`; `**` does."""
    return _compile(pattern).fullmatch(path) is not None


@lru_cache(1_000)
def _compile(pattern: str) -> re.Pattern[str]:
    written = pattern.removeprefix("./").rstrip("/")
    parts = "".join(_MEANINGS.get(part, re.escape(part)) for part in _PARTS.findall(written))
    return re.compile(f"{parts}(?:/.*)?" if written not in ("", ".") else ".*", re.DOTALL)


def relative(file: str, root: Path) -> str:
    """Return the path of a file relative to `root`, with `/` on every system. It may start with `../`.

    A file on another drive of Windows has no relative path, so its path is returned unchanged.
    """
    try:
        path = Path(os.path.relpath(file, root))
    except ValueError:  # another drive of Windows
        return file
    return path.as_posix()
