"""The topic `teams`: new and retired teams, new namespaces, schedules, labels. `prune` has removed and renamed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from generator.checks.objects import Change, ChangedObject
from generator.checks.quota.queues import KUEUE, Queues
from generator.documents.messages import escape_control, format_names
from generator.effects.effect import Effect, Risk
from generator.effects.largest import compute_largest, describe_left_out
from generator.effects.quota import format_size
from generator.effects.renames import find_renames
from generator.effects.schedules import find_schedule_statements
from generator.effects.subjects import Statement, Teams, merge, plural
from generator.effects.trees import QueueTrees, find_lenders
from generator.effects.values import format_change
from generator.facts.names import CATALOGUE_LABEL, MANAGED_BY, PARAMETER, PART_OF, RETIRED, SCHEDULES_OF, TENANT_LABEL
from generator.manifests import Manifest
from generator.objects.fields import mapping, string
from generator.upstream.kueue.job_limits import NO_LIMIT

_TOPIC = "teams"
_POD_SECURITY = "pod-security.kubernetes.io/"
_MOST_TEAMS = 20
"""The largest number of new teams whose largest jobs a plan computes. Of more teams, it computes none."""


def find_team_effects(change: Change) -> Iterator[Effect]:
    """Yield new and retired teams, new namespaces and schedules of other teams, and changed labels of namespaces."""
    teams = Teams.of(change)
    known = {teams.of_namespace(item.name) for item in change.of_old("", "Namespace")}
    by_team: dict[str, list[Manifest]] = {}
    for item in change.added("", "Namespace"):
        if SCHEDULES_OF in item.labels or CATALOGUE_LABEL in item.labels:
            continue
        by_team.setdefault(teams.of_namespace(item.name), []).append(item)
    renamed = set(find_renames(change).values())
    new = [team for team in by_team if team not in known and team not in renamed]
    statements = [
        _new_team(change, team, by_team[team], has_sizes=len(new) <= _MOST_TEAMS)
        if team in new
        else _new_namespaces(change, team, by_team[team])
        for team in by_team
        if team not in renamed
    ]
    statements += [*_retirements(change), *find_schedule_statements(change)]
    for changed in ChangedObject.between(change):
        if (changed.new.group, changed.new.kind) == ("", "Namespace"):
            statements += _labels(changed)
    yield from merge(_TOPIC, statements)
    if len(new) > _MOST_TEAMS:
        text, hint = describe_left_out(len(new), "new team", _MOST_TEAMS)
        yield Effect(_TOPIC, Risk.LOW, "largest jobs", text, (hint,))


def _new_team(change: Change, team: str, namespaces: list[Manifest], *, has_sizes: bool) -> Statement:
    names = [item.name for item in namespaces]
    text = describe_team(change, team, names, has_sizes=has_sizes)
    causes = (*find_belongings(change, names), *find_lenders(change))
    return Statement("team", team, "is", text, Risk.LOW, (), causes)


def describe_team(change: Change, team: str, names: list[str], *, has_sizes: bool = True) -> str:
    """Return the predicate of a new team: its namespaces, quota and largest jobs.

    Args:
        change: the update.
        team: the name of the team.
        names: its new namespaces.
        has_sizes: False to leave out the largest jobs.
    """
    place = "" if names == [team] else f" with the {plural('namespace', len(names))} {format_names(names)}"
    queues = QueueTrees.of(change).after
    own = _queues_of(change, names)
    quota = [format_size(queues, name) for name in own if queues] if queues else []
    text = f"new{place}" + (f", and owns {' and '.join(filter(None, quota))}" if any(quota) else ", without quota")
    if queues and own and has_sizes and (jobs := _format_jobs(queues, own)):
        text += f"; {jobs}"
    return text


def _new_namespaces(change: Change, team: str, namespaces: list[Manifest]) -> Statement:
    names = [item.name for item in namespaces]
    text = f"the new {plural('namespace', len(names))} {format_names(names)}"
    own = _queues_of(change, names)
    if own:
        text += f", {'with' if len(names) > 1 else 'which has'} the quota of {format_names(own)}"
    return Statement("team", team, "gets", text, Risk.LOW, (), find_belongings(change, names))


def _retirements(change: Change) -> Iterator[Statement]:
    """Yield the teams that an update retires, activates again, or retires until another day or for another reason."""
    teams = Teams.of(change)
    by_team: dict[str, list[ChangedObject]] = {}
    for item in ChangedObject.between(change):
        pair = [(string(side.labels.get(RETIRED)), _reason(side)) for side in (item.old, item.new)]
        if (item.new.group, item.new.kind) == ("", "Namespace") and pair[0] != pair[1]:
            by_team.setdefault(teams.of_namespace(item.new.name), []).append(item)
    for team, items in sorted(by_team.items()):
        was, now = (string(side.labels.get(RETIRED)) for side in (items[0].old, items[0].new))
        causes, risk = tuple(item.new for item in items), Risk.LOW
        details: tuple[str, ...] = (_reason(items[0].new),)
        if now and not was:
            rest, risk = f"retired, and keeps its namespaces and volume claims until {now}", Risk.HIGH
            details = (*details, *_RETIREMENT)
        elif now:
            rest = f"retired until {now}" + (f" instead of {was}" if was != now else " for another reason")
            risk = Risk.MEDIUM if now < was else Risk.LOW
        else:
            rest, details = "active again", ()
        yield Statement("team", team, "is", rest, risk, details, causes, was or None, now or None)


def _reason(namespace: Manifest) -> str:
    reason = string(mapping(namespace.body, "metadata", "annotations").get(RETIRED))
    return escape_control(f"the reason is: {reason}") if reason else ""


_RETIREMENT = (
    "the topics `queues`, `access` and `protections` have the drained queue, the lost roles and the rejected TrainJobs",
    "other teams can borrow the quota of the team, up to their borrowing limits",
    "pods that no queue manages keep running",
    "RoleBindings that team admins created stay, because no file of the release has them",
)


def _queues_of(change: Change, namespaces: Iterable[str]) -> list[str]:
    own = set(namespaces)
    queues = (item for item in change.of_new(KUEUE, "LocalQueue") if item.namespace in own)
    return sorted({string(mapping(item.body, "spec").get("clusterQueue")) for item in queues} - {""})


def find_belongings(change: Change, namespaces: Iterable[str]) -> tuple[Manifest, ...]:
    """Return the objects that change because of new namespaces.

    These are the new namespaces and their objects, further new objects in the same files and in the folders of the
    Namespace files, and the changed ClusterQueues of the namespaces.
    """
    own = set(namespaces)
    names = set(_queues_of(change, own))
    inside = [item for item in change.all_added if item.namespace in own or _is_namespace(item, own)]
    folders = {item.file.rpartition("/")[0] for item in inside if item.kind == "Namespace"} - {""}
    files = {item.file for item in inside}
    near = [
        item
        for item in change.all_added
        if item.file in files or any(item.file.startswith(f"{folder}/") for folder in folders)
    ]
    changed = [
        item.new
        for item in ChangedObject.between(change)
        if (item.new.group, item.new.kind) == (KUEUE, "ClusterQueue") and item.new.name in names
    ]
    return tuple({item.identity: item for item in (*inside, *near, *changed)}.values())


def _is_namespace(item: Manifest, names: set[str]) -> bool:
    return (item.group, item.kind) == ("", "Namespace") and item.name in names


def _format_jobs(queues: Queues, names: list[str]) -> str:
    """Describe the largest jobs in queues while other queues are idle, with runtimes of the same size together."""
    sizes: dict[str, dict[str, None]] = {}
    for job in compute_largest(queues, names).values():
        if job.idle:
            most = "any number of nodes" if job.idle == NO_LIMIT else f"{job.idle} {plural('node', job.idle)}"
            sizes.setdefault(most, {})[job.runtime] = None
    return "; ".join(f"largest job on {format_names(runtimes)}: {size}" for size, runtimes in sizes.items())


def _labels(item: ChangedObject) -> Iterator[Statement]:
    """Yield the changed labels of a namespace, except labels of Pod Security, the platform and admission rules."""
    for key in sorted({**item.old.labels, **item.new.labels}, key=str):
        was, now = item.old.labels.get(key), item.new.labels.get(key)
        if was == now or str(key).startswith(_POD_SECURITY) or key == PART_OF or key in MANAGED_BY:
            continue
        if str(key).startswith(PARAMETER) and key != TENANT_LABEL:
            continue
        if key == TENANT_LABEL:
            rest = f"to team `{now or 'none'}` instead of `{was or 'none'}`"
            yield Statement("namespace", item.new.name, "belongs", rest, Risk.HIGH, (), (item.new,), was, now)
        else:
            rest = f"label `{key}` {format_change(was, now)}"
            yield Statement("namespace", item.new.name, "changes", rest, Risk.MEDIUM, (), (item.new,), was, now)
