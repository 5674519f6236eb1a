"""The rules about references between sections, names that must be unique, and the tree of cohorts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from generator.config.mistakes import Mistake
from generator.config.model.fields import Steps
from generator.config.model.queues import MULTI_KUEUE_CHECK
from generator.config.model.tenants import outermost_cohorts, workers_cohort
from generator.config.rules.rule import UNKNOWN_NAME, PartialPlatform, rule
from generator.documents.messages import format_value, shorten
from generator.errors import suggest
from generator.facts.families import FAMILIES
from generator.facts.names import CATALOGUE_NAMESPACE

_SINGULAR = {
    "fabrics": "fabric",
    "pools": "pool",
    "families": "family",
    "servers": "server type",
    "devices": "device type",
    "runtimes": "runtime",
    "tenants": "tenant",
    "cohorts": "cohort",
    "priorities": "priority",
}


@rule
def duplicate_names(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a name that two entries of a section have."""
    for section in ("devices", "servers", "fabrics", "pools", "families", "runtimes", "tenants", "cohorts"):
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
            declared = platform.names[section]
            where = "queues.priorities" if section == "priorities" else section
            declaration = f"declare this {_SINGULAR[section]} in `{where}`, or remove this name"
            fix = suggest(name, declared) if declared else declaration
            yield Mistake(path, f"there is no {_SINGULAR[section]} `{name}`", fix)


def _references(platform: PartialPlatform) -> Iterator[tuple[Steps, str, str]]:
    """Yield the path, the section and the name of each reference."""
    for index, pool in platform.all_pools.items():
        if pool.fabric:
            yield ("pools", index, "fabric"), "fabrics", pool.fabric
    for index, runtime in platform.runtimes.items():
        yield ("runtimes", index, "pool"), "pools", runtime.pool
        for name in runtime.tenants:
            yield ("runtimes", index, "tenants"), "tenants", name
    for index, cohort in platform.cohorts.items():
        if cohort.parent and platform.platform not in (cohort.name, cohort.parent):
            yield ("cohorts", index, "parent"), "cohorts", cohort.parent
    for priority in platform.queues.priorities:  # sorted, so the position in the file is unknown
        for name in priority.tenants:
            yield ("queues", "priorities"), "tenants", name
    yield from _references_of_tenants(platform)


def _references_of_tenants(platform: PartialPlatform) -> Iterator[tuple[Steps, str, str]]:
    for index, tenant in platform.tenants.items():
        path = ("tenants", index)
        # Tenants create their cohorts if `cohorts` declares none.
        if tenant.cohort and tenant.cohort != platform.platform and platform.names["cohorts"]:
            yield (*path, "cohort"), "cohorts", tenant.cohort
        for name in tenant.priorities or ():
            yield (*path, "priorities"), "priorities", name
        for name in () if tenant.multi_kueue else tenant.dedicated:
            yield (*path, "dedicated"), "pools", name
        for share in tenant.fabrics:
            yield (*path, "fabrics"), "fabrics", share.name


@rule
def closed_priorities(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a priority of a tenant whose `tenants` in `queues.priorities` lacks this tenant."""
    closed = {row.name: row.tenants for row in platform.queues.priorities if row.tenants}
    for index, tenant in platform.tenants.items():
        for name in tenant.priorities or ():
            if name in closed and tenant.name not in (*closed[name], platform.stand_in):
                message = f"`tenants` of `{name}` in `queues.priorities` lacks tenant `{tenant.name}`"
                fix = f"add `{tenant.name}` to that list, or remove `{name}` here"
                yield Mistake(("tenants", index, "priorities"), message, fix)


@rule
def unknown_families(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a runtime whose family is neither one of mpigen's nor an entry of `families`."""
    for index, runtime in platform.runtimes.items():
        if not runtime.has_family and platform.lacks("families", runtime.use):
            yield unknown_family(runtime.use, platform.names["families"], ("runtimes", index))


def unknown_family(name: str, declared: Iterable[str], path: Steps = ()) -> Mistake:
    """Return the mistake of a runtime that uses an unknown family.

    Args:
        name: the family.
        declared: the names in `families`.
        path: the path of the runtime.
    """
    fix = suggest(name, [*FAMILIES, *declared])
    if not fix.startswith("did you mean"):
        fix = f"{fix}; or declare this family in `families`"
    return Mistake((*path, "use"), f"there is no family {format_value(name)}", fix)


@rule
def reserved_names(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a name that mpigen also gives to an object of its own, such as the ClusterQueue `slack`."""
    for index, tenant in platform.tenants.items():
        if tenant.name == "slack" and platform.may_have_slack:
            message = "mpigen creates a ClusterQueue named `slack`, which lends the nodes that no quota covers"
            fix = "choose another name, or write `queues: {slack: false}`"
            yield Mistake(("tenants", index, "name"), message, fix)
    for index, pool in platform.all_pools.items():
        if pool.name == MULTI_KUEUE_CHECK and pool.provisioning and platform.may_have_workers:
            message = f"mpigen creates the AdmissionCheck `{MULTI_KUEUE_CHECK}`, which sends jobs to other clusters"
            yield Mistake(("pools", index, "name"), message, "choose another name")


@rule
def shared_namespaces(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a namespace that two tenants have."""
    owners = Counter(name for tenant in platform.tenants.values() for name in tenant.namespaces)
    owners.update(platform.names["tenants"])
    for index, tenant in platform.tenants.items():
        for namespace in tenant.namespaces:
            if owners[namespace] > 1:
                message = f"several tenants have the namespace `{namespace}`"
                fix = "list each namespace in one tenant only"
                if namespace in platform.names["tenants"]:
                    message = f"`{namespace}` is the namespace of tenant `{namespace}`"
                    fix = f"remove `{namespace}` from this list, because a tenant has the namespace of its name"
                yield Mistake(("tenants", index, "namespaces"), message, fix)


_LONGEST_NAMESPACE = 63


@rule
def namespace_of_catalogue(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a tenant with the namespace of the catalogue, and a platform whose name is too long for this namespace."""
    name = f"{platform.platform}{CATALOGUE_NAMESPACE}"
    if platform.platform == platform.stand_in or not platform.tenants:
        return
    for index, tenant in platform.tenants.items():
        for namespace in sorted({name} & {tenant.name, *tenant.namespaces}):
            field = "name" if namespace == tenant.name else "namespaces"
            message = f"mpigen creates the namespace `{name}`, in which all teams read what the platform offers"
            yield Mistake(("tenants", index, field), message, "choose another namespace")
    if len(name) > _LONGEST_NAMESPACE:
        message = f"mpigen creates the namespace `{name}`, and a namespace has at most {_LONGEST_NAMESPACE} characters"
        yield Mistake(("platform",), message, "choose a shorter name for the platform")


@rule
def egress_to_teams(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report egress to a namespace of a tenant, whose policies deny all connections from other namespaces."""
    owners = {home.name: tenant.name for tenant in platform.tenants.values() for home in tenant.homes}
    for index, tenant in platform.tenants.items():
        for number, target in enumerate(tenant.egress):
            owner = owners.get(target.namespace or "")
            if owner is None or owner == platform.stand_in:
                continue
            message = (
                f"`{target.namespace}` is a namespace of tenant `{owner}`, which accepts no connections of other teams"
            )
            fix = "remove this entry, and run the service in a namespace that no tenant has"
            if owner == tenant.name:
                message = (
                    f"`{target.namespace}` is a namespace of this team: MPI pods of a namespace reach each other "
                    "without this entry, and NetworkPolicies deny all other connections to them"
                )
            yield Mistake(("tenants", index, "egress", number, "namespace"), message, fix)


@rule
def workers_without_clusters(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a tenant with `multiKueue` if `queues.multiKueue` declares no worker clusters."""
    for index, tenant in platform.tenants.items():
        if tenant.multi_kueue and not platform.may_have_workers:
            message = "`multiKueue` sends jobs to worker clusters, but `queues.multiKueue` declares none"
            fix = "declare worker clusters in `queues.multiKueue.clusters`, or remove this field"
            yield Mistake(("tenants", index, "multiKueue"), message, fix)


_LONGEST = 200  # characters of a cycle in a message


@rule
def cohort_of_the_platform(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a cohort or a reference with the name of the platform's root Cohort, which mpigen creates."""
    message = f"`{platform.platform}` is the root cohort of the platform, which mpigen creates"
    for index, cohort in platform.cohorts.items():
        if cohort.name == platform.platform:
            fix = "remove this cohort: every cohort without a `parent` belongs to the root cohort"
            yield Mistake(("cohorts", index, "name"), message, fix)
        elif cohort.parent == platform.platform:
            fix = "remove this field: every cohort without a `parent` belongs to the root cohort"
            yield Mistake(("cohorts", index, "parent"), message, fix)
    for index, tenant in platform.tenants.items():
        if tenant.cohort == platform.platform:
            yield Mistake(("tenants", index, "cohort"), message, "remove this field, or name a different cohort")


@rule
def cohort_cycles(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report cohorts that are their own ancestors. Kueue admits no jobs in such cohorts.

    Source: kueue v0.19.2 pkg/cache/hierarchy/cycle.go.
    """
    parents = {cohort.name: cohort.parent for cohort in platform.cohorts.values()}
    roots = outermost_cohorts(platform.cohorts.values())
    for index, cohort in platform.cohorts.items():
        if parents.get(roots[cohort.name]) not in parents:
            continue
        path, parent = {cohort.name: None}, cohort.parent
        while parent and parent not in path:
            path[parent] = None
            parent = parents.get(parent)
        if parent == cohort.name and platform.platform not in (cohort.name, cohort.parent):
            cycle = shorten(" → ".join((*path, cohort.name)), _LONGEST)
            yield Mistake(("cohorts", index, "parent"), f"these parents form a cycle: {cycle}", "remove one `parent`")


@rule
def mixed_cohorts(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report tenants with `multiKueue` in a tree of cohorts that also has tenants without `multiKueue`.

    Kueue lends quota between these tenants (v0.19.2 pkg/cache/scheduler ignores the admission checks of the lender),
    but jobs on one cluster cannot use nodes of the other.
    """
    remote = {index: tenant for index, tenant in platform.tenants.items() if tenant.multi_kueue}
    roots = outermost_cohorts(platform.cohorts.values())
    local = {
        roots.get(tenant.cohort, tenant.cohort): tenant.name
        for tenant in platform.tenants.values()
        if tenant.cohort and not tenant.multi_kueue
    }
    for index, tenant in remote.items():
        root = roots.get(tenant.cohort or "", tenant.cohort or "")
        if root in local:
            below = "" if tenant.cohort == root else f"cohort `{tenant.cohort}` is below "
            message = (
                f"{below}cohort `{root}`{', which' if below else ''} also has tenant `{local[root]}` without "
                "`multiKueue`: the tenants would lend quota to each other, but their jobs run on different clusters"
            )
            fix = f"name a cohort {f'outside `{root}` ' if below else ''}that has only tenants with `multiKueue`"
            yield Mistake(("tenants", index, "cohort"), message, fix)


@rule
def cohort_of_remote_tenants(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a cohort or a reference with the name of the cohort that mpigen creates for tenants with `multiKueue`."""
    if not any(tenant.multi_kueue for tenant in platform.tenants.values()):
        return
    taken = workers_cohort(platform.platform)
    message = f"mpigen creates the cohort `{taken}` for all tenants with `multiKueue`"
    for index, cohort in platform.cohorts.items():
        if cohort.name == taken:
            yield Mistake(("cohorts", index, "name"), message, "choose another name")
    for index, tenant in platform.tenants.items():
        if tenant.cohort == taken:
            yield Mistake(("tenants", index, "cohort"), message, "remove this field, or choose another name")
