"""Test with random runs and edits that exactly one release is on disk, and that no user file is lost."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from generator.errors import OutputError
from generator.release import Release, verify, write

VERSIONS = ("1.0.0", "1.1.0")
OURS = ("a.yaml", "d/a.yaml", "d/b.yaml", "e/f/c.yaml")
THEIRS = ("mine", "d/mine", "g/h/mine", "e/f/c.yaml", "d/b.yaml")

contents = st.dictionaries(st.sampled_from(OURS), st.sampled_from(["1\n", "2\n"]))


@dataclass
class Folder:
    """The expected content of a release folder."""

    files: dict[str, str] | None = None
    edits: dict[str, str | None] = field(default_factory=dict)
    theirs: dict[str, str] = field(default_factory=dict)

    def on_disk(self) -> dict[str, str]:
        """Return path → text of every file except the lock."""
        edited = {**(self.files or {}), **self.edits}
        return {path: text for path, text in {**edited, **self.theirs}.items() if text is not None}


class Output(RuleBasedStateMachine):
    """An output folder with a model of its content."""

    @initialize()
    def empty(self) -> None:
        """Begin without output."""
        self.root = Path(tempfile.mkdtemp(prefix="release-"))
        self.folders = {version: Folder() for version in VERSIONS}
        self.pointer = ""

    def teardown(self) -> None:
        """Remove the output."""
        shutil.rmtree(self.root)

    def holds(self, version: str) -> bool:
        """Return True if the version was ever written."""
        return self.folders[version].files is not None

    @rule(
        version=st.sampled_from(VERSIONS),
        files=contents,
        again=st.booleans(),
        replace=st.booleans(),
        discard_edits=st.booleans(),
        promote=st.sampled_from([None, True, False]),
    )
    def written(
        self,
        version: str,
        files: dict[str, str],
        again: bool,
        replace: bool,
        discard_edits: bool,
        promote: bool | None,
    ) -> None:
        """Run `write`, which succeeds exactly if no user file would be lost."""
        folder = self.folders[version]
        files = folder.files if again and folder.files is not None else files
        release = Release("prod", version, files, "0" * 64, {}, lambda named: {"app.yaml": f"path: {named}\n"})
        fits = folder.files in (None, files) or replace
        allowed = fits and (discard_edits or not folder.edits) and not folder.theirs.keys() & files.keys()
        try:
            done = write(release, self.root, replace=replace, discard_edits=discard_edits, promote=promote)
        except OutputError:
            assert not allowed
            return
        assert allowed
        assert done.pointer
        touched = folder.files != files or bool(folder.edits)
        assert done.status == ("created" if folder.files is None else "replaced" if touched else "unchanged")
        assert done.kept == tuple(sorted(folder.theirs))
        moves = promote or (
            promote is None and (self.pointer in ("", version) or (folder.files is None and version > self.pointer))
        )
        assert done.pointer.before == self.pointer
        self.pointer = version if moves else self.pointer
        self.folders[version] = Folder(files, {}, folder.theirs)

    @precondition(lambda self: any(folder.files for folder in self.folders.values()))
    @rule(data=st.data(), text=st.sampled_from(["by hand\n", None]))
    def edited(self, data: st.DataObject, text: str | None) -> None:
        """Change or delete a generated file by hand."""
        places = [(version, path) for version, folder in self.folders.items() for path in folder.files or ()]
        version, path = data.draw(st.sampled_from(places))
        file = self.root / "prod" / version / path
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(text)
        self.folders[version].edits[path] = text

    @precondition(lambda self: any(map(self.holds, VERSIONS)))
    @rule(data=st.data(), path=st.sampled_from(THEIRS))
    def joined(self, data: st.DataObject, path: str) -> None:
        """Add a user file."""
        version = data.draw(st.sampled_from([version for version in VERSIONS if self.holds(version)]))
        if path not in (self.folders[version].files or {}):
            file = self.root / "prod" / version / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("theirs\n")
            self.folders[version].theirs[path] = "theirs\n"

    @invariant()
    def disk_is_as_believed(self) -> None:
        """Compare every byte and the result of `verify` with the model."""
        for version, folder in self.folders.items():
            place = self.root / "prod" / version
            files = {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}
            assert (files.pop("release.json", None) is not None) == self.holds(version)
            assert files == folder.on_disk()
            if self.holds(version):
                problems = {problem.file for problem in verify(place)}
                assert problems == {str(place / path) for path in (*folder.edits, *folder.theirs)}

    @invariant()
    def pointer_is_as_believed(self) -> None:
        """Assert that the pointer names the last promoted release."""
        file = self.root / "prod/argocd/app.yaml"
        assert (file.read_text() if file.exists() else "") == (f"path: {self.pointer}\n" if self.pointer else "")

    @invariant()
    def nothing_else_is_there(self) -> None:
        """Assert that no temporary siblings are left."""
        names = {path.name for path in self.root.glob("prod/*")}
        assert names <= {*VERSIONS, "argocd"}


TestOutput = Output.TestCase
TestOutput.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
