"""Test with random runs and edits that exactly one release is on disk, and that no user file is lost."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from generator.errors import OutputError
from generator.release import LOCK, Release, verify, write

OURS = ("a.yaml", "d/a.yaml", "d/b.yaml", "e/f/c.yaml")
THEIRS = ("mine", "d/mine", "g/h/mine", "e/f/c.yaml", "d/b.yaml")

contents = st.dictionaries(st.sampled_from(OURS), st.sampled_from(["1\n", "2\n"]))


class Output(RuleBasedStateMachine):
    """An output folder with a model of its content."""

    @initialize()
    def empty(self) -> None:
        """Begin without output."""
        self.root = Path(tempfile.mkdtemp(prefix="release-"))
        self.version = ""
        self.files: dict[str, str] = {}
        self.edits: dict[str, str | None] = {}
        self.theirs: dict[str, str] = {}

    def teardown(self) -> None:
        """Remove the output."""
        shutil.rmtree(self.root)

    @rule(version=st.sampled_from(("1.0.0", "1.1.0")), files=contents, again=st.booleans(), discard_edits=st.booleans())
    def written(self, version: str, files: dict[str, str], again: bool, discard_edits: bool) -> None:
        """Run `write`, which succeeds exactly if no user file would be lost."""
        if again and self.version:
            version, files = self.version, self.files
        allowed = (discard_edits or not self.edits) and not self.theirs.keys() & files.keys()
        try:
            done = write(Release("prod", version, files, "0" * 64, {}), self.root, discard_edits=discard_edits)
        except OutputError:
            assert not allowed
            return
        assert allowed
        touched = (self.version, self.files) != (version, files) or bool(self.edits)
        assert done.status == ("created" if not self.version else "replaced" if touched else "unchanged")
        assert done.kept == tuple(sorted(self.theirs))
        self.version, self.files, self.edits = version, files, {}

    @precondition(lambda self: self.files)
    @rule(data=st.data(), text=st.sampled_from(["by hand\n", None]))
    def edited(self, data: st.DataObject, text: str | None) -> None:
        """Change or delete a generated file by hand."""
        path = data.draw(st.sampled_from(sorted(self.files)))
        file = self.root / "prod" / path
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(text)
        self.edits[path] = text

    @precondition(lambda self: self.version)
    @rule(path=st.sampled_from(THEIRS))
    def joined(self, path: str) -> None:
        """Add a user file."""
        if path not in self.files:
            file = self.root / "prod" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("theirs\n")
            self.theirs[path] = "theirs\n"

    @invariant()
    def disk_is_as_believed(self) -> None:
        """Compare every byte and the result of `verify` with the model."""
        place = self.root / "prod"
        on_disk = {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}
        lock = on_disk.pop(LOCK, None)
        expected = {**self.files, **self.edits, **self.theirs}
        assert on_disk == {path: text for path, text in expected.items() if text is not None}
        assert (lock is not None) == bool(self.version)
        if self.version:
            problems = {problem.file for problem in verify(place)}
            assert problems == {str(place / path) for path in (*self.edits, *self.theirs)}

    @invariant()
    def nothing_else_is_there(self) -> None:
        """Assert that no temporary siblings are left."""
        assert {path.name for path in self.root.iterdir()} <= {"prod"}


TestOutput = Output.TestCase
TestOutput.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
