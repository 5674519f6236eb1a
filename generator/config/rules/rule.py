"""Rules about relations between sections of a platform file: a rule reads a PartialPlatform and yields mistakes.

The same rules check a platform.yaml and a platform in Python. Rules about one section alone are validators of the
section's model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from generator.config.mistakes import Mistake
from generator.config.model.access import PlatformAccess
from generator.config.model.cluster import Cluster, GitOps
from generator.config.model.devices import DeviceType
from generator.config.model.fabrics import Fabric
from generator.config.model.families import MpiFamily
from generator.config.model.fields import RESOURCE
from generator.config.model.isolation import Isolation
from generator.config.model.policies import Policies
from generator.config.model.pools import Pool
from generator.config.model.queues import Queues
from generator.config.model.quotas import Supply, pool_supply
from generator.config.model.runtimes import Runtime
from generator.config.model.servers import ServerType
from generator.config.model.tenants import Cohort, Tenant
from generator.facts.names import EFA
from generator.upstream.kueue.configuration import DEFAULT_COUNTING, Counting

_RAIL = re.compile("_rail[0-9]+$")
UNKNOWN_NAME = ""
"""The name of an entry whose name is missing, or unusable in messages: not a string, too long or not printable."""


@dataclass(frozen=True)
class PartialPlatform:
    """A platform file without its invalid entries, sections and fields.

    The lists of named entries, such as `pools` and `fabrics`, become mappings: position in the file → entry.

    Attributes:
        platform: the name of the platform; empty if it is not a string.
        renamed_from: the earlier name of the platform; empty if it is not a string.
        removed: the keys of `removed` that are strings.
        patched_tenants: position of a patch → the tenant in its target, for patches with a tenant.
        rule_counts: position of a role in `access.roles` → the number of its rules in the file, also invalid ones;
            empty for a Platform.
        names: section → the names of all of its entries, valid or not, in the order of the file.
        cluster: the section `cluster`, with the default in place of each invalid field. `policies`, `access`,
            `isolation`, `queues` and `gitops` have this form too.
        gitops: None if the file has no `gitops`.
        invalid_fields: the invalid fields of these sections, such as `cluster.network`; `cluster.*` if the section is
            not a mapping. `tenants.workloads` if this field of any tenant is invalid, and so on.
        invalid_families: the families with an invalid field, with the default in place of it.
        unclear_pools: positions of the pools whose labels or taints may be invalid.
        pools_without_resources: pools that `pools` lacks, because `allocatable` or `fabric` is invalid.
        pools_without_nodes: the names of the pools whose `nodes` is invalid. Their Pool has a placeholder in `nodes`.
        fabrics_without_devices: name → fabric that `fabrics` lacks, because a field such as `attach` is invalid. Its
            `resource` is valid, or not set.
        stand_in: the placeholder for invalid names; None for a Platform, whose names are all valid.
    """

    platform: str
    pools: Mapping[int, Pool]
    families: Mapping[int, MpiFamily]
    runtimes: Mapping[int, Runtime]
    tenants: Mapping[int, Tenant]
    cohorts: Mapping[int, Cohort]
    devices: Mapping[int, DeviceType]
    servers: Mapping[int, ServerType]
    fabrics: Mapping[int, Fabric]
    names: Mapping[str, tuple[str, ...]]
    cluster: Cluster
    policies: Policies
    access: PlatformAccess
    isolation: Isolation
    queues: Queues
    gitops: GitOps | None
    renamed_from: str = ""
    removed: tuple[str, ...] = ()
    patched_tenants: Mapping[int, str] = field(default_factory=dict)
    rule_counts: Mapping[int, int] = field(default_factory=dict)
    invalid_fields: frozenset[str] = frozenset()
    invalid_families: Mapping[int, MpiFamily] = field(default_factory=dict)
    unclear_pools: frozenset[int] = frozenset()
    stand_in: str | None = None
    pools_without_resources: Mapping[int, Pool] = field(default_factory=dict)
    pools_without_nodes: frozenset[str] = frozenset()
    fabrics_without_devices: Mapping[str, Fabric] = field(default_factory=dict)

    def knows(self, *fields: str) -> bool:
        """Return True if none of these fields, such as `cluster.network`, is invalid in the file."""
        sections = {f"{field.partition('.')[0]}.*" for field in fields}
        return self.invalid_fields.isdisjoint({*fields, *sections})

    @property
    def is_openshift(self) -> bool | None:
        """Return True for OpenShift, False for another distribution, and None if the distribution is invalid."""
        return self.cluster.is_openshift if self.knows("cluster.distribution") else None

    def lacks(self, section: str, name: str) -> bool:
        """Return True if certainly no entry of a section has this name.

        If the name of any entry is unknown, the result is False, because that entry may have the name.
        """
        names = self.names[section]
        return all(names) and name not in (*names, self.stand_in)

    @property
    def may_have_slack(self) -> bool:
        """Return True if `queues.slack` is true or invalid."""
        return self.queues.slack

    @property
    def may_have_workers(self) -> bool:
        """Return True if `queues.multiKueue` declares worker clusters, or is invalid."""
        return self.queues.multi_kueue is not None or not self.knows("queues.multiKueue")

    @property
    def may_be_fair(self) -> bool:
        """Return True if `queues.fairSharing` is true or invalid."""
        return self.queues.fair_sharing or not self.knows("queues.fairSharing")

    @property
    def counting(self) -> Counting | None:
        """Return the rules by which Kueue counts resources; None if a field of `queues` with such rules is invalid."""
        is_known = self.knows("queues.excludeResourcePrefixes", "queues.transformations")
        return self.queues.counting if is_known else None

    @cached_property
    def all_pools(self) -> Mapping[int, Pool]:
        """Return the pools by position, also the pools whose resources are unknown."""
        return {**self.pools, **self.pools_without_resources}

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

    def pools_named(self, name: str) -> list[Pool]:
        """Return the pools of this name; none if one of them is invalid."""
        pools = [pool for pool in self.pools.values() if pool.name == name]
        return pools if len(pools) >= self.names["pools"].count(name) else []

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
        """Return True if the name and the resources of every pool are known, as Kueue counts the resources."""
        return self._has_all_nodes and not any(map(lacks_fabric, self.pools.values()))

    @cached_property
    def _has_all_nodes(self) -> bool:
        """Return True if all pools, and the fields of `queues` about counting resources, are valid.

        The devices of the pools' fabrics can still be unknown.
        """
        is_known = self.counting is not None and all(self.names["pools"])
        return is_known and len(self.pools) == len(self.names["pools"])

    def may_offer(self, resource: str) -> bool:
        """Return True if an invalid pool may offer a resource, or if a fabric that is not known may have this device.

        If the result is False, a rule can report that no pool offers the resource.
        """
        if not re.fullmatch(RESOURCE, resource):
            return False
        device = _RAIL.sub("", resource)
        for pool in self.pools.values():
            if lacks_fabric(pool) and "/" in resource:
                fabric = self.fabrics_without_devices.get(pool.fabric or "")
                if fabric is None or device == EFA or device.endswith(fabric.resource or f"/{fabric.device_name}"):
                    return True
        return not self._has_all_nodes


def lacks_fabric(pool: Pool) -> bool:
    """Return True if the pool names a fabric that is invalid or not declared, so that its devices are unknown."""
    return pool.fabric is not None and pool.wiring is None


Rule = Callable[[PartialPlatform], Iterator[Mistake]]

RULES: list[Rule] = []
"""The registered rules, in the order of registration."""


def rule(function: Rule) -> Rule:
    """Register a function as a rule, which `find_mistakes` then applies."""
    RULES.append(function)
    return function
