"""Test that `kill -9` of `mpigen synth` leaves one complete release, and that the next run succeeds."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from generator.release import verify
from tests.conftest import EXAMPLES, MPIGEN

pytestmark = pytest.mark.slow
ROUNDS = 50


@pytest.fixture
def platforms(tmp_path: Path) -> list[Path]:
    """Return two platforms whose releases differ in many files, so that a mixture is detectable."""
    text = EXAMPLES["university"].read_text()
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    files[0].write_text(text)
    files[1].write_text(text.replace("mi300x: 4, cpu: 20", "mi300x: 3, cpu: 10"))
    return files


def command(platform: Path, output: Path) -> list[str | Path]:
    return [MPIGEN, "synth", platform, "--output", output]


def content(folder: Path) -> dict[str, str]:
    """Return the lock after a check of every file's digest."""
    assert verify(folder) == []
    files: dict[str, str] = json.loads((folder / "release.json").read_text())["spec"]["files"]
    return files


def test_a_killed_synth_leaves_one_complete_release(platforms: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "output"
    release = output / "university"
    wholes, durations = [], []
    for platform in platforms:
        start = time.perf_counter()
        subprocess.run(command(platform, output), check=True, capture_output=True)
        durations.append(time.perf_counter() - start)
        wholes.append(content(release))
    chance = random.Random(20260)
    killed, duration = 0, min(durations)
    for number in range(ROUNDS):
        start = time.perf_counter()
        process = subprocess.Popen(command(platforms[number % 2], output), stdout=subprocess.DEVNULL)
        # Most of a run is rendering; half of the kills fall into its last fifth, where the tree is written.
        time.sleep(chance.uniform(0, duration) if number % 4 < 2 else chance.uniform(0.8, 1.05) * duration)
        if process.poll() is not None:  # the machine is less busy than before, so runs end sooner
            duration = min(duration, time.perf_counter() - start)
        process.kill()
        killed += process.wait() == -9
        assert content(release) in wholes
    assert killed > ROUNDS / 4  # on a busy machine a run may be over before its time
    subprocess.run(command(platforms[0], output), check=True, capture_output=True)
    assert content(release) == wholes[0]
    assert [path.name for path in output.iterdir()] == ["university"]
