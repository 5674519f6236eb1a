"""Test the shell scripts of runtimes in every shell of this machine that images use as /bin/sh."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generator import Runtime
from generator.facts.families import FAMILIES
from generator.facts.programs import Software
from generator.facts.table import read_rows
from generator.runtimes.image_needs import PATH
from generator.runtimes.pod_scripts import STOPPED, check_script, files_script, script

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
    moved = {"/run/mpi": run, "/etc/mpi": mpi, "/etc/passwd": passwd, "/dev/termination-log": folder / "message"}
    for path, here in moved.items():
        text = text.replace(path, str(here))
    subprocess.run([*sh, text], check=True)
    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_files_script(tmp_path: Path, sh: list[str], family: str) -> None:
    run = prepare(tmp_path, sh, family, is_launcher=False)
    assert {"passwd", "ssh_config", "sshd_config", "environment.sh", "reports", "sh", "bin"} == {
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


@pytest.fixture
def mpirun(tmp_path: Path, sh: list[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Return a function that runs mpigen's `mpirun` over a script; it returns the exit code and the output."""
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    run = tmp_path / "run"

    def start(text: str, *arguments: str, path: str = "") -> tuple[int, str]:
        (own / "mpirun").write_text(f"#!/bin/sh\n{text.replace('/run/mpi', str(run))}\n")
        (own / "mpirun").chmod(0o755)
        prepare(tmp_path, sh, "openmpi", is_launcher=True)
        of_pod = PATH.replace("/run/mpi", str(run)) if not path else f"{run}/bin:{path}"
        command: list[str | Path] = [run / "bin/mpirun", *arguments]
        ran = subprocess.run(command, env={"PATH": of_pod}, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout + ran.stderr

    return start


def test_mpirun_runs_the_mpirun_and_the_path_of_the_image(mpirun: Callable[..., tuple[int, str]]) -> None:
    code, output = mpirun('printf "<%s>" "$@"; echo "$PATH"', "a  b", "", "*")
    assert code == 0
    assert output.startswith("<a  b><><*>")
    assert output.removeprefix("<a  b><><*>").startswith(f"{os.environ['PATH']}:")


def test_mpirun_runs_on_a_declared_path(mpirun: Callable[..., tuple[int, str]]) -> None:
    assert mpirun('echo "$PATH"', path=os.environ["PATH"]) == (0, f"{os.environ['PATH']}\n")


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (3, 3), (143, 143), (75, 1)])
def test_mpirun_has_the_code_of_the_mpirun_of_the_image(
    mpirun: Callable[..., tuple[int, str]], tmp_path: Path, code: int, expected: int
) -> None:
    assert mpirun(f"exit {code}") == (expected, "")
    assert not (tmp_path / "message").exists()


@pytest.mark.parametrize("code", [0, 1])
def test_mpirun_of_a_stopped_job_ends_with_75_and_a_message(
    mpirun: Callable[..., tuple[int, str]], tmp_path: Path, code: int
) -> None:
    assert mpirun(f": > /run/mpi/stopping; exit {code}")[0] == STOPPED
    message = (tmp_path / "message").read_text()
    assert message.startswith("Kubernetes stopped pods of this job: ")
    assert f"mpirun ended with code {code}, and the launcher ends with code 75" in message
    assert mpirun("echo started")[0] == STOPPED, "a launcher that stops starts ranks"


def test_mpirun_that_the_image_lacks_is_reported(mpirun: Callable[..., tuple[int, str]]) -> None:
    code, output = mpirun("", path="/nowhere:/usr/bin:/bin")
    assert code == 127
    assert "mpirun: the image has no such program in `/nowhere:/usr/bin:/bin`" in output


def test_programs_of_the_image_find_its_path(mpirun: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """A TrainJob can name any program, also a program in a folder that only the PATH of the image has."""
    other = tmp_path / "own/other"
    mpirun("")
    other.write_text("#!/bin/sh\necho $PATH; echo $0 $1")
    other.chmod(0o755)
    mpirun("")
    command: list[str | Path] = [tmp_path / "run/image/other", "a"]
    ran = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert ran.stdout == f"{tmp_path}/run/bin:{os.environ['PATH']}\n{other} a\n"


def image(folder: Path, *missing: str, extra: str = "") -> str:
    """Make a folder with empty programs, without the missing ones, and return its path."""
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
    """The launcher is listed first, by its own hostname."""
    run = prepare(tmp_path, sh, family, is_launcher=True)
    assert (run / "hostfile").read_text() == f"{os.uname().nodename}:8\njob-node-0-0.job:8\njob-node-0-1.job:8\n"


def wait_for_hosts(
    folder: Path, sh: list[str], patience: int, *, gang: bool = True, **programs: str
) -> tuple[int, list[str]]:
    """Run the waiting script with replaced programs; return its exit code and the sorted lines of its output."""
    for name, text in {"ssh": "", "getent": "", **programs, "sleep": ""}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "hostfile").write_text(HOSTFILE)
    numbers = f"patience={patience} gang={'yes' if gang else ''}\n"
    text = script("hosts.sh").replace("/etc/mpi", str(folder))
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "FOLDER": str(folder)}
    ran = subprocess.run([*sh, f"{numbers}{text}"], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == ""
    return ran.returncode, sorted(ran.stderr.splitlines())


LATE = 'host={}; echo x >> $FOLDER/$host; [ "$(wc -l < $FOLDER/$host)" -gt {} ]'
"""A program that succeeds at the fourth attempt for a host, or at another number."""


def test_a_launcher_in_a_gang_waits_until_ssh_connects_to_every_other_host(tmp_path: Path, sh: list[str]) -> None:
    late = LATE.format("$(expr $# - 1); eval host=\\$$host", 3)
    assert wait_for_hosts(tmp_path, sh, 60, ssh=late) == (0, [])
    for host in ("job-node-0-0.job", "job-node-0-1.job"):
        assert (tmp_path / host).read_text() == "x\n" * 4
    assert not (tmp_path / f"{os.uname().nodename}.job").exists()


def test_a_launcher_waits_until_dns_has_the_names_of_all_hosts_and_its_own(tmp_path: Path, sh: list[str]) -> None:
    assert wait_for_hosts(tmp_path, sh, 60, gang=False, ssh="exit 1", getent=LATE.format("$2", 2)) == (0, [])
    for host in ("job-node-0-0", "job-node-0-1", os.uname().nodename):
        assert (tmp_path / f"{host}.job").read_text() == "x\n" * 3


def test_a_launcher_that_times_out_reports_every_host_and_the_reason(tmp_path: Path, sh: list[str]) -> None:
    refused = 'case "$*" in *node-0-0*) ;; *) echo "Connection refused"; exit 255;; esac'
    code, lines = wait_for_hosts(tmp_path, sh, 0, ssh=refused, getent="exit 2")
    me = os.uname().nodename
    reasons = {"job-node-0-1.job": "Connection refused", f"{me}.job": "DNS has no address for this name"}
    assert (code, lines) == (
        1,
        sorted(
            f"the launcher did not reach `{host}` within 0 s: {reason}. mpirun would start no rank on this host, so "
            "the launcher stops and the job fails. Read the log of the pod whose name starts with "
            f"`{host.partition('.')[0]}`, and check that NetworkPolicies allow DNS, and ssh between the pods of the "
            "job."
            for host, reason in reasons.items()
        ),
    )
