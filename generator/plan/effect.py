"""Effects: the meanings of an update, one for each thing that changes for somebody."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from generator.documents.scalars import Json


class Risk(StrEnum):
    """The risk of an effect, from the lowest.

    Attributes:
        LOW: nothing is lost and no protection changes, such as more quota or a new team.
        MEDIUM: somebody loses or gets something, such as quota, a permission, or a different image for new jobs.
        HIGH: running jobs stop, nodes restart, data or objects are deleted for ever, a protection is weaker, a
            network is open to others, somebody becomes an admin, or the API server rejects the update.
    """

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of an update.

    Attributes:
        topic: the topic, such as `quota` or `access`.
        risk: the risk.
        subject: who or what it happens to, such as `team cv` or `ClusterQueue cv`.
        text: one sentence with the values before and after, such as `team cv owns 8 instead of 16 nvidia.com/gpu`.
        details: further sentences, which a short report folds.
        files: the changed files that cause the effect, relative to the release.
        before: the value before the update as JSON data, for programs; None if there was none.
        after: the value after the update; None if there is none.
    """

    topic: str
    risk: Risk
    subject: str
    text: str
    details: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    before: Json = None
    after: Json = None
