"""A section is changed only by a checked copy, and an error in a script has the file and line of the call."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from generator import App, Platform, Pool, Runtime, Tenant, load_platform, pipeline
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import Section
from generator.errors import ConfigError
from tests.conftest import EXAMPLES

YAML = [name for name, file in EXAMPLES.items() if file.suffix == ".yaml"]


def sections_in(value: Any) -> Iterator[Section]:
    """Yield every section in a value, at any depth."""
    if isinstance(value, Section):
        yield value
        for name in type(value).model_fields:
            yield from sections_in(getattr(value, name))
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from sections_in(inner)


def rejected(change: Any) -> list[str]:
    """Return the problems of a change, without the place, which must be this file."""
    with pytest.raises(ConfigError) as caught:
        change()
    assert {problem.file for problem in caught.value.problems} == {__file__}
    assert all(problem.line for problem in caught.value.problems)
    return [f"{problem.path}: {problem.message}; {problem.fix}" for problem in caught.value.problems]


@pytest.mark.parametrize("example", YAML)
def test_a_copy_without_changes_is_equal(example: str) -> None:
    platform = load_platform(EXAMPLES[example])
    assert platform.replace() == platform
    assert platform.replace().digest() == platform.digest()
    assert [section.replace() for section in sections_in(platform)] == [
        section.declared for section in sections_in(platform)
    ]


def test_a_copy_has_the_new_values_and_the_original_keeps_its_own() -> None:
    platform = load_platform(EXAMPLES["cpu-kubernetes"])
    sim = platform.tenants[0].replace(quota={"cpu": 2})
    wider = platform.replace(tenants=[sim, sim.replace(name="team-new", quota={"cpu": 1})], release="1.1.0")
    assert [tenant.name for tenant in wider.tenants] == ["team-new", "team-sim"]
    assert (platform.release, platform.tenants[0].quota) == ("1.0.0", {"cpu": 3})
    assert platform.model_copy(update={"release": "1.1.0"}) == platform.replace(release="1.1.0")
    assert copy.copy(platform) == platform.model_copy(deep=True) == platform


def test_a_copy_accepts_the_names_of_yaml_as_constructors_do() -> None:
    runtime = Runtime(name="mpi", pool="cpu", processes_per_node=2)
    assert runtime.replace(processesPerNode=4) == runtime.replace(processes_per_node=4)
    assert runtime.replace(processesPerNode=4).processes_per_node == 4


def test_all_rules_check_a_copy() -> None:
    platform = load_platform(EXAMPLES["cpu-kubernetes"])
    runtimes = [Runtime(name=name, pool="gpu") for name in ("mpi", "mpich")]
    assert rejected(lambda: platform.replace(runtimes=runtimes)) == [
        "runtimes.mpi.pool: there is no pool `gpu`; did you mean `cpu`?",
        "runtimes.mpich.pool: there is no pool `gpu`; did you mean `cpu`?",
    ]


def test_a_copy_reports_every_invalid_field() -> None:
    platform = load_platform(EXAMPLES["cpu-kubernetes"])
    for change in (
        lambda: platform.replace(release=3, releas="x"),
        lambda: platform.model_copy(update={"release": 3, "releas": "x"}),
        lambda: platform.model_copy(update={"release": 3, "releas": "x"}, deep=True),
    ):
        said = rejected(change)
        assert [line.partition(":")[0] for line in said] == ["release", "releas"]
        assert said[1].endswith("did you mean `release`?")


@pytest.mark.parametrize("name", ["copy", "__replace__"])
def test_other_methods_of_pydantic_and_python_check_a_copy_too(name: str) -> None:
    pool = Pool(name="cpu", nodes=4, allocatable={"cpu": 64, "memory": "256Gi"})
    method = getattr(pool, name)
    said = rejected(lambda: method(update={"nodes": 0}) if name == "copy" else method(nodes=0))
    assert said == ["Pool.nodes: `0` is too small; write at least 1"]


def test_a_pool_gets_the_devices_of_the_new_fabric_only() -> None:
    pool = Pool(name="gpu", nodes=1, allocatable={"cpu": 8, "memory": "64Gi"}, fabric="net")
    efa, ib = Fabric(name="net", type="efa"), Fabric.model_validate({"name": "net", "server": "hgx-h100"})
    assert pool.wired([efa]).wired([ib]) == pool.wired([ib])
    assert pool.wired([efa]).replace(nodes=2).allocatable == pool.allocatable
    assert pool.wired([efa]).wired([]) == pool


def test_an_error_in_a_constructor_has_the_line_of_the_call() -> None:
    first = test_an_error_in_a_constructor_has_the_line_of_the_call.__code__.co_firstlineno
    with pytest.raises(ConfigError) as caught:
        Tenant(name="Team", quota={}, color="red")  # type: ignore[call-arg]
    assert [str(problem).partition(";")[0] for problem in caught.value.problems] == [
        f"{__file__}:{first + 3}: Tenant.name: `Team` is not a Kubernetes name",
        f"{__file__}:{first + 3}: Tenant.quota: `quota` is empty",
        f"{__file__}:{first + 3}: Tenant.color: there is no field `color` here",
    ]


def test_an_error_in_a_nested_section_has_its_path() -> None:
    """pydantic must not call the constructor of a nested section, because the path would be lost."""
    pools: Any = [{"name": "cpu", "nodes": 0, "allocatable": {"cpu": 1, "memory": "1Gi"}}]
    assert rejected(lambda: Platform(platform="p", release="1.0.0", pools=pools)) == [
        "pools[0].nodes: `0` is too small; write at least 1"
    ]


def test_an_error_in_code_of_mpigen_is_a_bug_and_no_problem_of_the_user() -> None:
    code: dict[str, Any] = {"__name__": "generator.somewhere", "Pool": Pool}
    with pytest.raises(ValidationError):
        exec("Pool(name='Cpu')", code)


def test_a_change_in_place_names_replace(tmp_path: Path) -> None:
    file = tmp_path / "fleet.py"
    file.write_text(
        "from generator import Pool\n"
        "pool = Pool(name='cpu', nodes=4, allocatable={'cpu': 64, 'memory': '256Gi'})\npool.nodes = 5\n"
    )
    with pytest.raises(ConfigError, match=r"fleet\.py:3: .*`nodes` cannot be changed.*build a copy by `replace`"):
        pipeline.load(file)


@pytest.mark.parametrize("example", ["cpu-kubernetes", "openshift-h100"])
def test_a_script_can_change_rendered_bodies_without_changing_anything_else(example: str) -> None:
    platform = load_platform(EXAMPLES[example])
    app = App(platform)
    before = [manifest.body for manifest in pipeline.render(platform, app)]
    digest = platform.digest()
    tree = pipeline.render(platform, app)
    seen: set[int] = set()
    for manifest in tree:
        for part in containers_in(manifest.body):
            assert type(part) in (dict, list)
            assert id(part) not in seen
            seen.add(id(part))
    for manifest in tree:
        manifest.body.clear()
    assert [manifest.body for manifest in pipeline.render(platform, app)] == before
    assert [manifest.body for manifest in pipeline.render(platform, App(platform))] == before
    assert platform.digest() == digest


def containers_in(value: Any) -> Iterator[Any]:
    """Yield every mapping and list in a body."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers_in(inner)
    else:
        assert value is None or isinstance(value, str | int | float | bool)


def test_every_section_is_frozen() -> None:
    models = {type(section) for name in YAML for section in sections_in(load_platform(EXAMPLES[name]))}
    assert len(models) > 20
    assert all(issubclass(model, BaseModel) and model.model_config["frozen"] for model in models)
