"""The pre-commit hooks, the GitHub Action and the GitLab template run on a broken tree, as their hosts run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.conftest import MPIGEN, ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
TEMPLATE = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
BROKEN = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: main
  namespace: a
spec:
  clusterQueues: a
"""
ANNOTATION = "::error file=output/deep/queue.yaml,line=7,col=3,title=schema/unknown-field::LocalQueue a/main"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a Git repository with a mistake in line 7 of a manifest."""
    (tmp_path / "output/deep").mkdir(parents=True)
    (tmp_path / "output/deep/queue.yaml").write_text(BROKEN)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub and GitLab do: bash that stops at the first error."""
    path = os.pathsep.join([environment.pop("PATH", str(MPIGEN.parent)), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def run_action(folder: Path, inputs: Mapping[str, str], *, installs: bool) -> tuple[int, str]:
    """Run the steps of the action and return the exit code of the first failing step, and all output."""
    values = {f"inputs.{name}": inputs.get(name, each["default"]) for name, each in ACTION["inputs"].items()}
    values["github.action_path"] = str(ROOT)
    path_file = folder.parent / "path"
    path_file.touch()
    path, output = ([], "") if installs else ([str(MPIGEN.parent)], "")
    for step in ACTION["runs"]["steps"]:
        is_install = step["name"] == "Install mpigen"
        if (is_install and not installs) or ("if" in step and not values[step["if"].partition(" ")[0]]):
            continue
        environment = {key: expand(value, values) for key, value in step.get("env", {}).items()}
        environment |= {"RUNNER_TEMP": str(folder.parent), "GITHUB_PATH": str(path_file)}
        path = path_file.read_text().split() or path
        ran = run(step["run"], folder, **environment, PATH=os.pathsep.join(path))
        output += ran.stdout + ran.stderr
        if ran.returncode:
            return ran.returncode, output
    return 0, output


def expand(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text)


def test_the_action_fails_and_annotates_the_line(tree: Path) -> None:
    code, output = run_action(tree, {"sarif": "mpigen.sarif"}, installs=False)
    assert (code, output.splitlines()[0].startswith(ANNOTATION)) == (1, True), output
    (result,) = json.loads((tree / "mpigen.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 7, "startColumn": 3}


def test_the_action_passes_its_options_to_mpigen(tree: Path) -> None:
    assert run_action(tree, {"options": "--ignore schema"}, installs=False)[0] == 0
    code, output = run_action(tree, {"paths": "nope"}, installs=False)
    assert (code, output) == (2, "::error file=nope,title=mpigen::there is no such file or folder\n")


def test_the_action_never_expands_inputs_inside_scripts() -> None:
    """A pull request could name a file `$(…)`, which a shell would run."""
    assert "${{" not in "".join(step["run"] for step in ACTION["runs"]["steps"])


@pytest.mark.slow
def test_the_action_installs_mpigen(tree: Path) -> None:
    code, output = run_action(tree, {}, installs=True)
    assert (code, output.splitlines()[0].startswith(ANNOTATION)) == (1, True), output


def test_the_gitlab_template_fails_and_reports_the_line(tree: Path) -> None:
    job = TEMPLATE["mpigen"]
    ran = run("\n".join(job["script"]), tree, **job["variables"])
    assert (ran.returncode, "output/deep/queue.yaml:7:3: error: " in ran.stdout) == (1, True)
    reports = {kind: (tree / file).read_text() for kind, file in job["artifacts"]["reports"].items()}
    (entry,) = json.loads(reports["codequality"])
    assert entry["location"] == {"path": "output/deep/queue.yaml", "lines": {"begin": 7}}
    (case,) = ET.fromstring(reports["junit"]).iter("testcase")
    assert (case.get("file"), case.get("line"), case.find("failure") is not None) == (
        entry["location"]["path"],
        "7",
        True,
    )


def commit(folder: Path, hook: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run a hook of this repository with pre-commit and the installed mpigen."""
    config = {"repos": [{"repo": "local", "hooks": [{**hook, "language": "system"}]}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    script = f"{sys.executable} -m pre_commit run --files $(git ls-files)"
    return run(script, folder, PRE_COMMIT_HOME=str(folder.parent / "pre-commit"))


def test_the_validate_hook_fails_with_the_line(tree: Path) -> None:
    hook = {**HOOKS["mpigen-validate"], "files": "^output/"}
    ran = commit(tree, hook)
    assert (ran.returncode, "output/deep/queue.yaml:7:3: error: schema/unknown-field" in ran.stdout) == (1, True)
    (tree / "output/deep/queue.yaml").write_text(BROKEN.replace("clusterQueues", "clusterQueue"))
    ran = commit(tree, hook)
    assert ran.returncode == 0, ran.stdout


def test_the_synth_hook_fails_if_the_committed_output_differs(tree: Path) -> None:
    text = (ROOT / "examples/cpu-kubernetes/platform.yaml").read_text()
    (tree / "platform.yaml").write_text(text)
    assert run("mpigen synth platform.yaml", tree).returncode == 0
    assert commit(tree, HOOKS["mpigen-synth"]).returncode == 0
    (tree / "platform.yaml").write_text(text.replace("release: 1.0.0", "release: 1.1.0"))
    ran = commit(tree, HOOKS["mpigen-synth"])
    assert (ran.returncode, "files were modified by this hook" in ran.stdout) == (1, True), ran.stdout


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
def test_pre_commit_accepts_the_hook_manifest(hook: Mapping[str, Any]) -> None:
    from pre_commit.clientlib import load_manifest

    assert hook["id"] in {each["id"] for each in load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))}
