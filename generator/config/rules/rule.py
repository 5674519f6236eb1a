"""The one mechanism for relations between sections: a rule reads a PartialPlatform and yields mistakes.

The same rules reject a platform and word the reasons, in YAML and in Python. A rule about one section alone is a
validator of its model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from generator.config.mistakes import Mistake
from generator.config.model.access import PlatformAccess
from generator.config.model.cluster import Cluster, GitOps
from generator.config.model.fabrics import Fabric
from generator.config.model.isolation import Isolation
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import Queues
from generator.config.model.quotas import Supply, pool_supply
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Cohort, Tenant
from generator.simulate.kueue.configuration import DEFAULT_COUNTING, Counting

UNKNOWN_NAME = ""
"""The name of an entry whose name is missing or invalid."""


@dataclass(frozen=True)
class PartialPlatform:
    """A platform file without its invalid entries, sections and fields.

    Entries are mapped from their position in the file. Of a valid Platform, all entries are here.

    Attributes:
        platform: the name of the platform; empty if it is not a string.
        names: section → the names of all of its entries, valid or not, in the order of the file.
        cluster: None if it is invalid. So are `policies`, `access` and `isolation`.
        queues: without its invalid fields; None if it is not a mapping.
        gitops: None if it is left out or invalid.
        is_gitops_invalid: True if it is invalid.
        is_openshift: None if the distribution is invalid.
        invalid_queue_fields: the invalid fields of `queues`, which have their defaults there.
        unclear_pools: positions of the pools whose labels or taints may be invalid.
    """

    platform: str
    pools: Mapping[int, Pool]
    runtimes: Mapping[int, Runtime]
    tenants: Mapping[int, Tenant]
    cohorts: Mapping[int, Cohort]
    fabrics: Mapping[int, Fabric]
    names: Mapping[str, tuple[str, ...]]
    cluster: Cluster | None
    policies: Policies | None
    access: PlatformAccess | None
    isolation: Isolation | None
    queues: Queues | None
    gitops: GitOps | None
    is_openshift: bool | None
    is_gitops_invalid: bool = False
    invalid_queue_fields: frozenset[str] = frozenset()
    unclear_pools: frozenset[int] = frozenset()

    def lacks(self, section: str, name: str) -> bool:
        """Return True if no entry of a section has this name; False if the name of any entry is unknown."""
        names = self.names[section]
        return all(names) and name not in names

    @property
    def may_have_slack(self) -> bool:
        """Return True if `queues.slack` is true, or unknown."""
        return self.queues is None or self.queues.slack

    @property
    def may_have_workers(self) -> bool:
        """Return True if jobs can be sent to other clusters, or if that is unknown."""
        is_unknown = self.queues is None or "multiKueue" in self.invalid_queue_fields
        return is_unknown or (self.queues is not None and self.queues.multi_kueue is not None)

    @property
    def may_be_fair(self) -> bool:
        """Return True if Kueue uses fair-share weights, or if that is unknown."""
        return self.queues is None or self.queues.fair_sharing or "fairSharing" in self.invalid_queue_fields

    @property
    def counting(self) -> Counting | None:
        """Return the resources that Kueue counts; None if unknown."""
        if self.queues is None or {"excludeResourcePrefixes", "transformations"} & self.invalid_queue_fields:
            return None
        return self.queues.counting

    @cached_property
    def namespaces(self) -> Collection[str]:
        """Return the namespaces of all tenants."""
        return {home.name for tenant in self.tenants.values() for home in tenant.homes}

    @cached_property
    def fabric_by_name(self) -> Mapping[str, Fabric]:
        """Return the valid fabrics by name."""
        return {fabric.name: fabric for fabric in self.fabrics.values()}

    @cached_property
    def pool_by_name(self) -> Mapping[str, Pool]:
        """Return the valid pools by name, without names that two pools have."""
        count = Counter(self.names["pools"])
        return {pool.name: pool for pool in self.pools.values() if count[pool.name] <= 1}

    @cached_property
    def supplies(self) -> Mapping[int, Supply]:
        """Return the resources that each pool provides to quotas."""
        return {index: pool_supply(pool, self.counting or DEFAULT_COUNTING) for index, pool in self.pools.items()}

    @cached_property
    def supply_by_name(self) -> Mapping[str, Supply]:
        """Return the resources of each pool by its name, without names that two pools have."""
        return {supply.name: supply for supply in self.supplies.values() if supply.name in self.pool_by_name}

    @cached_property
    def has_all_pools(self) -> bool:
        """Return True if every pool is valid and has a unique name, so that a resource of no pool does not exist."""
        is_known = self.counting is not None and all(self.names["pools"])
        return is_known and len(self.pool_by_name) == len(self.names["pools"])


Rule = Callable[[PartialPlatform], Iterator[Mistake]]

RULES: list[Rule] = []
"""Every rule, in the order of registration."""


def rule(function: Rule) -> Rule:
    """Register a function as a rule."""
    RULES.append(function)
    return function
