"""The topic `version`: the version of the release, and the target versions of its manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from generator.checks.objects import Change, ChangedObject
from generator.manifests import Manifest
from generator.objects.fields import mapping, string, string_map
from generator.plan.effect import Effect, Risk

_GROUP, _KIND = "mpigen.dev", "Release"


def find_version_effects(change: Change) -> Iterator[Effect]:
    """Yield the new version of the release, and each component whose target version changes."""
    for item in ChangedObject.between(change):
        if (item.new.group, item.new.kind) == (_GROUP, _KIND):
            yield from _compare(item.old, item.new)


def _compare(old: Manifest, new: Manifest) -> Iterator[Effect]:
    before, after = (mapping(item.body, "spec") for item in (old, new))
    was, now = (string(spec.get("version")) for spec in (before, after))
    if was != now:
        text = f"release {now} replaces {was}"
        yield Effect("version", Risk.LOW, f"release {now}", text, (), (new,), was, now)
    targets: tuple[Mapping[str, str], ...] = tuple(string_map(spec.get("targets")) for spec in (before, after))
    for name in sorted({**targets[0], **targets[1]}):
        was, now = (minors.get(name, "") for minors in targets)
        if was != now:
            yield Effect(
                "version", Risk.MEDIUM, name, f"the release is for {name} {now} instead of {was}", (), (new,), was, now
            )
