"""Test that the admission webhook of Tekton accepts the Pipelines that `mpigen init --ci tekton` writes."""

from __future__ import annotations

import json
import re
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.cli.workflow import WORKFLOWS
from tests.cluster.build import build
from tests.cluster.versions import versions
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster
PIPELINES: list[dict[str, Any]] = list(yaml.safe_load_all(WORKFLOWS["tekton"].text))
PAGE = (ROOT / "docs/tasks/adopt-in-ci.md").read_text()
RUNS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(apiVersion: tekton\.dev/v1\n.*?)```", PAGE, re.DOTALL)]


@pytest.fixture(scope="module")
def webhook() -> Path:
    """Return the program that validates as the webhook of Tekton."""
    return build(versions("default")["tekton"])


def judged(webhook: Path, bodies: list[dict[str, Any]]) -> list[str]:
    """Return for each object why the webhook rejects the object; empty for an accepted object."""
    ran = subprocess.run([webhook], input=json.dumps(bodies), capture_output=True, text=True, check=True)
    answers: list[str] = json.loads(ran.stdout)
    return answers


def test_the_webhook_accepts_the_pipelines_and_the_run_of_the_docs(webhook: Path) -> None:
    assert [body["kind"] for body in (*PIPELINES, *RUNS)] == ["Pipeline", "Pipeline", "PipelineRun"]
    named = [{**body, "metadata": {"name": "check"}} for body in RUNS]  # the API server has generated the name
    assert judged(webhook, [*PIPELINES, *named]) == ["", "", ""]


def test_the_run_of_the_docs_sets_the_parameters_without_a_default() -> None:
    (run,) = RUNS
    pipeline = next(
        body["spec"] for body in PIPELINES if body["metadata"]["name"] == run["spec"]["pipelineRef"]["name"]
    )
    given = {item["name"] for item in run["spec"]["params"]}
    assert {item["name"] for item in pipeline["params"] if "default" not in item} <= given
    assert given <= {item["name"] for item in pipeline["params"]}
    assert [item["name"] for item in run["spec"]["workspaces"]] == [item["name"] for item in pipeline["workspaces"]]


def test_the_webhook_rejects_an_unknown_field_an_unknown_parameter_and_a_wrong_order(webhook: Path) -> None:
    field, parameter, order = (deepcopy(PIPELINES[0]) for _ in range(3))
    field["spec"]["tasks"][0]["runsAfter"] = ["comment"]
    parameter["spec"]["tasks"][0]["params"][0]["value"] = "$(params.packages)"
    order["spec"]["tasks"][1]["runAfter"] = ["missing"]
    answers = judged(webhook, [field, parameter, order])
    assert 'unknown field "runsAfter"' in answers[0]
    assert "packages" in answers[1]
    assert "missing" in answers[2]
