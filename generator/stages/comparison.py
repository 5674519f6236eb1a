"""Comparison: a release for its present versions, and for the versions after an upgrade."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generator import manifests
from generator.adoption.adoption import Adoption
from generator.checks.files import manifest_files
from generator.documents.files import read_file
from generator.errors import ConfigError, OutputError, Problem
from generator.stages.draft import Draft, draft_release
from generator.stages.loading import load_app
from generator.stages.validation import InputFiles, Subject

if TYPE_CHECKING:
    from generator.upgrade.changes import Place
    from generator.upgrade.entry import Entry


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """The input of `upgrade`.

    Attributes:
        source: a platform.yaml, a Python file, which mpigen executes, or a folder with the manifests of a release.
        to: the values of `--to`, such as `kueue=0.20,trainer=2.4`.
        present: the values of `--from`. Default: the versions of the platform file or of the release.
        texts: file → its text with exported objects; None without an export.
        today: the day of the checks.
    """

    source: Path
    to: Sequence[str]
    present: Sequence[str] = ()
    texts: Mapping[str, bytes] | None = None
    today: dt.date | None = None


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """The changes of a release by other versions.

    Attributes:
        entries: the findings of the checks, and the effects of a new release.
        notes: the limits of the result, and when to apply the new release.
    """

    entries: Sequence[Entry]
    notes: Sequence[str]


def read_source(source: Path) -> ReleaseFolder | RenderedPlatform:
    """Read the manifests of a folder, or render a platform file.

    Args:
        source: a platform.yaml, a Python file, which mpigen executes, or a folder with the manifests of a release.

    Raises:
        ConfigError: the platform file is invalid or declares environments of which the user selects none.
        DocumentError: a file is not YAML or JSON, or has a document that is not an object.
        OutputError: the folder has no manifests.
        InputError: a file cannot be read.
    """
    return ReleaseFolder.of(source) if source.is_dir() else RenderedPlatform.of(source)


@dataclass(frozen=True, slots=True)
class ReleaseFolder:
    """A folder of manifests without its platform file, for `upgrade`."""

    source: Path
    objects: Sequence[manifests.Manifest]
    targets: Mapping[str, str]
    texts: Mapping[str, bytes]

    @classmethod
    def of(cls, source: Path) -> ReleaseFolder:
        """Read the manifests of a folder, and the versions for which the release was rendered."""
        from generator.checks.files import LOCK, by_release

        search = manifest_files([source])
        if search.refused or not search.files:
            nothing = Problem(f"no manifests below {source}", "name a platform file, or the folder of a release")
            raise OutputError(tuple(search.refused) or (nothing,))
        targets = {origin.targets for origin in by_release(search.files) if origin.targets}
        texts = {str(file): read_file(file) for file in search.files if file.name != LOCK}
        items = [item for file, text in texts.items() for item in manifests.read(text, file)]
        return cls(source, items, dict(targets.pop()) if len(targets) == 1 else {}, texts)

    def place(self, manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        """Return the file and the line of a part of an object."""
        from generator.documents.locate import locate

        return manifest.file, locate(self.texts[manifest.file], manifest.index, (*manifest.inside, *path))[0]

    def compare(self, before: Mapping[str, str], after: Mapping[str, str], today: dt.date | None) -> VersionChanges:
        """Compare the findings for the present versions with the findings for the others."""
        from generator.upgrade.changes import find_new, of_findings
        from generator.upgrade.entry import Entry, Hit, Impact

        subjects = [Subject([self.source], targets=targets, today=today) for targets in (before, after)]
        old, new = (InputFiles.of(subject).check("embedded", Path()).checked.in_order() for subject in subjects)
        lock = Hit("Release", str(self.source / "release.json"))
        text = "the release is for the present versions, and its platform file shows what `mpigen synth` changes"
        fix = "set `cluster.versions` in the platform file, run `mpigen upgrade PLATFORM` and `mpigen synth`"
        rendered = [Entry("synth", Impact.MECHANICAL, text, [lock], after=fix)] if self.targets else []
        return VersionChanges([*of_findings(find_new(old, new), is_repaired=False), *rendered], ())


@dataclass(frozen=True, slots=True)
class RenderedPlatform:
    """A platform file, rendered for its versions, for `upgrade`."""

    source: Path
    draft: Draft
    targets: Mapping[str, str]

    @classmethod
    def of(cls, source: Path) -> RenderedPlatform:
        """Render a platform file."""
        platform, app = load_app(source)
        draft = draft_release(source, "", app, Path("output"), "")
        return cls(source, draft, platform.cluster.versions.model_dump())

    @property
    def objects(self) -> Sequence[manifests.Manifest]:
        """The rendered manifests, each with the number of its document."""
        return self.draft.numbered

    def place(self, manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        """Return the file and the line of the platform file that cause a part of an object, or else of the release."""
        return self.draft.place(manifest, path)

    def compare(self, before: Mapping[str, str], after: Mapping[str, str], today: dt.date | None) -> VersionChanges:
        """Compare the release for the present versions with the release that `mpigen synth` renders for the others."""
        from generator.checks.objects import Change
        from generator.effects.topics import find_effects
        from generator.upgrade import changes
        from generator.upgrade.entry import Entry, Hit, Impact
        from generator.upgrade.steps import find_steps

        adoption = Adoption(today=today)
        is_fixed = self.source.suffix == ".py" or before == self.targets
        present = self.draft.for_targets(before) if is_fixed else self.draft.render_for(before)
        old, kept = (draft.judge(adoption).in_order() for draft in (present, present.for_targets(after)))
        needed = changes.find_new(old, kept)
        if self.source.suffix == ".py" or not find_steps(before, after):
            note = "mpigen did not render the release for the new versions: set them in the file, and run `mpigen plan`"
            return VersionChanges([*changes.of_findings(needed, is_repaired=False)], [note])
        try:
            renewed = self.draft.render_for(after)
        except ConfigError as error:
            return VersionChanges([*changes.of_refusals(error.problems, str(self.source))], ())
        left = changes.find_new(old, renewed.judge(adoption).in_order())
        repaired = changes.find_new(left, needed)
        sides = ([*draft.numbered, draft.release.lock.manifest] for draft in (present, renewed))
        effects = find_effects(Change.of_trees(next(sides), next(sides), after, today))
        hit = Hit("cluster.versions", str(self.source), self.draft.line_of_versions())
        is_changed = any(effect.topic != "version" for effect in effects)
        extent = "the objects below and the versions" if is_changed else "only the versions"
        text = f"`mpigen synth` renders the release for the new versions, and changes {extent} in release.json"
        entries = [
            Entry("synth", Impact.MECHANICAL, text, [hit], after="set `cluster.versions`, and run `mpigen synth`"),
            *changes.of_findings(left, is_repaired=False),
            *changes.of_findings(repaired, is_repaired=True),
            *changes.of_effects(effects, _placer(present, renewed)),
        ]
        early = changes.find_new(old, renewed.for_targets(before).judge(adoption).in_order())
        return VersionChanges(entries, [changes.say_when(early, needed)])


def _placer(*drafts: Draft) -> Place:
    """Return a function that returns the place of a part of an object of several drafts: of the last that has it."""
    known = {(item.identity, item.file): draft for draft in drafts for item in draft.tree}

    def place(manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        draft = known.get((manifest.identity, manifest.file))
        return draft.place(manifest, path) if draft else (manifest.file, 0)

    return place
