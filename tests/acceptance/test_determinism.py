"""Test that a platform always renders to the same bytes, in any environment and order of input."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator import App, Platform, pipeline
from generator.documents.emit import Emitter
from generator.manifests import write
from tests.acceptance.test_examples import tree
from tests.conftest import EXAMPLES, ROOT, Run, small_platform

ENVIRONMENTS = [
    {"PYTHONHASHSEED": "0"},
    {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu"},
    {"LC_ALL": "C", "LANG": "C"},
    {"LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
def test_output_does_not_depend_on_the_environment(environment: dict[str, str], tmp_path: Path, mpigen: Run) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = mpigen("synth", EXAMPLES["university"], "--output", tmp_path / "out", cwd=elsewhere, **environment)
    assert ran.returncode == 0, ran.stderr
    assert tree(tmp_path / "out" / "university") == tree(ROOT / "output" / "university")


def test_a_second_synth_writes_no_files(tmp_path: Path, example: Path) -> None:
    pipeline.synth(example, tmp_path, pipeline.Choices())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = pipeline.synth(example, tmp_path, pipeline.Choices())
    (release,) = again.releases
    assert release.written is not None
    assert release.written.status == "unchanged"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def shuffled(value: Any, chance: random.Random) -> Any:
    """Return the platform with mapping keys and list entries in another order."""
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    if isinstance(value, list):
        items = [shuffled(item, chance) for item in value]
        chance.shuffle(items)
        return items
    return value


def rendered(platform: Platform) -> dict[str, str]:
    return write(pipeline.render(platform, App(platform)))


@settings(max_examples=20, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_output_does_not_depend_on_the_order_of_the_input(chance: random.Random) -> None:
    original = Platform.model_validate(small_platform())
    other = Platform.model_validate(shuffled(small_platform(), chance))
    assert other == original
    assert other.digest() == original.digest()
    assert rendered(other) == rendered(original)


@settings(max_examples=20, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_output_does_not_depend_on_the_order_of_the_file(
    chance: random.Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shuffled")
    file = folder / "platform.yaml"
    file.write_text(Emitter().emit([shuffled(small_platform(), chance)]))
    platform, app = pipeline.load(file)
    first = pipeline.render(platform, app)
    assert write(first) == write(pipeline.render(platform, App(Platform.model_validate(small_platform()))))


def test_a_new_team_changes_only_its_own_files_and_the_slack_queue() -> None:
    before = rendered(Platform.model_validate(small_platform()))
    grown = small_platform()
    grown["tenants"].append({"name": "team-c", "quota": {"cpu": 1}, "access": {"edit": ["group:c"]}})
    after = rendered(Platform.model_validate(grown))
    assert {path for path in after if after[path] != before.get(path)} == {
        "cluster/queues/slack.yaml",
        *(
            f"tenants/team-c/{file}.yaml"
            for file in ("namespace", "access", "catalogue", "isolation", "quota", "queue")
        ),
    }
