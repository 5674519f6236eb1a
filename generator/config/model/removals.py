"""`tenants[].retired` and `removed`: the retirement of a team, and the acknowledgement of its removal."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from generator.config.model.fields import Day, Flag, Section, Text

_Reason = Annotated[Text, Field(max_length=1000)]


class Retirement(Section):
    """A retirement: the team runs no more jobs, and keeps its namespaces and data until a day."""

    reason: _Reason
    """The reason for the retirement, for reviewers, such as `the project ended`."""
    until: Day
    """The last day on which the team keeps its data, such as `2027-03-31`. From the next day on, a check reports that
    the team can be removed. A removal on that day or earlier gives a warning."""


class Removal(Section):
    """An acknowledgement: the next release may remove a team, or a namespace of a team, with all objects in it."""

    reason: _Reason
    """The reason for the removal, for reviewers, such as `the data is archived`."""
    until: Day
    """The last day on which a release may remove the team, such as `2027-04-30`. From the next day on, a check reports
    that you can delete the acknowledgement."""
    unretired: Flag = False
    """If true, a release may remove the team although no earlier release retired it. Kubernetes then deletes its
    running jobs together with its data. Default: mpigen writes no release that removes a team without `retired`."""

    @property
    def as_texts(self) -> dict[str, str]:
        """The fields as in `release.json`, which has only strings. `unretired` is left out if it is false."""
        return {"reason": self.reason, "until": self.until, **({"unretired": "true"} if self.unretired else {})}
