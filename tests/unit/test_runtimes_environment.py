"""Test in every shell of the images the scripts that send the launcher's environment to the hosts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generator import Runtime
from generator.facts.env import host_variables
from generator.facts.families import FAMILIES
from generator.runtimes.pod_scripts import files_script, script
from tests.cluster.mpi.environment import expanded
from tests.conftest import ROOT

SHELLS = [shell for shell in ("dash", "bash --posix", "busybox sh") if shutil.which(shell.split()[0])]
TOOLS = "/usr/bin:/bin"
OF_SHELL = {b"_", b"OLDPWD", b"PWD", b"SHLVL"}
Variables = Mapping[bytes, bytes]

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="/proc is that of Linux")


@dataclass(frozen=True)
class Host:
    """A launcher and a host in one folder, with a pipe in place of ssh and sshd.

    Attributes:
        folder: stands for /run/mpi.
        shell: of the image.
        is_bash: whether the image has bash, which sessions then use.
        tools: where its other programs are.
    """

    folder: Path
    shell: list[str]
    is_bash: bool = True
    tools: str = TOOLS

    def install(self) -> None:
        """Write the scripts as the init container does, with its absolute paths moved into the folder."""
        runtime = Runtime.model_validate({"name": "r", "use": "openmpi", "pool": "p"})
        text = self._moved(files_script(runtime, is_launcher=False))
        subprocess.run([*self.shell, "-c", text], check=True, env={"PATH": self.tools})
        if not self.is_bash:
            (self.folder / "sh").unlink()
            (self.folder / "sh").symlink_to("/bin/dash")
        self._program("ssh", f"SSH_ORIGINAL_COMMAND=environment exec {self.folder}/bin/receive")
        connect = self.folder / "bin/connect"  # a launcher pod has no pipe for reports
        connect.write_text(connect.read_text().replace("/reports", "/no-reports"))
        session = 'for last; do :; done; SSH_ORIGINAL_COMMAND="exec cat /proc/self/environ" exec ${last#ForceCommand=}'
        self._program("sshd", session)

    def start_host(self, variables: Variables) -> None:
        """Save the environment of the host's container, as its sshd does."""
        text = self._moved(script("sshd.sh").replace("/usr/sbin/sshd -D", "true"))
        subprocess.run([*self.shell, "-c", text], env={b"PATH": self.tools.encode(), **variables}, check=True)

    def send(self, variables: Variables) -> tuple[dict[bytes, bytes], str]:
        """Connect with the environment of the launcher; return that of a session, and what was printed as an error."""
        ran = subprocess.run(
            [*self.shell, "-c", f"{self.folder}/bin/connect host < /dev/null; exit $?"],
            env={b"PATH": self.tools.encode(), **variables},
            capture_output=True,
            check=False,
        )
        entries = (entry.partition(b"=") for entry in ran.stdout.split(b"\0") if entry)
        return {name: value for name, _, value in entries}, ran.stderr.decode()

    def _moved(self, text: str) -> str:
        text = expanded(text, {})  # what the kubelet does with the words of a command
        here = {"/run/mpi": self.folder, "/usr/sbin/sshd": self.folder / "sshd"}
        here['"$(readlink "/proc/$PPID/exe")"'] = here['$(readlink "/proc/$PPID/exe")'] = self.folder / "ssh"
        for path, place in here.items():
            text = text.replace(path, str(place))
        return text

    def _program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.folder / name).chmod(0o755)


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    shell: str = request.param
    name, *options = shell.split()
    program = [shutil.which(name) or ""]
    tools = tmp_path / "tools"
    if shell.startswith("busybox"):  # an image with no other programs, and bash
        tools.mkdir()
        subprocess.run([*program, "--install", "-s", tools], check=True)
        (tools / "bash").symlink_to("/bin/bash")
    found = Host(tmp_path, [*program, *options], tools=str(tools) if tools.exists() else TOOLS)
    found.install()
    found.start_host({b"HOSTNAME": b"here", b"FROM_IMAGE": b"of the host", b"ONLY_HERE": b"1"})
    yield found
    assert not [*tmp_path.glob("session.*"), *tmp_path.glob("connect.*")]


def shared(variables: Variables) -> dict[bytes, bytes]:
    return {name: value for name, value in variables.items() if name not in {*OF_SHELL, b"HOSTNAME"}}


NAMES = st.one_of(
    st.from_regex(rb"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
    st.from_regex(rb"BASH_FUNC_[a-z]{1,4}%%", fullmatch=True),
    st.from_regex(rb"[a-z][-a-z. '\"$`\\(]{0,6}", fullmatch=True),
    st.binary(min_size=1, max_size=6).filter(lambda name: not set(name) & set(b"=\0")),
)
TRICKY = st.lists(st.sampled_from([b"'", b'"', b"\n", b"=", b"$HOME", b"\\", b"\1", b"\2", b"\2a", b"\377", b" ", b""]))
VALUES = st.one_of(st.binary(max_size=40).map(lambda value: value.replace(b"\0", b"")), TRICKY.map(b"".join))
# A shell that starts a program would change these, or cannot start without them.
RESERVED = {name.encode() for name in ("PATH", "LC_ALL", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4")}


def is_free(name: bytes) -> bool:
    return not name.startswith((b"LD_", b"BASH", b"POSIX", b"GLIBC", b"MALLOC")) and name not in {*RESERVED, *OF_SHELL}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(variables=st.dictionaries(NAMES, VALUES, max_size=12))
def test_any_environment_survives_writing_and_reading(host: Host, variables: dict[bytes, bytes]) -> None:
    """The scripts' list is turned into words and passed to `env`."""
    (host.folder / "environ").write_bytes(b"".join(b"%s=%s\0" % each for each in variables.items()))
    text = f'. {host.folder}/environment.sh; cd {host.folder}; eval "set -- $(list < environ | words)"'
    ran = subprocess.run(
        [*host.shell, "-c", f'{text}; exec env -i -- "$@" /bin/cat /proc/self/environ'],
        env={"PATH": host.tools},
        capture_output=True,
        check=True,
    )
    assert dict(entry.split(b"=", 1) for entry in ran.stdout.split(b"\0") if entry) == variables


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(variables=st.dictionaries(NAMES.filter(is_free), VALUES, max_size=8))
def test_a_session_gets_the_environment_of_the_launcher(host: Host, variables: dict[bytes, bytes]) -> None:
    sent = {**variables, b"HOSTNAME": b"launcher"}
    got, said = host.send({name: value for name, value in sent.items() if not name.startswith(b"BASH_FUNC")})
    assert said == ""
    assert got[b"HOSTNAME"] == b"here"
    assert shared(got) == {**shared(sent), b"PATH": host.tools.encode()}


def test_functions_exported_by_bash_arrive(host: Host) -> None:
    function = {b"BASH_FUNC_greet%%": b"() {  echo hello\n}"}
    got, _ = host.send(function)
    assert function.items() <= got.items()


def test_two_hundred_variables_and_long_values_arrive(host: Host) -> None:
    sent = {b"NAME_%d" % number: b"v" * number for number in range(200)} | {b"LONG": b"'" * 120_000}
    got, said = host.send(sent)
    assert said == ""
    assert shared(got) == {**sent, b"PATH": host.tools.encode()}


def test_the_launcher_overrides_values_of_the_image_on_the_host(host: Host) -> None:
    got, _ = host.send({b"FROM_IMAGE": b"changed by the job"})
    assert got[b"FROM_IMAGE"] == b"changed by the job"
    assert b"ONLY_HERE" not in got


def test_a_host_keeps_the_variables_of_the_table(tmp_path: Path) -> None:
    host = Host(tmp_path, ["dash"])
    host.install()
    rows = {row.name.replace("*", "ANY").encode(): row.scope for row in host_variables()}
    rows = {name: scope for name, scope in rows.items() if name not in OF_SHELL}  # each shell sets those for itself
    host.start_host(dict.fromkeys(rows, b"host"))
    kept, _ = host.send(dict.fromkeys(rows, b"launcher"))
    host.start_host({})
    without, _ = host.send(dict.fromkeys(rows, b"launcher"))
    expected = {"host": (b"host", None), "device": (b"host", b"launcher"), "process": (None, None)}
    for name, scope in rows.items():
        assert (kept.get(name), without.get(name)) == expected[scope], name


def test_a_host_that_would_lose_a_variable_starts_nothing(host: Host) -> None:
    receive = host.folder / "bin/receive"
    receive.write_text(receive.read_text().replace("  shared < sent\n", "  shared < sent | grep -v ^UCX_TLS=\n", 1))
    got, said = host.send({b"UCX_TLS": b"^tcp", b"OMPI_MCA_pml": b"ucx"})
    assert got == {}
    assert "the environment differs from the launcher's in `UCX_TLS`. Ranks would run with different settings" in said


def test_a_host_with_another_list_of_host_variables_starts_nothing(host: Host) -> None:
    launcher = host.folder / "bin/connect"
    launcher.write_text(launcher.read_text().replace("environment.sh", "other.sh"))
    functions = (host.folder / "environment.sh").read_text()
    (host.folder / "other.sh").write_text(functions.replace("of_host='", "of_host='UCX_TLS|", 1))
    got, said = host.send({b"UCX_TLS": b"^tcp"})
    assert got == {}
    assert "differs from the launcher's in `the list of variables that belong to a host`" in said


@pytest.mark.skipif(not shutil.which("dash"), reason="there is no dash")
def test_a_shell_that_would_drop_a_variable_is_not_used(tmp_path: Path) -> None:
    host = Host(tmp_path, ["dash"], is_bash=False)
    host.install()
    host.start_host({})
    got, said = host.send({b"a.b": b"1", b"c": b"2"})
    assert got == {}
    assert "the shell of this image drops variables whose names are not identifiers: `a.b`. Ranks would run" in said
    assert host.send({b"c": b"2"})[0][b"c"] == b"2"


def test_an_ssh_that_sends_no_environment_is_rejected(host: Host) -> None:
    ran = subprocess.run(
        [host.folder / "bin/receive"],
        env={"PATH": TOOLS, "SSH_ORIGINAL_COMMAND": "hostname"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "this ssh did not send the environment of its job" in ran.stderr


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("is_launcher", [True, False])
def test_the_kubelet_expands_no_text_of_the_scripts(family: str, *, is_launcher: bool) -> None:
    """The kubelet replaces `$(NAME)` of declared variables, and `$$`."""
    runtime = Runtime.model_validate({"name": "r", "use": family, "pool": "p", "memlock": "capability"})
    text = files_script(runtime, is_launcher=is_launcher)
    assert expanded(text, dict.fromkeys(os.environ, "x")) == text


def test_the_docs_list_every_host_variable() -> None:
    page = (ROOT / "docs/reference/runtimes.md").read_text("utf-8")
    assert [row.name for row in host_variables() if f"`{row.name}`" not in page] == []


def test_every_host_variable_has_a_reason_and_a_source() -> None:
    rows = host_variables()
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.scope in {"host", "device", "process"}
        assert re.fullmatch(r"[A-Z_]+\*?", row.name)
        assert row.reason
        assert row.source
