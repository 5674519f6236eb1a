"""Test that the folders of `examples/jobs` are complete, and that the command in README.md writes job.yaml."""

from __future__ import annotations

import re

import pytest
import yaml

from generator.jobs.code import LARGEST
from tests.conftest import ROOT, Run
from tests.docs.pages import table_rows
from tests.example_jobs import CLUSTER, FOLDERS, HOME, command, expected, objects

PAGE = ROOT / "docs/tasks/example-jobs.md"
PROGRAMS = {"c-program": "heat.c"}


@pytest.mark.parametrize("name", FOLDERS)
def test_the_command_of_the_readme_writes_the_job_without_a_finding(name: str, mpigen: Run) -> None:
    ran = mpigen(*command(FOLDERS[name]), cwd=ROOT)
    assert (ran.returncode, ran.stdout) == (0, (FOLDERS[name] / "job.yaml").read_text("utf-8")), ran.stderr
    assert [line for line in ran.stderr.splitlines() if not line.startswith("note: ")] == []


def test_folders_have_a_program_a_job_an_image_and_the_output() -> None:
    assert {folder.name for folder in HOME.iterdir() if folder.is_dir()} == set(FOLDERS)
    for name, folder in FOLDERS.items():
        program = PROGRAMS.get(name, "train.py")
        assert {path.name for path in folder.iterdir()} == {program, "README.md", "job.yaml", "expected.txt"}
        assert [path for path in folder.iterdir() if path.stat().st_size > LARGEST] == []
        assert all(all(lines) for lines in expected(folder))
        jobs, (code,) = objects(folder)
        assert len(expected(folder)) == len(jobs)
        assert code["data"] == {program: (folder / program).read_text("utf-8")}


def test_links_of_readmes_exist_and_name_a_recipe() -> None:
    for folder in FOLDERS.values():
        links = re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text("utf-8"))
        assert [link for link in links if not (folder / link).exists()] == []
        assert [link for link in links if link.endswith("/Containerfile")]


def test_the_page_has_a_row_with_the_family_of_every_example() -> None:
    families = {each["name"]: each["use"] for each in yaml.safe_load(CLUSTER.read_text("utf-8"))["runtimes"]}
    runtimes = {name: objects(folder)[0][0]["spec"]["runtimeRef"]["name"] for name, folder in FOLDERS.items()}
    rows = [row.strip("| ").split(" | ") for row in table_rows(PAGE)]
    listed = {row[0]: row[1] for row in rows if row[1] in families.values()}
    assert listed == {name: families[runtime] for name, runtime in runtimes.items()}
