"""The last days of a platform file that are past: of retirements, and of acknowledged removals."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

from generator.checks.registry import WARNING, declare
from generator.config.platform import Platform
from generator.hazards.settings import Hazard

Rule = Callable[[Platform, dt.date], Iterator[Hazard]]


def retirement_over(platform: Platform, today: dt.date) -> Iterator[Hazard]:
    """Report a retired team whose last day is past.

    The team keeps its namespaces and data until a release removes the team. Nothing in a cluster removes them on the
    last day.

    Source: mpigen: it defines `tenants[].retired`
    """
    for tenant in platform.tenants:
        if tenant.retired and tenant.retired.until < today.isoformat():
            yield Hazard(
                ("tenants", tenant.name, "retired", "until"),
                f"team `{tenant.name}` keeps its data until {tenant.retired.until}, and this day is past",
                "the team still has its namespaces, volume claims and quota",
                "remove the team, and acknowledge the removal in `removed`, or set a later `until`",
            )


def removal_over(platform: Platform, today: dt.date) -> Iterator[Hazard]:
    """Report an acknowledgement in `removed` whose last day is past.

    After the last day, mpigen writes no release that removes the team. If a release has already removed the team, the
    acknowledgement has no effect.

    Source: mpigen: it defines `removed`
    """
    for name, removal in platform.removed.items():
        if removal.until < today.isoformat():
            yield Hazard(
                ("removed", name, "until"),
                f"the acknowledgement of the removal of `{name}` ended on {removal.until}",
                "the acknowledgement has no effect, and mpigen writes no release that removes the team",
                "delete the acknowledgement, or set a later `until` if a release still has to remove the team",
            )


RULES: dict[str, Rule] = {"platform/retirement-over": retirement_over, "platform/removal-over": removal_over}
"""Check id → the rule that finds its hazards."""
for _check, _rule in RULES.items():
    declare(_check, severity=WARNING, text=_rule)
