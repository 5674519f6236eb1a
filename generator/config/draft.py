"""Draft: the entries of a platform file that are sound by themselves, so that one slip does not hide the rest."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from generator.config.cohorts import Cohort
from generator.config.counting import Supply, supply
from generator.config.fabrics import Fabric
from generator.config.policies import Policies
from generator.config.pools import Pool
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from generator.simulate.counting import AS_ASKED, Counting

if TYPE_CHECKING:
    from generator.config.platform import Platform

_LONGEST_WORD = 100  # letters; what is longer resembles nothing, and takes long to compare


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two places of the platform that cannot both be meant; this one is a value, or the key that should not be."""

    path: tuple[str | int, ...]
    message: str
    fix: str
    is_of_key: bool = False


@dataclass(frozen=True)
class Draft:
    """The entries of a platform file that are sound by themselves, by their place in their list.

    Attributes:
        has_slack: whether what no quota owns has a queue.
        has_workers: whether there are other clusters that jobs may be sent to.
        is_fair: whether weights count.
        counting: what Kueue counts; None where that is not sound.
        policies: what holds for all; None where that is not sound.
        is_openshift: whether the cluster is OpenShift; None where that cannot be known.
        declared: every name that the file declares in a section, sound or not; an empty one where it cannot be known.
        unsure: the pools whose labels or taints are wrong or misspelt, so that nobody knows which pods they take.
    """

    platform: str
    pools: Mapping[int, Pool]
    runtimes: Mapping[int, Runtime]
    tenants: Mapping[int, Tenant]
    cohorts: Mapping[int, Cohort]
    declared: Mapping[str, tuple[str, ...]]
    has_slack: bool = True
    has_workers: bool = False
    is_fair: bool = False
    counting: Counting | None = AS_ASKED
    unsure: Collection[int] = ()
    policies: Policies | None = field(default_factory=Policies)
    fabrics: Mapping[int, Fabric] = field(default_factory=dict)
    is_openshift: bool | None = None

    @classmethod
    def of(cls, platform: Platform) -> Draft:
        """The draft of a platform whose every section is sound."""
        return cls(
            platform.platform,
            dict(enumerate(platform.pools)),
            dict(enumerate(platform.runtimes)),
            dict(enumerate(platform.tenants)),
            dict(enumerate(platform.cohorts)),
            {
                "pools": tuple(pool.name for pool in platform.pools),
                "runtimes": tuple(runtime.name for runtime in platform.runtimes),
                "tenants": tuple(tenant.name for tenant in platform.tenants),
                "cohorts": tuple(cohort.name for cohort in platform.cohorts),
                "fabrics": tuple(fabric.name for fabric in platform.fabrics),
                "priorities": tuple(priority.name for priority in platform.queues.priorities),
            },
            platform.queues.slack,
            platform.queues.multi_kueue is not None,
            platform.queues.fair_sharing,
            platform.queues.counting,
            policies=platform.policies,
            fabrics=dict(enumerate(platform.fabrics)),
            is_openshift=platform.cluster.is_openshift,
        )

    @property
    def pool_named(self) -> dict[str, Pool]:
        """The sound pools by name, but for a name that is there twice: it could mean either."""
        times = Counter(self.declared["pools"])
        return {pool.name: pool for pool in self.pools.values() if times[pool.name] <= 1}

    @cached_property
    def supplies(self) -> dict[int, Supply]:
        """The pools as quotas know them."""
        return {index: supply(pool, self.counting or AS_ASKED) for index, pool in self.pools.items()}

    @property
    def supply_named(self) -> dict[str, Supply]:
        """Those whose pools have a name of their own."""
        named = self.pool_named
        return {each.name: each for each in self.supplies.values() if each.name in named}

    @property
    def has_all_names(self) -> bool:
        """Whether every pool has a name, so that a pool of another name does not exist."""
        return all(self.declared["pools"])

    @property
    def has_all_pools(self) -> bool:
        """Whether every pool is sound and has a name of its own, so that what none of them offers does not exist."""
        is_known = self.counting is not None and self.has_all_names
        return is_known and len(self.pool_named) == len(self.declared["pools"])


def suggestion(word: str, known: Iterable[str]) -> str:
    """`did you mean …?` when something known is close, else what is known."""
    names = sorted({name for name in known if name})
    close = difflib.get_close_matches(word[:_LONGEST_WORD], names, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    if not names:
        return "declare it first"
    return f"write one of: {', '.join(names)}" if len(names) > 1 else f"write {names[0]}"
