"""Test that `kill -9`, and several writers at once, leave one complete release, and that the next run succeeds."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import generator
from generator.release import Release, verify, write

CHILD = """
import json, sys
from pathlib import Path
from generator.release import exchange
from generator.release import Release, write
job = json.loads(sys.stdin.readline())
if job["in_two_steps"]:
    exchange._exchange = lambda *_: False
release = Release("prod", "1.0.0", job["files"], "0" * 64, {})
print("ready", flush=True)
if sys.stdin.readline() == "go\\n":
    write(release, Path(job["root"]))
    print("done", flush=True)
"""


def files(mark: str) -> dict[str, str]:
    """Return about 300 files, of which a few exist only under one mark."""
    names = [f"tenants/team-{tenant:02}/{kind}.yaml" for tenant in range(50) for kind in ("a", "b", "c", "d", "e", "f")]
    return {name: f"# {mark} {name}\n" * 20 for name in [*names, f"cluster/only-{mark}.yaml"]}


CONTENTS = {mark: files(mark) for mark in "AB"}


def release(mark: str) -> Release:
    return Release("prod", "1.0.0", CONTENTS[mark], "0" * 64, {})


@dataclass
class Writer:
    """A process that prepares a release and writes it on a signal."""

    root: Path
    in_two_steps: bool

    def start(self, mark: str) -> subprocess.Popen[str]:
        """Start the process, which prepares its files without writing them."""
        job = {"root": str(self.root), "files": CONTENTS[mark]}
        command, repository = [sys.executable, "-c", CHILD], Path(generator.__path__[0]).parent
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=repository
        )
        assert process.stdin
        process.stdin.write(json.dumps(job | {"in_two_steps": self.in_two_steps}) + "\n")
        return process

    def let_go(self, process: subprocess.Popen[str]) -> None:
        """Signal the process, and return as soon as it begins to write."""
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")

    def duration(self, mark: str) -> float:
        """Return the seconds that an uninterrupted write takes."""
        with self.start(mark) as process:
            self.let_go(process)
            start = time.perf_counter()
            assert process.stdout
            assert process.stdout.readline() == "done\n"
            return time.perf_counter() - start


def mark_on_disk(root: Path) -> str:
    """Return the mark of a complete release on disk, or an empty string without a release."""
    folder = root / "prod"
    if not folder.exists():
        return ""
    assert [problem.file for problem in verify(folder)] == [str(folder / "mine.txt")]
    held = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.yaml")}
    (mark,) = (mark for mark in CONTENTS if CONTENTS[mark] == held)
    return mark


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory if possible, because a kill test writes 400 trees of 300 files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.parametrize(("kills", "in_two_steps"), [(50, False), (15, True)], ids=["exchange", "two-steps"])
def test_a_killed_writer_leaves_one_complete_release(output: Path, kills: int, *, in_two_steps: bool) -> None:
    writer, moments = Writer(output, in_two_steps), random.Random(20260101)
    mine = write(release("A"), output).folder / "mine.txt"
    mine.write_text("mine\n")
    needed = statistics.median(map(writer.duration, "BABA"))
    seen = {"old": 0, "new": 0, "none": 0, "debris": 0}
    with ExitStack() as processes:
        upcoming = processes.enter_context(writer.start("B"))
        for turn in range(6 * kills):
            if turn >= kills and min(seen["old"], seen["new"], seen["debris"]) > 0:
                break  # a busy machine needs more rounds, each spread wider, until the kills fall before, in and after
            old, new = "BA" if turn % 2 else "AB"
            process, upcoming = upcoming, processes.enter_context(writer.start(old))
            writer.let_go(process)
            time.sleep(needed * (turn % kills + moments.random()) / kills * 1.6 * (1 + turn // kills))
            process.kill()
            process.wait()
            mark = mark_on_disk(output)
            seen[{old: "old", new: "new", "": "none"}[mark]] += 1
            seen["debris"] += any(output.glob(".*"))
            assert write(release(new), output).kept == ("mine.txt",)
            assert (mark_on_disk(output), mine.read_text()) == (new, "mine\n")
            assert [path.name for path in output.iterdir()] == ["prod"]
    assert in_two_steps or not seen["none"]
    assert min(seen["old"], seen["new"], seen["debris"]) > 0, f"the kills missed the writing: {seen}, {needed:.3f} s"


def test_four_writers_at_the_same_time_leave_one_complete_release(output: Path) -> None:
    writer = Writer(output, in_two_steps=False)
    mine = write(release("A"), output).folder / "mine.txt"
    mine.write_text("mine\n")
    for _ in range(3):
        with ExitStack() as processes:
            writers = [processes.enter_context(writer.start(mark)) for mark in "ABAB"]
            for process in writers:
                writer.let_go(process)
            ends = [process.communicate()[0] for process in writers]
        assert ends == ["done\n"] * 4
        assert mark_on_disk(output) in CONTENTS
        assert mine.read_text() == "mine\n"
        assert [path.name for path in output.iterdir()] == ["prod"]
