"""Test that the same rules reject a platform in YAML and in Python."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from generator import Platform
from generator.config.load import load_platform
from generator.config.platform import SORTED
from generator.documents.emit import Emitter
from generator.documents.load import load
from generator.errors import ConfigError
from tests.conftest import EXAMPLES, small_platform
from tests.unit.test_config_fuzz import at, places
from tests.update_broken import BROKEN

FILES = [*(path for path in EXAMPLES.values() if path.suffix == ".yaml"), *sorted(BROKEN.glob("regulated*.yaml"))]

VALUES: tuple[Any, ...] = (None, "", "x", 0, -1, True, [], {}, [[]], {"x": {}})


def problems(data: dict[str, Any], folder: Path) -> list[str]:
    """Load a platform file with this content; return its problems, each of which has a place."""
    file = folder / "platform.yaml"
    file.write_text(Emitter().emit([data]), "utf-8")
    try:
        load_platform(file)
    except ConfigError as error:
        found = error.problems
    else:
        return []
    assert found
    for problem in found:
        assert problem.line >= 1, problem
        assert problem.column >= 1, problem
        assert problem.message, problem
    return [str(problem) for problem in found]


def read(file: Path) -> dict[str, Any]:
    """Return the content of a platform file."""
    (document,) = load(file.read_bytes())
    data: dict[str, Any] = document.data
    return data


def lacking(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the data without each section, without each entry, and with each entry renamed."""
    for section, entries in data.items():
        yield {key: value for key, value in data.items() if key != section}
        for index, entry in enumerate(entries if section in SORTED else []):
            without = copy.deepcopy(data)
            del without[section][index]
            yield without
            renamed = copy.deepcopy(data)
            renamed[section][index]["name"] = f"{entry['name']}-2"
            yield renamed


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_dangling_reference_is_reported_with_its_location(file: Path, tmp_path: Path) -> None:
    data = read(file)
    counts = [len(problems(changed, tmp_path)) for changed in lacking(data)]
    assert any(counts)


def test_a_runtime_for_undeclared_tenants_is_reported(tmp_path: Path) -> None:
    data = small_platform()
    data["runtimes"][0]["tenants"] = ["a"]
    del data["tenants"]
    (problem,) = problems(data, tmp_path)
    assert problem.endswith(
        "runtimes[0].tenants: there is no tenant `a`; declare this tenant in `tenants`, or remove this name"
    )


def test_yaml_and_python_have_the_same_problems(tmp_path: Path) -> None:
    compared = 0
    for case in sorted(BROKEN.glob("[!y]*.yaml")):  # those of yaml-*.yaml are no YAML
        data = read(case)
        if "exposed" in case.stem or "environments" in data:
            continue
        with pytest.raises(ConfigError) as caught:
            Platform.model_validate(data, by_alias=True, by_name=False)
        found = [problem.partition(": ")[2] for problem in problems(data, tmp_path)]
        assert sorted(found) == sorted(str(replace(one, file="", line=0)) for one in caught.value.problems), case
        compared += 1
    assert compared > 100


@pytest.mark.parametrize("order", [1, -1])
def test_a_contradiction_is_reported_at_its_location(order: int, tmp_path: Path) -> None:
    data = small_platform()
    data["runtimes"] = [
        {"name": name, "pool": "cpu", "tenants": [f"no-{name}"]} for name in ("a", "c", "b", "d")[::order]
    ]
    for problem in problems(data, tmp_path):
        index = int(problem.partition("runtimes[")[2].partition("]")[0])
        assert f"`no-{data['runtimes'][index]['name']}`" in problem
    assert len(problems(data, tmp_path)) == 4


def test_the_second_of_two_entries_with_one_name_is_reported(tmp_path: Path) -> None:
    data = small_platform()
    data["pools"] = [data["pools"][1], data["pools"][0], {**data["pools"][1], "labels": {"example.com/x": "y"}}]
    assert any(
        "pools[2].name: two entries of `pools` are named `cpu`" in problem for problem in problems(data, tmp_path)
    )


def test_every_field_accepts_or_rejects_any_value(tmp_path: Path) -> None:
    """Every value is accepted, or rejected with a location."""
    data = small_platform()
    for path in places(data):
        for value in VALUES:
            changed = copy.deepcopy(data)
            at(changed, path[:-1])[path[-1]] = value
            problems(changed, tmp_path)
