"""change/immutable: an update that the API server or a webhook rejects, although the new object is valid.

The rules are in two places: generator/facts/updates.yaml has the rules that upstream implements in Go, and the schemas
of custom kinds have transition rules in CEL (`oldSelf`). tests/cluster/updates compares the result with a real control
plane, field by field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

from generator.checks.objects import ChangedObject
from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_path, shorten
from generator.errors import NotModelledError
from generator.schemas.catalog import Catalog
from generator.schemas.json_schema import Schema
from generator.schemas.rules import Rule, find_transitions, without_status
from generator.schemas.updates import apply, normalize_built_in, normalize_custom, normalize_go_type
from generator.upstream.kubernetes.update_rules import (
    RULES,
    Difference,
    Kind,
    canonical,
    fill,
    rejected,
    replaced,
    rules_of,
    without_empty,
)

_LONGEST = 60  # characters of a value in a message
_VERSION = re.compile(r"(?P<name>.+)-v(?P<number>[0-9]{1,9})")
_FIELD_OF_SELF = re.compile(r"\bself\.(\w+)")
_HOLDS_JOBS = ("batch/v1", "CronJob")
"""A built-in kind with Jobs and pods. Its schema has the Go types of pod templates in custom resources."""
_WHY = "the API server rejects the update, so the GitOps engine fails, and may not apply other objects of the release"


@check("change/immutable", severity=ERROR, needs=ChangedObject)
def immutable(change: ChangedObject) -> Iterator[Breach]:
    """Report an update that the API server or a webhook rejects.

    The new object is valid, but the API server or a webhook rejects the update of the stored object. Argo CD's sync
    then fails and skips the later sync waves. Flux applies no object of the same stage and of later stages. So `synth`
    does not write such a release. Use a new name instead, see
    [runtimes](../../tasks/add-a-runtime.md#change-a-runtime). The API server rejects changes of these fields, among
    others:

    - ClusterTrainingRuntime, TrainingRuntime: `successPolicy`, `failurePolicy`, `startupPolicy`, `network`,
      `volumeClaimPolicies`, and `dependsOn` of a job
    - TrainJob: `runtimeRef`, `trainer`, `initializer`, `managedBy`, `activeDeadlineSeconds`, and `runtimePatches`
      unless the TrainJob is suspended
    - LocalQueue: `clusterQueue`; AdmissionCheck: `controllerName`; Topology: `levels`; ClusterQueue:
      `concurrentAdmissionPolicy`; ResourceFlavor with a topology: `topologyName`, `nodeLabels`, `tolerations`
    - PersistentVolumeClaim: `accessModes`, `volumeMode`, `selector`, data sources, a lower size, and
      `storageClassName` and `volumeName` once they are set
    - RoleBinding, ClusterRoleBinding: `roleRef`; ResourceQuota: `scopes`; PriorityClass: `value`, `preemptionPolicy`;
      ResourceClaim, ResourceClaimTemplate: `spec`; Secret: `type`; Secret, ConfigMap with `immutable: true`: all data
    - StorageClass, VolumeAttributesClass: `provisioner`, `parameters`, `reclaimPolicy`, `volumeBindingMode`,
      `driverName`
    - Job, JobSet: the pod template, except for fields that can change while the job is suspended; Pod: most of `spec`
    - Deployment, DaemonSet, ReplicaSet, StatefulSet: the selector; StatefulSet: `volumeClaimTemplates`, `serviceName`

    `generator/facts/updates.yaml` has the complete list, with the source of each rule. Rules in CEL (`oldSelf`) come
    from the CustomResourceDefinitions of the target versions. Like the API server, the check ignores differences in
    default values, in the order of a set, and in the spelling of a quantity (`1000m` and `1`).

    The API server rejects two more updates to valid objects. If a mapping of a custom resource becomes `{}`,
    server-side apply sets it to null. And JobSet's webhook sets defaults in `volumeClaimPolicies` only on creation,
    so the API server rejects every update of a JobSet whose manifest lacks these defaults.

    The check cannot read the state of a cluster, so it does not report that an unbound claim cannot grow, that a claim
    grows only if its StorageClass has `allowVolumeExpansion`, or that a running job cannot move to another queue.

    The checks of `change/*` compare two output trees. `synth` compares the new release with the release in the Git
    revision `HEAD`, or, if `HEAD` has none, with the release on disk. `mpigen validate NEW --since OLD` compares any
    two trees. If OLD and NEW contain releases of several platforms, `validate` compares the releases of the same
    platform: a platform that OLD lacks is new, and a platform that NEW lacks is removed.

    Source: generator/facts/updates.yaml names the source of each rule, such as kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimUpdate
    """
    new, kind = change.new, rules_of(change.new.group, change.new.kind)
    differences, emptied = _find_rejected(change, kind)
    yield from map(_null, emptied)
    by_place = {difference.path: difference for difference in reversed([*map(_narrowed, differences)])}
    fix = kind.fix.format(name=new.name, new=next_name(new.name))
    yield from (_breach(difference, fix) for difference in reversed(by_place.values()))


def _find_rejected(change: ChangedObject, kind: Kind) -> tuple[list[Difference], Iterable[tuple[Path, Any]]]:
    """Return the rejected changes of an object, and (path, old value) of each mapping that becomes empty."""
    old, new = change.old, change.new
    catalog = _catalog(tuple(sorted(change.targets.items())))
    schema = catalog.schema(new.api_version, new.kind)
    if schema is None:
        return list(rejected(old.body, new.body, kind.rules, catalog.targets)), ()
    is_custom = catalog.is_custom(new.api_version, new.kind)
    was = _stored(old.body, schema, is_custom=is_custom)
    fill(was, kind)
    after = apply(old.body, was, new.body, schema)
    now = _stored(after.body, schema, is_custom=is_custom)
    if not is_custom:
        return list(rejected(was, now, kind.rules, catalog.targets)), ()
    before, compared = (_in_go(body, kind, schema, catalog) for body in (was, now))
    transitions = find_transitions(without_status(was), without_status(now), schema)
    return [*rejected(before, compared, kind.rules, catalog.targets), *_in_cel(transitions)], after.emptied


@cache
def _catalog(targets: tuple[tuple[str, str], ...]) -> Catalog:
    return Catalog.bundled(dict(targets))


def _stored(body: Any, schema: Schema, *, is_custom: bool) -> Any:
    return normalize_custom(body, schema, schema) if is_custom else normalize_built_in(body, schema)


def _in_go(body: Any, kind: Kind, schema: Schema, catalog: Catalog) -> Any:
    """Return a custom resource in the form that its webhook compares after decoding it into the Go type."""
    result = without_empty(canonical(body, schema, schema), tuple(kind.go_types))
    if (holder := catalog.schema(*_HOLDS_JOBS)) is None:
        return result
    for path, name in kind.go_types.items():
        result = replaced(result, path, partial(normalize_go_type, name=name, schema=holder))
    return result


def _null(emptied: tuple[Path, Any]) -> Breach:
    path, value = emptied
    field = format_path(path[-1:], root="").removeprefix(".")
    return Breach(
        path,
        f"`{field}` changes from {written(value)} to an empty mapping",
        f"server-side apply sets `{field}` to null, which the API server rejects, so the sync fails",
        f"set a field of `{field}`, or remove `{field}`",
        value={},
    )


def _in_cel(transitions: Iterable[Rule]) -> Iterator[Difference]:
    for transition in transitions:
        from generator.upstream.kubernetes.cel.rules import is_accepted  # imports CEL, which few updates need

        with suppress(NotModelledError):
            if not is_accepted(transition):
                yield _named_by_rule(transition)


def _named_by_rule(transition: Rule) -> Difference:
    """Return the change that a CEL rule rejects: the first changed field that the rule reads, or the whole value."""
    path, was, now = transition.path, transition.old, transition.new
    if isinstance(was, dict) and isinstance(now, dict):
        for name in dict.fromkeys(_FIELD_OF_SELF.findall(transition.rule)):
            if was.get(name) != now.get(name):
                path, was, now = (*path, name), was.get(name), now.get(name)
                break
    return Difference(path, was, now, len(path))


def _breach(difference: Difference, fix: str) -> Breach:
    start = max(difference.field - 1, 0)
    field = format_path(difference.path[start:], root="").removeprefix(".") or "spec"
    if field.startswith("[") and start:  # a key such as `labels["…"]` needs its mapping
        field = format_path(difference.path[start - 1 :], root="").removeprefix(".")
    was, now, effect = written(difference.was), written(difference.now), RULES[difference.rule].effect
    if difference.now is None:
        message = f"`{field}` {effect}, but the update removes its value {was}"
    elif difference.was is None:
        message = f"`{field}` {effect}, but the update adds it with the value {now}"
    else:
        message = f"`{field}` {effect}, but changes from {was} to {now}"
    return Breach(difference.path, message, _WHY, fix, value=difference.now)


def _narrowed(difference: Difference) -> Difference:
    """Return a change of an immutable field with a longer path: descend while exactly one key or item differs."""
    if difference.rule != "immutable":
        return difference
    path: Path = difference.path
    was: Any = difference.was
    now: Any = difference.now
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
    """Format a value for a message: `nothing` for None, a string as it is, any other value as JSON on one line."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{shorten(text, _LONGEST)}`"


def next_name(name: str) -> str:
    """Return a name for a new object: `horovod` → `horovod-v2` → `horovod-v3`."""
    match = _VERSION.fullmatch(name)
    return f"{match['name']}-v{int(match['number']) + 1}" if match else f"{name}-v2"
