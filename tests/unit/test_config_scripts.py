"""A script gets every mistake of a platform in one ConfigError with the line of the call, also by pydantic."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from generator import ConfigError, Platform, Pool, Runtime, Tenant, load_platform, pipeline
from generator.config.model.patches import Patch
from generator.config.platform import SORTED
from generator.config.valid_parts import LISTS, SECTIONS
from generator.errors import Problem
from tests.conftest import EXAMPLES, small_platform
from tests.unit.test_config_every_mistake import CHANGES, changed, mistakes_of, overlap
from tests.unit.test_config_fuzz import at, places
from tests.unit.test_config_rules import read
from tests.update_broken import BROKEN

CPU = Pool(name="cpu", nodes=4, allocatable={"cpu": 64, "memory": "256Gi"})
FOUR = [
    "release: `1` is not a semantic version; write three numbers with dots, such as 1.0.0",
    "runtimes.mpi.pool: there is no pool `gpu`; did you mean `cpu`?",
    "tenants.team-a.fabrics: there is no fabric `ib`; declare this fabric in `fabrics`, or remove this name",
    "tenants.team-a.quota.h100: `h100` is neither a pool nor a resource of a pool; write one of: cpu, memory",
]


def rejected(change: Callable[[], object]) -> list[str]:
    """Return the problems of a change, without the place, which must be this file."""
    with pytest.raises(ConfigError) as caught:
        change()
    assert {problem.file for problem in caught.value.problems} == {__file__}
    assert all(problem.line for problem in caught.value.problems)
    return [f"{problem.path}: {problem.message}; {problem.fix}" for problem in caught.value.problems]


def four_mistakes() -> dict[str, Any]:
    """Return arguments of a Platform with one invalid field, and three mistakes between sections."""
    team: dict[str, Any] = {"name": "team-a", "quota": {"h100": 1}, "fabrics": [{"name": "ib"}]}
    return {
        "platform": "prod",
        "release": "1",
        "pools": (CPU,),
        "runtimes": [Runtime(name="mpi", pool="gpu")],
        "tenants": (Tenant(**team),),
    }


def plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of a Platform as plain data."""
    data: dict[str, Any] = json.loads(
        json.dumps(arguments, default=lambda one: one.model_dump(mode="json", exclude_unset=True))
    )
    return data


WAYS: dict[str, Callable[[dict[str, Any]], object]] = {
    "the constructor": lambda arguments: Platform(**arguments),
    "iterators": lambda arguments: Platform(
        **{key: value if isinstance(value, str) else iter(value) for key, value in arguments.items()}
    ),
    "mappings": lambda arguments: Platform(**plain(arguments)),
    "replace": lambda arguments: Platform(platform="prod", release="1.0.0", pools=(CPU,)).replace(**arguments),
    "model_copy": lambda arguments: Platform(platform="prod", release="1.0.0", pools=(CPU,)).model_copy(
        update=arguments
    ),
    "model_validate": Platform.model_validate,
    "model_validate of plain data": lambda arguments: Platform.model_validate(plain(arguments)),
    "model_validate_json": lambda arguments: Platform.model_validate_json(json.dumps(plain(arguments))),
    "model_validate_json of bytes": lambda arguments: Platform.model_validate_json(
        json.dumps(plain(arguments)).encode()
    ),
    "parse_obj": Platform.parse_obj,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:The `parse_obj` method is deprecated")
def test_invalid_fields_and_mistakes_between_sections_are_reported_at_once(way: str) -> None:
    assert sorted(rejected(lambda: WAYS[way](four_mistakes()))) == FOUR


def test_a_platform_file_in_python_reports_them_at_once_with_the_line_of_the_platform(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(
        "from generator import Platform, Pool, Runtime, Tenant\n"
        "cpu = Pool(name='cpu', nodes=4, allocatable={'cpu': 64, 'memory': '256Gi'})\n\n"
        "platform = Platform(\n    platform='prod', release='1', pools=[cpu],\n"
        "    runtimes=[Runtime(name='mpi', pool='gpu')],\n"
        "    tenants=[{'name': 'team-a', 'quota': {'h100': 1}, 'fabrics': [{'name': 'ib'}]}],\n)\n"
    )
    with pytest.raises(ConfigError) as caught:
        pipeline.load(tmp_path / "fleet.py")
    found = caught.value.problems
    assert {(problem.file, problem.line) for problem in found} == {(str(tmp_path / "fleet.py"), 4)}
    assert sorted(f"{problem.path}: {problem.message}; {problem.fix}" for problem in found) == FOUR


def in_python(data: Any) -> dict[str, Any]:
    """Return the data of a platform.yaml with objects in place of all valid sections and entries."""
    arguments = dict(data)
    for section in {*LISTS} & data.keys():
        if isinstance(data[section], list):
            arguments[section] = tuple(as_object(LISTS[section], entry) for entry in data[section])
    for section in {*SECTIONS} & data.keys():
        arguments[section] = as_object(SECTIONS[section], data[section])
    if isinstance(data.get("patches"), list):
        arguments["patches"] = [as_object(Patch, patch) for patch in data["patches"]]
    return arguments


def as_object(model: Any, value: object) -> object:
    """Return a section as an object; the value itself if it is invalid."""
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ConfigError:
        return value


def texts(problems: Iterable[Problem]) -> list[str]:
    """Return problems without their places."""
    return sorted(str(replace(problem, file="", line=0, column=0)) for problem in problems)


def test_objects_and_invalid_data_have_the_problems_of_yaml(tmp_path: Path) -> None:
    compared = 0
    for case in sorted(BROKEN.glob("[!y]*.yaml")):
        data = read(case)
        if "exposed" in case.stem or "environments" in data:
            continue
        data = {**data, "release": "one"}
        with pytest.raises(ConfigError) as caught:
            Platform.model_validate(in_python(data), by_alias=True, by_name=False)
        assert texts(caught.value.problems) == texts(mistakes_of(data, tmp_path)), case
        compared += 1
    assert compared > 100


@given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=6, unique=True))
def test_any_mistakes_are_the_same_as_in_yaml(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    assume(not any(overlap(CHANGES[one].path, CHANGES[other].path) for one, other in combinations(names, 2)))
    data = json.loads(json.dumps(changed(*map(CHANGES.get, names)), default=str))  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        Platform.model_validate(in_python(data), by_alias=True, by_name=False)
    assert texts(caught.value.problems) == texts(mistakes_of(data, tmp_path_factory.getbasetemp()))


def in_snake_case(value: Any) -> Any:
    """Return data with the names of fields in Python, also of keys that are no fields."""
    if isinstance(value, dict):
        return {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", key).lower(): in_snake_case(item) for key, item in value.items()}
    return [*map(in_snake_case, value)] if isinstance(value, list) else value


def test_mappings_can_have_the_names_of_fields_in_python() -> None:
    """An invalid field hides the mistakes that depend on it under both of its names."""
    queues = {"multi_kueue": {"clusters": 3}, "fair_sharing": "yes"}
    team = {"name": "team-a", "quota": {"cpu": 1}, "multi_kueue": True, "weight": 3}
    fabric = {"name": "ib", "type": "infiniband", "gpu_direct": "yes", "per_node": 0}
    data = {"platform": "prod", "release": "1.0.0", "pools": [CPU], "queues": queues, "tenants": [team]}
    said = rejected(lambda: Platform.model_validate({**data, "fabrics": [fabric], "renamed_from": "prod"}))
    assert [line.partition(": ")[0] for line in said] == [
        "fabrics[0].per_node",
        "fabrics[0].gpu_direct",
        "queues.multi_kueue.clusters",
        "queues.fair_sharing",
        "fabrics[0].nics",  # an InfiniBand fabric needs its NICs
        "renamedFrom",
    ]
    base = json.loads(json.dumps(changed(), default=str))
    assert Platform.model_validate(in_snake_case(base)).digest() == Platform.model_validate(base).digest()


VALUES: tuple[Any, ...] = (None, "", 0, -1.5, True, (), {}, [[]], {"x": {}}, {1}, object(), b"x", range(2), CPU, [CPU])


def test_every_argument_accepts_or_rejects_any_value() -> None:
    """A value of any type beside an invalid release is a ConfigError."""
    data = small_platform()
    for path in places(data):
        for value in VALUES:
            changed = copy.deepcopy(data)
            at(changed, path[:-1])[path[-1]] = value
            with pytest.raises(ConfigError) as caught:
                Platform.model_validate({**changed, "release": 1})
            assert caught.value.problems


def iterated() -> Iterator[Tenant]:
    """Yield a valid and an invalid team."""
    yield Tenant(name="team-a", quota={"cpu": 1})
    yield Tenant(name="Team-B", quota={"cpu": 1})


def test_an_error_in_an_iterator_is_the_error_of_its_section() -> None:
    teams: Any = iterated()
    said = rejected(lambda: Platform(platform="prod", release="1.0.0", pools=(CPU,), tenants=teams))
    assert [line.partition(";")[0] for line in said] == ["Tenant.name: `Team-B` is not a Kubernetes name"]


def test_a_valid_platform_is_the_same_in_every_way() -> None:
    data = small_platform()
    straight = Platform(**data)
    first = test_a_valid_platform_is_the_same_in_every_way.__code__.co_firstlineno
    validated = Platform.model_validate(data)
    assert validated.declared_at == (__file__, first + 4)
    assert straight == validated == Platform.model_validate_json(json.dumps(data))
    assert Platform.model_validate(validated) is validated
    assert validated.declared_at == (__file__, first + 4)
    assert straight == load_platform(EXAMPLES["cpu-kubernetes"]).replace(**{"gitops": None, **data})


def test_text_that_is_not_json_is_one_problem() -> None:
    (said,) = rejected(lambda: Platform.model_validate_json("{"))
    assert said.startswith(": `{` is not JSON: EOF while parsing an object")
    assert said.endswith("; write one JSON object")
    (said,) = rejected(lambda: Pool.model_validate_json("[]"))
    assert said == "Pool: a list is not a mapping; write each field as `key: value`"


@pytest.mark.parametrize("name", ["model_construct", "construct"])
@pytest.mark.filterwarnings("ignore:The `construct` method is deprecated")
def test_a_section_without_checks_is_refused(name: str) -> None:
    (said,) = rejected(lambda: getattr(Pool, name)(name="Cpu", nodes=-1))
    assert said == "Pool: `model_construct` would create a section that no rule checks; write `Pool(...)`"


def test_code_of_mpigen_gets_the_error_of_pydantic() -> None:
    code: dict[str, Any] = {"__name__": "generator.somewhere", "Pool": Pool}
    for call in ("Pool.model_validate({})", "Pool.model_validate_json('{}')", "Pool.model_validate_strings({})"):
        with pytest.raises(ValidationError):
            exec(call, code)


def test_every_list_of_named_entries_is_sorted() -> None:
    assert [*SORTED] == [*LISTS]
    assert {*LISTS, *SECTIONS} <= Platform.model_fields.keys()
