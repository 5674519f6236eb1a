"""Names: references to entries of another section, and names that may be used only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from generator.config.mistakes import Mistake, Steps
from generator.config.model.queues import MULTI_KUEUE_CHECK
from generator.config.rules.partial import UNKNOWN_NAME, PartialPlatform
from generator.config.rules.rule import rule
from generator.errors import suggest

_SINGULAR = {
    "fabrics": "fabric",
    "pools": "pool",
    "runtimes": "runtime",
    "tenants": "tenant",
    "cohorts": "cohort",
    "priorities": "priority",
}


@rule
def duplicate_names(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a name that two entries of a section have."""
    for section in ("fabrics", "pools", "runtimes", "tenants", "cohorts"):
        seen: set[str] = set()
        for index, name in enumerate(platform.names[section]):
            if name in seen:
                fix = f"give each {_SINGULAR[section]} its own name"
                yield Mistake((section, index, "name"), f"two entries of `{section}` are named `{name}`", fix)
            seen |= {name} - {UNKNOWN_NAME}


@rule
def undeclared_names(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a reference to an entry that the file does not declare."""
    for path, section, name in _references(platform):
        if platform.lacks(section, name):
            yield Mistake(path, f"there is no {_SINGULAR[section]} `{name}`", suggest(name, platform.names[section]))


def _references(platform: PartialPlatform) -> Iterator[tuple[Steps, str, str]]:
    """Yield the path, the section and the name of each reference."""
    for index, pool in platform.pools.items():
        if pool.fabric:
            yield ("pools", index, "fabric"), "fabrics", pool.fabric
    for index, runtime in platform.runtimes.items():
        yield ("runtimes", index, "pool"), "pools", runtime.pool
        for name in runtime.tenants:
            yield ("runtimes", index, "tenants"), "tenants", name
    for index, cohort in platform.cohorts.items():
        if cohort.parent and platform.platform not in (cohort.name, cohort.parent):
            yield ("cohorts", index, "parent"), "cohorts", cohort.parent
    yield from _references_of_tenants(platform)


def _references_of_tenants(platform: PartialPlatform) -> Iterator[tuple[Steps, str, str]]:
    for index, tenant in platform.tenants.items():
        path = ("tenants", index)
        # Tenants create their cohorts if `cohorts` declares none.
        if tenant.cohort and tenant.cohort != platform.platform and platform.names["cohorts"]:
            yield (*path, "cohort"), "cohorts", tenant.cohort
        for name in tenant.priorities or () if platform.names["priorities"] else ():
            yield (*path, "priorities"), "priorities", name
        for name in () if tenant.multi_kueue else tenant.dedicated:
            yield (*path, "dedicated"), "pools", name
        for share in tenant.fabrics:
            yield (*path, "fabrics"), "fabrics", share.name


@rule
def reserved_names(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a name that the release uses for an object of its own."""
    for index, tenant in platform.tenants.items():
        if tenant.name == "slack" and platform.may_have_slack:
            message = "the ClusterQueue `slack` holds the nodes that no quota covers"
            fix = "choose another name, or write `queues: {slack: false}`"
            yield Mistake(("tenants", index, "name"), message, fix)
    for index, pool in platform.pools.items():
        if pool.name == MULTI_KUEUE_CHECK and pool.provisioning and platform.may_have_workers:
            message = (
                f"the AdmissionCheck `{MULTI_KUEUE_CHECK}` sends jobs to other clusters; a pool cannot have its name"
            )
            yield Mistake(("pools", index, "name"), message, "choose another name")


@rule
def shared_namespaces(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a namespace that two tenants have."""
    owners = Counter(name for tenant in platform.tenants.values() for name in tenant.namespaces)
    owners.update(platform.names["tenants"])
    for index, tenant in platform.tenants.items():
        for namespace in tenant.namespaces:
            if owners[namespace] > 1:
                message = f"`{namespace}` is a namespace of several teams"
                yield Mistake(("tenants", index, "namespaces"), message, "give each namespace to one team")


@rule
def workers_without_clusters(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a tenant whose jobs go to other clusters that `queues.multiKueue` does not declare."""
    for index, tenant in platform.tenants.items():
        if tenant.multi_kueue and not platform.may_have_workers:
            message = "`queues.multiKueue` declares no clusters"
            fix = "declare them in `queues.multiKueue.clusters`, or remove this field"
            yield Mistake(("tenants", index, "multiKueue"), message, fix)
