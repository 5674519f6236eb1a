"""change/immutable: reports an update that the API server or a webhook rejects, although the new object is valid.

Rules come from two places: generator/facts/updates.yaml for validation in Go, and the schemas of custom kinds for their
transition rules in CEL. tests/cluster/updates compares the result with a real control plane, field by field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path as FilePath
from typing import Any

from generator.checks.change.update_rules import (
    Difference,
    Kind,
    canonical,
    fill,
    generate,
    rejected,
    replaced,
    rules_of,
    without_empty,
)
from generator.checks.objects import ChangedObject
from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_path, shorten
from generator.errors import NotModelledError
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.json_schema import Schema
from generator.schemas.updates import (
    Transition,
    apply,
    find_transitions,
    normalize_built_in,
    normalize_custom,
    normalize_go_type,
)

_LONGEST = 60  # characters of a value in a message
_VERSION = re.compile(r"(?P<name>.+)-v(?P<number>[0-9]{1,9})")
_FIELD_OF_SELF = re.compile(r"\bself\.(\w+)")
_RULES = {
    "immutable": "is immutable",
    "set-once": "cannot change once it is set",
    "kept": "cannot be removed",
    "allocated": "cannot change once the API server has set it",
    "in-tandem": "can only change together with `parallelism`",
    "no-larger": "cannot be removed",
    "only-added": "cannot lose items",
    "only-removed": "cannot get new items",
}
"""Rule of updates.yaml → its part of a message."""
_NOT_COMPARED = ("status", "metadata")
_HOLDS_JOBS = ("batch/v1", "CronJob")
"""The kind whose schema defines pods and jobs for custom resources that hold them."""
_WHY = "the API server rejects the update, so the sync fails, and Argo CD skips the later sync waves"


@check("change/immutable", severity=ERROR, needs=ChangedObject)
def immutable(change: ChangedObject) -> Iterator[Breach]:
    """Report an update that the API server or a webhook rejects.

    The new object is valid, but the API server or a webhook rejects the update of the stored object. Argo CD's sync
    then fails and skips the later sync waves, so `synth` does not write such a release. Use a new name instead, see
    [runtimes](../../reference/runtimes.md#changing-a-runtime).

    - ClusterTrainingRuntime, TrainingRuntime: change `successPolicy`, `failurePolicy`, `startupPolicy`,
      `network`, `volumeClaimPolicies` or `dependsOn` of a job
    - TrainJob: change `runtimeRef`, `trainer`, `initializer`, `managedBy` or `activeDeadlineSeconds`; change
      `runtimePatches` unless it is suspended
    - LocalQueue, AdmissionCheck, Topology: change `clusterQueue`, `controllerName`, `levels`
    - ResourceFlavor with a topology: change `topologyName`, `nodeLabels` or `tolerations`
    - ClusterQueue: change `concurrentAdmissionPolicy`
    - PersistentVolumeClaim: shrink; change `accessModes`, `volumeMode`, `selector` or a data source; change or
      remove `storageClassName` or `volumeName`
    - RoleBinding, ClusterRoleBinding: change `roleRef`
    - ResourceQuota: change `scopes`
    - PriorityClass: change `value` or `preemptionPolicy`
    - ResourceClaimTemplate, ResourceClaim: change anything in `spec`
    - Secret, ConfigMap: change `type`; with `immutable: true` change any data
    - StorageClass, VolumeAttributesClass: change `provisioner`, `parameters`, `reclaimPolicy`,
      `volumeBindingMode`, `driverName`
    - Job, JobSet, Pod: change the pods, except for what a suspended job may change
    - Deployment, DaemonSet, ReplicaSet, StatefulSet: change the selector; of a StatefulSet also
      `volumeClaimTemplates` and `serviceName`

    `generator/facts/updates.yaml` has the complete list, with the source of each rule. Rules in CEL (`oldSelf`)
    come from the CustomResourceDefinitions of the target versions. Default values, the order of sets and other
    spellings of a quantity are no change if the API server treats them as equal.

    The API server rejects two more updates to valid objects. If a mapping of a custom resource becomes `{}`,
    server-side apply sets it to null. And JobSet's webhook sets defaults in `volumeClaimPolicies` only on creation,
    so the API server rejects every update of a JobSet whose manifest lacks these defaults.

    The check cannot read the state of a cluster, and reports nothing that depends on it: an unbound claim cannot
    grow, a claim grows only if its StorageClass has `allowVolumeExpansion`, and a running queued job cannot move to
    another queue.

    The checks of `change/*` compare two trees. `synth` compares the new release with the release in Argo CD's
    Application. If the Application names the new release itself, or does not exist, `synth` takes the newest
    earlier release. `mpigen validate NEW --since OLD` compares any two trees. In whole output folders it compares
    each platform with itself, in the release that its Application names. A platform that OLD lacks is new, and one
    that NEW lacks is removed with all its objects. If several releases have no Application, mpigen reports that it
    cannot pair them and compares nothing.
    """
    old, new, targets = change.old, change.new, change.targets
    kind = rules_of(new.group, new.kind)
    catalog, schema = _schema(new, targets)
    if schema is None:
        differences, fix = list(rejected(old.body, new.body, kind.rules, catalog.targets)), kind.fix
        yield from _breaches(differences, fix, new.name)
        return
    is_custom = catalog.is_custom(new.api_version, new.kind)
    store = partial(_stored, schema=schema, is_custom=is_custom)
    was = store(old.body)
    fill(was, kind)
    generate(was, kind)
    after = apply(old.body, was, new.body, schema)
    now = store(after.body)
    before, compared = (_in_go(body, kind, schema, catalog) if is_custom else body for body in (was, now))
    differences = list(rejected(before, compared, kind.rules, catalog.targets))
    if is_custom:
        differences += _in_cel(find_transitions(_without_status(was), _without_status(now), schema))
        yield from map(_null, after.emptied)
    yield from _breaches(differences, kind.fix, new.name)


def _breaches(differences: Iterable[Difference], fix: str, name: str) -> Iterator[Breach]:
    """Yield one breach for each place."""
    by_place = {difference.path: difference for difference in reversed([*map(_narrowed, differences)])}
    fix = fix.format(name=name, new=next_name(name))
    yield from (_breach(difference, fix) for difference in reversed(by_place.values()))


@cache
def _catalog(targets: tuple[tuple[str, str], ...]) -> Catalog:
    return Catalog.bundled(dict(targets))


@cache
def _read(file: FilePath) -> Schema:
    schema: Schema = json.loads(file.read_bytes())
    return schema


def _schema(manifest: Manifest, targets: Mapping[str, str]) -> tuple[Catalog, Schema | None]:
    catalog = _catalog(tuple(sorted(targets.items())))
    file = catalog.find(manifest.api_version, manifest.kind)
    return catalog, _read(file) if file else None


def _stored(body: Any, *, schema: Schema, is_custom: bool) -> Any:
    return normalize_custom(body, schema, schema) if is_custom else normalize_built_in(body, schema)


def _in_go(body: Any, kind: Kind, schema: Schema, catalog: Catalog) -> Any:
    """Return a custom resource as a webhook compares it that reads it into its Go type."""
    result = without_empty(canonical(body, schema, schema), tuple(kind.go_types))
    job_file = catalog.find(*_HOLDS_JOBS)
    for path, name in kind.go_types.items() if job_file else ():
        result = replaced(result, path, partial(normalize_go_type, name=name, schema=_read(job_file)))
    return result


def _without_status(body: Any) -> Any:
    """Return an object without its status and metadata."""
    return {key: value for key, value in body.items() if key not in _NOT_COMPARED}


def _null(emptied: tuple[Path, Any]) -> Breach:
    path, value = emptied
    field = format_path(path[-1:], root="").removeprefix(".")
    return Breach(
        path,
        f"`{field}` becomes empty, but is not removed; its value is {written(value)}",
        f"server-side apply sets `{field}` to null, which the API server rejects, so the sync fails",
        f"remove `{field}` instead of leaving it empty",
        value={},
    )


def _in_cel(transitions: Iterable[Transition]) -> Iterator[Difference]:
    for transition in transitions:
        from generator.simulate.policies.expression import is_accepted  # imports CEL, which few updates need

        with suppress(NotModelledError):
            if not is_accepted(transition):
                yield _named_by_rule(transition)


def _named_by_rule(transition: Transition) -> Difference:
    """Return the changed value of a rule: the first field that the rule names and that differs, or the whole value."""
    path, was, now = transition.path, transition.old, transition.new
    if isinstance(was, dict) and isinstance(now, dict):
        for name in dict.fromkeys(_FIELD_OF_SELF.findall(transition.rule)):
            if was.get(name) != now.get(name):
                path, was, now = (*path, name), was.get(name), now.get(name)
                break
    return Difference(path, was, now, len(path))


def _breach(difference: Difference, fix: str) -> Breach:
    field = format_path(difference.path[max(difference.field - 1, 0) :], root="").removeprefix(".") or "spec"
    return Breach(difference.path, _message(difference, field), _WHY, fix, value=difference.now)


def _message(difference: Difference, field: str) -> str:
    rule, was, now = difference.rule, written(difference.was), written(difference.now)
    if rule == "no-smaller":
        return f"`{field}` can only grow, but shrinks from {was} to {now}"
    if rule == "no-larger" and difference.now is not None:
        return f"`{field}` can only shrink, but grows from {was} to {now}"
    if difference.now is None:
        return f"`{field}` {_RULES[rule]}, but is removed; its value is {was}"
    if difference.was is None:
        return f"`{field}` {_RULES[rule]}, but is added with the value {now}"
    return f"`{field}` {_RULES[rule]}, but changes from {was} to {now}"


def _narrowed(difference: Difference) -> Difference:
    """Return the one part of a value that differs, if both objects have that part."""
    if difference.rule != "immutable":
        return difference
    path, was, now = difference.path, difference.was, difference.now
    while (step := _step(was, now)) is not None:
        path, was, now = (*path, step), was[step], now[step]
    return Difference(path, was, now, difference.field, difference.rule)


def _step(was: Any, now: Any) -> str | int | None:
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        steps: list[Any] = list(was)
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        steps = list(range(len(was)))
    else:
        return None
    differ = [step for step in steps if was[step] != now[step]]
    return differ[0] if len(differ) == 1 else None


def written(value: object) -> str:
    """Format a value as JSON on one line, for a message."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{shorten(text, _LONGEST)}`"


def next_name(name: str) -> str:
    """Return a name for a new object: `horovod` → `horovod-v2` → `horovod-v3`."""
    match = _VERSION.fullmatch(name)
    return f"{match['name']}-v{int(match['number']) + 1}" if match else f"{name}-v2"
