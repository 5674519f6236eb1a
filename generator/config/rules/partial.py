"""PartialPlatform: the sections of a platform file that are valid by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from generator.config.model.access import PlatformAccess
from generator.config.model.cluster import Cluster
from generator.config.model.cohorts import Cohort
from generator.config.model.fabrics import Fabric
from generator.config.model.gitops import GitOps
from generator.config.model.isolation import Isolation
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import Queues
from generator.config.model.quotas import Supply, pool_supply
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.simulate.kueue.configuration import AS_ASKED, Counting


class Unknown(Enum):
    """A section that is written, but is not sound."""

    UNSOUND = "unsound"


@dataclass(frozen=True)
class PartialPlatform:
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
        return {index: pool_supply(pool, self.counting or AS_ASKED) for index, pool in self.pools.items()}

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
