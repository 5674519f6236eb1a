"""The user's own checks: Python files that the setting `checks` names.

The id of an own check is `family/rule`. The family must not be a family of mpigen; it can be, for example, the name of
an organization.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from re import compile as pattern

from generator.checks.finding import Severity
from generator.checks.registry import Check, Stage, registered_in
from generator.documents.files import find_read_problem
from generator.documents.python import find_forbidden, run_python
from generator.errors import ConfigError, Problem

_NAME = "__mpigen_checks__"
"""`__name__` in a file of checks. `registered_in` leaves out checks that the file imports from another module."""
_ID = pattern(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FIX = "correct the file of checks"


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


def load_own_checks(files: Sequence[CheckFile], known: Collection[str]) -> tuple[Check, ...]:
    """Run files of checks, and return their checks.

    Args:
        files: the files, in the order of the setting.
        known: the ids of mpigen's checks.

    Raises:
        ConfigError: a file is missing, its code fails, or a check is invalid. The error has every problem.
    """
    checks: list[Check] = []
    problems: list[Problem] = []
    for named in files:
        try:
            checks += _checks_in(named)
        except ConfigError as error:
            problems += error.problems
    families = {name.partition("/")[0] for name in known}
    counts = Counter(check.id for check in checks)
    for check in checks:
        for message, fix in _mistakes(check, families, counts[check.id]):
            problems.append(Problem(message, fix, check.file, check.line, path=check.id))
    if problems:
        raise ConfigError(tuple(problems))
    return tuple(checks)


def _checks_in(named: CheckFile) -> list[Check]:
    if forbidden := find_forbidden(named.file):
        message = f"{named.file}: {forbidden.message}"
        raise ConfigError((replace(named.named_at, message=message, fix=forbidden.fix),))
    if refused := find_read_problem(named.file):
        raise ConfigError((replace(named.named_at, message=f"{named.file}: {refused.message}"),))
    checks = list(registered_in(run_python(named.file, _NAME, _FIX), _NAME))
    if not checks:
        message, fix = "the file registers no check", "decorate a function with `@check(...)`, from generator"
        raise ConfigError((Problem(message, fix, str(named.file)),))
    return checks


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
    if not check.takes_one_argument:
        message = "the function does not have a single parameter, or yields nothing"
        yield message, "take one parameter, an object of the class `needs`, and yield each Breach"
