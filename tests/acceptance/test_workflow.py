"""Run the steps of the GitHub workflow that `mpigen init --ci github` writes, as GitHub runs them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import MPIGEN, Run

FILE = ".github/workflows/mpigen.yml"
GH = '#!/bin/sh\nprintf "%s\\n" "$*" >> "$GH_LOG"\n'


def git(folder: Path, *words: str) -> str:
    """Run git, and return its output."""
    ran = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, mpigen: Run) -> Path:
    """Return a repository on the branch main with a release, expectations, the workflow and a remote."""
    for words in (("init", "--ci", "github"), ("init",), ("synth", "platform.yaml")):
        assert mpigen(*words).returncode == 0
    assert mpigen("expect", "platform.yaml", "--write").returncode == 0
    git(tmp_path.parent, "init", "--quiet", "--bare", f"{tmp_path.name}.git")
    git(tmp_path, "init", "--quiet", "--initial-branch=main", ".")
    git(tmp_path, "remote", "add", "origin", f"../{tmp_path.name}.git")
    for key, value in (("user.name", "ada"), ("user.email", "ada@example.com")):
        git(tmp_path, "config", key, value)
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "change")


def run_job(folder: Path, job: str, values: Mapping[str, str]) -> tuple[str, str]:
    """Run the shell steps of a job. Return the name of the failed step, or an empty text, and all output."""
    workflow = yaml.safe_load((folder / FILE).read_text())
    runner = folder.parent / f"{folder.name}-runner"
    runner.mkdir(exist_ok=True)
    (runner / "gh").write_text(GH)
    (runner / "gh").chmod(0o755)
    environment = {
        **os.environ,
        **workflow["env"],
        "PATH": os.pathsep.join([str(runner), str(MPIGEN.parent), os.environ["PATH"]]),
        "RUNNER_TEMP": str(runner),
        "GITHUB_STEP_SUMMARY": str(runner / "summary.md"),
        "GH_LOG": str(runner / "gh.log"),
    }
    output = ""
    for step in workflow["jobs"][job]["steps"]:
        if "run" not in step or step["name"] == "Install mpigen":
            continue
        if "if" in step and values[step["if"]] != "true":
            continue
        own = {key: expand(value, values) for key, value in step.get("env", {}).items()}
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=environment | own,
            capture_output=True,
            text=True,
            check=False,
        )
        output += ran.stdout + ran.stderr
        if ran.returncode:
            return step["name"], output
    return "", output


def expand(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: values[match[1]], text)


def pull_request(folder: Path, *, is_fork: bool = False, is_accepted: bool = False) -> tuple[str, str]:
    """Run the job for a pull request whose base is the first commit."""
    return run_job(
        folder,
        "check",
        {
            "github.event.pull_request.base.sha": git(folder, "rev-list", "--max-parents=0", "HEAD"),
            "github.event.pull_request.head.repo.full_name == github.repository": str(not is_fork).lower(),
            "github.token": "secret",
            "github.event.pull_request.number": "7",
            "contains(github.event.pull_request.labels.*.name, 'mpigen-accept-risk')": str(is_accepted).lower(),
        },
    )


def change_quota(folder: Path, quota: str) -> None:
    platform = folder / "platform.yaml"
    text = platform.read_text().replace("quota: {cpu: 3}", f"quota: {{cpu: {quota}}}")
    platform.write_text(re.sub(r"(?m)^release: .*$", "release: 1.1.0", text))


def test_the_workflow_is_safe(repository: Path) -> None:
    workflow = yaml.safe_load((repository / FILE).read_text())
    assert {*workflow[True]} == {"pull_request", "push"}  # YAML reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["check"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    steps: list[dict[str, Any]] = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert "${{" not in "".join(step.get("run", "") for step in steps)
    assert workflow["env"]["MPIGEN_NO_PYTHON"] == "1"
    assert "pull_request_target" not in (repository / FILE).read_text()


def test_a_changed_quota_gets_a_comment_and_needs_a_label_if_the_risk_is_high(repository: Path, mpigen: Run) -> None:
    change_quota(repository, "2")
    assert mpigen("synth", "platform.yaml").returncode == 0
    commit(repository)
    runner = repository.parent / f"{repository.name}-runner"
    failed, output = pull_request(repository, is_accepted=True)
    assert failed == "", output
    plan = (runner / "plan.md").read_text()
    assert "quota" in plan
    assert plan in (runner / "summary.md").read_text()
    assert "pr comment 7 --body-file" in (runner / "gh.log").read_text()
    is_high = (runner / "risk").read_text() == "high\n"
    (runner / "plan.md").unlink()
    (runner / "gh.log").unlink()
    failed, _ = pull_request(repository, is_fork=True)
    assert failed == ("Require the label mpigen-accept-risk for a high risk" if is_high else "")
    assert not (runner / "gh.log").exists()


def test_output_that_is_not_rendered_anew_fails(repository: Path) -> None:
    change_quota(repository, "2")
    commit(repository)
    assert pull_request(repository)[0] == "Compare output with the platform file"


def test_a_stray_file_fails(repository: Path) -> None:
    (repository / "output/cpu-kubernetes/cluster/extra.yaml").write_text("a: 1\n")
    commit(repository)
    assert pull_request(repository)[0] == "Verify the releases"


def test_a_false_expectation_fails_with_an_annotation(repository: Path) -> None:
    file = repository / "expect.yaml"
    file.write_text(file.read_text().replace("expect: yes", "expect: no", 1))
    commit(repository)
    failed, output = pull_request(repository)
    assert failed == "Check the expectations"
    assert "::error file=expect.yaml,line=" in output


def test_a_merge_tags_the_release_once(repository: Path) -> None:
    for _ in range(2):
        failed, output = run_job(repository, "tag", {})
        assert failed == "", output
    remote = repository.parent / f"{repository.name}.git"
    assert git(remote, "tag") == "cpu-kubernetes/1.0.0"
    assert git(remote, "rev-parse", "cpu-kubernetes/1.0.0") == git(repository, "rev-parse", "HEAD")


def test_an_existing_workflow_is_kept(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / FILE).parent.mkdir(parents=True)
    (tmp_path / FILE).write_text("mine\n")
    ran = mpigen("init", "--ci", "github")
    assert (ran.returncode, ran.stderr.count("exists already")) == (2, 1)
    assert (tmp_path / FILE).read_text() == "mine\n"
