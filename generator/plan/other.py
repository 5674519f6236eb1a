"""The topic `other`: objects that an update adds, changes or removes, and that no other topic explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from generator.checks.objects import Change, ChangedObject
from generator.documents.messages import format_path
from generator.facts.names import PARAMETER
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping
from generator.plan.effect import Effect, Risk
from generator.plan.subjects import name_subjects

_LOCK = ("mpigen.dev", "Release")
_LONGEST = 4  # steps of a path in a sentence


def find_other_effects(change: Change, explained: AbstractSet[tuple[str, str, str, str]]) -> Iterator[Effect]:
    """Yield an effect for the added, the changed and the removed objects of each kind that no topic explains.

    Changes of mpigen's annotations alone are omitted: on a Namespace, they are parameters of admission policies, which
    the topic `admission` reports. The lock of the release is omitted too.

    Args:
        change: the manifests before and after the update.
        explained: the identities of the objects that the effects of other topics name.
    """
    added = [item for item in change.all_added if item.identity not in explained]
    removed = [item for item in change.all_removed if item.identity not in explained]
    yield from _by_kind([(item, "") for item in added], "is added", "are added")
    yield from _by_kind([(item, "") for item in removed], "is removed", "are removed", Risk.MEDIUM)
    changed = [
        (item.new, ", ".join(fields))
        for item in ChangedObject.between(change)
        if item.new.identity not in explained and (fields := _changed_fields(item))
    ]
    yield from _by_kind(changed, "changes", "change")


def _by_kind(objects: list[tuple[Manifest, str]], one: str, several: str, risk: Risk = Risk.LOW) -> Iterator[Effect]:
    groups: dict[tuple[str, str], list[Manifest]] = {}
    for manifest, fields in objects:
        if (manifest.group, manifest.kind) != _LOCK:
            groups.setdefault((manifest.kind, fields), []).append(manifest)
    for (kind, fields), items in sorted(groups.items()):
        names = [f"{item.namespace}/{item.name}" if item.namespace else item.name for item in items]
        text = f"{name_subjects(kind, names)} {one if len(names) == 1 else several}"
        subject = f"{kind} {', '.join(names)}"
        yield Effect("other", risk, subject, f"{text} in {fields}" if fields else text, causes=tuple(items))


def _changed_fields(item: ChangedObject) -> list[str]:
    """Return the changed fields, without the parameters that mpigen derives from the rest of the release."""
    before, after = (_without_parameters(body) for body in (item.old.body, item.new.body))
    return sorted({f"`{format_path(path)}`" for path in _differences(before, after, ())})


def _without_parameters(body: Body) -> Body:
    metadata = mapping(body, "metadata")
    annotations = {
        key: value for key, value in mapping(metadata, "annotations").items() if not str(key).startswith(PARAMETER)
    }
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _differences(old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping) and len(path) < _LONGEST:
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), (*path, str(key)))
    elif old != new:
        yield path
