"""The CI workflows of `mpigen init --ci`: a file for each CI system, with the scripts of workflows/steps.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent

from generator.facts.table import read_table, read_text

_STEP = re.compile(r"(?m)^(?P<margin> *)(?P<key>- |[a-z]+: )?<(?P<step>[a-z]+)>$")
_STEPS = "workflows/steps"


@dataclass(frozen=True, slots=True)
class Workflow:
    """The workflow of a CI system.

    Attributes:
        source: the file in the folder `workflows`.
        path: the file to write, relative to the root of the repository.
        next: the next step of the user.
    """

    source: str
    path: str
    next: str

    @property
    def text(self) -> str:
        """The text of the file to write."""
        return _STEP.sub(_expand, read_text("generator.cli", "workflows", self.source))


WORKFLOWS: Mapping[str, Workflow] = {
    "github": Workflow("github.yml", ".github/workflows/mpigen.yml", "set MPIGEN_PACKAGE in this file"),
    "gitlab": Workflow(
        "gitlab.yml",
        ".gitlab/mpigen.yml",
        "set MPIGEN_PACKAGE in this file, and include the file in .gitlab-ci.yml: "
        "`include: [{local: .gitlab/mpigen.yml}]`",
    ),
    "tekton": Workflow(
        "tekton.yml",
        "tekton/mpigen.yaml",
        "apply this file to the namespace of your pipelines, and let a trigger create the PipelineRuns",
    ),
}
"""CI system → its workflow."""


_NO_PYTHON = re.compile(r'(?m)^ *# mpigen runs no Python.*\n *MPIGEN_NO_PYTHON: "1"\n')
_TESTS = """\
      - name: Test the runtimes and rules
        run: |
          python3 -I -m pip install --quiet --disable-pip-version-check pytest mypy
          python3 -m pytest
          python3 -m mypy .
"""
_FIRST_STEP = "      - name: Verify the releases\n"


def python_workflow(platform_file: str) -> tuple[str, str]:
    """Return path and text of a workflow of GitHub Actions that runs the Python of the repository."""
    workflow = WORKFLOWS["github"]
    text = workflow.text.replace("PLATFORM: platform.yaml", f"PLATFORM: {platform_file}").replace(
        _FIRST_STEP, _TESTS + _FIRST_STEP
    )
    warning = """\
  # The workflow runs the Python of each pull request. In the settings of the repository, require an approval for the
  # workflows of pull requests from forks.
"""
    return workflow.path, _NO_PYTHON.sub(warning, text).replace("init --ci github", "init --python")


def _expand(place: re.Match[str]) -> str:
    """Return the lines of a workflow with the script of a step in place of its name."""
    script: str = read_table(_STEPS, "generator.cli")[place["step"]]
    margin, key = place["margin"], place["key"]
    if key is None:
        return indent(script, margin).rstrip("\n")
    if script.count("\n") == 1:
        return f"{margin}{key}{script}".rstrip("\n")
    return f"{margin}{key}|\n{indent(script, f'{margin}  ')}".rstrip("\n")
