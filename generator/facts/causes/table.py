"""Read the tables of causes.

A cause is a fault that stops jobs, such as a full /dev/shm. A signature is a part of a line by which a program reports
the fault, or a failure that follows from another fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

from generator.facts.table import read_table

STAGES = ("pull", "schedule", "attach", "ssh", "launch", "fabric", "train", "checkpoint")
"""The stages of a job in their order, each with a table of causes."""


class Rank(IntEnum):
    """The value of a line for the answer, the best first."""

    ROOT = 0
    """The line names the fault."""
    EFFECT = 1
    """The line shows that another process failed before."""
    NOTE = 2
    """The line names a fault with which the job still runs, such as a slower network."""
    GENERIC = 3
    """The program prints the line for every failure of the stage."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A part of a line that shows a cause.

    Attributes:
        text: a literal part of the line.
        program: the program that prints the line, such as `nccl`.
        sample: a real line, with the lines around it.
        source: where the line was read.
        pattern: a regular expression that the line must match; empty for none. Its groups `host`, `rank`, `peer`,
            `user`, `value` and `name` are parts of the answer.
    """

    text: str
    program: str
    sample: str
    source: str
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """A fault that stops jobs, or a failure that follows from another fault.

    Attributes:
        cause: the name.
        stage: the stage of the job, one of `STAGES`.
        meaning: the fault, in sentences.
        action: the change that removes the fault, in sentences.
        change: the places of the change: platform, runtime, job, image, program or cluster.
        signatures: the lines that show it.
        rank: the value of its lines for the answer.
        field: the field to change; empty for none.
        checks: the rules of mpigen that report the fault before the job starts.
    """

    cause: str
    stage: str
    meaning: str
    action: str
    change: tuple[str, ...]
    signatures: tuple[Signature, ...]
    rank: Rank = Rank.ROOT
    field: str = ""
    checks: tuple[str, ...] = ()


@cache
def causes() -> Mapping[str, Cause]:
    """Return name → cause, in the order of the stages and of their tables."""
    rows = [(stage, row) for stage in STAGES for row in read_table(f"causes/{stage}")["causes"]]
    return {row["cause"]: _read(stage, row) for stage, row in rows}


def _read(stage: str, row: Mapping[str, Any]) -> Cause:
    return Cause(
        row["cause"],
        stage,
        row["meaning"],
        row["action"],
        tuple(row["change"]),
        tuple(Signature(**signature) for signature in row["signatures"]),
        Rank[row.get("rank", "root").upper()],
        row.get("field", ""),
        tuple(row.get("checks", ())),
    )
