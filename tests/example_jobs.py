"""The folders of `examples/jobs`: the command in README.md, the job that it prints, and the output of the job."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from generator.manifests import Body
from tests.conftest import ROOT

HOME = ROOT / "examples/jobs"
CLUSTER = HOME / "cluster.yaml"
FOLDERS = {path.parent.name: path.parent for path in sorted(HOME.glob("*/README.md"))}
_COMMAND = re.compile(r"^mpigen (job new (?:.*\\\n)*.*)$", re.MULTILINE)


def command(folder: Path) -> list[str]:
    """Return the arguments of `mpigen` that print the job of a folder. Paths start at the root of the repository."""
    (found,) = _COMMAND.findall((folder / "README.md").read_text("utf-8"))
    words = shlex.split(found.replace("\\\n", " "))
    return words[: words.index(">")]


def objects(folder: Path) -> tuple[list[Body], list[Body]]:
    """Return the TrainJobs of a folder, and the objects that the user creates with them."""
    bodies: list[Body] = list(yaml.safe_load_all((folder / "job.yaml").read_text("utf-8")))
    jobs = [body for body in bodies if body["kind"] == "TrainJob"]
    return jobs, [body for body in bodies if body not in jobs]


def expected(folder: Path) -> list[list[str]]:
    """Return the lines that the log of each job has. Empty lines separate the jobs."""
    return [part.splitlines() for part in (folder / "expected.txt").read_text("utf-8").split("\n\n")]
