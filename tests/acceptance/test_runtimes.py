"""Test `mpigen runtimes`: the catalogue, and the runtimes of a platform."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from generator.facts.families import FAMILIES
from tests.conftest import EXAMPLES, MPIGEN, Run


@pytest.mark.parametrize("command", [["runtimes"], ["runtimes", "list"], ["runtimes", "show"]], ids=" ".join)
def test_runtimes_help_has_an_example(command: list[str], mpigen: Run) -> None:
    ran = mpigen(*command, "--help")
    assert (ran.returncode, "Example" in ran.stdout) == (0, True)


def test_the_catalogue_is_printed_as_a_table(mpigen: Run) -> None:
    ran = mpigen("runtimes")
    header, *rows = ran.stdout.splitlines()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert header.split("  ")[0] == "NAME"
    assert [row.split()[0] for row in rows] == list(FAMILIES)
    (megatron,) = [row for row in rows if row.startswith("megatron")]
    assert " nvidia, amd " in megatron


def test_the_runtimes_of_a_platform_are_printed_as_a_table(mpigen: Run) -> None:
    ran = mpigen("runtimes", "--release", EXAMPLES["openshift-h100"])
    assert ran.stdout == (
        "NAME          FAMILY   POOL  DEVICE  NUMNODES  RANKS"
        "  EACH POD REQUESTS                                            LAUNCHER  TENANTS  NOTE\n"
        "openmpi-cpu   openmpi  cpu   cpu     2         57   "
        "  57 cpu, 230Gi memory                                         node      all      -\n"
        "openmpi-h100  openmpi  h100  nvidia  2         8    "
        "  172 cpu, 1843Gi memory, 8 nvidia.com/gpu, 8 openshift.io/ib  node      all      -\n"
    )


def test_catalogue_and_platform_runtimes_have_json_output(mpigen: Run) -> None:
    families = json.loads(mpigen("runtimes", "--format", "json").stdout)["summary"]["families"]
    assert [family["name"] for family in families] == list(FAMILIES)
    summary = json.loads(mpigen("runtimes", "--release", EXAMPLES["openshift-h100"], "--format=json").stdout)["summary"]
    (gpu,) = [each for each in summary["runtimes"] if each["name"] == "openmpi-h100"]
    assert gpu["resources"] == {"cpu": "172", "memory": "1843Gi", "nvidia.com/gpu": "8", "openshift.io/ib": "8"}
    assert gpu["hosts"]["team-weather"] == {"owned": 0, "reclaimable": 2, "idle": 2}


def test_runtimes_of_a_platform_py_are_listed(mpigen: Run) -> None:
    ran = mpigen("runtimes", "--release", EXAMPLES["custom-python"])
    assert [row.split()[0] for row in ran.stdout.splitlines()] == ["NAME", "openmpi", "openmpi-scratch"]
    assert ran.stderr == ""


def test_a_shell_completes_subcommands(mpigen: Run) -> None:
    asked = {"_MPIGEN_COMPLETE": "bash_complete", "COMP_WORDS": "mpigen runtimes ", "COMP_CWORD": "2"}
    assert mpigen(**asked).stdout.split() == ["plain,list", "plain,show"]


def test_a_deprecated_runtime_is_marked(tmp_path: Path, mpigen: Run) -> None:
    text = EXAMPLES["cpu-kubernetes"].read_text().replace("pool: cpu}", "pool: cpu, deprecated: true}")
    (tmp_path / "platform.yaml").write_text(text)
    assert mpigen("runtimes", "--release", "platform.yaml").stdout.splitlines()[1].endswith("  deprecated")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_fits_on_one_screen(family: str, mpigen: Run) -> None:
    ran = mpigen("runtimes", "show", family)
    lines = ran.stdout.splitlines()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert lines[0].split() == ["family", *f"{family}: {FAMILIES[family].title}".split()]
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100


def test_a_declared_runtime_is_printed_with_its_numbers_before_its_contract(mpigen: Run) -> None:
    ran = mpigen("runtimes", "show", "openmpi-h100", "--release", EXAMPLES["openshift-h100"])
    numbers, contract = ran.stdout.split("\n\n")
    assert numbers.splitlines()[:2] == ["runtime  openmpi-h100", "pool     h100 (nvidia)"]
    assert "team-cv: 0 hosts without preemption, 6 with it, 14 while other queues are idle" in " ".join(numbers.split())
    assert contract.startswith("family     openmpi: Open MPI\n")
    summary = json.loads(
        mpigen("runtimes", "show", "openmpi-h100", "--release", EXAMPLES["openshift-h100"], "--format", "json").stdout
    )["summary"]
    assert (summary["runtime"]["pool"], summary["family"]["name"]) == ("h100", "openmpi")


def test_runtimes_show_accepts_a_family_with_a_platform(mpigen: Run) -> None:
    ran = mpigen("runtimes", "show", "megatron", "--release", EXAMPLES["openshift-h100"])
    assert ran.stdout == mpigen("runtimes", "show", "megatron").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["runtimes", "show", "openmpy"],
            (
                "error: there is no family `openmpy`; did you mean `openmpi`?; "
                "to show a runtime of a cluster, add --release with its release\n"
            ),
        ),
        (
            ["runtimes", "show", "openmpi-h10", "--release", EXAMPLES["openshift-h100"]],
            "error: there is no runtime and no family `openmpi-h10`; did you mean `openmpi-h100`?\n",
        ),
        (
            ["runtimes", "--release", "nope.yaml"],
            "error: nope.yaml: there is no such file or folder\n",
        ),
    ],
    ids=["family", "runtime", "file"],
)
def test_unknown_families_runtimes_and_files_get_suggestions(arguments: list[str], told: str, mpigen: Run) -> None:
    ran = mpigen(*arguments)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", told)


def test_listing_runtimes_does_not_start_node(tmp_path: Path, mpigen: Run) -> None:
    trap = tmp_path / "node"
    trap.write_text("#!/bin/sh\nexit 1\n")
    trap.chmod(0o755)
    file = EXAMPLES["university"]
    for arguments in (["runtimes"], ["runtimes", "--release", file], ["runtimes", "show", "mpich", "--release", file]):
        assert mpigen(*arguments, JSII_NODE=str(trap)).returncode == 0


def test_a_terminal_table_fits_and_keeps_names_whole() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    subprocess.run([MPIGEN, "runtimes"], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    text = b""
    while chunk := _read(ours):
        text += chunk
    lines = text.decode().splitlines()
    assert any(line.startswith("horovod-tensorflow ") for line in lines)
    assert max(len(line) for line in lines if "\x1b" not in line) <= 80


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
