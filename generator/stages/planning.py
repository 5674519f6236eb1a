"""Planning: the effects of an update, from the releases before and after it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generator import manifests
from generator.stages.draft import Draft, find_orphan_names

if TYPE_CHECKING:
    from generator.config.platform import Platform
    from generator.effects.effect import Effect


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of `plan`.

    Attributes:
        platform: the name of the platform.
        version: the version of the new release.
        against: the release before the update, such as `HEAD:output/prod`; empty if there is none.
        effects: the effects of the update, by topic.
    """

    platform: str
    version: str
    against: str
    effects: Sequence[Effect]

    @property
    def is_new_version(self) -> bool:
        """Return True if the release before the update has another version."""
        return any(
            effect.topic == "version" and effect.before and effect.after == self.version for effect in self.effects
        )


def is_release(source: Path) -> bool:
    """Return True for the folder of a release, which can be missing, and False for a platform file."""
    return source.is_dir() or not (source.exists() or source.suffix)


def plan_release(folder: Path, against: str, today: dt.date | None) -> Planned:
    """Return the effects of an update to the release in a folder.

    Args:
        folder: the folder of the release. A missing folder is a deleted release.
        against: the Git revision or folder with the release before the update. Default: `HEAD`.
        today: the day of the plan; None to ignore the last days of acknowledgements.

    Raises:
        ConfigError: there is no Git revision `against`.
        OutputError: a folder is not a release, or its lock is damaged.
        DocumentError: a file of a release is not YAML.
    """
    from generator.checks.objects import Change
    from generator.effects.topics import find_effects
    from generator.release import read_update

    update = read_update(folder, against)
    change = Change.of_trees(update.old, update.new, update.lock.targets, today)
    return Planned(update.lock.platform, update.lock.version, update.against, find_effects(change))


def plan_draft(draft: Draft, output: Path, today: dt.date | None) -> Planned:
    """Return the effects of an update to the release that a platform file renders.

    Args:
        draft: the rendered release, with the release before the update.
        output: the folder for releases.
        today: the day of the plan; None to ignore the last days of acknowledgements.
    """
    from generator.checks.objects import Change
    from generator.effects.renames import find_orphan_effects
    from generator.effects.topics import find_effects
    from generator.release import is_uncommitted, read_others

    if draft.replaced and is_uncommitted(draft.replaced, draft.home):
        draft = replace(draft, replaced=None)
    lock = draft.release.lock
    old: list[manifests.Manifest] = []
    if draft.replaced:
        replaced = replace(draft.replaced, prefix="")
        old = [*replaced.manifests(draft.release, draft.tree), *replaced.other_manifests, replaced.lock.manifest]
    change = Change.of_trees(old, [*draft.tree, *read_others(draft.home), lock.manifest], lock.targets, today)
    before = draft.replaced.prefix.removeprefix("replaced:").rstrip("/") if draft.replaced else ""
    orphans = [name for name in find_orphan_names(draft.source, output) if lock.platform.startswith(f"{name}-")]
    effects = [*find_orphan_effects(orphans, output.as_posix(), draft.source.name), *find_effects(change)]
    return Planned(lock.platform, lock.version, before, effects)


def plan_between(platform: Platform, home: Path, before: str, after: str, today: dt.date | None) -> Planned:
    """Return the effects of an update from the release in one Git revision to the release in another.

    Args:
        platform: the platform of both releases.
        home: the folder of the releases.
        before: the Git revision with the release before the update.
        after: the Git revision with the release after the update.
        today: the day of the plan; None to ignore the last days of acknowledgements.

    Raises:
        ConfigError: the local clone lacks a revision.
        OutputError: a revision has no release of the platform.
        DocumentError: a file of a release is not YAML.
    """
    from generator.checks.objects import Change
    from generator.effects.topics import find_effects
    from generator.release import read_update_between

    update = read_update_between(home, before, after)
    effects = find_effects(Change.of_trees(update.old, update.new, update.lock.targets, today))
    return Planned(platform.platform, update.lock.version, update.against, effects)
