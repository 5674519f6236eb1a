"""What becomes of a job that has quota once its pods are placed by topology.

kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `assignFlavors`, tas_flavorassigner.go
`WorkloadsTopologyRequests`; pkg/scheduler/scheduler.go `updateAssignmentForTAS`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from generator.simulate.assignment import Assignment, Mode
from generator.simulate.podsets import PodSet
from generator.simulate.queues import Flavor
from generator.simulate.sites import NoPlace, Placed, Sites


@dataclass(frozen=True, slots=True)
class Placing:
    """Places jobs of one queue.

    Attributes:
        sites: where there is room.
        flavors: all that there are.
        is_implied: whether pods are placed that do not ask for it.
        provisioned: flavors whose nodes are created for the job; it has a place on them only then.
    """

    sites: Sites
    flavors: Mapping[str, Flavor]
    is_implied: bool
    provisioned: frozenset[str] = frozenset()

    def place(self, done: Assignment, podsets: Sequence[PodSet]) -> None:
        """Find places for an assignment that has quota; without, it is as good as without quota.

        Raises:
            NotModelledError: it depends on nodes that are not known.
        """
        if done.mode is Mode.NO_FIT or not self._has_flavors(done, podsets):
            return
        asked = list(self._asked(done, podsets))
        if done.mode is Mode.FIT:
            found = self.sites.find(asked)
            if not isinstance(found, NoPlace):
                done.stays = found
                return
            done.refused.append(str(found))
            done.mode = Mode.NO_FIT if self.sites.is_idle else Mode.NO_CANDIDATES
        if done.mode is Mode.NO_FIT:
            return
        if asked and isinstance(found := self.sites.find(asked, is_empty=True), NoPlace):
            done.refused.append(str(found))
            done.mode = Mode.NO_FIT
            return
        done.contest(each.pods.name for each in asked)

    def after_preemption(self, done: Assignment, podsets: Sequence[PodSet], *, is_empty: bool) -> None:
        """Where a job will go that makes room for itself, or would like to (`is_empty`: and cannot)."""
        found = self.sites.find(self._asked(done, podsets), is_empty=is_empty)
        done.stays = () if isinstance(found, NoPlace) else found

    def has_place(self, done: Assignment, podsets: Sequence[PodSet]) -> bool:
        """Whether there is room for all pods now."""
        return not isinstance(self.sites.find(self._asked(done, podsets)), NoPlace)

    def _is_placed(self, pods: PodSet) -> bool:
        return pods.count > 0 and (pods.topology is not None or self.is_implied)

    def _flavors(self, done: Assignment, pods: PodSet) -> set[str]:
        names = {each.flavor for each in done.podsets[pods.name].values()}
        return {name for name in names if self.flavors[name].topology}

    def _has_flavors(self, done: Assignment, podsets: Sequence[PodSet]) -> bool:
        """Whether each has one flavor with a topology (`onlyTASFlavor`)."""
        for pods in podsets:
            names = self._flavors(done, pods)
            if self._is_placed(pods) and len(names) != 1:
                found = "no flavor" if not names else f"the flavors {', '.join(f'`{each}`' for each in sorted(names))}"
                done.refused.append(f"`{pods.name}` has {found} with a topology, and needs one")
                done.mode = Mode.NO_FIT
                return False
        return True

    def _asked(self, done: Assignment, podsets: Sequence[PodSet]) -> Iterator[Placed]:
        for pods in podsets:
            if self._is_placed(pods) and not self._flavors(done, pods) <= self.provisioned:
                yield Placed(pods, *self._flavors(done, pods))
