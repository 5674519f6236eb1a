"""Test that the patches of the ten typical changes apply, change at most three files of code, and work.

The proof of a patch runs the changed tool: a copy of the code with the patch.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checks import CASES
from tests.conftest import ROOT, small_platform
from tests.ten_changes import PATCHES, changed_files

PAGE = ROOT / "docs/contributing/ten-changes.md"
MOST_CODE_FILES = 3
REFRESH = "commit your change, run `python -m tests.ten_changes {}`, and review the patch"


@dataclass(frozen=True)
class Copy:
    """A copy of the code with a patch."""

    folder: Path

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a module of the copy, and return what it prints on standard output."""
        ran = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env={**os.environ, "MPIGEN_COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout

    def mpigen(self, *arguments: str, code: int = 0) -> str:
        """Run mpigen."""
        return self.run("generator", *arguments, code=code)

    def write(self, name: str, *documents: dict[str, Any]) -> str:
        """Write a YAML file, and return its name."""
        (self.folder / name).write_text(yaml.safe_dump_all(documents), "utf-8")
        return name

    def synth(self, **sections: Any) -> list[dict[str, Any]]:
        """Write a platform with these sections, and return its manifests."""
        file = self.write("platform.yaml", {**small_platform(), **sections})
        self.mpigen("synth", file)
        texts = [path.read_text("utf-8") for path in sorted(self.folder.glob("output/small/**/*.yaml"))]
        return [body for text in texts for body in yaml.safe_load_all(text) if body]


def code_files(patch: Path) -> list[str]:
    """Return the files of code that a patch changes. Tests are no code here."""
    return [path for path in changed_files(patch) if path.endswith((".py", ".sh")) and not path.startswith("tests/")]


def check(copy: Copy) -> None:
    shutil.copy(ROOT / "pyproject.toml", copy.folder)
    copy.run("tests.checks", "runtime")
    ran = copy.run(
        "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", "example-owner", "tests/unit/test_check_cases.py"
    )
    assert "3 passed" in ran
    bad = CASES["runtime/expiry"].base.replace(
        "name: by-hand\n", "name: by-hand\n  annotations: {example.com/owner: ''}\n", 1
    )
    (copy.folder / "runtime.yaml").write_text(bad, "utf-8")
    assert "info: runtime/example-owner: TrainingRuntime by-hand" in copy.mpigen("validate", "runtime.yaml")


def family(copy: Copy) -> None:
    assert re.search(r"^example-mpi +MPICH 4 or 5 +cpu +separate ", copy.mpigen("runtimes"), re.MULTILINE)
    variables = launcher_variables(copy.synth(runtimes=[example_runtime()]))
    assert {"HYDRA_HOST_FILE", "GLOO_SOCKET_IFNAME"} <= variables.keys()


def mpi(copy: Copy) -> None:
    assert re.search(r"^example-mpi +Example MPI 1 +cpu +node ", copy.mpigen("runtimes"), re.MULTILINE)
    variables = launcher_variables(copy.synth(runtimes=[example_runtime()]))
    assert variables["EXAMPLE_MPI_INTERFACE"] == "eth0"


def server(copy: Copy) -> None:
    assert re.search(r"^example-server +4 NVIDIA H100 +infiniband +4 +400 ", copy.mpigen("fabrics"), re.MULTILINE)


def version(copy: Copy) -> None:
    assert copy.synth(cluster={"versions": {"argocd": "9.0"}})
    assert copy.mpigen("validate", "output/small").endswith("Argo CD 9.0 is announced: not verified against its code\n")
    assert re.search(r"^argocd +9.0 +announced ", copy.mpigen("versions"), re.MULTILINE)


def field(copy: Copy) -> None:
    first, second = small_platform()["tenants"]
    manifests = copy.synth(tenants=[{**first, "limits": {"exampleConfigMaps": 50}}, second])
    quotas = {body["metadata"]["namespace"]: body for body in manifests if body["kind"] == "ResourceQuota"}
    assert quotas["team-a"]["spec"]["hard"]["count/configmaps"] == "50"
    assert "count/configmaps" not in quotas["team-b"]["spec"]["hard"]


def output_format(copy: Copy) -> None:
    file = copy.write("broken.yaml", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "lables": {}}})
    header, *rows = csv.reader(copy.mpigen("validate", file, "--format", "csv", code=1).splitlines())
    assert header[:4] == ["file", "line", "severity", "check"]
    assert ["broken.yaml", "error", "schema/unknown-field"] in [[row[0], row[2], row[3]] for row in rows]


def admission_rule(copy: Copy) -> None:
    copy.synth()
    tested = copy.mpigen("policy", "test", "output/small")
    assert re.search(r"^small-example-name +1 .* a job with a long name", tested, re.MULTILINE)


def exit_code(copy: Copy) -> None:
    assert "4 the manifests cannot be simulated" in " ".join(copy.mpigen("--help").split())
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "team-a"}}
    file = copy.write("queues.yaml", queue, {**queue, "spec": {"cohortName": "other"}})
    copy.mpigen("queues", "--release", file, code=4)


def ssh_port(copy: Copy) -> None:
    manifests = copy.synth(runtimes=[{"name": "openmpi-cpu", "pool": "cpu"}])
    (runtime,) = (body for body in manifests if body["kind"] == "ClusterTrainingRuntime")
    assert "'port': 2200" in str(runtime)
    assert "Port 2200" in str(runtime)
    assert "2222" not in str(runtime)
    assert "listen on port 2200 (sshd)" in copy.mpigen("runtimes", "show", "openmpi")


PROOFS: dict[str, Callable[[Copy], None]] = {
    "admission-rule": admission_rule,
    "check": check,
    "exit-code": exit_code,
    "family": family,
    "field": field,
    "format": output_format,
    "mpi": mpi,
    "server": server,
    "ssh-port": ssh_port,
    "version": version,
}


def example_runtime() -> dict[str, Any]:
    return {"name": "example-cpu", "use": "example-mpi", "pool": "cpu", "image": "quay.io/acme/example:1"}


def launcher_variables(manifests: list[dict[str, Any]]) -> dict[str, str]:
    """Return the variables of the launcher of the only runtime."""
    (runtime,) = (body for body in manifests if body["kind"] == "ClusterTrainingRuntime")
    jobs = {job["name"]: job for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
    (container,) = jobs["launcher"]["template"]["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


def sections() -> dict[str, set[str]]:
    """Return the files in the numbered steps of each section of the page: name of its patch → paths."""
    named = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:-1]:
        (patch,) = re.findall(r"\]\(changes/([\w-]+)\.patch\)", section)
        steps = re.findall(r"^\d+\. .*(?:\n   .*)*", section, re.MULTILINE)
        named[patch] = {path for step in steps for path in re.findall(r"`([\w.-]+/[\w./-]+)`", step)}
    return named


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_changes_at_most_three_files_of_code(name: str) -> None:
    files = code_files(PATCHES[name])
    assert len(files) <= MOST_CODE_FILES, files


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_applies(name: str) -> None:
    ran = subprocess.run(
        ["git", "apply", "--check", PATCHES[name]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stderr == "", REFRESH.format(name)


def test_every_patch_has_a_section_on_the_page() -> None:
    assert sorted(sections()) == sorted(PATCHES) == sorted(PROOFS)


@pytest.mark.parametrize("name", PATCHES)
def test_a_section_names_the_files_of_its_patch(name: str) -> None:
    """A path that ends with a slash stands for all files below it."""
    files, named = {*changed_files(PATCHES[name])}, sections()[name]
    folders = tuple(path for path in named if path.endswith("/"))
    assert {path for path in files if not path.startswith(folders)} == named - {*folders}
    assert [folder for folder in folders if not any(path.startswith(folder) for path in files)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PATCHES)
def test_the_patched_tool_works(name: str, tmp_path: Path) -> None:
    files = changed_files(PATCHES[name])
    folders = ["generator", *(["schemas"] if any(path.startswith("schemas/") for path in files) else [])]
    if any(path.startswith("tests/") for path in files):
        folders += ["tests/checks"]
        files |= {"tests/__init__.py": False, "tests/conftest.py": False, "tests/warm.py": False}
        files["tests/unit/test_check_cases.py"] = False
    for folder in folders:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    if "schemas" not in folders:
        (tmp_path / "schemas").symlink_to(ROOT / "schemas")
    for path in files:
        if (ROOT / path).is_file():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, tmp_path / path)
    subprocess.run(["git", "apply", PATCHES[name]], cwd=tmp_path, check=True)
    PROOFS[name](Copy(tmp_path))
