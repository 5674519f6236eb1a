"""Test that every fact has one place, because duplicates can differ."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from generator.facts import env
from tests.conftest import ROOT

GENERATOR = ROOT / "generator"
FACTS = GENERATOR / "facts"
FORMS = {
    "a label, annotation or resource": r"[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9._-]+-?",
    "a variable": r"(OMPI|PRTE|PMIX|UCX|NCCL|RCCL|FI|I_MPI|HYDRA|MPIR|CCL|GLOO|HCCL|CUDA)_\w+",
    "a capability": r"(CAP_)?(IPC_LOCK|NET_BIND_SERVICE|SYS_[A-Z]+)",
    "a path of pods": r"/(etc|dev|run)(/[a-z0-9._-]+)+",
}
REVIEWED = {
    # API versions say which fields an object has: each builder is written for one of them.
    r"[a-z0-9.-]+/v\d+((alpha|beta)\d+)?",
    # Files that any program expects there: a volume of the platform file must not hide what the adapter mounts.
    r"/etc/passwd|/etc/ssh/ssh_config",
}


def literals(source: str) -> Iterator[str]:
    """Yield the strings of a module, without docstrings, parts of f-strings and types (`Literal`)."""
    tree = ast.parse(source)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        is_type = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_type or is_docstring or isinstance(node, ast.JoinedStr):
            left_out |= {id(each) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


def spelled_out(root: Path) -> dict[str, set[str]]:
    """Return name → the packages below a folder, other than facts, that spell it out."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in sorted(root.rglob("*.py")):
        package = file.relative_to(root).parts[0].removesuffix(".py")
        if package == "facts":
            continue
        for text in literals(file.read_text("utf-8")):
            is_name = any(re.fullmatch(form, text) for form in FORMS.values())
            if is_name and not any(re.fullmatch(form, text) for form in REVIEWED):
                found[text].add(package)
    return found


def test_no_name_is_written_in_two_packages() -> None:
    """Define it as a constant in generator/facts, or give a reason in REVIEWED."""
    twins = {name: sorted(packages) for name, packages in spelled_out(GENERATOR).items() if len(packages) > 1}
    assert twins == {}


@pytest.mark.parametrize("name", ["example.com/team", "NCCL_IB_HCA", "IPC_LOCK", "/etc/mpi/hostfile"])
def test_a_duplicated_name_is_detected(name: str, tmp_path: Path) -> None:
    for package, text in (("checks", f"LABEL = {name!r}\n"), ("runtimes", f"def label():\n    return [{name!r}]\n")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "module.py").write_text(text)
    (tmp_path / "runtimes" / "described.py").write_text(f'"""{name}"""\nMESSAGE = "set {name}"\n')
    assert spelled_out(tmp_path) == {name: {"checks", "runtimes"}}


def test_every_variable_constant_equals_its_name() -> None:
    spelled = {name: value for name, value in vars(env).items() if isinstance(value, str) and not name.startswith("__")}
    assert spelled == {name: name for name in spelled}


def test_manifest_accessors_have_one_implementation() -> None:
    """There is one function each for a mapping, a list of strings, and an amount."""
    names = {"mapping", "texts", "amount_of", "parse_address"}
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(GENERATOR.rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.lstrip("_") in names:
                found[node.name.lstrip("_")].append(str(file.relative_to(GENERATOR)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
