"""change/*: removed and renamed teams, namespaces and platforms, and the acknowledgements in the platform file.

`release.json` repeats the acknowledgements (`removed`) and the earlier names (`renamedFrom`) of the platform file, so
that the checks also read them in a release on disk. An old tree without `release.json` comes from another generator,
whose files have no place for an acknowledgement, so its removed namespaces are warnings.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from generator.checks.objects import Change
from generator.checks.registry import ERROR, INFO, WARNING, Breach, check
from generator.documents.messages import escape_control
from generator.errors import suggest
from generator.facts.names import CATALOGUE_LABEL, FLUX_PRUNE, RETIRED, SCHEDULES_OF, SYNC_OPTIONS, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import mapping, string

_RELEASE = ("mpigen.dev", "Release")


@dataclass(frozen=True)
class Departures:
    """The teams of an update, and the statements of the new release about removed and renamed teams.

    Attributes:
        is_release: True if the old tree is a release of mpigen.
        removed: team or namespace → its acknowledgement in `release.json`, with `reason`, `until` and `unretired`.
        renames: team → its earlier name.
        before: the teams of the old tree.
        after: the teams of the new tree.
        today: the day of the check; None to ignore the days in `until` and `retired`.
    """

    is_release: bool
    removed: Mapping[str, Mapping[str, Any]]
    renames: Mapping[str, str]
    before: AbstractSet[str]
    after: AbstractSet[str]
    today: dt.date | None

    @classmethod
    def of(cls, change: Change) -> Departures:
        """Return the teams and the statements of an update."""
        return change.view(cls._read)

    @classmethod
    def _read(cls, change: Change) -> Departures:
        spec: Mapping[str, Any] = {}
        for item in change.of_new(*_RELEASE):
            spec = mapping(item.body, "spec")
        before, after = ({team_of(item) for item in of("", "Namespace")} for of in (change.of_old, change.of_new))
        removed = mapping(spec, "removed")
        return cls(
            bool(change.of_old(*_RELEASE)),
            {name: mapping(removed, name) for name in removed},
            {str(team): string(earlier) for team, earlier in mapping(spec, "renames").items()},
            before,
            after,
            change.today,
        )

    def acknowledgement_of(self, namespace: Manifest) -> Mapping[str, Any] | None:
        """Return the acknowledgement of the removal of a namespace or of its whole team; None if there is none."""
        team = team_of(namespace)
        whole = None if team in self.after else self.removed.get(team)
        return self.removed.get(namespace.name, whole)

    def successor_of(self, team: str) -> str:
        """Return the present name of a renamed team; empty if no team has this earlier name."""
        return next((name for name, earlier in self.renames.items() if earlier == team), "")

    def is_over(self, day: str) -> bool:
        """Return True if a last day is before today."""
        return self.today is not None and day < self.today.isoformat()


def team_of(namespace: Manifest) -> str:
    """Return the team of a Namespace; the name of the Namespace if it has no label of a team."""
    return string(namespace.labels.get(TENANT_LABEL, namespace.labels.get(SCHEDULES_OF)), namespace.name)


@check("change/tenant-removed", severity=ERROR, needs=Change)
def tenant_removed(change: Change) -> Iterator[Breach]:
    """Report a removed team or namespace.

    If a release has no folder of the team, mpigen's ApplicationSet deletes the team's Application, and Argo CD deletes
    its objects. A namespace of a team that stays is pruned. In both cases, Argo CD asks for a confirmation before it
    deletes a namespace with the sync options `Delete=confirm` and `Prune=confirm`, which mpigen sets on every
    namespace, and deletes other namespaces at once. With Flux, an admin deletes the namespace. Kubernetes then deletes
    all objects in the namespace, such as running jobs, volume claims and Secrets.

    A release removes a team only if an earlier release retired the team (`tenants[].retired`), and if the platform file
    acknowledges the removal in `removed`. With `unretired: true` in the acknowledgement, the team need not be retired.
    An acknowledgement is valid until its last day, `until`. A removal with a valid acknowledgement is an info, or until
    the day in `retired` a warning. For a namespace of a team that stays, the acknowledgement alone is enough. In files
    that mpigen did not generate, a removed namespace is a warning. The namespaces of a team's schedules and of
    the catalogue need no acknowledgement, because they have no jobs and no data.

    Source: kubernetes v1.34.2 pkg/controller/namespace/deletion/namespaced_resources_deleter.go
    namespacedResourcesDeleter.deleteAllContent,
       argo-cd v3.2.1 docs/user-guide/sync-options.md
    """
    departures = Departures.of(change)
    for namespace in change.removed("", "Namespace"):
        if SCHEDULES_OF in namespace.labels or CATALOGUE_LABEL in namespace.labels:  # it has no jobs and no data
            continue
        yield (
            _report_namespace(namespace, departures)
            if departures.is_release
            else Breach(
                ("metadata", "name"),
                f"namespace `{namespace.name}` is removed in the next release",
                _describe_deletion(namespace, "Prune=confirm"),
                "ask the users of the namespace to end their jobs and save their data first",
                namespace,
                WARNING,
                value=namespace.name,
            )
        )


def _report_namespace(namespace: Manifest, departures: Departures) -> Breach:
    team, severity = team_of(namespace), ERROR
    is_whole = team not in departures.after
    subject = f"team `{team}`" if is_whole and team == namespace.name else f"namespace `{namespace.name}`"
    key = team if is_whole else namespace.name
    removed = f"{subject} is removed in the next release"
    why = _describe_deletion(namespace, "Delete=confirm" if is_whole else "Prune=confirm")
    retired = string(namespace.labels.get(RETIRED))
    must_retire = is_whole and not retired and TENANT_LABEL in namespace.labels
    acknowledgement = departures.acknowledgement_of(namespace)
    fields = "reason: REASON, until: DAY"
    if acknowledgement is None:
        message = f"{removed} without an acknowledgement"
        fix = f"acknowledge the removal in the platform file: `removed: {{{key}: {{{fields}}}}}`"
        if successor := departures.successor_of(team):
            message = f"{removed} without an acknowledgement, because `renamedFrom` of team `{successor}` names it"
            why = f"Kubernetes cannot rename a namespace, so namespace `{successor}` starts empty. {why}"
            keep = f"keep team `{team}` beside team `{successor}` until its users have copied their data"
            fix = f"{keep}, or acknowledge the removal: `removed: {{{key}: {{{fields}, unretired: true}}}}`"
        elif must_retire:
            keep = f"keep {subject} and set `retired` in this release"
            fix = f"{keep}, and remove the team in a later one with `removed: {{{key}: {{{fields}}}}}`"
    elif departures.is_over(until := string(acknowledgement.get("until"))):
        message = f"{removed}, but its acknowledgement in `removed` ended on {until}"
        fix = "set a later `until`, or keep the team"
    elif must_retire and acknowledgement.get("unretired") != "true":
        message = f"{removed}, but no earlier release retired the team"
        fix = f"keep {subject} and set `retired` in this release, or add `unretired: true` to the acknowledgement"
    elif retired and is_whole and departures.today and not departures.is_over(retired):
        message = f"{removed}, but `retired` keeps its data until {retired}"
        fix, severity = (
            "remove the team after that day, or ask its users first whether they have saved their data",
            WARNING,
        )
    else:
        reason = escape_control(string(acknowledgement.get("reason")))
        message, severity = f"{removed}, and the platform file acknowledges the removal: {reason}", INFO
        fix = "apply the release only after the users have saved their data"
    return Breach(("metadata", "name"), message, why, fix, namespace, severity, value=namespace.name)


def _describe_deletion(namespace: Manifest, confirmed: str) -> str:
    annotations = mapping(namespace.body, "metadata", "annotations")
    if string(annotations.get(FLUX_PRUNE)) == "disabled":
        deletes = "Kubernetes then deletes its running jobs, volume claims and other objects"
        return f"Flux keeps the namespace until an admin deletes it: {deletes}"
    options = string(annotations.get(SYNC_OPTIONS))
    deletes = "asks for a confirmation, and then deletes" if confirmed in options.split(",") else "deletes"
    return f"Argo CD {deletes} the namespace: Kubernetes deletes its running jobs, volume claims and other objects"


@check("change/unknown-rename", severity=WARNING, needs=Change)
def unknown_rename(change: Change) -> Iterator[Breach]:
    """Report a new team whose `renamedFrom` names no team of the release before.

    `mpigen plan` then describes a new team instead of a rename. After the rename, `renamedFrom` of the team has no
    effect, and the check reports nothing.

    Source: mpigen: it defines `renamedFrom`
    """
    departures = Departures.of(change)
    if not departures.is_release:
        return
    for namespace in change.added("", "Namespace"):
        team = namespace.name
        earlier = departures.renames.get(team, "")
        if team == team_of(namespace) and earlier and not {earlier, team} & departures.before:
            yield Breach(
                ("metadata", "name"),
                f"`renamedFrom` of team `{team}` is `{escape_control(earlier)}`, but the last release lacks this team",
                "mpigen treats the team as a new one, and does not compare it with its earlier namespace",
                f"remove `renamedFrom`, or correct the name: {suggest(earlier, departures.before)}",
                namespace,
                value=earlier,
            )


@check("change/unknown-predecessor", severity=WARNING, needs=Change)
def unknown_predecessor(change: Change) -> Iterator[Breach]:
    """Report a platform whose `renamedFrom` names no release.

    `mpigen plan` then describes a new platform, and `mpigen synth` does not compare the objects with the release of the
    earlier name, so a change that stops running jobs has no finding. The release of the earlier name must be in the
    folder beside the folder of the new name, in Git or on disk. After the rename, `renamedFrom` has no effect, and the
    check reports nothing.

    Source: mpigen: it defines `renamedFrom`
    """
    if change.of_old(*_RELEASE):
        return
    for release in change.of_new(*_RELEASE):
        if earlier := string(mapping(release.body, "spec").get("predecessor")):
            yield Breach(
                ("spec", "predecessor"),
                f"`renamedFrom` of the platform is `{escape_control(earlier)}`, but there is no release with this name",
                "mpigen treats the platform as a new one, and compares its objects with no earlier release",
                "remove `renamedFrom`, or write the name of the folder in which the earlier release is",
                release,
                value=earlier,
            )
