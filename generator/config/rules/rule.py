"""Rules about relations between sections of a platform file: a rule reads a PartialPlatform and yields mistakes.

The same rules check a platform.yaml and a platform in Python. Rules about one section alone are validators of the
section's model.
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

    The lists `pools`, `runtimes`, `tenants`, `cohorts` and `fabrics` become mappings: position in the file → entry.

    Attributes:
        platform: the name of the platform; empty if it is not a string.
        names: section → the names of all of its entries, valid or not, in the order of the file.
        cluster: None if the section is invalid; likewise for `policies`, `access` and `isolation`.
        queues: the section without its invalid fields; None if the section is not a mapping.
        gitops: None if the file has no `gitops`, or an invalid one.
        is_gitops_invalid: True if the file has an invalid `gitops`.
        is_openshift: None if the distribution is invalid.
        invalid_queue_fields: the names of the invalid fields of `queues`. In `queues` they have their defaults.
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
        """Return True if certainly no entry of a section has this name.

        If the name of any entry is unknown, the result is False, because that entry may have the name.
        """
        names = self.names[section]
        return all(names) and name not in names

    @property
    def may_have_slack(self) -> bool:
        """Return True if `queues.slack` is true or invalid."""
        return self.queues is None or self.queues.slack

    @property
    def may_have_workers(self) -> bool:
        """Return True if `queues.multiKueue` declares worker clusters, or is invalid."""
        is_unknown = self.queues is None or "multiKueue" in self.invalid_queue_fields
        return is_unknown or (self.queues is not None and self.queues.multi_kueue is not None)

    @property
    def may_be_fair(self) -> bool:
        """Return True if `queues.fairSharing` is true or invalid."""
        return self.queues is None or self.queues.fair_sharing or "fairSharing" in self.invalid_queue_fields

    @property
    def counting(self) -> Counting | None:
        """Return the rules by which Kueue counts resources; None if a field of `queues` with such rules is invalid."""
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
        """Return the valid pools by name. Pools with a duplicate name are left out."""
        count = Counter(self.names["pools"])
        return {pool.name: pool for pool in self.pools.values() if count[pool.name] <= 1}

    @cached_property
    def supplies(self) -> Mapping[int, Supply]:
        """Return the resources that each pool provides to quotas, by the position of the pool in the file."""
        return {index: pool_supply(pool, self.counting or DEFAULT_COUNTING) for index, pool in self.pools.items()}

    @cached_property
    def supply_by_name(self) -> Mapping[str, Supply]:
        """Return the resources that each pool provides to quotas, by the name of the pool.

        Pools with a duplicate name are left out.
        """
        return {supply.name: supply for supply in self.supplies.values() if supply.name in self.pool_by_name}

    @cached_property
    def has_all_pools(self) -> bool:
        """Return True if every pool is valid and has a unique name.

        Only then can a rule report that no pool offers a resource.
        """
        is_known = self.counting is not None and all(self.names["pools"])
        return is_known and len(self.pool_by_name) == len(self.names["pools"])


Rule = Callable[[PartialPlatform], Iterator[Mistake]]

RULES: list[Rule] = []
"""Every rule, in the order of registration."""


def rule(function: Rule) -> Rule:
    """Register a function as a rule."""
    RULES.append(function)
    return function
