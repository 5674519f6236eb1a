"""The states of jobs, and the conditions and reasons of their objects in plain words: phases.yaml.

A state is the first word of a report about a job, such as `pending`. A reason is a row about a condition of an object,
such as the condition Evicted of a Workload with the reason Preempted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from generator.facts.table import read_rows


@dataclass(frozen=True, slots=True)
class State:
    """A state of a job: a row of `states`.

    Attributes:
        state: the word for the state.
        meaning: the meaning of the state, as a sentence.
        action: the next step of the user, as a sentence.
        command: the next command, with names in braces, such as `{namespace}`.
        failed: True if the job ended without success, or does not run until a person changes something.
    """

    state: str
    meaning: str
    action: str
    command: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """An object that an export can lack: a row of `missing`.

    Attributes:
        object: the kind, or `position` for the position in the queue.
        meaning: the lack, as a sentence.
        command: the command that prints the object, with names in braces.
    """

    object: str
    meaning: str
    command: str


@dataclass(frozen=True, slots=True)
class Reason:
    """A condition of an object with its reason: a row of `reasons`.

    Attributes:
        system: the component that sets the condition, such as `kueue`.
        object: the kind of the object; `Container` for a container, `AdmissionCheck` for an entry of a Workload.
        condition: the type of the condition. See phases.yaml for containers, phases, entries and events.
        meaning: the meaning of the condition, as a sentence.
        action: the next step of the user, as a sentence.
        source: citations of the code that sets the condition.
        status: the status of the condition, or the phase of a pod; empty for any status.
        reason: the reason, with `*` at the end for any rest; empty for any reason.
        message: a part of the message that the row requires; empty for any message.
        quoted: True if the message of the condition has details that a user needs.
        blocks: True if the job does not run until a person changes something.
        command: the next command, with names in braces; empty for the command of the state.
    """

    system: str
    object: str
    condition: str
    meaning: str
    action: str
    source: str
    status: str = ""
    reason: str = ""
    message: str = ""
    quoted: bool = False
    blocks: bool = False
    command: str = ""

    def covers(self, status: str, reason: str, message: str) -> bool:
        """Return True if the row is about a condition with this status, reason and message."""
        is_reason = reason.startswith(self.reason[:-1]) if self.reason.endswith("*") else self.reason in ("", reason)
        return is_reason and self.status in ("", status) and self.message in message


@cache
def states() -> Mapping[str, State]:
    """Return word → state, in the order of the file."""
    return {row.state: row for row in read_rows("phases", "states", State)}


@cache
def missing_objects() -> Mapping[str, Missing]:
    """Return kind → row about its lack, in the order of the file."""
    return {row.object: row for row in read_rows("phases", "missing", Missing)}


@cache
def reasons() -> tuple[Reason, ...]:
    """Return all rows about conditions, in the order of the file."""
    return read_rows("phases", "reasons", Reason)


def find_reason(kind: str, condition: str, status: str = "", reason: str = "", message: str = "") -> Reason | None:
    """Return the first row about a condition; None if the table has none.

    Args:
        kind: the kind of the object, as in `Reason.object`.
        condition: the type of the condition, as in `Reason.condition`.
        status: the status of the condition, or the phase of a pod.
        reason: the reason of the condition.
        message: the message of the condition.
    """
    rows = (row for row in reasons() if (row.object, row.condition) == (kind, condition))
    return next((row for row in rows if row.covers(status, reason, message)), None)
