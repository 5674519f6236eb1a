"""Effects: the meanings of an update, one for each thing that changes for a team or for the platform."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from generator.documents.load import Path
from generator.documents.scalars import Json
from generator.manifests import Manifest


class Risk(StrEnum):
    """The risk of an effect, from the lowest.

    Attributes:
        LOW: no team loses anything, and no enforced protection is weaker, such as with more quota or a new team.
        MEDIUM: a team loses something that HIGH does not list, such as quota or a permission, or gets something that
            changes its jobs or its rights, such as another image for new jobs, a permission without danger or a new
            admission rule. Changed fields whose effect mpigen does not know are MEDIUM too.
        HIGH: running jobs stop, nodes restart, data or an object that jobs use is deleted, a protection is weaker, a
            network is open to others, a subject gets a dangerous permission, such as to read Secrets, every user or
            every ServiceAccount gets a permission, an added object has power over requests or pods of the whole
            cluster, the engine applies the release to another cluster, or the API server
            or `mpigen synth` rejects the update.
    """

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    def reaches(self, threshold: str) -> bool:
        """Return True if the risk is at least as high as a threshold, such as `medium`."""
        return _RISKS.index(self) >= _RISKS.index(threshold)


_RISKS = tuple(Risk)


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of an update.

    Attributes:
        topic: the topic, such as `quota` or `access`.
        risk: the risk.
        subject: the object of the effect, such as `team cv` or `ClusterQueue cv`.
        text: one sentence with the values before and after, such as ``team `cv` owns 8 instead of 16 nvidia.com/gpu``.
        details: further sentences, which a short report folds.
        causes: the added, changed or removed objects that have the effect. Objects without any effect appear in the
            topic `other`.
        before: the value before the update as JSON data, for programs; None or empty if there was none.
        after: the value after the update; None or empty if there is none.
        fields: the fields of changed causes that the effect explains; empty if these are the fields that its topic
            reads.
    """

    topic: str
    risk: Risk
    subject: str
    text: str
    details: tuple[str, ...] = ()
    causes: tuple[Manifest, ...] = ()
    before: Json = None
    after: Json = None
    fields: tuple[Path, ...] = ()

    @property
    def files(self) -> list[str]:
        """The files of the causes, relative to the release."""
        return sorted({cause.file for cause in self.causes})

    @property
    def objects(self) -> list[str]:
        """The causes, such as `ClusterQueue cv`."""
        return sorted({cause.resource for cause in self.causes})
