"""What Kueue counts of what pods ask for, where its configuration says that it is not the same.

kueue v0.19.2 pkg/workload/workload.go `totalRequestsFromPodSets`: `dropExcludedResources`, then
`applyResourceTransformations`. Places of a topology are found by what the pods ask for, whatever is counted
(pkg/scheduler/flavorassigner/tas_flavorassigner.go `podSetTopologyRequest`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from generator.simulate.amounts import Requests

_CPU = 1000  # of its units are counted as one


@dataclass(frozen=True, slots=True)
class Transformation:
    """What a resource counts as.

    Attributes:
        outputs: resource → how much of it for one of the input.
        keeps_input: whether the input itself is counted too (`Retain`).
    """

    outputs: Mapping[str, Fraction]
    keeps_input: bool = True


@dataclass(frozen=True, slots=True)
class Counting:
    """How Kueue counts.

    Attributes:
        excluded: beginnings of the names of resources that are not counted.
        transformations: input → what it counts as.
        classes: DeviceClass → the resource that its claimed devices count as; None where nothing is known of them.
    """

    excluded: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = field(default_factory=dict)
    classes: Mapping[str, str] | None = None

    def of(self, requests: Requests) -> Requests:
        """What is counted of what one pod asks for, or of what one node offers."""
        if not self.excluded and not self.transformations:
            return requests
        counted: dict[str, Fraction] = {}
        for name, amount in requests.items():
            if name.startswith(self.excluded):
                continue
            transformation = self.transformations.get(name, _ITSELF)
            if transformation.keeps_input:
                counted[name] = counted.get(name, Fraction(0)) + _plain(name, amount)
            for output, factor in transformation.outputs.items():
                counted[output] = counted.get(output, Fraction(0)) + _plain(name, amount) * factor
        return {name: ceil(amount * (_CPU if name == "cpu" else 1)) for name, amount in counted.items()}

    def of_claims(self, devices: Mapping[str, int]) -> Requests:
        """What is counted of claimed devices, by their class.

        Of a class that counts as nothing Kueue admits no claim (v0.19.2 pkg/dra/claims.go): it stands for itself here,
        of which there is no quota.
        """
        counted: dict[str, int] = {}
        for name, count in devices.items() if self.classes is not None else ():
            resource = (self.classes or {}).get(name, name)
            counted[resource] = counted.get(resource, 0) + count
        return counted

    def is_counted(self, resource: str) -> bool:
        """Whether quota of a resource can ever be used up."""
        is_made = any(resource in each.outputs for each in self.transformations.values())
        is_kept = self.transformations.get(resource, _ITSELF).keeps_input and not resource.startswith(self.excluded)
        return is_made or is_kept

    def instead(self, resource: str) -> tuple[str, ...]:
        """What counts in the place of a resource; nothing if it is excluded, or replaced by nothing."""
        return () if resource.startswith(self.excluded) else tuple(self.transformations.get(resource, _ITSELF).outputs)


_ITSELF = Transformation({})
AS_ASKED = Counting()
"""Everything counts as what it is."""


def _plain(resource: str, amount: int) -> Fraction:
    return Fraction(amount, _CPU) if resource == "cpu" else Fraction(amount)
