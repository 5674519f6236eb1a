"""Findings about values of overridden hooks have the file, the line and the name of the method."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from generator import App, Container, MpiRuntime, Platform, Runtime, pipeline, select
from generator.components.origins import Origins
from generator.pipeline import Choices
from tests.conftest import small_platform
from tests.hooked import AllHooks

NODE = ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
LAUNCHER = (*NODE[:4], 1, *NODE[5:])
"""The paths of the worker pods and the launcher pod in a runtime."""
PLATFORM = """\
from acme_runtimes import Torch

from generator import App, Fabric, FabricShare, Platform, Pool, Runtime, Tenant, select

pool = Pool(
    name="gpu",
    nodes=4,
    allocatable={"cpu": 64, "memory": "256Gi", "nvidia.com/gpu": 8},
    labels={"example.com/pool": "gpu"},
    fabric="ib",
)
platform = Platform(
    platform="prod",
    release="1.0.0",
    pools=[pool],
    fabrics=[Fabric(name="ib", server="hgx-h100")],
    tenants=[Tenant(name="team-a", quota={"gpu": 2}, fabrics=[FabricShare(name="ib")])],
)
app = App(platform)
runtime = Runtime(name="torch", use="pytorch-mpi", image="quay.io/acme/torch:1", pool="gpu")
Torch(app, "torch", runtime=runtime)
"""
RUNTIMES = """\
from generator import MpiRuntime


class Torch(MpiRuntime):
    def environment(self):
        return {"NCCL_IB_DISABLE": "1"}
"""


def findings_of(folder: Path, monkeypatch: pytest.MonkeyPatch, platform: str, runtimes: str) -> set[Any]:
    """Return file, line and path of the findings of fabric/environment about a platform in Python."""
    (folder / "fleet.py").write_text(platform)
    (folder / "acme_runtimes.py").write_text(runtimes)
    monkeypatch.chdir(folder)
    findings = pipeline.synth(Path("fleet.py"), Path("output"), Choices()).outcome.findings
    return {(one.file, one.line, one.path) for one in findings if one.check == "fabric/environment"}


def test_a_value_of_a_hook_has_the_place_of_its_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings_of(tmp_path, monkeypatch, PLATFORM, RUNTIMES)
    assert found == {("acme_runtimes.py", 5, "Torch.environment")}


def test_a_value_of_the_runtime_has_the_line_of_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook sets another variable."""
    platform = PLATFORM.replace('pool="gpu")\nTorch', 'pool="gpu", environment={"NCCL_IB_DISABLE": "1"})\nTorch')
    found = findings_of(tmp_path, monkeypatch, platform, RUNTIMES.replace("NCCL_IB_DISABLE", "NCCL_DEBUG"))
    assert found == {("fleet.py", 20, "runtimes.torch.environment")}


def test_a_value_that_a_patch_changes_has_the_line_of_the_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = (
        "def disable(body):\n"
        "    for job in body['spec']['template']['spec']['replicatedJobs']:\n"
        "        for one in job['template']['spec']['template']['spec']['containers'][0]['env']:\n"
        "            if one['name'] == 'NCCL_IB_DISABLE':\n"
        "                one['value'] = '1'\n"
        "    return body\n"
        "app.patch(select(kind='ClusterTrainingRuntime'), disable)\n"
    )
    found = findings_of(tmp_path, monkeypatch, PLATFORM + patch, RUNTIMES.replace('"1"', '"0"'))
    assert found == {("fleet.py", 28, "")}


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all scalars in a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in parts:
        yield from leaves(part, (*path, step))
    if not isinstance(value, dict | list):
        yield path


def origins_of(cls: type[MpiRuntime]) -> tuple[Origins, Any]:
    """Return the origins of a runtime, and its body."""
    app = App(Platform.model_validate(small_platform()))
    cls(app, "mine", runtime=Runtime(name="mine", pool="cpu", launcher="separate"))
    (origins,) = app.origins.values()
    return origins, origins.build("")[0]


def test_every_value_of_a_hook_has_this_hook_and_other_values_have_none() -> None:
    origins, body = origins_of(AllHooks)
    found = {path: origins.find(body, path, "") for path in leaves(body)}
    names = {cause.name for cause in found.values() if cause}
    assert names == {f"AllHooks.{name}" for name in origins.hooks.overridden}
    for cause in filter(None, found.values()):
        method = getattr(AllHooks, cause.name.removeprefix("AllHooks."))
        assert (cause.file, cause.line) == (inspect.getsourcefile(method), method.__code__.co_firstlineno)
    of_mpigen = [path for path, cause in found.items() if cause is None]
    assert ("metadata", "name") in of_mpigen
    assert len(of_mpigen) > len(found) // 2


class TwoHooks(MpiRuntime):
    """A runtime whose hooks set the same variable of the launcher."""

    def environment(self) -> dict[str, str]:
        """Return a variable."""
        return {"A": "1", "B": "1"}

    def containers(self, role: object) -> list[Container]:
        """Return the same variable of the main container."""
        del role
        return [Container("node", env={"A": "2"})]


def test_a_variable_that_two_hooks_set_has_the_hook_of_its_value() -> None:
    origins, body = origins_of(TwoHooks)
    path = (*LAUNCHER, "containers", 0, "env")
    names = [one["name"] for one in reduce(getitem, path, body)]
    hooks = [origins.find(body, (*path, position, "value"), "") for position in range(len(names))]
    assert [(name, hook.name) for name, hook in zip(names, hooks, strict=True) if hook] == [
        ("A", "TwoHooks.environment"),
        ("B", "TwoHooks.environment"),
        ("A", "TwoHooks.containers"),
    ]


def test_a_section_with_values_of_hooks_and_of_mpigen_has_no_hook() -> None:
    origins, body = origins_of(AllHooks)
    for path in ((), NODE, (*NODE, "containers"), (*NODE, "containers", 0), (*NODE, "containers", 0, "missing")):
        assert origins.find(body, path, "") is None


def test_a_runtime_without_overridden_hooks_needs_no_origins() -> None:
    app = App(Platform.model_validate(small_platform()))
    MpiRuntime(app, "mine", runtime=Runtime(name="mine", pool="cpu"))
    app.patch(select(kind="ClusterTrainingRuntime"), {"metadata": {"labels": {"example.com/a": "b"}}})
    assert not app.origins
