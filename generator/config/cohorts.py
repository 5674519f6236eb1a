"""`cohorts`: groups of teams that share with each other before they share with others, such as faculties."""

from __future__ import annotations

from pydantic import Field

from generator.config.fields import Count, Name, Section
from generator.config.shares import Shares


class Cohort(Section):
    """A group of teams, or of groups."""

    name: Name
    """The Cohort's name, which `tenants[].cohort` and `parent` refer to."""
    parent: Name | None = None
    """The group that it belongs to. Default: the platform's own cohort, which all others lead to."""
    quota: Shares = Field(default={})
    """What belongs to the group as a whole, for any of its teams to borrow; in the forms of a team's quota."""
    borrow: Shares | None = None
    """What the group may use of others beyond its own, in the same forms; of what is left out, nothing. Default: no
    limit."""
    lend: Shares | None = None
    """What others may use of the group's while it is idle, in the same forms; of what is left out, nothing. Default:
    all of it."""
    weight: Count = 1
    """Its share of what is borrowed from its parent. Needs `queues.fairSharing`."""
