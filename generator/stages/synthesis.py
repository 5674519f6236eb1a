"""Synthesis: the releases of a platform file, checked, adopted and written together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from generator.adoption.adoption import Adoption, Outcome, Run
from generator.checks.run import Checked
from generator.documents.files import read_file
from generator.errors import InputError, OutputError
from generator.stages.draft import Draft

if TYPE_CHECKING:
    from generator.config.platform import Platform
    from generator.release import Written


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of `synth`.

    Attributes:
        discard_edits: True to overwrite generated files that were edited or deleted by hand. By default, `synth`
            raises an OutputError that lists them.
        against: the Git revision or folder with the release to compare with. Default: `HEAD`, or the release on disk
            if `HEAD` has none.
        adoption: the settings, waivers and baseline that select the findings.
    """

    discard_edits: bool = False
    against: str = ""
    adoption: Adoption = field(default_factory=Adoption)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A release that `synth` rendered.

    Attributes:
        environment: its environment; empty for a platform file without environments.
        platform: its platform.
        checked: the number of objects of each kind, and the findings of all checks.
        written: the release on disk; None if `synth` wrote no release.
        applied: the files in the folder that mpigen did not generate, and that the GitOps engine applies.
    """

    environment: str
    platform: Platform
    checked: Checked
    written: Written | None
    applied: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The result of `synth`.

    Attributes:
        releases: the release of each environment, in the order of the platform file; one release for a file without
            environments. If a finding has the severity of `--fail-on` or a higher one, none of them is written.
        outcome: the findings to report. Rendered files have the paths that they get on disk.
        texts: path → text of each rendered file, and of each file in a release that a new one replaces.
        orphans: the names of platforms whose releases stay in the output folder, although the platform file no longer
            writes them.
    """

    releases: Sequence[Rendered]
    outcome: Outcome
    texts: Mapping[str, str]
    orphans: Sequence[str] = ()

    def text_of(self, file: str) -> str:
        """Return the text of a rendered file or of a file on disk; empty if unreadable."""
        return _read_text(self.texts, file)


def adopt_findings(
    drafts: Sequence[Draft], checked: Sequence[Checked], texts: Mapping[str, str], adoption: Adoption
) -> Outcome:
    """Return the findings of all releases that the settings, waivers and baseline select.

    Args:
        drafts: the releases.
        checked: the findings of each release.
        texts: path → text of each rendered file, and of each file in a release that a new one replaces.
        adoption: the settings, waivers and baseline.
    """
    files = list(dict.fromkeys(file for draft in drafts for file in draft.files))
    together = Checked.total(checked)
    run = Run(together.waiving, files, _is_covered, partial(_read_text, texts))
    return adoption.apply(together.findings, run)


def write_drafts(drafts: Sequence[Draft], output: Path, *, discard_edits: bool) -> Sequence[Written]:
    """Write the releases of all drafts below the folder `output`, or none of them.

    Args:
        drafts: the releases.
        output: the folder for releases.
        discard_edits: True to overwrite generated files that were edited or deleted by hand.

    Raises:
        OutputError: writing the output would lose files or edits, or the Git tag of a version has other content.
    """
    from generator.release import find_tagged, write_all

    if problems := [problem for draft in drafts for problem in find_tagged(draft.release, draft.home)]:
        raise OutputError(tuple(problems))
    return write_all([draft.release for draft in drafts], output, discard_edits=discard_edits)


def _is_covered(check: str) -> bool:
    """Return True if a waiver of a check is unused when `synth` has no finding for the waiver.

    Findings of `change/` depend on the release that the new one replaces, so a waiver can be needed again later.
    """
    return not check.startswith("change/")


def _read_text(texts: Mapping[str, str], file: str) -> str:
    try:
        return texts[file] if file in texts else read_file(Path(file)).decode(errors="replace")
    except InputError:
        return ""
