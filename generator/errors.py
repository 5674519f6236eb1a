"""Errors of three kinds: invalid input, findings, and bugs of mpigen.

Invalid input is an `MpigenError` (exit code 2). A broken rule is a `Finding` (exit code 1 if its severity is at least
the severity of `--fail-on`, by default error).
Any other exception is a bug (exit code 3), except an invalid command line (2) and an interruption (130).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

_MANY_NAMES = 100  # a longer list takes long to compare with a word, and is too long for a message
_LONGEST_WORD = 100  # characters; longer words take long to compare


class ExitCode(IntEnum):
    """The exit code of a command; `meaning` is for `--help` and the docs."""

    meaning: str

    OK = 0, "no finding reaches the severity of `--fail-on`, by default error"
    FINDINGS = 1, "a finding reaches the severity of `--fail-on`, by default error"
    INVALID_INPUT = 2, "the input or the command line is invalid"
    BUG = 3, "mpigen has a bug, `--debug` prints the traceback"
    INTERRUPTED = 130, "the user interrupted the command"

    def __new__(cls, code: int, meaning: str) -> Self:
        """Return the code with its meaning."""
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in the input, with its place and its fix.

    Attributes:
        message: the error, with the invalid value.
        fix: the fix, in the imperative; empty if the message implies it.
        file: the file as the user named it; empty if there is none.
        line: the 1-based line; 0 if unknown.
        column: the 1-based column; 0 if unknown.
        path: the field, such as `tenants[2].quota.h100`, or the option, such as `--priority`; empty if there is none.
    """

    message: str
    fix: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        head = ": ".join(part for part in (place, self.path) if part)
        text = f"{head}: {self.message}" if head else self.message
        return f"{text}; {self.fix}" if self.fix else text


@dataclass(eq=False)
class MpigenError(Exception):
    """Invalid input: the base class of every error that a user can fix.

    `str(error)` has a line for each problem: `FILE:LINE:COLUMN: PATH: MESSAGE; FIX`.

    Attributes:
        problems: all problems of the input, not only the first.
        exit_code: the exit code of a command, 2.
    """

    problems: tuple[Problem, ...] = field(default=())

    exit_code = ExitCode.INVALID_INPUT

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def exception_text(error: BaseException) -> str:
    """Return the message of an exception; empty if its class, which the user's code can define, raises an exception."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - the class of the user may raise anything
        return ""


def format_exception(error: BaseException) -> str:
    """Return the class and the first line of the message of an exception."""
    return f"{type(error).__name__}: {next(iter(exception_text(error).splitlines()), '')}".removesuffix(": ")


class ConfigError(MpigenError):
    """The configuration is invalid: a file or a name that the user wrote, or the Git repository.

    Examples are the platform file, the settings, a baseline, a file of own checks, and the name of a Git revision.
    """


class InputError(MpigenError):
    """Input files or standard input cannot be read.

    Examples are a file without permission, a file that is too large, too many files, and a kustomization that kustomize
    rejects or renders too slowly.
    """


class DocumentError(MpigenError):
    """A text is not YAML that the Kubernetes API server accepts, or has objects that the command does not accept.

    Examples are a syntax error, a duplicate key, a Pod in a file of TrainJobs, and a closed standard input.
    """


class OutputError(MpigenError):
    """A folder of manifests cannot be used, or a file cannot be written.

    Examples are a path without manifests, a damaged `release.json`, and a release whose update would lose edits.
    """


class EngineError(MpigenError):
    """A schema, or a program (kubeconform, Go, kubectl, kustomize), is missing or does not work."""


class SimulationError(MpigenError):
    """The manifests lack an object or value that a simulation needs, or contradict each other."""


class NotModelledError(SimulationError):
    """The result depends on rules of Kubernetes or Kueue that mpigen does not simulate, so the result is unknown."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the fix for an unknown name: `did you mean …?` if a known name resembles it, else the known names.

    With more than 100 known names, only names with the same first two letters can resemble it, and else the fix has
    one of all names. Without known names, the fix is `declare it first`.
    """
    names = sorted({name for name in known if name})
    word = word[:_LONGEST_WORD]
    alike = names if len(names) <= _MANY_NAMES else [name for name in names if name[:2] == word[:2]]
    close = difflib.get_close_matches(word, alike, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    if not names:
        return "declare it first"
    if len(names) > _MANY_NAMES:
        return f"write one of the {len(names):,} that are declared, such as {names[0]}"
    return f"write one of: {', '.join(names)}" if len(names) > 1 else f"write {names[0]}"
