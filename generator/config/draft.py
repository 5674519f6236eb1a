"""Draft: the entries of a platform file that are sound by themselves, so that one slip does not hide the rest."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from generator.config.access import PlatformAccess
from generator.config.cluster import Cluster
from generator.config.cohorts import Cohort
from generator.config.counting import Supply, supply
from generator.config.fabrics import Fabric
from generator.config.gitops import GitOps
from generator.config.isolation import Isolation
from generator.config.policies import Policies
from generator.config.pools import Pool
from generator.config.queues import Queues
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from generator.simulate.counting import AS_ASKED, Counting

if TYPE_CHECKING:
    from generator.config.platform import Platform

_MANY_NAMES = 100  # so many take long to compare, for each of as many mistakes, and nobody reads them in a message
_LONGEST_WORD = 100  # letters; what is longer resembles nothing, and takes long to compare


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two places of the platform that cannot both be meant; this one is a value, or the key that should not be."""

    path: tuple[str | int, ...]
    message: str
    fix: str
    is_of_key: bool = False


class Unknown(Enum):
    """A section that is written, but is not sound."""

    UNSOUND = "unsound"


@dataclass(frozen=True)
class Draft:
    """The parts of a platform that are sound by themselves; entries by their place in their list.

    Attributes:
        declared: every name that the file declares in a section, sound or not; an empty one where it cannot be known.
        unsure: the pools whose labels or taints are wrong or misspelt, so that nobody knows which pods they take.
        cluster: None where it is not sound. So are `policies`, `access`, `isolation` and `queues`.
        gitops: None where it is left out.
        wrong: of `queues`, the fields that are not sound; `queues` has their defaults.
        is_openshift: whether the cluster is OpenShift; None where that cannot be known.
    """

    platform: str
    pools: Mapping[int, Pool]
    runtimes: Mapping[int, Runtime]
    tenants: Mapping[int, Tenant]
    cohorts: Mapping[int, Cohort]
    fabrics: Mapping[int, Fabric]
    declared: Mapping[str, tuple[str, ...]]
    cluster: Cluster | None
    policies: Policies | None
    access: PlatformAccess | None
    isolation: Isolation | None
    queues: Queues | None
    gitops: GitOps | Unknown | None
    is_openshift: bool | None
    wrong: Collection[str] = ()
    unsure: Collection[int] = ()

    @classmethod
    def of(cls, platform: Platform) -> Draft:
        """The draft of a platform whose every section is sound."""
        return cls(
            platform=platform.platform,
            pools=dict(enumerate(platform.pools)),
            runtimes=dict(enumerate(platform.runtimes)),
            tenants=dict(enumerate(platform.tenants)),
            cohorts=dict(enumerate(platform.cohorts)),
            fabrics=dict(enumerate(platform.fabrics)),
            declared={
                "pools": tuple(pool.name for pool in platform.pools),
                "runtimes": tuple(runtime.name for runtime in platform.runtimes),
                "tenants": tuple(tenant.name for tenant in platform.tenants),
                "cohorts": tuple(cohort.name for cohort in platform.cohorts),
                "fabrics": tuple(fabric.name for fabric in platform.fabrics),
                "priorities": tuple(priority.name for priority in platform.queues.priorities),
            },
            cluster=platform.cluster,
            policies=platform.policies,
            access=platform.access,
            isolation=platform.isolation,
            queues=platform.queues,
            gitops=platform.gitops,
            is_openshift=platform.cluster.is_openshift,
        )

    @property
    def has_slack(self) -> bool:
        """Return True if resources without a quota have a queue, or may have one."""
        return self.queues is None or self.queues.slack

    @property
    def has_workers(self) -> bool:
        """Return True if jobs can be sent to other clusters, or may be."""
        return self.queues is None or self.queues.multi_kueue is not None or "multiKueue" in self.wrong

    @property
    def is_fair(self) -> bool:
        """Return True if Kueue reads weights, or may read them."""
        return self.queues is None or self.queues.fair_sharing or "fairSharing" in self.wrong

    @property
    def counting(self) -> Counting | None:
        """Return the resources that Kueue counts; None if unknown."""
        if self.queues is None or {"excludeResourcePrefixes", "transformations"} & {*self.wrong}:
            return None
        return self.queues.counting

    @cached_property
    def namespaces(self) -> Collection[str]:
        """Return the namespaces of all tenants."""
        return {home.name for tenant in self.tenants.values() for home in tenant.homes}

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
    word = word[:_LONGEST_WORD]
    alike = names if len(names) <= _MANY_NAMES else [name for name in names if name[:2] == word[:2]]
    close = difflib.get_close_matches(word, alike, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    if not names:
        return "declare it first"
    if len(names) > _MANY_NAMES:
        return f"write one of the {len(names):,} that are declared, such as {names[0]}"
    return f"write one of: {', '.join(names)}" if len(names) > 1 else f"write {names[0]}"
