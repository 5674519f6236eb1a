"""The topic `runtimes`: new, changed and removed runtimes, the jobs that do not follow a change, and largest jobs.

A TrainJob of Trainer 2.3 keeps a copy of its first runtime (trainer v2.3.0 pkg/runtime/core/snapshot.go). The check
`change/runtime-in-use` has the facts about Trainer 2.2 and about Kueue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from generator.checks.change.immutable import written
from generator.checks.change.queues import has_users
from generator.checks.change.runtimes import (
    RUNTIMES,
    TRAINER,
    normalized_jobs,
    normalized_policy,
    runtime_in_use,
    runtime_removed,
)
from generator.checks.objects import Change, ChangedObject
from generator.documents.load import Path
from generator.documents.messages import escape_control
from generator.effects.effect import Effect, Risk
from generator.effects.largest import MOST_QUEUES, compute_largest, describe_left_out, format_sizes
from generator.effects.subjects import Statement, Teams, merge, name_subjects, plural
from generator.effects.trees import QueueTrees
from generator.effects.values import differences
from generator.effects.words import name_field
from generator.facts.names import IMAGES, SUPPORT
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string
from generator.objects.queue import format_amount

_TOPIC = "runtimes"
_DEPTH = 12
_KEYS = {"containers": "name", "initContainers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}
"""Field with a list → the key that identifies its items."""
_MOST = 4  # changed fields in a sentence
_LONGEST = 200  # characters of a string
_SAME_SIZE = frozenset({"image", "env", "command", "args", "ports", "volumes", "volumeMounts", "securityContext"})
"""Fields of pods and containers without an influence on the largest job."""
_CONTAINERS = ("containers", "initContainers")
_OLD_TRAINER = "2.2"


def find_runtime_effects(change: Change) -> Iterator[Effect]:
    """Yield the effects of new, changed and removed runtimes, except in new and removed namespaces."""
    statements = [*_added(change), *_removed(change)]
    changed = [
        item for item in ChangedObject.between(change) if item.new.group == TRAINER and item.new.kind in RUNTIMES
    ]
    sizes, left_out = _compare_largest(change, [item for item in changed if _changes_size(item)])
    for item in changed:
        statements += _changed(change, item, sizes.get(item.new.identity, ()))
    yield from merge(_TOPIC, statements)
    if left_out:
        text, hint = describe_left_out(left_out, "ClusterQueue", MOST_QUEUES)
        yield Effect(_TOPIC, Risk.LOW, "largest jobs", text, (hint,))


def _changes_size(item: ChangedObject) -> bool:
    """Return True if a changed field of a runtime can change the size of its jobs."""
    before, after = ({**_policy(one), **_jobs(one)} for one in (item.old, item.new))
    return any(not _SAME_SIZE.intersection(path) for path, _, _ in differences(before, after, _DEPTH))


def _compare_largest(
    change: Change, changed: Sequence[ChangedObject]
) -> tuple[Mapping[tuple[str, str, str, str], Sequence[str]], int]:
    """Return runtime → sentences about the largest jobs of teams that change, and the number of queues left out.

    If more than `MOST_QUEUES` queues can use the runtimes, all of them are left out. If the quotas are unknown, the
    result is empty.
    """
    both = QueueTrees.of(change).both if changed else None
    if both is None:
        return {}, 0
    old, new = both
    names = [name for name in new.tree.queues if name in old.tree.queues and has_users(new, name)]
    spaces = {item.new.namespace for item in changed}
    if "" not in spaces:
        names = [name for name in names if any(one.namespace in spaces for one in new.local_queues.get(name, ()))]
    if len(names) > MOST_QUEUES:
        return {}, len(names)
    runtimes = {item.new.identity for item in changed}
    before, after = (compute_largest(queues, names, runtimes) for queues in both)
    teams = Teams.of(change)
    largest: dict[tuple[str, str, str, str], dict[str, list[tuple[str, str]]]] = {}
    for key, job in after.items():
        words = format_sizes(before[key], job) if key in before else ""
        queue, namespace, kind, name = key
        identity = (TRAINER, kind, "" if kind == "ClusterTrainingRuntime" else namespace, name)
        if words and identity in runtimes:
            largest.setdefault(identity, {}).setdefault(words, []).append(teams.subject_of_queue(queue))
    return {identity: [*_say_largest(by_words)] for identity, by_words in largest.items()}, 0


def _say_largest(by_words: Mapping[str, Iterable[tuple[str, str]]]) -> Iterator[str]:
    for words, subjects in sorted(by_words.items()):
        by_noun: dict[str, dict[str, None]] = {}
        for noun, name in sorted(subjects):
            by_noun.setdefault(noun, {})[name] = None
        owners = " and ".join(name_subjects(noun, list(names)) for noun, names in by_noun.items())
        yield f"largest job of {owners}: {words}"


def _added(change: Change) -> Iterator[Statement]:
    namespaces = {item.name for item in change.of_old("", "Namespace")}
    for item in change.added(TRAINER, *RUNTIMES):
        if item.namespace in ("", *namespaces):
            images = sorted(set(_images(item)))
            rest = f"new, with the image {', '.join(f'`{image}`' for image in images)}" if images else "new"
            yield Statement("runtime", _name(item), "is", rest, Risk.LOW, (), (item,))


def _removed(change: Change) -> Iterator[Statement]:
    """Yield the removed runtimes of namespaces that stay. The topic `prune` reports removed namespaces."""
    namespaces = {item.name for item in change.removed("", "Namespace")}
    reasons = {breach.manifest.identity: breach.why for breach in runtime_removed(change) if breach.manifest}
    for item in change.removed(TRAINER, *RUNTIMES):
        if item.namespace in namespaces:
            continue
        why = reasons.get(item.identity)
        rest = f"removed{'' if why else ' after its deprecation'}: {_consequence_of_removal(change)}"
        risk = Risk.HIGH if why else Risk.MEDIUM
        yield Statement("runtime", _name(item), "is", rest, risk, (why,) if why else (), (item,))


def _own_images(item: ChangedObject) -> Iterator[Statement]:
    """Yield the images with which teams can or can no longer copy a runtime."""
    texts = (string(mapping(one.body, "metadata", "annotations").get(IMAGES)) for one in (item.old, item.new))
    was, now = ({*text.split(",")} - {""} for text in texts)
    for images, verb in ((now - was, "can"), (was - now, "can no longer")):
        if images:
            rest = f"run with the images {', '.join(f'`{image}`' for image in sorted(images))}"
            yield Statement("runtime", _name(item.new), verb, rest, Risk.MEDIUM, (), (item.new,))


def _changed(change: Change, item: ChangedObject, sizes: Iterable[str]) -> Iterator[Statement]:
    was, now = (mapping(one.body, "metadata", "labels").get(SUPPORT) for one in (item.old, item.new))
    if was != now:
        rest = "deprecated: Trainer warns users of new jobs" if now == "deprecated" else "no longer deprecated"
        yield Statement("runtime", _name(item.new), "is", rest, Risk.LOW, (), (item.new,), was, now)
    yield from _own_images(item)
    fields = _changed_fields(item)
    if not fields:
        return
    breach = next(iter(runtime_in_use(item)), None)
    if breach:
        consequence, risk = _consequence_in_use(change), Risk.HIGH
    else:
        consequence, risk = _consequence(change), Risk.MEDIUM
    first, rest_of_fields = fields[:_MOST], fields[_MOST:]
    more = f" and {len(rest_of_fields)} more {plural('field', len(rest_of_fields))}" if rest_of_fields else ""
    details = (breach.why if breach else "", *sizes, *rest_of_fields)
    yield Statement(
        "runtime",
        _name(item.new),
        "changes",
        f"{', '.join(first)}{more}; {consequence}",
        risk,
        tuple(filter(None, details)),
        (item.new,),
    )


def _consequence_of_removal(change: Change) -> str:
    """Describe what follows for the jobs of a removed runtime; the check `change/runtime-removed` has the sources."""
    if change.targets.get("trainer") == _OLD_TRAINER:
        return "Trainer deletes the runtime after its last job, and accepts new jobs until then"
    return "pending jobs on the runtime never start, and running jobs hold their quota even after they end"


def _consequence_in_use(change: Change) -> str:
    if change.targets.get("trainer") == _OLD_TRAINER:
        return "existing jobs do not follow: pending jobs never start, and Kueue cannot suspend running jobs"
    return "existing jobs keep their pods, and Kueue later suspends running jobs and queues them again"


def _consequence(change: Change) -> str:
    if change.targets.get("trainer") == _OLD_TRAINER:
        return "running jobs keep their pods"
    return "existing jobs keep the old values"


def _name(runtime: Manifest) -> str:
    return f"{runtime.namespace}/{runtime.name}" if runtime.namespace else runtime.name


def _images(runtime: Manifest) -> Iterator[str]:
    for job in normalized_jobs(runtime.body):
        pod = mapping(job, "template", "spec", "template", "spec")
        for container in mappings(pod.get("containers")):
            yield string(container.get("image"))


def _changed_fields(item: ChangedObject) -> list[str]:
    """Return the changed fields with their values, equal changes of several jobs and containers in one text."""
    before, after = ({**_policy(one), **_jobs(one)} for one in (item.old, item.new))
    changes: dict[str, dict[str, None]] = {}
    for path, old, new in differences(before, after, _DEPTH):
        text, place = _describe(path, old, new)
        changes.setdefault(text, {})[place] = None
    names = {job for job in {**before, **after} if job.startswith("job ")}
    return [f"{text}{_format_places(list(places), names)}" for text, places in changes.items()]


def _format_places(places: Sequence[str], jobs: Iterable[str]) -> str:
    """Return the jobs of a change in parentheses; empty if all jobs have the change, or if it is outside of jobs."""
    if not any(places) or set(places) == set(jobs):
        return ""
    return f" ({', '.join(place for place in places if place)})"


def _policy(runtime: Manifest) -> dict[str, Any]:
    return {"mlPolicy": normalized_policy(runtime.body)}


def _jobs(runtime: Manifest) -> dict[str, Any]:
    """Return `job NAME` → the replicated job, with items of lists by their names."""
    return {f"job `{job.get('name')}`": _named(job) for job in normalized_jobs(runtime.body)}


def _named(value: Any, key: str = "") -> Any:
    """Return a value in which lists with identified items are mappings, so that an added item is one difference."""
    if isinstance(value, dict):
        return {name: _named(child, name) for name, child in value.items()}
    if isinstance(value, list) and key in _KEYS and all(isinstance(one, dict) for one in value):
        return {str(one.get(_KEYS[key])): _named({"env": [], **one} if "image" in one else one) for one in value}
    return value


def _describe(path: Path, old: Any, new: Any) -> tuple[str, str]:
    """Return the text of a change, and its job, such as ``job `node` ``; no job if the change is not inside one."""
    steps = [str(step) for step in path]
    place = steps[0] if steps[0].startswith("job ") else ""
    inner = steps[1:] if place else steps[1:] or steps
    if len(steps) == 1:
        return (f"{place} is {'added' if old is None else 'removed'}", "")
    for prefix in (("template", "spec", "template", "spec"), ("template", "spec", "template"), ("template", "spec")):
        if tuple(inner[: len(prefix)]) == prefix:
            inner = inner[len(prefix) :]
            break
    if inner and inner[0] in _CONTAINERS and len(inner) > 1:
        if len(inner) == 2:  # noqa: PLR2004 - a whole container
            return f"container `{inner[1]}` is {'added' if old is None else 'removed'}", place
        inner = inner[2:]
    if inner[0] == "resources" and len(inner) == 3:  # noqa: PLR2004 - equal requests and limits have one text
        old, new = (_amount(inner[2], value) for value in (old, new))
        return f"`{inner[2]}` of each pod{_values(old, new)}", place
    if inner[0] == "env":
        old, new = (_variable(value) for value in (old, new)) if len(inner) == 2 else (old, new)  # noqa: PLR2004
        name = inner[1] if len(inner) > 1 else "env"
        return f"variable `{name}`{_values(old, new)}", place
    words = name_field("runtime", tuple(inner)).removeprefix("the field ") if inner else f"`{place}`"
    return f"{words}{_values(old, new)}", place


def _amount(resource: str, value: Any) -> str | None:
    """Return a normalized amount as a quantity. None and a string stay unchanged."""
    if value is None or isinstance(value, str):
        return value
    return format_amount(resource, ceil(value * (1000 if resource == "cpu" else 1)))


def _variable(value: Any) -> Any:
    """Return the value of a variable, or its source."""
    if isinstance(value, Mapping):
        return value.get("value", value.get("valueFrom", ""))
    return value


def _values(old: Any, new: Any) -> str:
    """Return the values of a change; empty if they are too long to show their difference."""
    was, now = (_written(_plain(value)) for value in (old, new))
    return "" if was == now else f" to {now}" if old is None else f" from {was} to {now}"


def _written(value: object) -> str:
    """Format a value. Names of images with digests stay whole."""
    return f"`{escape_control(value)}`" if isinstance(value, str) and len(value) <= _LONGEST else written(value)


def _plain(value: Any) -> Any:
    """Return a value for a sentence: amounts are numbers in normalized runtimes."""
    if isinstance(value, Mapping):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)
