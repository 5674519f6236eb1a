"""The rules about removed and renamed teams, and about a renamed platform."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.mistakes import Mistake
from generator.config.rules.rule import PartialPlatform, rule
from generator.documents.messages import format_value


@rule
def remaining_teams(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report an acknowledgement in `removed` of a team or namespace that the file still declares."""
    for name in platform.removed:
        if name == platform.stand_in:
            continue
        if name in platform.names["tenants"]:
            message = (
                f"`removed` acknowledges the removal of team {format_value(name)}, but `tenants` still has the team"
            )
        elif name in platform.namespaces:
            message = f"`removed` acknowledges the removal of namespace {format_value(name)}, but a team still has it"
        else:
            continue
        fix = "delete this acknowledgement, or remove the team or namespace from `tenants`"
        yield Mistake(("removed", name), message, fix, is_of_key=True)


@rule
def contradictory_renames(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a `renamedFrom` that is the name of a team in the file, or that two teams have."""
    first: dict[str, str] = {}
    fix = "write the earlier name of this team, or remove `renamedFrom`"
    for index, tenant in platform.tenants.items():
        earlier = tenant.renamed_from
        if earlier is None or earlier == platform.stand_in:
            continue
        path = ("tenants", index, "renamedFrom")
        if earlier in platform.names["tenants"]:
            message = f"{format_value(earlier)} is the name of a team in this file, so no team was renamed from it"
            yield Mistake(path, message, fix)
        elif earlier in first:
            message = (
                f"the teams {format_value(first[earlier])} and {format_value(tenant.name)} have the same earlier name"
            )
            yield Mistake(path, message, fix)
        first.setdefault(earlier, tenant.name)


@rule
def platform_renamed_to_itself(platform: PartialPlatform) -> Iterator[Mistake]:
    """Report a `renamedFrom` of the platform that is its present name."""
    if platform.renamed_from and platform.renamed_from == platform.platform:
        message = f"{format_value(platform.platform)} is also the present name of the platform, so nothing was renamed"
        fix = "write the earlier name of the platform, or remove `renamedFrom`"
        yield Mistake(("renamedFrom",), message, fix, reads=(("platform",),))
