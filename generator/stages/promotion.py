"""Promotion: the edit of `gitops.revision` in a platform.yaml, and the release with the new revision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generator.documents.files import read_file
from generator.errors import ConfigError, OutputError, Problem
from generator.stages.draft import Draft, draft_release

if TYPE_CHECKING:
    from generator.config.model.cluster import GitOps
    from generator.config.platform import Platform
    from generator.release import Release, Written
    from generator.stages.planning import Planned


@dataclass(frozen=True, slots=True)
class Promotion:
    """The result of `promote`.

    Attributes:
        path: the edited field, such as `environments.prod.gitops.revision`.
        before: the revision that the field had.
        after: the revision that the field has now.
        planned: the effects of the update from the release in `before` to the release in `after`.
        written: the release on disk, whose Application has the new revision.
    """

    path: str
    before: str
    after: str
    planned: Planned
    written: Written


@dataclass(frozen=True, slots=True)
class Edit:
    """A platform.yaml with a new `gitops.revision`.

    Attributes:
        file: the platform.yaml.
        environment: the environment to promote; empty for a file without environments.
        path: the edited field, such as `environments.prod.gitops.revision`.
        revision: the new revision.
        before: the text on disk.
        after: the text with the new revision.
    """

    file: Path
    environment: str
    path: str
    revision: str
    before: bytes
    after: bytes

    @classmethod
    def of(cls, file: Path, text: bytes, environment: str, revision: str) -> Edit:
        """Set the revision in the text of a platform.yaml.

        Args:
            file: the platform.yaml.
            text: its text.
            environment: the environment to promote; empty for a file without environments.
            revision: the new revision.

        Raises:
            ConfigError: the line of the revision cannot be edited without a change of other values.
        """
        from generator.config.environments import ENVIRONMENTS
        from generator.documents.edit import set_value
        from generator.documents.messages import format_path

        steps = (*((ENVIRONMENTS, environment) if environment else ()), "gitops", "revision")
        path = format_path(steps)
        try:
            return cls(file, environment, path, revision, text, set_value(text.decode(), steps, revision).encode())
        except ValueError:
            message = "mpigen cannot edit this line without a change of other values"
            fix = f"set it to `{revision}` by hand, and run `mpigen synth`"
            raise ConfigError((Problem(message, fix, str(file), path=path),)) from None

    def draft(self, output: Path) -> Draft:
        """Render the release with the new revision.

        Args:
            output: the folder for releases.

        Raises:
            ConfigError: Flux reads the name of a tag as the name of a branch.
            OutputError: the release on disk differs from what the platform file renders.
        """
        from generator.config.load import parse_platform
        from generator.release import is_tag

        promoted = parse_platform(self.after, self.file, self.environment)
        home = output / promoted.platform
        if (
            promoted.gitops
            and promoted.gitops.is_flux
            and "branch" in promoted.gitops.flux_reference
            and is_tag(home, self.revision)
        ):
            message = f"`{self.revision}` is a tag, but Flux reads this name as the name of a branch"
            fix = f"pass `--to refs/tags/{self.revision}`"
            raise ConfigError((Problem(message, fix, str(self.file), path=self.path),))
        from generator import App

        draft = draft_release(self.file, self.environment, App(promoted), output, str(home))
        if draft.replaced is None or draft.replaced.lock.versioned != draft.release.lock.versioned:
            message = f"the release on disk is not what `{self.file}` renders, so other lines would change too"
            fix = f"run `mpigen synth {self.file}`, and commit the result before you promote"
            raise OutputError((Problem(message, fix, str(home)),))
        return draft

    def write(self, release: Release, output: Path) -> Written:
        """Write the platform.yaml and the release below the folder `output`, or neither.

        Args:
            release: the release with the new revision.
            output: the folder for releases.

        Raises:
            OutputError: a file cannot be written.
        """
        from generator.documents.edit import replace_file
        from generator.release import report_os_errors, write

        with report_os_errors(self.file):
            replace_file(self.file, self.after)
        try:
            return write(release, output)
        except BaseException:
            replace_file(self.file, self.before)
            raise


def read_followed(platform_file: Path, environment: str) -> tuple[bytes, Platform, GitOps]:
    """Return the text of a platform.yaml, its platform, and the settings of the engine that follows a revision.

    Args:
        platform_file: the platform.yaml.
        environment: the environment to promote; empty for a file without environments.

    Raises:
        ConfigError: the platform file is invalid, a Python file or without `gitops`.
    """
    from generator.config.load import parse_platform

    if platform_file.suffix == ".py":
        fix = "set `gitops.revision` in the file, run `mpigen synth`, and compare the releases with `mpigen plan`"
        raise ConfigError((Problem("`promote` edits only a platform.yaml", fix, str(platform_file)),))
    text = read_file(platform_file)
    platform = parse_platform(text, platform_file, environment)
    if platform.gitops is None:
        message = "the platform has no `gitops`, so no engine follows a revision"
        raise ConfigError((Problem(message, "add `gitops`, and run `mpigen synth`", str(platform_file)),))
    return text, platform, platform.gitops


def find_commit(platform: Platform, gitops: GitOps, revision: str, home: Path, platform_file: Path) -> str:
    """Return the Git revision with the release that a revision names: for an artifact of a registry, its Git tag.

    Args:
        platform: the platform of the release.
        gitops: the settings of the engine.
        revision: a branch, tag or commit, or the tag of an artifact.
        home: the folder of the release.
        platform_file: the platform file, for errors.

    Raises:
        ConfigError: the revision is a digest or a range of versions in a registry.
    """
    from generator.config.model.fields import copy_unchecked
    from generator.release import is_tag

    if not gitops.is_oci:
        return revision
    named = copy_unchecked(gitops, revision=revision)
    if named.is_digest or named.is_range:
        message = f"`{revision}` names no Git tag, so mpigen cannot compare its release"
        fix = "promote from one tag to another, or edit `gitops.revision` by hand and run `mpigen synth`"
        raise ConfigError((Problem(message, fix, str(platform_file)),))
    tag = f"{platform.platform}/{revision}"
    if is_tag(home, tag):
        return tag
    return revision if is_tag(home, revision) or not named.is_version else tag
