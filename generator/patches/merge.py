"""Merges of a patch into an object: mappings by key, and some lists by a key of their items.

Kubernetes has two such merges: the strategic merge patch of built-in kinds, which merges the lists of merge_keys.yaml,
and the JSON merge patch of custom resources (RFC 7386), which replaces every list. This merge treats a pod template
alike wherever it stands, so that a patch of a ClusterTrainingRuntime changes the container `node` and keeps the others.
A new item follows the existing ones, and an item with `$patch: delete` removes the item with its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.table import read_table
from generator.manifests import Body
from generator.objects.pods import template_path

_DIRECTIVE = "$patch"


class PatchError(Exception):
    """A failure of a patch on an object.

    Attributes:
        message: the problem.
        fix: the change to make, in the imperative.
        path: the part of the patch with the problem, such as `("spec", "template")` or `(2, "path")`.
    """

    def __init__(self, message: str, fix: str, path: Path = ()) -> None:
        super().__init__(message)
        self.message, self.fix, self.path = message, fix, path


def merge(body: Body, patch: Mapping[str, Any]) -> Body:
    """Return an object with a patch merged into it. Null removes a key. The result shares unchanged parts with `body`.

    Raises:
        PatchError: the patch has a directive other than `$patch: delete` in an item of a list that is merged by key, or
            an item of such a list without its key.
    """
    kind = body.get("kind")
    merged: Body = _merge(body, patch, keys_of(kind) if isinstance(kind, str) else {}, (), ())
    return merged


@cache
def keys_of(kind: str) -> Mapping[tuple[str, ...], str]:
    """Return the lists of a kind that are merged by key: path without positions → key."""
    table = read_table("merge_keys", "generator.patches")
    keys = {tuple(row["list"].split(".")): row["key"] for row in table["objects"] if row["kind"] == kind}
    path = template_path(kind)
    if path is not None:
        keys |= {(*path, "spec", *row["list"].split(".")): row["key"] for row in table["pods"]}
    return keys


def _merge(value: Any, patch: Any, keys: Mapping[tuple[str, ...], str], fields: tuple[str, ...], path: Path) -> Any:
    """Merge a part of a patch.

    Args:
        value: the value to change; None if it is absent.
        patch: the part of the patch.
        keys: path without positions → the key of a list.
        fields: the path of the value, without positions.
        path: the path of `patch` in the whole patch.
    """
    if isinstance(patch, dict):
        _reject_directive(patch, path)
        result = dict(value) if isinstance(value, dict) else {}
        for key, part in patch.items():
            if part is None:
                result.pop(key, None)
            else:
                result[key] = _merge(result.get(key), part, keys, (*fields, key), (*path, key))
        return result
    if isinstance(patch, list) and fields in keys:
        return _merge_items(value if isinstance(value, list) else [], patch, keys, fields, path)
    return patch


def _merge_items(
    items: Sequence[Any], patch: Sequence[Any], keys: Mapping[tuple[str, ...], str], fields: tuple[str, ...], path: Path
) -> list[Any]:
    key, result = keys[fields], list(items)
    for position, change in enumerate(patch):
        place = (*path, position)
        if not isinstance(change, dict) or change.get(key) is None:
            message = f"an item of `{fields[-1]}` has no `{key}`, so it matches no item of the object"
            raise PatchError(message, f"write the `{key}` of the item to change or to add", place)
        index = next(
            (at for at, item in enumerate(result) if isinstance(item, dict) and item.get(key) == change[key]), None
        )
        if change.get(_DIRECTIVE) == "delete":
            if index is None:
                message = f"`{fields[-1]}` has no item with `{key}: {change[key]}`, so there is nothing to delete"
                known = [str(item[key]) for item in result if isinstance(item, dict) and key in item]
                raise PatchError(message, f"name one of: {', '.join(known)}" if known else "remove this item", place)
            del result[index]
        elif index is None:
            result.append(_merge(None, change, keys, fields, place))
        else:
            result[index] = _merge(result[index], change, keys, fields, place)
    return result


def _reject_directive(patch: Mapping[str, Any], path: Path) -> None:
    for key in patch:
        if isinstance(key, str) and key.startswith(
            ("$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitive")
        ):
            message = f"`{key}: {format_value(patch[key]).strip('`')}` has no effect here"
            fix = (
                "write null to remove a key, `$patch: delete` beside the key of an item of a list that is merged by "
                "key, or a JSON patch in `json`"
            )
            raise PatchError(message, fix, (*path, key))
