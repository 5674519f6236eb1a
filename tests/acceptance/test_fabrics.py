"""Test `mpigen fabrics`: server types, and the fabrics of a platform."""

from __future__ import annotations

import json
from pathlib import Path

from generator.facts.nodes import SERVERS
from tests.conftest import EXAMPLES, Run


def test_fabrics_help_has_an_example(mpigen: Run) -> None:
    ran = mpigen("fabrics", "--help")
    assert (ran.returncode, "Example" in ran.stdout) == (0, True)


def test_server_types_are_listed_in_a_table(mpigen: Run) -> None:
    ran = mpigen("fabrics")
    _, *rows = ran.stdout.splitlines()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [row.split()[0] for row in rows] == list(SERVERS)


def test_a_server_type_is_printed_with_its_sources(mpigen: Run) -> None:
    ran = mpigen("fabrics", "--server", "BM.GPU.MI300X.8")
    assert ran.returncode == 0
    assert "https://docs.oracle.com/en-us/iaas/Content/Compute/References/computeshapes.htm" in ran.stdout
    assert "measured  357 GB/s on 2 servers, 8 GiB" in ran.stdout


def test_an_unknown_server_type_is_an_input_error(mpigen: Run) -> None:
    ran = mpigen("fabrics", "--server", "hgx-h10")
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: --server: there is no server type `hgx-h10`; did you mean `hgx-h100`?\n",
    )
    ran = mpigen("fabrics", EXAMPLES["eks-p5"], "--server", "hgx-h10")
    assert (ran.returncode, ran.stderr.startswith("error: --server: there is no server type `hgx-h10`")) == (2, True)
    both = mpigen("fabrics", EXAMPLES["eks-p5"], "--server", "hgx-h100").stdout
    assert both == mpigen("fabrics", "--server", "hgx-h100").stdout


def test_all_fabrics_of_a_platform_are_printed(mpigen: Run) -> None:
    ran = mpigen("fabrics", EXAMPLES["openshift-h100"])
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split(maxsplit=1) for line in ran.stdout.splitlines()[:2]] == [
        ["fabric", "ib: infiniband, on HGX H100 with eight ConnectX-7"],
        ["attached", "by sriov: a virtual function of each NIC"],
    ]


def test_server_types_and_fabrics_have_json_output(mpigen: Run) -> None:
    servers = json.loads(mpigen("fabrics", "--format", "json").stdout)["summary"]["servers"]
    assert [server["name"] for server in servers] == list(SERVERS)
    summary = json.loads(mpigen("fabrics", EXAMPLES["eks-p5"], "--format=json").stdout)["summary"]
    (efa,) = summary["fabrics"]
    assert (efa["attach"], efa["eachHostTakes"]) == ("efa", {"vpc.amazonaws.com/efa": 32})
    assert efa["partitions"] == [{"key": "", "tenants": ["team-product", "team-research"]}]


def test_a_platform_without_fabrics_prints_a_note(mpigen: Run, tmp_path: Path) -> None:
    ran = mpigen("fabrics", EXAMPLES["cpu-kubernetes"], cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (
        0,
        "this platform declares no fabric, so ranks use the pod network\n",
    )


def test_a_shell_completes_server_types(mpigen: Run) -> None:
    asked = {"_MPIGEN_COMPLETE": "bash_complete", "COMP_WORDS": "mpigen fabrics --server p5", "COMP_CWORD": "3"}
    completed = mpigen(**asked).stdout.split()
    assert completed == ["plain,p5.48xlarge", "plain,p5e.48xlarge", "plain,p5en.48xlarge"]
