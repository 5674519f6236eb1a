"""Test the shell scripts of runtimes in every shell of this machine that images use as /bin/sh."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from generator import Runtime
from generator.facts.families import FAMILIES
from generator.facts.programs import Software
from generator.facts.table import read_rows
from generator.runtimes.pod_scripts import check_script, files_script, script

SHELLS = [shell for shell in ("dash", "bash --posix", "busybox sh") if shutil.which(shell.split()[0])]
HOSTFILE = f"job-node-0-0.job slots=8\njob-node-0-1.job slots=8\n{os.uname().nodename}.job slots=8\n"


@pytest.fixture(params=SHELLS)
def sh(request: pytest.FixtureRequest) -> list[str]:
    shell: str = request.param
    return [*shell.split(), "-c"]


def prepare(folder: Path, sh: list[str], family: str, *, is_launcher: bool) -> Path:
    """Run the init container's script with its absolute paths moved into a folder."""
    run, mpi, passwd = folder / "run", folder / "mpi", folder / "passwd"
    run.mkdir(exist_ok=True)
    mpi.mkdir(exist_ok=True)
    (mpi / "hostfile").write_text(HOSTFILE)
    passwd.write_text(
        f"root:x:0:0::/root:/bin/bash\nmpiuser:x:4711:4711::/somewhere:/bin/bash\nme:x:{os.getuid()}:0::/:/no\n"
    )
    text = files_script(Runtime.model_validate({"name": "r", "use": family, "pool": "p"}), is_launcher=is_launcher)
    for path, here in (("/run/mpi", run), ("/etc/mpi", mpi), ("/etc/passwd", passwd)):
        text = text.replace(path, str(here))
    subprocess.run([*sh, text], check=True)
    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_files_script(tmp_path: Path, sh: list[str], family: str) -> None:
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


def test_the_files_can_be_written_again(tmp_path: Path, sh: list[str]) -> None:
    """The kubelet runs init containers again after a restart of the node, on the same volume."""
    run = prepare(tmp_path, sh, "mpich", is_launcher=True)
    first = {path: path.read_text() for path in run.rglob("*") if path.is_file()}
    assert prepare(tmp_path, sh, "mpich", is_launcher=True) == run
    assert {path: path.read_text() for path in run.rglob("*") if path.is_file()} == first


def image(folder: Path, *missing: str, extra: str = "") -> str:
    """Make a folder with empty programs, without those that are missing, and return its path."""
    programs = {program for row in read_rows("programs", "programs", Software) for program in row.programs}
    folder.mkdir()
    for program in {*programs, "orted", *filter(None, [extra])} - {*missing}:
        if "/" not in program and "|" not in program:
            (folder / program).write_text("")
            (folder / program).chmod(0o755)
    return str(folder)


def check(sh: list[str], path: str, *, path_of_launcher: str = "", is_launcher: bool = True, **runtime: Any) -> str:
    """Run the check of the init container with a PATH; return its message."""
    declared = Runtime.model_validate({"name": "r", "use": "openmpi", "pool": "p", **runtime})
    text = check_script(declared, path_of_launcher, is_launcher=is_launcher).replace("/opt/*", f"{path}/opt/*")
    program = [shutil.which(sh[0]) or "", *sh[1:]]
    ran = subprocess.run([*program, text], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1 if ran.stderr else 0, "")
    return ran.stderr


def test_an_image_with_all_programs_passes_the_check(tmp_path: Path, sh: list[str]) -> None:
    path = image(tmp_path / "bin")
    for use in ("openmpi", "intel-mpi", "mpich", "deepspeed"):
        assert check(sh, path, use=use) == ""


def test_one_message_names_all_missing_programs(tmp_path: Path, sh: list[str]) -> None:
    path = image(tmp_path / "bin", "ssh", "base64", "sed", "orted")
    assert check(sh, path) == (
        "prepare: the image lacks `ssh` (OpenSSH client), `base64` (coreutils), `sed` (sed), `orted` or `prted` (Open "
        "MPI). The job would start no ranks, so it fails now. Install them in the image of runtime `r`, or use another "
        "image. For OpenSSH, you can set `sshImage` of the runtime in platform.yaml instead. If the image has Open MPI "
        "in another folder, add this folder to PATH in `environment` of the runtime.\n"
    )


def test_only_pods_with_sshd_need_it(tmp_path: Path, sh: list[str]) -> None:
    path = image(tmp_path / "bin")
    needed = "need 'OpenSSH server' /usr/sbin/sshd"
    runtime = Runtime(name="r", pool="p")
    assert needed in check_script(runtime, "", is_launcher=False)
    assert needed not in check_script(runtime, "", is_launcher=True)
    brought = Runtime.model_validate({"name": "r", "pool": "p", "sshImage": "quay.io/acme/openssh:1"})
    assert needed not in check_script(brought, "", is_launcher=False)
    (tmp_path / "bin" / "ssh").unlink()
    assert "`ssh` (OpenSSH client)" in check(sh, path)
    assert check(sh, path, sshImage="quay.io/acme/openssh:1") == ""


def test_a_job_can_add_a_folder_of_the_mpi_to_path_itself(tmp_path: Path, sh: list[str]) -> None:
    path = image(tmp_path / "bin", "mpirun", "orted")
    assert "`mpirun` (Open MPI), `orted` or `prted` (Open MPI)" in check(sh, path)
    other = tmp_path / "other"
    image(other)
    assert check(sh, path, path_of_launcher=f"/run/mpi/bin:{other}") == ""
    for program in ("mpirun", "prted"):
        place = tmp_path / "bin" / "opt" / "openmpi-5" / "bin" / program
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
        place.chmod(0o755)
    assert check(sh, path) == ""


def test_ranks_with_locked_memory_need_setpriv(tmp_path: Path, sh: list[str]) -> None:
    path = image(tmp_path / "bin", "setpriv")
    assert check(sh, path) == ""
    assert "lacks `setpriv` (util-linux). The job" in check(sh, path, memlock="capability")


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
