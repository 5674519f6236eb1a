"""The topic `other`: objects that an update adds or removes, and changed fields, that no other topic explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from generator.checks.objects import Change
from generator.documents.load import Path
from generator.effects.effect import Effect, Risk
from generator.effects.explained import Finder, find_unexplained, is_known
from generator.effects.prune import is_applied_by
from generator.effects.subjects import name_subjects
from generator.effects.values import format_field
from generator.effects.words import find_risk, name_fields
from generator.facts.names import CATALOGUE_LABEL, FLUX_KUSTOMIZATIONS
from generator.facts.table import read_rows
from generator.manifests import Manifest

_LOCK = ("mpigen.dev", "Release")


@dataclass(frozen=True, slots=True)
class _Added:
    """A row of added.yaml: the consequence of added objects of a kind."""

    group: str
    kind: str
    risk: str
    effect: str
    effects: str
    field: str = ""
    value: str | bool = ""

    def explains(self, item: Manifest) -> bool:
        """Return True if the row is about an object."""
        is_of_kind = (item.group, item.kind) == (self.group, self.kind)
        return is_of_kind and (not self.field or item.body.get(self.field) == self.value)


@cache
def _rows() -> Sequence[_Added]:
    return read_rows("added", "rows", _Added, "generator.effects")


def find_other_effects(change: Change, effects: Sequence[Effect], finders: Mapping[str, Finder]) -> Iterator[Effect]:
    """Yield an effect for the added and the removed objects of each kind, and for equal changed fields of a kind.

    The consequence of a changed field is unknown if no topic reads the field, so its risk is medium. Metadata has a low
    risk, and so has a changed field that a topic reads without an effect. Added objects have a low risk, unless
    added.yaml lists a consequence. The lock of the release is omitted, and also added and removed Kustomizations of
    Flux for folders that are added or removed with them. Changed catalogues follow other objects, so they are omitted
    unless nothing else changes.

    Args:
        change: the manifests before and after the update.
        effects: the effects of other topics. Their objects and fields are explained.
        finders: topic → the function that finds its effects.
    """
    explained = {cause.identity for effect in effects for cause in effect.causes}
    for items, words, risk, known, others in (
        (change.all_added, ("is added", "are added"), Risk.LOW, _rows(), change.old),
        (change.all_removed, ("is removed", "are removed"), Risk.MEDIUM, (), change.new),
    ):
        by_kind: dict[tuple[str, int], list[Manifest]] = {}
        for item in items:
            if item.identity not in explained and not _is_lock(item) and not _is_of_folder(item, others):
                number = next((number for number, row in enumerate(known) if row.explains(item)), -1)
                by_kind.setdefault((item.kind, number), []).append(item)
        for (kind, number), objects in sorted(by_kind.items()):
            is_one = len(objects) == 1
            predicate, level = words[not is_one], risk
            if number >= 0:
                row = known[number]
                predicate, level = f"{predicate}: {row.effect if is_one else row.effects}", Risk(row.risk)
            yield _effect(kind, objects, predicate, level)
    changed: dict[tuple[str, tuple[tuple[Path, Risk], ...]], list[Manifest]] = {}
    unexplained = [*find_unexplained(change, effects, finders)]
    if effects or not all(_is_catalogue(item) for item, _ in unexplained):
        unexplained = [(item, paths) for item, paths in unexplained if not _is_catalogue(item)]
    for item, paths in unexplained:
        if not _is_lock(item):
            fields = [(path, _risk(item, path)) for path in paths]
            rows = tuple(sorted(fields, key=lambda field: (field[1] is Risk.LOW, str(field))))
            changed.setdefault((item.kind, rows), []).append(item)
    for (kind, rows), objects in sorted(changed.items(), key=lambda pair: str(pair[0])):
        verb = "changes" if len(objects) == 1 else "change"
        paths = [path for path, _ in rows]
        details = tuple(map(format_field, paths))
        yield _effect(kind, objects, f"{verb} {name_fields(kind, paths)}", rows[0][1], details)


def _risk(item: Manifest, path: Path) -> Risk:
    """Return the risk of a changed field: medium, unless words.yaml or explained.yaml has the field."""
    if risk := find_risk(item.kind, path):
        return Risk(risk)
    return Risk.LOW if path[0] == "metadata" or is_known(item, path) else Risk.MEDIUM


def _is_of_folder(item: Manifest, others: Sequence[Manifest]) -> bool:
    """Return True for a Kustomization of Flux for a folder that is added or removed too.

    Args:
        item: an added or a removed object.
        others: the objects before the addition, or after the removal.
    """
    is_generated = item.kind == "Kustomization" and item.file.startswith(f"{FLUX_KUSTOMIZATIONS}/")
    return is_generated and not any(is_applied_by(item, other) for other in others)


def _is_catalogue(item: Manifest) -> bool:
    return (item.group, item.kind) == ("", "ConfigMap") and CATALOGUE_LABEL in item.labels


def _is_lock(item: Manifest) -> bool:
    return (item.group, item.kind) == _LOCK


def _effect(
    kind: str, objects: Sequence[Manifest], predicate: str, risk: Risk, details: tuple[str, ...] = ()
) -> Effect:
    names = [f"{item.namespace}/{item.name}" if item.namespace else item.name for item in objects]
    text = f"{name_subjects(kind, names)} {predicate}"
    return Effect("other", risk, f"{kind} {', '.join(names)}", text, details, tuple(objects))
