"""The bounds of LimitRanges: Kueue compares a job with them, and admits none that is beyond one.

kueue v0.19.2 pkg/workload/resources.go `ValidateLimitRange`, pkg/util/limitrange/limitrange.go `Summarize`: the lowest
`max` and the highest `min` of all LimitRanges hold, which is to say all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.manifests import Manifest
from generator.simulate.amounts import counted, shown
from generator.simulate.fields import mapping, text

_FIELDS = ("max", "min")


@dataclass(frozen=True, slots=True)
class Bound:
    """One amount that a LimitRange sets.

    Attributes:
        limit_range: its name.
        item: the place in `spec.limits`.
        kind: whom it is about: `Container` or `Pod`.
        field: `max` or `min`.
        resource: of which.
        amount: as Kueue counts it.
    """

    limit_range: str
    item: int
    kind: str
    field: str
    resource: str
    amount: int

    def is_broken_by(self, amount: int) -> bool:
        """Whether somebody asks for more than allowed, or for less."""
        return amount > self.amount if self.field == "max" else amount < self.amount

    def __str__(self) -> str:
        words = "no more" if self.field == "max" else "no less"
        amount = shown(self.resource, self.amount)
        return f"the LimitRange `{self.limit_range}` lets a {self.kind.lower()} ask for {words} than {amount}"


def bounds(manifest: Manifest) -> Iterator[Bound]:
    """Those of a LimitRange that Kueue looks at.

    Raises:
        SimulationError: an amount is no quantity.
    """
    limits = mapping(manifest.body, "spec").get("limits")
    for number, item in enumerate(limits if isinstance(limits, list) else ()):
        kind = text(mapping(item).get("type"))
        for field in _FIELDS if kind in ("Container", "Pod") else ():
            for name, value in mapping(item, field).items():
                amount = counted(str(name), value, manifest.resource)
                yield Bound(manifest.name, number, kind, field, str(name), amount)
