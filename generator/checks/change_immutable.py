"""change/immutable: does an update change a field that no update may change?

Every entry of `KINDS` is tried on a real API server by tests/cluster/test_changes.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.finding import Breach
from generator.documents.load import Path
from generator.documents.locate import format_path
from generator.documents.syntax import on_one_line
from generator.manifests import Manifest

EACH = "*"
"""A step to every item of a list that both objects have, by its name."""

_LONGEST = 60  # letters of a value in a message
_VERSION = re.compile(r"(?P<name>.+)-v(?P<number>[0-9]{1,9})")


def _as_it_is(value: Any) -> object:
    return value


def _failure_policy(value: Any) -> object:
    """With what its CustomResourceDefinition adds."""
    return {"restartStrategy": "Recreate", **value} if isinstance(value, dict) else value


def _claim_policies(value: Any) -> object:
    """The same."""
    return [_with_retention(item) for item in value] if isinstance(value, list) else value


def _with_retention(item: Any) -> object:
    retention = item.get("retentionPolicy") if isinstance(item, dict) else None
    return {**item, "retentionPolicy": {"whenDeleted": "Delete", **retention}} if isinstance(retention, dict) else item


def _role_ref(value: Any) -> object:
    """With what pkg/apis/rbac/v1/defaults.go adds."""
    return {"apiGroup": "rbac.authorization.k8s.io", **value} if isinstance(value, dict) else value


def _preemption_policy(value: Any) -> object:
    return "PreemptLowerPriority" if value is None else value


def _or_zero(value: Any) -> object:
    return 0 if value is None else value


def _by_name(value: Any) -> object:
    """A list whose order does not count."""
    named = isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return {str(item.get("name")): item for item in value} if named else value


def _as_a_set(value: Any) -> object:
    """A list of which nothing counts but what is in it; none is an empty one."""
    return sorted({str(item) for item in value}) if isinstance(value, list) else value or []


@dataclass(frozen=True, slots=True)
class Fixed:
    """A field that keeps its value.

    Attributes:
        path: where it is.
        form: what is compared of a value.
        once: the field of the old object without which it may change; empty if there is none such.
        for_good: whether it may neither come nor go. A rule of CEL about a field asks only where both objects have it.
    """

    path: tuple[str, ...]
    form: Callable[[Any], object] = _as_it_is
    once: tuple[str, ...] = ()
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """The fields of a kind, and what to do instead; `{new}` is a name for another object, `{name}` the one it has."""

    fields: tuple[Fixed, ...]
    fix: str


_JOB_SET = ("spec", "template", "spec")
_TOPOLOGY = ("spec", "topologyName")
# trainer v2.3.0 manifests/base/crds/trainer.kubeflow.org_{clustertrainingruntimes,trainingruntimes}.yaml, `oldSelf`:
# rules of JobSet that its API types bring along. The webhooks compare nothing (pkg/webhooks/*runtime_webhook.go).
_RUNTIME = Kind(
    (
        Fixed((*_JOB_SET, "failurePolicy"), _failure_policy),
        Fixed((*_JOB_SET, "network")),
        Fixed((*_JOB_SET, "startupPolicy")),
        Fixed((*_JOB_SET, "successPolicy")),
        Fixed((*_JOB_SET, "volumeClaimPolicies"), _claim_policies),
        Fixed((*_JOB_SET, "replicatedJobs", EACH, "dependsOn"), _by_name),
    ),
    "write it as a new runtime, such as `{new}`, and leave `{name}` as it was, deprecated, until nobody uses it",
)
# kubernetes v1.34.2 pkg/apis/rbac/validation/validation.go Validate{Role,ClusterRole}BindingUpdate
_BINDING = Kind(
    (Fixed(("roleRef",), _role_ref, for_good=True),), "write it as a new binding, such as `{new}`, in place of this one"
)
KINDS: Mapping[tuple[str, str], Kind] = {
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): _RUNTIME,
    ("trainer.kubeflow.org", "TrainingRuntime"): _RUNTIME,
    # kueue v0.19.2 apis/kueue/v1beta2/localqueue_types.go LocalQueueSpec
    ("kueue.x-k8s.io", "LocalQueue"): Kind(
        (Fixed(("spec", "clusterQueue")),),
        "write another LocalQueue, such as `{new}`, and remove `{name}` when its jobs have ended",
    ),
    # kueue v0.19.2 apis/kueue/v1beta2/resourceflavor_types.go ResourceFlavorSpec
    ("kueue.x-k8s.io", "ResourceFlavor"): Kind(
        tuple(
            Fixed(("spec", field), once=_TOPOLOGY, for_good=True)
            for field in ("topologyName", "nodeLabels", "tolerations")
        ),
        "write another flavor, such as `{new}` (in a platform file: another pool), and name it in the ClusterQueues",
    ),
    # kueue v0.19.2 apis/kueue/v1beta2/topology_types.go TopologySpec
    ("kueue.x-k8s.io", "Topology"): Kind(
        (Fixed(("spec", "levels")),),
        "write another Topology, such as `{new}` (in a platform file: another pool), and another flavor that names it",
    ),
    # kueue v0.19.2 apis/kueue/v1beta2/admissioncheck_types.go AdmissionCheckSpec
    ("kueue.x-k8s.io", "AdmissionCheck"): Kind(
        (Fixed(("spec", "controllerName")),),
        "write another AdmissionCheck, such as `{new}`, and name it in the ClusterQueues instead of `{name}`",
    ),
    # kubernetes v1.34.2 pkg/apis/scheduling/validation/validation.go ValidatePriorityClassUpdate, v1/defaults.go
    ("scheduling.k8s.io", "PriorityClass"): Kind(
        (
            Fixed(("value",), _or_zero, for_good=True),
            Fixed(("preemptionPolicy",), _preemption_policy, for_good=True),
        ),
        "write another PriorityClass, such as `{new}`, and name it where `{name}` is named",
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    # kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateResourceQuotaUpdate
    ("", "ResourceQuota"): Kind(
        (Fixed(("spec", "scopes"), _as_a_set, for_good=True),),
        "write it as a new ResourceQuota, such as `{new}`, in place of this one",
    ),
}
"""Group and kind → the fields of it that no update may change."""


def immutable(old: Manifest, new: Manifest, _targets: Mapping[str, str]) -> Iterator[Breach]:
    """The same in all versions of `generator.versions`."""
    kind = KINDS.get((new.group, new.kind))
    if kind is None:
        return
    for field in kind.fields:
        if field.once and _at(old.body, field.once) is None:
            continue
        for path, was, now in _pairs(old.body, new.body, field.path):
            if (was is None or now is None) and not field.for_good:
                continue
            if field.form(was) != field.form(now):
                inside, *values = _narrowed(was, now)
                what = format_path((path[-1], *inside), root="").removeprefix(".")
                yield _breach(new.name, kind.fix, (*path, *inside), what, *values)


def _breach(name: str, fix: str, path: Path, what: str, was: object, now: object) -> Breach:
    return Breach(
        path,
        "change/immutable",
        f"`{what}` was {written(was)}, and becomes {written(now)}",
        "the API server refuses the update, so the sync fails, and what comes after it is not applied",
        fix.format(name=name, new=next_name(name)),
        value=now,
    )


def _pairs(old: object, new: object, steps: tuple[str, ...], path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Where a field stands in the new object, and both its values; None where there is none."""
    if not steps:
        yield path, old, new
    elif steps[0] == EACH:
        before = _by_name(old)
        for number, item in enumerate(new if isinstance(new, list) else ()):
            was = before.get(str(item.get("name"))) if isinstance(before, dict) and isinstance(item, dict) else None
            if was is not None:
                yield from _pairs(was, item, steps[1:], (*path, number))
    else:
        yield from _pairs(_at(old, steps[:1]), _at(new, steps[:1]), steps[1:], (*path, steps[0]))


def _at(value: object, steps: tuple[str, ...]) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _narrowed(was: Any, now: Any) -> tuple[Path, Any, Any]:
    """The one part of a value that differs, if it is one that both have."""
    path: Path = ()
    while (step := _step(was, now)) is not None:
        path, was, now = (*path, step), was[step], now[step]
    return path, was, now


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
    """A value as JSON on one line, for a message."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{on_one_line(text, _LONGEST)}`"


def next_name(name: str) -> str:
    """A name for another one: `horovod` → `horovod-v2` → `horovod-v3`."""
    match = _VERSION.fullmatch(name)
    return f"{match['name']}-v{int(match['number']) + 1}" if match else f"{name}-v2"
