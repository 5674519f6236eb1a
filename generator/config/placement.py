"""`runtimes[].placement`: how close together the hosts of a job must be."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from generator.config.fields import LabelKey, Section, refusal


class Placement(Section):
    """A level of the pool's topology, such as `example.com/rack`."""

    required: LabelKey | None = None
    """All hosts are in one such place; until one has room for all, the job waits."""
    preferred: LabelKey | None = None
    """All hosts are in one such place if one has room, else in as few places of the next wider level as can be."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.required is None) == (self.preferred is None):
            raise refusal("not exactly one of `required` and `preferred`", "write one of the two")
        return self

    @property
    def level(self) -> str:
        """The label that either names."""
        return self.required or self.preferred or ""
