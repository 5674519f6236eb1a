"""Find the hazards of a platform, and locate them in the platform file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from generator.checks.finding import Finding, Severity
from generator.checks.registry import WARNING, declare
from generator.config.environments import find_environments, merge
from generator.config.model.fields import Section
from generator.config.platform import Platform
from generator.config.python_file import find_shadowed_module
from generator.documents.files import read_file
from generator.documents.load import load
from generator.documents.locate import locate_all
from generator.documents.messages import format_path, parse_path
from generator.documents.python import shorten_path
from generator.errors import MpigenError, Problem
from generator.hazards import days
from generator.hazards.settings import RULES, Hazard


@dataclass(frozen=True, slots=True)
class Written:
    """A place in a platform file.

    Attributes:
        path: such as `tenants[0].egress[1].cidr`; in a Python platform `tenants.team-a.egress.s3.cidr`.
        line: 1-based; 0 if unknown.
        column: 1-based; 0 if unknown.
        file: the file of the place; empty for the platform file.
    """

    path: str
    line: int = 0
    column: int = 0
    file: str = ""


def locate_paths(
    file: Path, paths: Sequence[tuple[str, ...]], environment: str = "", platform: Platform | None = None
) -> list[Written]:
    """Return the place of each path in the platform file.

    A field that the file does not set has the place of the nearest section around it. In a Python file, the place is
    the line that creates the nearest section. It can be in a module that the platform file imports.

    Args:
        file: the platform file.
        paths: paths such as `("tenants", "team-a", "egress")`: field names of the YAML, and names of list entries in
            place of their positions.
        environment: the environment of the platform; empty for a file without environments.
        platform: the platform of a Python file.
    """
    unplaced = [Written(".".join(path)) for path in paths]
    if paths and file.suffix == ".py" and platform is not None:
        return [_locate_in_python(path, platform, file) for path in paths]
    if not paths or file.suffix == ".py":
        return unplaced
    try:
        text = read_file(file)
        document = next(document for document in load(text) if document.data is not None)
    except (MpigenError, StopIteration):  # the file has changed since it was loaded
        return unplaced
    if environment and environment not in find_environments(document.data):  # as above
        return unplaced
    merged = merge(document.data, environment)
    steps_of = [_positions(path, merged.data) for path in paths]
    written = [merged.place_of(steps) for steps in steps_of]
    places = locate_all(text, document.index, written)
    return [
        Written(format_path((*path, *names[len(steps) :])), *places[path].node)
        for path, steps, names in zip(written, steps_of, paths, strict=True)
    ]


def _locate_in_python(path: tuple[str, ...], platform: Platform, file: Path) -> Written:
    if not path:
        return Written("")
    value: Any = platform
    place, line = platform.declared_at
    for position, step in enumerate(path):
        if isinstance(value, Section):
            names = {info.alias: name for name, info in type(value).model_fields.items()}
            value = getattr(value, names[step]) if step in names else None
        elif isinstance(value, tuple):
            entries = [getattr(entry, "name", None) for entry in value]
            number = entries.index(step) if step in entries else _position(step, len(value))
            if number is None and position == 1:  # an entry that the platform lacks has no line
                return Written(".".join(path))
            value = None if number is None else value[number]
        else:
            break
        if isinstance(value, Section) and value.declared_at[1]:
            place, line = value.declared_at
    return Written(".".join(path), line, file="" if place in ("", str(file)) else shorten_path(place, str(file)))


_SECTIONS = ("patches", "extra", "tenants")
"""The sections of a platform file in which rendering can find a problem."""


def place_problems(
    file: Path, problems: Sequence[Problem], environment: str = "", platform: Platform | None = None
) -> tuple[Problem, ...]:
    """Return the problems of rendering a platform, with their places in the platform file, in the order of the file.

    Args:
        file: the platform file.
        problems: the problems. A problem with a path in the section `patches` or `extra` gets a place.
        environment: the environment of the platform; empty for a file without environments.
        platform: the platform of a Python file.
    """
    paths = [
        tuple(map(str, parse_path(problem.path))) if not problem.file and problem.path.startswith(_SECTIONS) else ()
        for problem in problems
    ]
    places = iter(locate_paths(file, [path for path in paths if path], environment, platform))
    placed = [
        replace(
            problem,
            file=(place := next(places)).file or str(file),
            line=place.line,
            column=place.column,
            path=place.path,
        )
        if path
        else problem
        for problem, path in zip(problems, paths, strict=True)
    ]
    return tuple(sorted(placed, key=lambda problem: (problem.line, problem.column)))


def _positions(path: tuple[str, ...], data: Any) -> tuple[str | int, ...]:
    """Replace names of list entries by positions: `("tenants", "team-a")` → `("tenants", 0)`.

    The result ends before the first field that the file leaves out.
    """
    steps: list[str | int] = []
    for name in path:
        step: str | int | None = name if isinstance(data, dict) and name in data else None
        if isinstance(data, list):
            names = [entry.get("name") if isinstance(entry, dict) else entry for entry in data]
            step = names.index(name) if name in names else _position(name, len(names))
        if step is None:
            break
        steps.append(step)
        data = data[step]
    return tuple(steps)


def _position(name: str, length: int) -> int | None:
    """Return a position in a list of entries without names; None if the text is no position in it."""
    return int(name) if name.isascii() and name.isdigit() and int(name) < length else None


def shadowed_module(file: Path) -> Iterator[Hazard]:
    """Report a platform file in Python with the name of an installed module.

    pytest, mypy and an interactive Python that start in the folder of a file such as `platform.py` import the file
    instead of the module, and fail. Rename the file, for example to `mpigen_platform.py`.

    Source: https://docs.python.org/3/library/sys_path_init.html
    """
    module = find_shadowed_module(file) if file.suffix == ".py" else ""
    if module:
        yield Hazard(
            (),
            f"the file `{file.name}` has the name of the Python module `{module}`",
            f"pytest, mypy and an interactive Python that start in the folder of this file import it instead of the "
            f"module `{module}`, and fail",
            "rename the file, for example to mpigen_platform.py",
        )


declare("platform/shadowed-module", severity=WARNING, text=shadowed_module)


def find_hazards(platform: Platform, file: Path, environment: str = "", today: dt.date | None = None) -> list[Finding]:
    """Return a warning for every hazard.

    Args:
        platform: the platform that the file declares.
        file: a platform.yaml or mpigen_platform.py, as the user named it.
        environment: the environment of the platform; empty for a file without environments.
        today: the day of the check; None to ignore last days.
    """
    hazards = [("platform/shadowed-module", hazard) for hazard in shadowed_module(file)]
    hazards += [(check, hazard) for check, rule in RULES.items() for hazard in rule(platform)]
    if today is not None:
        hazards += [(check, hazard) for check, rule in days.RULES.items() for hazard in rule(platform, today)]
    places = locate_paths(file, [hazard.path for _, hazard in hazards], environment, platform)
    return [
        Finding(
            file=place.file or str(file),
            line=place.line,
            column=place.column,
            path=place.path,
            check=check,
            resource="",
            message=hazard.message,
            why=hazard.why,
            fix=hazard.fix,
            severity=Severity.WARNING,
        )
        for (check, hazard), place in zip(hazards, places, strict=True)
    ]
