"""Strategic merge patches of JobSet specs, by which Trainer applies `runtimePatches`.

Source: apimachinery v0.36.2 pkg/util/strategicpatch/patch.go mergeMap; apimachinery v0.36.2
pkg/util/strategicpatch/patch.go mergeSlice; apimachinery v0.36.2 pkg/util/strategicpatch/patch.go mergeSortedSlice; the
merge keys are the tags `patchMergeKey` of api v0.36.2 core/v1/types.go PodSpec; api v0.36.2 core/v1/types.go Container;
jobset v0.12.0
api/jobset/v1alpha2/jobset_types.go. Trainer decodes a patch into Go types, which drops nulls. A directive can only be a
key of a mapping of strings, such as `$patch` in a node selector. mpigen does not simulate directives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from generator.documents.load import Path
from generator.objects.fields import indexed_mappings

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "dependsOn": "name",
    "env": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "replicatedJobs": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Field of a JobSet spec → the key by which its items are merged. A patch replaces other lists, except finalizers."""


def merge(original: Any, patch: Any, field: str = "") -> Any:
    """Return the value of a field with a strategic merge patch applied. The result shares parts with the arguments."""
    if isinstance(patch, dict):
        old = original if isinstance(original, dict) else {}
        return {**old, **{key: merge(old.get(key), value, key) for key, value in patch.items()}}
    if isinstance(patch, list) and isinstance(original, list):
        if key := MERGE_KEYS.get(field):
            return _merge_items(original, patch, key)
        if field == "finalizers":
            return _order(original, list(dict.fromkeys(patch)))
    return patch


def find_path(layer: Any, target: Any, path: Path) -> Path | None:
    """Return the path in `layer`, a part of `target`, of the value at `path` of `target`; None if `layer` lacks it.

    The items of a list correspond by the merge key of the list, or else by their index.
    """
    located: Path = ()
    for step in path:
        target, other = _enter(target, step), step
        if isinstance(step, int) and located and (key := MERGE_KEYS.get(str(located[-1]))):
            value = target.get(key) if isinstance(target, dict) else None
            other = next((at for at, item in indexed_mappings(layer) if item.get(key) == value), -1)
        layer = _enter(layer, other)
        if layer is None:
            return None
        located = (*located, other)
    return located


def _enter(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and 0 <= step < len(value) else None
    return value.get(step) if isinstance(value, dict) else None


def _merge_items(original: Sequence[Any], patch: Sequence[Any], key: str) -> list[Any]:
    items = {item.get(key): item for item in original}
    changes = {item.get(key): item for item in patch}
    merged = {**items, **{value: merge(items.get(value), item) for value, item in changes.items()}}
    return [merged[value] for value in _order(list(items), list(changes))]


def _order(original: Sequence[Any], patch: Sequence[Any]) -> list[Any]:
    """Return the items of both lists, each once, in the order of a strategic merge patch.

    An item of `patch` comes before the other items of `original`, except the items that it follows in `original`.
    """
    kept, patched = [value for value in original if value not in patch], list(patch)
    result: list[Any] = []
    while kept and patched:
        is_after = patched[0] in original and original.index(kept[0]) < original.index(patched[0])
        result.append((kept if is_after else patched).pop(0))
    return [*result, *kept, *patched]
