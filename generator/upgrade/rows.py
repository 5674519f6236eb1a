"""The changes of upgrades.yaml that hit a release or the objects of a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from generator.documents.load import Path
from generator.errors import DocumentError, MpigenError
from generator.facts.api_versions import find_places
from generator.facts.upgrades import Change, Condition, Selection, upgrade_changes
from generator.manifests import Manifest, read
from generator.objects.fields import mapping, mappings, string, strings
from generator.objects.training import GROUP
from generator.upgrade.jobs import Jobs, is_job
from generator.upgrade.steps import Step
from generator.upgrade.templates import (
    find_changed_pods,
    find_new_rejections,
    find_variables,
    runtime_of,
    with_general_name,
)
from generator.upstream.compile import Fault
from generator.upstream.kueue.configuration import CONFIGURATION_KEY

_NAME: Path = ("metadata", "name")


@dataclass(frozen=True, slots=True)
class Located:
    """A part of an object that a change hits.

    Attributes:
        manifest: the object.
        path: the part.
        detail: what changes for this object; empty if the text of the row is enough.
        state: the state of a job; empty for another object.
        is_certain: False if mpigen cannot decide whether the change hits the job; `detail` then has the reason.
        variables: the variables with which the runtime would have kept the pods of the job the same, see
            `find_variables`.
    """

    manifest: Manifest
    path: Path = _NAME
    detail: str = ""
    state: str = ""
    is_certain: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The effect of a change on a TrainJob: `Located` without the job."""

    detail: str
    is_certain: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """The objects that an upgrade can hit.

    Attributes:
        release: the objects of the release.
        export: the objects of the cluster; empty without an export.
        jobs: the jobs of the export.
        verdicts: the effects on TrainJobs that differ only in their names, see `judge_alike`.
    """

    release: Sequence[Manifest]
    export: Sequence[Manifest]
    jobs: Jobs
    verdicts: dict[str, tuple[Verdict, ...]] = field(default_factory=dict)

    @cached_property
    def objects(self) -> list[Manifest]:
        """The objects of the cluster, and then of the release."""
        return [*self.export, *self.release]

    @classmethod
    def of(cls, release: Sequence[Manifest], export: Sequence[Manifest]) -> World:
        """Return the objects of a release and of an export. A Kueue configuration in a ConfigMap is an object too."""
        return cls([*_with_configurations(release)], [*_with_configurations(export)], Jobs.of(export))


def _with_configurations(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    for item in manifests:
        yield item
        text = mapping(item.body, "data").get(CONFIGURATION_KEY) if item.kind == "ConfigMap" else None
        if isinstance(text, str):
            with suppress(DocumentError):
                for inner in read(text, item.file):
                    body = {**inner.body, "metadata": item.body.get("metadata", {})}
                    yield Manifest(body, item.file, item.index, item.inside)


@dataclass(frozen=True, slots=True)
class Row:
    """A change of upgrades.yaml that hits something.

    Attributes:
        change: the row.
        step: the number of its step, from 1; 0 if it belongs to no single step.
        located: what it hits.
    """

    change: Change
    step: int
    located: Sequence[Located]


def find_rows(
    world: World, steps: Sequence[Step], before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Row]:
    """Yield the changes that hit something. A job that an earlier step hits by its pods is not hit again.

    Args:
        world: the objects.
        steps: the steps of the upgrade; empty if no order works.
        before: the present versions.
        after: the versions after the upgrade.
    """
    stopped: set[tuple[tuple[str, str, str, str], bool]] = set()
    for change in upgrade_changes():
        name = change.component
        if before.get(name) == after.get(name) or not change.happens(before.get(name, ""), after.get(name, "")):
            continue
        number = _step_of(change, steps)
        sides = _versions_around(steps, number, before, after)
        located = [
            item
            for item in _select(change.hits, world, *sides)
            if not (item.state and (item.manifest.identity, change.hits.has_changed_pods) in stopped)
        ]
        if change.hits.has_changed_pods or change.hits.is_rejected:
            stopped |= {(item.manifest.identity, change.hits.has_changed_pods) for item in located if item.is_certain}
        if located:
            yield Row(change, number, located)


def _step_of(change: Change, steps: Sequence[Step]) -> int:
    if not change.version:
        return 0
    return next((at for at, step in enumerate(steps, 1) if step.crosses(change.component, change.version)), 0)


def _versions_around(
    steps: Sequence[Step], number: int, before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions before and after the step of a change; without a step, before and after the upgrade."""
    if not number:
        return dict(before), {**before, **after}
    versions = dict(before)
    for step in steps[: number - 1]:
        versions |= {name: moved for name, (_, moved) in step.changes.items()}
    return versions, {**versions, **{name: moved for name, (_, moved) in steps[number - 1].changes.items()}}


def _select(hits: Selection, world: World, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Located]:
    if hits.has_changed_pods or hits.is_rejected:
        for item in world.export:
            if (item.group, item.kind) == (GROUP, "TrainJob") and (state := world.jobs.find_state(item)):
                yield from _judge_job(item, state, hits, world, before, after)
    elif hits.served:
        yield from (located for item in world.export for located in _find_uses(item, hits.served))
    else:
        yield from _find_objects(hits, world)


def _judge_job(
    job: Manifest, state: str, hits: Selection, world: World, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Located]:
    """Yield the job if a step changes its pods, or if the webhooks reject it after the step."""
    if hits.has_changed_pods and not world.jobs.has_job_set(job):
        return
    runtime = runtime_of(job, world.objects, world.jobs)
    if isinstance(runtime, Fault):
        if hits.has_changed_pods:
            yield Located(job, runtime.origin.path, f"unknown: {runtime.message}", state, is_certain=False)
        return
    ask = _find_rejections if hits.is_rejected else _find_changes
    for verdict in judge_alike(job, runtime, world.verdicts, partial(ask, before=before, after=after)):
        yield Located(job, _NAME, verdict.detail, state, verdict.is_certain, verdict.variables)


def judge_alike(
    job: Manifest,
    runtime: Manifest,
    known: dict[str, tuple[Verdict, ...]],
    ask: partial[Iterator[Verdict]],
) -> tuple[Verdict, ...]:
    """Return the verdicts on a TrainJob. Jobs that differ only in their names are asked about once.

    The question is about a job with a name of the same form. An answer with this name holds for no other job. A job
    whose fields or runtime contain its name, or the name of the question, is asked about alone.
    """
    alike = with_general_name(job)
    parts = {**alike.body, "metadata": {**alike.body["metadata"], "name": ""}}
    key = json.dumps([ask.func.__name__, ask.keywords, parts, runtime.body], sort_keys=True, default=str)
    if job.name in key or alike.name in key:
        return tuple(ask(job, runtime))
    key = f"{alike.name} {key}"
    if key not in known:
        known[key] = tuple(ask(alike, runtime))
    if any(alike.name in text for verdict in known[key] for text in (verdict.detail, *verdict.variables.values())):
        return tuple(ask(job, runtime))
    return known[key]


def _find_rejections(
    job: Manifest, runtime: Manifest, *, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Verdict]:
    yield from map(Verdict, find_new_rejections(job, runtime, before, after))


def _find_changes(
    job: Manifest, runtime: Manifest, *, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Verdict]:
    try:
        changed = find_changed_pods(job, runtime, before, after)
    except MpigenError as error:
        if not find_new_rejections(job, runtime, before, after):  # which another row reports
            yield Verdict(f"unknown: {error.problems[0].message}", is_certain=False)
        return
    if changed:
        yield Verdict(f"changes {', '.join(changed)}", variables=find_variables(job, runtime, before, after))


def _find_uses(item: Manifest, version: str) -> Iterator[Located]:
    """Yield an object of an API version, a definition that has stored one, and an object that a client writes by it."""
    group, _, name = version.rpartition("/")
    if item.api_version == version:
        yield Located(item, ("apiVersion",), f"the export has it as `{version}`")
        return
    if item.kind == "CustomResourceDefinition" and mapping(item.body, "spec").get("group") == group:
        if name in strings(mapping(item.body, "status").get("storedVersions")):
            yield Located(item, ("status", "storedVersions"), f"etcd can have objects in the version `{name}`")
        return
    fields = mappings(mapping(item.body, "metadata").get("managedFields"))
    managers = {string(field.get("manager")) for field in fields if field.get("apiVersion") == version}
    if managers:
        names = ", ".join(f"`{manager}`" for manager in sorted(managers))
        yield Located(item, detail=f"written by {names} as `{version}`")


def _find_objects(hits: Selection, world: World) -> Iterator[Located]:
    """Yield the objects of some kinds that meet the conditions. An object of the release hides that of the cluster."""
    hit: set[tuple[str, str, str, str]] = set()
    for item in (*(() if hits.is_of_cluster else world.release), *world.export):
        if (item.group, item.kind) not in hits.kinds or item.identity in hit:
            continue
        state = world.jobs.find_state(item) if is_job(item) else ""
        if is_job(item) and not state:
            continue
        parts = find_places(item.body, hits.parts) if hits.parts else iter([()])
        met = [part for part in parts if all(_holds(condition, _at(item.body, part)) for condition in hits.where)]
        if met:
            hit.add(item.identity)
            yield Located(item, (*met[0], *_first_place(hits.where[0], _at(item.body, met[0]))) or _NAME, "", state)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _first_place(condition: Condition, value: object) -> Path:
    return next(find_places(value, condition.path), ())


def _holds(condition: Condition, part: object) -> bool:
    """Return True if one of the values at the path of a condition meets it."""
    values = [_at(part, place) for place in find_places(part, condition.path)]
    operand = condition.value
    match condition.comparison:
        case "present":
            return bool(values)
        case "absent":
            return not values
        case "equal":
            return any(type(value) is type(operand) and value == operand for value in values)
        case "negative":
            return any(_is_below(value, 0) for value in values)
        case "below-one":
            return any(_is_below(value, 1) for value in values)
        case "starts-not-with":
            return any(isinstance(value, str) and not value.startswith(str(operand)) for value in values)
        case "contains":
            return any(isinstance(value, list | str) and operand in value for value in values)
        case "contains-not":
            return not any(isinstance(value, list | str) and operand in value for value in values)
    raise ValueError(condition.comparison)


def _is_below(value: object, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < limit


_KINDS_OF_TRAIN_JOBS = (("TrainJob", GROUP), ("JobSet", "jobset.x-k8s.io"), ("Workload", "kueue.x-k8s.io"))


def find_missing(export: Sequence[Manifest], before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for the kinds that changes of the upgrade read, and that an export lacks.

    Args:
        export: the objects of the cluster.
        before: the present versions.
        after: the versions after the upgrade.
    """
    known = {(item.kind, item.group) for item in export}
    needed: dict[tuple[str, str], None] = {}
    for change in upgrade_changes():
        name = change.component
        was, now = before.get(name, ""), after.get(name, "")
        if not change.version or was == now or not change.happens(was, now):
            continue
        if change.hits.has_changed_pods:
            needed |= dict.fromkeys(_KINDS_OF_TRAIN_JOBS)
        elif change.hits.is_of_cluster:
            needed |= dict.fromkeys((kind, group) for group, kind in sorted(change.hits.kinds))
        elif change.hits.served:
            needed["CustomResourceDefinition", "apiextensions.k8s.io"] = None
    missing = [".".join(filter(None, key)) for key in needed if key not in known]
    if missing:
        yield f"the export has none of these kinds, so no entry is about them: {', '.join(sorted(missing))}"
