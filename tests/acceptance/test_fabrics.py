"""`mpigen fabrics`: server types, and what a platform makes of its fabrics."""

from __future__ import annotations

import json
from pathlib import Path

from generator.facts.nodes import SERVERS
from tests.conftest import EXAMPLES, Run


def test_the_command_explains_itself_with_an_example(mpigen: Run) -> None:
    ran = mpigen("fabrics", "--help")
    assert (ran.returncode, "Example" in ran.stdout) == (0, True)


def test_server_types_are_a_table_that_can_be_searched(mpigen: Run) -> None:
    ran = mpigen("fabrics")
    _, *rows = ran.stdout.splitlines()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [row.split()[0] for row in rows] == list(SERVERS)


def test_one_server_type_is_shown_with_its_sources(mpigen: Run) -> None:
    ran = mpigen("fabrics", "--server", "BM.GPU.MI300X.8")
    assert ran.returncode == 0
    assert "https://docs.oracle.com/en-us/iaas/Content/Compute/References/computeshapes.htm" in ran.stdout
    assert "measured  357 GB/s on 2 servers, 8 GiB" in ran.stdout


def test_a_server_type_that_is_not_there_is_bad_input(mpigen: Run) -> None:
    ran = mpigen("fabrics", "--server", "hgx-h10")
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: --server: there is no server type `hgx-h10`; did you mean `hgx-h100`?\n",
    )
    assert mpigen("fabrics", EXAMPLES["eks-p5"], "--server", "hgx-h100").returncode == 2


def test_the_fabrics_of_a_platform_are_told_one_after_another(mpigen: Run) -> None:
    ran = mpigen("fabrics", EXAMPLES["openshift-h100"])
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split(maxsplit=1) for line in ran.stdout.splitlines()[:2]] == [
        ["fabric", "ib: infiniband, on HGX H100 with eight ConnectX-7"],
        ["attached", "by sriov: a virtual function of each NIC"],
    ]


def test_machines_get_both(mpigen: Run) -> None:
    servers = json.loads(mpigen("fabrics", "--format", "json").stdout)["summary"]["servers"]
    assert [server["name"] for server in servers] == list(SERVERS)
    summary = json.loads(mpigen("fabrics", EXAMPLES["eks-p5"], "--format=json").stdout)["summary"]
    (efa,) = summary["fabrics"]
    assert (efa["attach"], efa["eachHostTakes"]) == ("efa", {"vpc.amazonaws.com/efa": 32})
    assert efa["partitions"] == [{"key": "", "tenants": ["team-product", "team-research"]}]


def test_a_platform_without_fabrics_is_told_so(mpigen: Run, tmp_path: Path) -> None:
    ran = mpigen("fabrics", EXAMPLES["cpu-kubernetes"], cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (
        0,
        "this platform declares no fabric: ranks use the network of pods\n",
    )


def test_a_shell_completes_server_types(mpigen: Run) -> None:
    asked = {"_MPIGEN_COMPLETE": "bash_complete", "COMP_WORDS": "mpigen fabrics --server p5", "COMP_CWORD": "3"}
    completed = mpigen(**asked).stdout.split()
    assert completed == ["plain,p5.48xlarge", "plain,p5e.48xlarge", "plain,p5en.48xlarge"]
