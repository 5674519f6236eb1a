"""Test the shell scripts of runtimes in every shell of this machine that images use as /bin/sh."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from generator import Runtime
from generator.facts.families import FAMILIES
from generator.runtimes.pod_scripts import prepare_script, script

SHELLS = [shell for shell in ("dash", "bash --posix", "busybox sh") if shutil.which(shell.split()[0])]
HOSTFILE = f"job-node-0-0.job slots=8\njob-node-0-1.job slots=8\n{os.uname().nodename}.job slots=8\n"


@pytest.fixture(params=SHELLS)
def sh(request: pytest.FixtureRequest) -> list[str]:
    shell: str = request.param
    return [*shell.split(), "-c"]


def prepare(folder: Path, sh: list[str], family: str, *, is_launcher: bool) -> Path:
    """Run the init container's script with its absolute paths moved into a folder."""
    run, mpi, passwd = folder / "run", folder / "mpi", folder / "passwd"
    run.mkdir()
    mpi.mkdir()
    (mpi / "hostfile").write_text(HOSTFILE)
    passwd.write_text(
        f"root:x:0:0::/root:/bin/bash\nmpiuser:x:4711:4711::/somewhere:/bin/bash\nme:x:{os.getuid()}:0::/:/no\n"
    )
    text = prepare_script(Runtime.model_validate({"name": "r", "use": family, "pool": "p"}), is_launcher=is_launcher)
    for path, here in (("/run/mpi", run), ("/etc/mpi", mpi), ("/etc/passwd", passwd)):
        text = text.replace(path, str(here))
    subprocess.run([*sh, text], check=True)
    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_prepare_script(tmp_path: Path, sh: list[str], family: str) -> None:
    run = prepare(tmp_path, sh, family, is_launcher=False)
    assert {"passwd", "ssh_config", "sshd_config", "environment.sh", "sh", "bin"} == {
        each.name for each in run.iterdir()
    }
    assert {"connect", "receive", "session"} <= {each.name for each in (run / "bin").iterdir()}
    assert (run / "bin" / "rank").exists() == FAMILIES[family].rank_variables


def test_any_user_has_exactly_one_passwd_entry(tmp_path: Path, sh: list[str]) -> None:
    users = (prepare(tmp_path, sh, "openmpi", is_launcher=True) / "passwd").read_text().splitlines()
    mine = f"mpiuser:x:{os.getuid()}:{os.getgid()}:MPI:/home/mpiuser:/bin/sh"
    assert users[-1] == mine
    assert [user for user in users if user.startswith("mpiuser:") or user.split(":")[2] == str(os.getuid())] == [mine]


@pytest.mark.parametrize("family", ["intel-mpi", "mpich"])
def test_hydra_reads_the_hosts_of_trainer(tmp_path: Path, sh: list[str], family: str) -> None:
    """The launcher is listed by its own hostname."""
    run = prepare(tmp_path, sh, family, is_launcher=True)
    assert (run / "hostfile").read_text() == f"job-node-0-0.job:8\njob-node-0-1.job:8\n{os.uname().nodename}:8\n"


def wait_for_hosts(folder: Path, sh: list[str], ssh: str, patience: int) -> tuple[int, str]:
    """Run the waiting script with a replaced `ssh`; return its exit code and output."""
    for name, text in (("ssh", ssh), ("sleep", "")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "hostfile").write_text(HOSTFILE)
    text = script("hosts.sh").replace("/etc/mpi", str(folder))
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "FOLDER": str(folder)}
    ran = subprocess.run(
        [*sh, f"patience={patience}\n{text}"], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout == ""
    return ran.returncode, ran.stderr


def test_a_launcher_waits_until_ssh_connects_to_every_other_host(tmp_path: Path, sh: list[str]) -> None:
    late = 'echo "$*" >> $FOLDER/asked; [ "$(wc -l < $FOLDER/asked)" -gt 3 ]'
    assert wait_for_hosts(tmp_path, sh, late, 60) == (0, "")
    asked = [line.rpartition(" ")[0].rpartition(" ")[2] for line in (tmp_path / "asked").read_text().splitlines()]
    assert asked == ["job-node-0-0.job"] * 4 + ["job-node-0-1.job"]


def test_a_launcher_that_times_out_reports_the_host_and_the_reason(tmp_path: Path, sh: list[str]) -> None:
    refused = 'case "$*" in *node-0-0*) ;; *) echo "Connection refused"; exit 255;; esac'
    code, said = wait_for_hosts(tmp_path, sh, refused, 0)
    assert (code, len(said.splitlines())) == (1, 1)
    assert said.startswith(
        "ssh did not connect to `job-node-0-1.job` within 0 s: Connection refused. mpirun would start"
    )
    assert "Read the log of the pod whose name starts with `job-node-0-1`, and check" in said


@pytest.mark.parametrize(
    ("variables", "options"), [({"I_MPI_HYDRA_HOST_FILE": "/run/mpi/hostfile"}, ["-genvnone"]), ({}, [])]
)
@pytest.mark.parametrize("name", ["mpirun", "mpiexec", "mpiexec.hydra"])
def test_mpirun_replaces_the_hostfile_of_trainer_and_keeps_other_arguments(
    tmp_path: Path, sh: list[str], name: str, variables: dict[str, str], options: list[str]
) -> None:
    real = tmp_path / name
    real.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    real.chmod(0o755)
    asked = ["--hostfile", "/etc/mpi/hostfile", "-n", "4", "bash", "-c", 'echo "a  b" $HOME']
    ran = subprocess.run(
        [*sh, script("mpirun.sh"), f"/run/mpi/bin/{name}", *asked],
        env={"PATH": f"/run/mpi/bin:{tmp_path}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    passed = [*options, "-f", "/run/mpi/hostfile", *asked[2:]]
    assert ran.stdout.splitlines() == [f"<{argument}>" for argument in passed]


def test_a_rank_gets_its_number_and_the_address_of_rank_0(tmp_path: Path, sh: list[str]) -> None:
    (tmp_path / "uname").write_text("#!/bin/sh\necho my-job-1-node-0-3\n")
    (tmp_path / "uname").chmod(0o755)
    told = {"RANK": "5", "SIZE": "8", "LOCAL_RANK": "1", "LOCAL_SIZE": "4"}
    ran = subprocess.run(
        [*sh, script("rank.sh"), "rank", "env"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **{f"OMPI_COMM_WORLD_{name}": v for name, v in told.items()}},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = dict(line.split("=", 1) for line in ran.stdout.splitlines())
    assert (seen["RANK"], seen["WORLD_SIZE"], seen["LOCAL_RANK"], seen["LOCAL_WORLD_SIZE"]) == ("5", "8", "1", "4")
    assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == ("my-job-1-node-0-0.my-job-1", "29500")
