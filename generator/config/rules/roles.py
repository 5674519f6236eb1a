"""The rules about `access.roles`: the roles that tenants name, and the resources in their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache

from generator.config.mistakes import Mistake
from generator.config.model.fields import Steps
from generator.config.model.roles import LEVELS, TEAM_RESOURCES, RoleRule, TeamRole, qualify
from generator.config.rules.rule import UNKNOWN_NAME, PartialPlatform, rule
from generator.documents.messages import format_names, format_value
from generator.errors import suggest
from generator.schemas.catalog import Catalog, Entry

_COMPLETE = ("kubernetes", "trainer", "jobset", "kueue")
"""The components whose API groups have all of their resources in the catalog."""


@rule
def duplicate_roles(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a name that two roles of `access.roles` have."""
    seen: set[str] = set()
    for position, name in enumerate(platform.names["roles"]):
        if name in seen:
            message = f"{format_value(name)} occurs twice"
            yield Mistake(("access", "roles", position, "name"), message, "rename one of the two roles")
        seen |= {name} - {UNKNOWN_NAME}


@rule
def undeclared_roles(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a tenant that gives a role which `access.roles` does not declare."""
    declared = platform.names["roles"]
    for index, tenant in platform.tenants.items():
        for name in tenant.access.roles:
            if platform.lacks("roles", name):
                fix = suggest(name, declared) if declared else "declare this role in `access.roles`, or remove it here"
                if name in LEVELS:
                    fix = f"list these subjects in `{name}` of the same `access`"
                path = ("tenants", index, "access", "roles", name)
                yield Mistake(path, f"`access.roles` declares no role `{name}`", fix, is_of_key=True)


@rule
def unknown_resources(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a resource of a role that is misspelt, of another API group, or cluster-scoped."""
    for position, role in enumerate(platform.access.roles):
        for number, own in enumerate(role.rules):
            for index, resource in enumerate(own.resources):
                if problem := _explain_unfit(own.api_groups, resource.partition("/")[0]):
                    yield Mistake(_place(platform, position, number, "resources", index), *problem)


@rule
def unwritable_resources(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a rule of a role that writes a resource which the admission rule `kinds` forbids to members of a team."""
    if not platform.knows("policies.workloads", "tenants.workloads"):
        return
    for_all = {*TEAM_RESOURCES, *platform.policies.workloads.kinds}
    anywhere = for_all.union(*(tenant.workloads.kinds for tenant in platform.tenants.values()))
    for position, role in enumerate(platform.access.roles):
        for number, own in enumerate(role.rules):
            if forbidden := [resource for resource in _written(own) if resource not in anywhere]:
                kinds = [resource for resource in forbidden if "/" not in resource]
                addition = f", or add {format_names(kinds)} to `policies.workloads.kinds`" if kinds else ""
                message = f"the admission rule `kinds` lets no member of a team write {format_names(forbidden)}"
                fix = f"remove {format_names(own.writes)}{addition}"
                yield Mistake(_place(platform, position, number, "verbs"), message, fix)
        yield from _unwritable_by_tenants(platform, role, anywhere - for_all)


def _unwritable_by_tenants(platform: PartialPlatform, role: TeamRole, for_some: set[str]) -> Iterator[Mistake]:
    """Yield the tenants that give the role, but whose `workloads.kinds` lacks a resource that the role writes."""
    written = {resource for own in role.rules for resource in _written(own)} & for_some
    for index, tenant in platform.tenants.items():
        missing = sorted(written - {*tenant.workloads.kinds})
        if missing and role.name in tenant.access.roles:
            message = (
                f"role `{role.name}` writes {format_names(missing)}, which the admission rule `kinds` rejects in the "
                f"namespaces of `{tenant.name}`"
            )
            fix = f"add {format_names(missing)} to `workloads.kinds` of this tenant, or remove the role here"
            yield Mistake(("tenants", index, "access", "roles", role.name), message, fix, is_of_key=True)


def _written(own: RoleRule) -> list[str]:
    """Return the resources that a rule writes, such as `notebooks.kubeflow.org`, in the groups that can have them."""
    return [
        qualify(resource, group)
        for resource in (own.resources if own.writes else ())
        for group in own.api_groups
        if (base := resource.partition("/")[0]) in _groups().get(group, ()) or group not in _complete_groups()
        if _explain_unfit(own.api_groups, base) is None
    ]


def _place(platform: PartialPlatform, position: int, number: int, *field: str | int) -> Steps:
    """Return the path of a part of a rule, or of the role or all roles if invalid ones may change the position.

    Args:
        platform: the platform.
        position: the position of the role in the section `access`.
        number: the position of the rule in the role.
        field: the path of the part in the rule.
    """
    names, roles = platform.names["roles"], platform.access.roles
    role = roles[position]
    if len(names) != len(roles):  # the file has roles that are no mappings
        if names.count(role.name) != 1:
            return ("access", "roles")
        position = names.index(role.name)
    is_whole = platform.rule_counts.get(position, len(role.rules)) == len(role.rules)
    part = ("rules", number, *field) if is_whole else ()
    return ("access", "roles", position, *part)


def _explain_unfit(groups: Sequence[str], resource: str) -> tuple[str, str] | None:
    """Return the message and the fix for a resource that no group has, or that is cluster-scoped.

    The result is None if the resource may be right, because mpigen does not know all resources of all groups.
    """
    known, complete = _groups(), _complete_groups()
    entries = [known[group][resource] for group in groups if resource in known.get(group, ())]
    if any(group not in complete and resource not in known.get(group, ()) for group in groups):
        return None
    if entries:
        is_namespaced = resource == "namespaces" or any(entry.scope == "Namespaced" for entry in entries)
        message = f"`{resource}` is cluster-scoped, but the role applies to the namespaces of a team"
        return None if is_namespaced else (message, "remove it")
    plurals = {entry.kind.lower(): name for group in groups for name, entry in known[group].items()}
    others = sorted(group for group in complete if resource in known[group])
    if resource in plurals:
        fix = f"write `{plurals[resource]}`"
    elif others:
        fix = f"write {format_names(others, 'or')} in `apiGroups`" if "" not in others else 'write "" in `apiGroups`'
    else:
        fix = suggest(resource, (name for group in groups for name in known[group]))
    lacking = " and ".join(f"API group `{group}`" if group else "the core API group" for group in groups)
    return f"{lacking} {'has' if len(groups) == 1 else 'have'} no resource `{resource}`", fix


@cache
def _groups() -> Mapping[str, Mapping[str, Entry]]:
    """Return API group → plural → kind, for all kinds with a schema."""
    groups: dict[str, dict[str, Entry]] = {}
    for entry in Catalog.bundled().everything:
        groups.setdefault(_group_of(entry), {})[entry.plural] = entry
    return groups


@cache
def _complete_groups() -> AbstractSet[str]:
    """Return the API groups of which the catalog has all resources."""
    return {_group_of(entry) for entry in Catalog.bundled().everything if entry.path.partition("/")[0] in _COMPLETE}


def _group_of(entry: Entry) -> str:
    return entry.api_version.rpartition("/")[0]
