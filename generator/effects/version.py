"""The topic `version`: the version of the release, and the target versions of its manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.objects import Change, ChangedObject
from generator.effects.effect import Effect, Risk
from generator.facts.defects import defects
from generator.manifests import Manifest
from generator.objects.fields import mapping, string, string_map

_GROUP, _KIND = "mpigen.dev", "Release"


def find_version_effects(change: Change) -> Iterator[Effect]:
    """Yield an effect for the new version of the release, and one for all components whose target version changes.

    A deleted release has an effect of its own.
    """
    for lock in change.removed(_GROUP, _KIND):
        version = string(mapping(lock.body, "spec").get("version"))
        text = f"release {version} is deleted with all its objects"
        yield Effect("version", Risk.HIGH, f"release {version}", text, (), (lock,), version, None)
    for item in ChangedObject.between(change):
        if (item.new.group, item.new.kind) == (_GROUP, _KIND):
            yield from _compare(item.old, item.new)


def _compare(old: Manifest, new: Manifest) -> Iterator[Effect]:
    before, after = (mapping(item.body, "spec") for item in (old, new))
    was, now = (string(spec.get("version")) for spec in (before, after))
    if was != now:
        text = f"release {now} replaces {was}"
        yield Effect("version", Risk.LOW, f"release {now}", text, (), (new,), was, now)
    targets = tuple(dict(string_map(spec.get("targets"))) for spec in (before, after))
    changed = [name for name in sorted({**targets[0], **targets[1]}) if targets[0].get(name) != targets[1].get(name)]
    if changed:
        old_text, new_text = (
            " and ".join(f"{name} {minors.get(name, 'of any version')}" for name in changed) for minors in targets
        )
        text = f"the release is for {new_text} instead of {old_text}"
        yield Effect(
            "version",
            Risk.MEDIUM,
            f"targets {', '.join(changed)}",
            text,
            tuple(_defects(*targets)),
            (new,),
            {name: targets[0].get(name) for name in changed},
            {name: targets[1].get(name) for name in changed},
        )


def _defects(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield the known defects that the new versions fix or have, if the old versions differ."""
    rows = [(defect.affects(before), defect.affects(after), defect) for defect in defects().values()]
    yield from (f"new defect: {defect.title}" for was, now, defect in rows if now and not was)
    yield from (f"fixed defect: {defect.title}" for was, now, defect in rows if was and not now)
