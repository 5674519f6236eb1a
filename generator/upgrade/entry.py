"""Entries: what an upgrade changes, with the objects and jobs that each change hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from generator.facts.versions import Need
from generator.upgrade.steps import Step


class Impact(StrEnum):
    """The class of an entry, from the least work.

    Attributes:
        SAFE: a component behaves differently, and no action is needed.
        MECHANICAL: `mpigen synth` makes the change.
        MANUAL: a person changes objects, or lets jobs finish.
        BLOCKED: the versions do not work together, or the platform file is invalid for them.
    """

    SAFE = "safe"
    MECHANICAL = "mechanical"
    MANUAL = "manual"
    BLOCKED = "blocked"

    def reaches(self, threshold: str) -> bool:
        """Return True if the class needs at least as much work as a threshold, such as `manual`."""
        return _IMPACTS.index(self) >= _IMPACTS.index(threshold)


_IMPACTS = tuple(Impact)


@dataclass(frozen=True, slots=True)
class Hit:
    """An object or a job that a change hits.

    Attributes:
        resource: the object, such as `TrainJob team-a/train`.
        file: its file; empty if it has none.
        line: the 1-based line in the file; 0 if unknown.
        detail: what changes for this object; empty if the text of the entry is enough.
        state: the state of a job: `running`, `pending` or `suspended`; empty for another object.
    """

    resource: str
    file: str = ""
    line: int = 0
    detail: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A change of an upgrade.

    Attributes:
        id: the id of a row of upgrades.yaml, of a check, or of a topic of `mpigen plan`.
        impact: the class.
        text: the change, in one or more sentences.
        hits: the objects and jobs that it hits, at least one, except for versions that do not work together.
        before: what to do before the step, in the imperative; empty for nothing.
        after: what to do after it.
        today: what to do now, so that the change hits fewer jobs.
        step: the number of the step, from 1; 0 if the change belongs to no single step.
        source: where upstream says it; empty for a check, whose page has the source.
        is_announced: True if no code of the version was read.
        check: the id of the check that found it; empty for other entries.
        pair: the versions that do not work together; None for other entries.
    """

    id: str
    impact: Impact
    text: str
    hits: Sequence[Hit] = ()
    before: str = ""
    after: str = ""
    today: str = ""
    step: int = 0
    source: str = ""
    is_announced: bool = False
    check: str = ""
    pair: Need | None = None

    @property
    def jobs(self) -> Mapping[str, int]:
        """State → the number of jobs that the change hits."""
        return Counter(hit.state for hit in self.hits if hit.state)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The result of `mpigen upgrade`.

    Attributes:
        source: the platform file or the folder of the release.
        before: the present versions.
        after: the versions after the upgrade.
        steps: the upgrades of components, in order; empty if no order works.
        entries: the changes, the most work first.
        notes: the limits of the result.
        announced: the versions whose code mpigen has not read, such as `Kueue 0.20`.
    """

    source: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    steps: Sequence[Step]
    entries: Sequence[Entry]
    notes: Sequence[str] = ()
    announced: Sequence[str] = field(default=())


def in_order(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries by class, the most work first, and then by step."""
    return sorted(entries, key=lambda entry: (-_IMPACTS.index(entry.impact), entry.step or len(entries), entry.id))
