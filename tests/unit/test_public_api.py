"""Test that the public API is small, documented and typed, and that importing it starts nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import generator
from generator import views
from generator.checks.registry import Stage, check
from generator.config.model.fields import Section

NAMES: list[str] = import_module("generator").__all__
"""Computed from the stub, so type checkers do not know it."""
RESULTS = {
    *(
        "Adoption",
        "Catalogue",
        "Checked",
        "Download",
        "Effect",
        "Generated",
        "JobVerdict",
        "Mount",
        "NewJob",
        "Outcome",
        "Permission",
        "Planned",
        "Rendered",
        "Risk",
        "Severity",
        "Suite",
        "Synthesis",
        "Validation",
        "Written",
    ),
}
"""The types of results and options. Their group in the stub is below the names of `__all__`."""
HOOKS = {"ConfigMapKey", "Container", "Job", "Pod", "PodField", "Probe", "Role", "SecretKey", "Security"}
"""The values of hooks. Their group is below the names of `__all__` too."""
CONSTANTS = {"ERROR", "WARNING", "INFO"}


def test_the_api_has_few_names_besides_the_sections_of_a_platform() -> None:
    assert len(NAMES) == len(set(NAMES)) <= 40
    assert {"load", "render", "judge", "synth", "plan", "validate", "check", "Breach", "MpigenError", "Finding"} <= {
        *NAMES
    }
    others = {*vars(generator)["_modules"]()} - {*NAMES}
    assert {"Pool", "Runtime", "Tenant"} <= others <= {*dir(generator)}
    assert {name for name in others if not issubclass(getattr(generator, name), Section)} == RESULTS | HOOKS


def test_the_stub_exports_names_unchanged() -> None:
    """A type checker exports a name of a stub only if the stub writes `import NAME as NAME`."""
    stub = Path(generator.__file__).with_suffix(".pyi").read_text("utf-8")
    imports = [part for part in ast.parse(stub).body if isinstance(part, ast.ImportFrom)]
    assert len(imports) == len(ast.parse(stub).body)
    names = [alias for part in imports for alias in part.names]
    assert [alias.name for alias in names] == [alias.asname for alias in names] == [*vars(generator)["_modules"]()]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CONSTANTS])
def test_every_name_has_a_docstring(name: str) -> None:
    assert getattr(generator, name).__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        vars(generator)["__getattr__"]("colour")


@pytest.mark.parametrize("name", views.__all__)
def test_a_check_can_need_every_view(name: str) -> None:
    @check("acme/rule", severity=generator.ERROR, needs=getattr(views, name))
    def rule(_: object) -> Iterator[generator.Breach]:
        yield from ()

    assert vars(rule)["__mpigen_check__"].stage is not Stage.ENGINE


def test_names_of_checks_import_neither_cdk8s_nor_pydantic() -> None:
    """Otherwise a repository with own checks would pay for Node in every `mpigen validate`."""
    program = (
        "import sys; from generator import Breach, Change, ERROR, Manifest, Objects, check; import generator.views; "
        "print(sorted({'cdk8s', 'jsii', 'pydantic'} & {*sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
