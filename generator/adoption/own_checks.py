"""The user's own checks: the files of Python and of rules in YAML that the setting `checks` names, and plugins.

The id of an own check is `family/rule`. The family must not be a family of mpigen; it can be, for example, the name of
an organization.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from re import compile as pattern
from types import FunctionType

from generator.adoption.plugins import Plugin, load_plugin
from generator.adoption.rule_files import load_rules
from generator.checks.finding import Severity
from generator.checks.registry import Check, Stage, registered_in
from generator.documents.files import find_read_problem, read_file
from generator.documents.python import find_forbidden, run_python
from generator.errors import ConfigError, MpigenError, Problem

_NAME = "__mpigen_checks__"
"""`__name__` in a file of checks. `registered_in` leaves out checks that the file imports from another module."""
_ID = pattern(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FIX = "correct the file of checks"
SUFFIXES = (".yaml", ".yml")
"""Suffixes of files of rules. Every other file is Python."""


_Read = tuple[list[Check], list[Problem]]


@dataclass(frozen=True, slots=True)
class OwnChecks:
    """The user's own checks.

    Attributes:
        checks: all checks, in the order of the settings.
        of_plugins: plugin → the checks that it adds.
    """

    checks: tuple[Check, ...] = ()
    of_plugins: Mapping[str, tuple[Check, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckFile:
    """A file of own checks.

    Attributes:
        file: the file.
        named_at: the problem to report about this file, still without its message, at the line of the settings file
            that names the file.
    """

    file: Path
    named_at: Problem


def load_own_checks(files: Sequence[CheckFile], known: Collection[str], plugins: Sequence[Plugin] = ()) -> OwnChecks:
    """Run files of checks and plugins, read files of rules, and return their checks.

    Args:
        files: the files, in the order of the setting.
        known: the ids of mpigen's checks.
        plugins: the plugins that the settings activate.

    Raises:
        ConfigError: a file is missing, its code fails, or a check is invalid. The error has every problem.
    """
    families = {name.partition("/")[0] for name in known}
    read = [(_checks_in(named, families), "") for named in files]
    read += [(_checks_of_plugin(plugin, families), f"{plugin}: ") for plugin in plugins]
    problems = [problem for (_, wrong), _ in read for problem in wrong]
    counts = Counter(check.id for (checks, _), _ in read for check in checks)
    for (checks, _), source in read:
        for check in checks:
            for message, fix in _mistakes(check, families, counts[check.id]):
                problems.append(Problem(source + message, fix, check.file, check.line, path=check.id))
    if problems:
        raise ConfigError(tuple(problems))
    loaded = [tuple(checks) for (checks, _), _ in read]
    of_plugins = {plugin.name: checks for plugin, checks in zip(plugins, loaded[len(files) :], strict=True)}
    return OwnChecks(tuple(check for checks in loaded for check in checks), of_plugins)


def _checks_in(named: CheckFile, families: Collection[str]) -> _Read:
    """Return the checks of a file, and its problems."""
    is_data = named.file.suffix in SUFFIXES
    if not is_data and (forbidden := find_forbidden(named.file)):
        message = f"{named.file}: {forbidden.message}"
        return [], [replace(named.named_at, message=message, fix=forbidden.fix)]
    if refused := find_read_problem(named.file):
        return [], [replace(named.named_at, message=f"{named.file}: {refused.message}")]
    if is_data:
        return load_rules(named.file, read_file(named.file), families)
    try:
        checks = list(registered_in(run_python(named.file, _NAME, _FIX), _NAME))
    except ConfigError as error:
        return [], [*error.problems]
    if not checks:
        message, fix = "the file registers no check", "decorate a function with `@check(...)`, from generator"
        return [], [Problem(message, fix, str(named.file))]
    return checks, []


def _checks_of_plugin(plugin: Plugin, families: Collection[str]) -> _Read:
    """Return the checks of a plugin, and its problems, which name its distribution."""
    try:
        checks, files = load_plugin(plugin)
        problems = []
        for file in files:
            rules, wrong = load_rules(file, read_file(file), families)
            checks += rules
            problems += [replace(problem, message=f"{plugin}: {problem.message}") for problem in wrong]
    except MpigenError as error:
        return [], [*error.problems]
    if not checks and not problems:
        fix = "register checks with `@check(...)`, or name files of rules in `RULES`"
        return [], [replace(plugin.named_at, message=f"{plugin} adds no check", fix=fix)]
    return checks, problems


def _mistakes(check: Check, families: Collection[str], count: int) -> Iterator[tuple[str, str]]:
    """Yield (message, fix) of each mistake in the registration of a check.

    Args:
        check: the check.
        families: the families of mpigen's checks.
        count: the number of own checks with this id.
    """
    if not _ID.fullmatch(check.id):
        yield "the id is not `family/rule` in lower case", "write it like `acme/cost-center`"
    elif check.family in families:
        yield f"the family `{check.family}` belongs to mpigen", "name another family, such as your organization"
    if count > 1:
        yield f"{count} checks have this id", "give each check its own id"
    if check.severity not in (*Severity,):
        yield f"`{check.severity}` is not a severity", "write ERROR, WARNING or INFO, from generator"
    if check.stage is Stage.ENGINE:
        fix = "write Manifest, Objects or Change, from generator, or a class of generator.views"
        yield f"`needs` is {check.needs!r}, which mpigen cannot pass to a check", fix
    if not check.text.startswith("Report "):
        yield "the function has no docstring that begins with `Report `", "write what the check reports, and why"
    if isinstance(check.rule, FunctionType) and not check.takes_one_argument:
        message = "the function does not have a single parameter, or yields nothing"
        yield message, "take one parameter, an object of the class `needs`, and yield each Breach"
