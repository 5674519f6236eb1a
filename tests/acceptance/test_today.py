"""Test that findings may depend on the day, by SOURCE_DATE_EPOCH or the clock, and that output does not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run

UNIVERSITY = ROOT / "examples/university/platform.yaml"
LAST_DAY = dt.datetime(2027, 6, 30, 23, 59, 59, tzinfo=dt.UTC)
OVER = "warning: quota/reservation-over: ClusterQueue quantum"


def epoch(moment: dt.datetime) -> str:
    return str(int(moment.timestamp()))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_an_expired_reservation_is_reported_and_written(tmp_path: Path, mpigen: Run) -> None:
    on_the_day = mpigen("synth", UNIVERSITY, "-o", tmp_path / "a", SOURCE_DATE_EPOCH=epoch(LAST_DAY))
    assert (on_the_day.returncode, OVER in on_the_day.stdout) == (0, False)
    later = epoch(LAST_DAY + dt.timedelta(days=40))
    done = mpigen("synth", UNIVERSITY, "-o", tmp_path / "b", SOURCE_DATE_EPOCH=later)
    assert (done.returncode, OVER in done.stdout) == (0, True)
    assert "`grant` ended on 2027-06-30, 40 days ago" in done.stdout
    assert contents(tmp_path / "a") == contents(tmp_path / "b") != {}
    checked = mpigen("validate", tmp_path / "a", SOURCE_DATE_EPOCH=later)
    assert (checked.returncode, OVER in checked.stdout) == (0, True)


@pytest.mark.parametrize("wrong", ["", "tomorrow", "1e9", "9" * 30])
def test_an_invalid_source_date_epoch_is_an_input_error(wrong: str, mpigen: Run) -> None:
    done = mpigen("validate", ROOT / "output/cpu-kubernetes", SOURCE_DATE_EPOCH=wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert "SOURCE_DATE_EPOCH" in done.stderr
    assert "Traceback" not in done.stderr
