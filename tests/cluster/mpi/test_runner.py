"""Test the runner: it runs pods, reports their exit codes, and leaves no processes."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.cluster.client import Body, wait_until
from tests.cluster.mpi import openshift
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.runner import Outcome, Runner, Surroundings
from tests.conftest import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
Run = Callable[..., Outcome]
IMAGE = "mpi.test/mpich"
SECRET = {"kind": "Secret", "data": {"key": base64.b64encode(b"secret\n").decode()}}
WRITE = "echo someone:x:1000:1000::/somewhere:/bin/sh > /shared/passwd"
SERVE = "import socket; s = socket.create_server(('', 2222)); [s.accept() for _ in iter(int, 1)]"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 2222), 2)"


def pod(name: str, script: str, *, init: str = "", mounts: Any = (), volumes: Any = (), **security: object) -> Body:
    """A pod of one container that runs a shell script as user 1000."""
    container: Body = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script], "volumeMounts": [*mounts]}
    container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, **security}
    shared = {"name": "shared", "mountPath": "/shared"}
    before = {"name": "before", "image": IMAGE, "command": ["sh", "-c", init], "volumeMounts": [shared]}
    spec: Body = {
        "hostname": name,
        "subdomain": "job",
        "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
        "initContainers": [before] if init else [],
        "containers": [container],
        "volumes": [{"name": "shared", "emptyDir": {}}, *volumes],
    }
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


@pytest.fixture
def run(images: Callable[[str], Image], tmp_path: Path) -> Run:
    """Run pods, all at once or in waves."""

    def run(
        *waves: Body | list[Body],
        seconds: float = 30,
        names_users: bool = False,
        delete: Body | None = None,
        claims: Mapping[str, Path] = MappingProxyType({}),
    ) -> Outcome:
        runner = Runner(lambda *_: SECRET, images, names_users=names_users, claims=claims)
        name = delete["metadata"]["name"] if delete else ""
        around = Surroundings(deletions=[{"pods": [name], "of": name, "text": "ready"}] if delete else [])
        return runner.run([wave if isinstance(wave, list) else [wave] for wave in waves], tmp_path, seconds, around)

    return run


def printed(run: Run, one: Body, **options: Any) -> list[str]:
    """The lines that a pod printed."""
    outcome = run(one, **options)
    assert set(outcome.codes.values()) == {0}, str(outcome)
    return outcome.log(one, "main").splitlines()


def test_output_and_exit_code_of_a_failed_container_are_reported(run: Run) -> None:
    one, other = pod("one", "echo out; echo err >&2; exit 7"), pod("other", "exit 0")
    outcome = run([one, other])
    assert outcome.codes == {("one", "main"): 7, ("other", "main"): 0}
    assert outcome.log(one, "main") == "out\nerr\n"


def test_a_program_missing_from_the_image_is_reported(run: Run) -> None:
    one = pod("one", "")
    one["spec"]["containers"][0]["command"] = ["absent"]
    outcome = run(one)
    assert outcome.codes == {("one", "main"): 127}
    assert outcome.log(one, "main").startswith("there is no absent in /opt/mpi/bin:")


def test_a_failed_init_container_stops_its_pod_and_later_waves(run: Run) -> None:
    one, other = pod("one", "echo no", init="echo broken; exit 3"), pod("other", "echo no")
    outcome = run(one, other)
    assert outcome.codes == {("one", "before"): 3}
    assert outcome.problem == "init container before of one ended with code 3"
    assert outcome.log(one, "before") == "broken\n"


def test_a_pod_that_ends_before_it_is_ready_stops_later_waves(run: Run) -> None:
    one = pod("one", "exit 4")
    one["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 2222}}
    outcome = run(one, pod("other", "echo no"))
    assert outcome.codes == {("one", "main"): 4}
    assert outcome.problem == "container main of one ended with code 4"


def test_pods_that_exceed_the_time_limit_are_ended(run: Run) -> None:
    outcome = run([pod("one", "sleep 600"), pod("other", "exit 0")], seconds=2)
    assert outcome.codes == {("one", "main"): None, ("other", "main"): 0}
    assert outcome.problem == "not done in time: one"


def test_a_wave_starts_when_the_ports_of_the_previous_wave_answer(run: Run) -> None:
    server = pod("server", f'sleep 1; exec python3 -c "{SERVE}"')
    server["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 2222}}
    client = pod(
        "client",
        f"""
        python3 -c "{CONNECT}" server.job && echo reached
        python3 -c "{CONNECT}" server.job.team.svc.cluster.local && echo reached
        python3 -c "{CONNECT}" server 2>/dev/null || echo unknown
        python3 -c "{CONNECT}" 192.168.9.1 2>/dev/null || echo dead end
        ls /sys/class/net | xargs; hostname
    """,
    )
    outcome = run(server, client)
    assert outcome.log(client, "main").splitlines() == ["reached"] * 2 + [
        "unknown",
        "dead end",
        "eth0 lo net1",
        "client",
    ]


def test_an_init_container_file_can_be_mounted_over_an_image_file(run: Run) -> None:
    mount = {"name": "shared", "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True}
    one = pod("one", "whoami; echo $HOME; echo x 2>&- >> /etc/passwd || echo read-only", init=WRITE, mounts=[mount])
    assert printed(run, one) == ["someone", "/somewhere", "read-only"]


def test_volumes_have_the_owners_and_modes_of_the_kubelet(run: Run) -> None:
    items = [{"key": "key", "path": "key", "mode": 0o640}, {"key": "key", "path": "deep/other"}]
    volumes = [
        {"name": "secret", "secret": {"secretName": "any", "defaultMode": 0o400, "items": items}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]
    places = {"shared": "/shared", "secret": "/home/mpiuser/.ssh", "memory": "/dev/shm"}
    mounts = [{"name": name, "mountPath": path} for name, path in places.items()]
    files = "/shared /dev/shm /home/mpiuser/.ssh /home/mpiuser/.ssh/key /home/mpiuser/.ssh/deep/other"
    script = (
        f"stat -c '%a %u %g' {files}; echo x 2>&- > /home/mpiuser/.ssh/x || echo read-only; df --output=size /dev/shm"
    )
    lines = printed(run, pod("one", script, mounts=mounts, volumes=volumes))
    assert lines[:5] == ["2777 0 2000", "3777 0 2000", "3777 0 2000", "640 0 2000", "440 0 2000"]
    assert [lines[5], lines[7].strip()] == ["read-only", "1024"]


def test_only_volumes_are_writable_with_a_read_only_root_filesystem(run: Run) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    script = "for path in /tmp /home/mpiuser /shared; do echo x 2>&- > $path/x && echo $path; done; true"
    assert printed(run, pod("one", script, mounts=mounts, readOnlyRootFilesystem=True)) == ["/shared"]


RIGHTS = "id -u; id -g; id -G; grep -E '^(CapPrm|CapBnd|NoNewPrivs)' /proc/self/status | cut -f 2"


def test_a_container_has_only_the_capabilities_it_requests(run: Run) -> None:
    one = pod("one", RIGHTS, capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})
    assert printed(run, one) == ["1000", "1000", "1000 2000", "0" * 16, f"{1 << 10:016x}", "1"]


def test_a_container_without_requests_has_the_default_capabilities_of_containerd(run: Run) -> None:
    one = pod("one", RIGHTS, capabilities={}, allowPrivilegeEscalation=True, runAsUser=0)
    assert printed(run, one) == ["0", "0", "0 2000", "00000000a80425fb", "00000000a80425fb", "0"]


def test_a_user_missing_from_the_image_has_no_name_with_containerd(run: Run) -> None:
    one = pod("one", "id -u; id -g; getent passwd $(id -u); echo $HOME; true", runAsUser=openshift.USER)
    user = str(openshift.USER)
    assert printed(run, one) == [user, "0", "/"]


def test_cri_o_gives_an_unknown_user_a_name_without_a_shell(run: Run) -> None:
    user = str(openshift.USER)
    one = pod("one", "getent passwd $(id -u); echo $HOME", runAsUser=openshift.USER)
    assert printed(run, one, names_users=True) == [f"{user}:x:{user}:0:{user} user:/:/sbin/nologin", "/"]


SLOW = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep({}), sys.exit(5)));"
SLOW += " print('ready', flush=True); time.sleep(60)"


def stopping(name: str, *, takes: float, grace: int, hook: str = "") -> Body:
    """A pod whose process 1 takes some seconds to end after TERM, and ends with 5."""
    one = pod(name, "exec python3 -c '" + SLOW.format(takes).replace("'", '"') + "'")
    one["spec"]["terminationGracePeriodSeconds"] = grace
    if hook:
        one["spec"]["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", hook]}}}
    return one


def test_a_deleted_pod_gets_term_and_its_grace(run: Run) -> None:
    one = stopping("one", takes=1.5, grace=10)
    outcome = run(one, delete=one)
    assert outcome.codes == {("one", "main"): 5}, str(outcome)
    assert 1.5 <= outcome.stopped_in["one", "main"] < 5


def test_a_deleted_pod_is_killed_after_its_grace(run: Run) -> None:
    one = stopping("one", takes=50, grace=3)
    outcome = run(one, delete=one)
    assert outcome.codes == {("one", "main"): 137}, str(outcome)
    assert 3 <= outcome.stopped_in["one", "main"] < 6


def test_a_process_1_without_a_handler_ignores_term(run: Run) -> None:
    one = pod("one", "echo ready; exec sleep 50")
    one["spec"]["terminationGracePeriodSeconds"] = 2
    outcome = run(one, delete=one)
    assert outcome.codes == {("one", "main"): 137}, str(outcome)


def test_a_hook_runs_in_the_container_before_term(run: Run) -> None:
    hook = "echo of the hook; id -u; hostname; tr '\\0' ' ' < /proc/1/cmdline | cut -c 1-7; sleep 2; echo done"
    one = stopping("one", takes=0, grace=10, hook=hook)
    outcome = run(one, delete=one)
    assert outcome.codes == {("one", "main"): 5}, str(outcome)
    assert 2 <= outcome.stopped_in["one", "main"] < 5
    assert outcome.log(one, "main.preStop").splitlines() == ["of the hook", "1000", "one", "python3", "done"]


def test_the_time_of_a_hook_counts_and_two_seconds_remain(run: Run) -> None:
    one = stopping("one", takes=50, grace=3, hook="sleep 40")
    outcome = run(one, delete=one)
    assert outcome.codes == {("one", "main"): 137}, str(outcome)
    assert 5 <= outcome.stopped_in["one", "main"] < 8


def test_a_container_that_ends_ends_its_hook(run: Run) -> None:
    one = stopping("one", takes=0, grace=20, hook="sleep 1; kill 1; sleep 40")
    outcome = run(one, delete=one)
    assert outcome.codes == {("one", "main"): 5}, str(outcome)
    assert 1 <= outcome.stopped_in["one", "main"] < 5


def test_a_termination_message_is_read_from_its_file_or_the_log(run: Run) -> None:
    written, logged, fine = (
        pod("one", "echo why > /dev/termination-log"),
        pod("two", "echo why; exit 1"),
        pod("three", ""),
    )
    for each in (logged, fine):
        each["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    outcome = run([written, logged, fine])
    assert outcome.messages == {("one", "main"): "why\n", ("two", "main"): "why\n", ("three", "main"): ""}


def test_pods_share_the_folder_of_a_claim(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("claim")
    mount, volume = (
        {"name": "kept", "mountPath": "/kept"},
        {"name": "kept", "persistentVolumeClaim": {"claimName": "c"}},
    )
    options: Any = {"mounts": [mount], "volumes": [volume]}
    one = pod("one", "umask 002; echo kept > /kept/file; stat -c '%g' /kept/file", **options)
    other = pod("other", "until cat /kept/file; do sleep 0.1; done 2> /dev/null", **options)
    outcome = run([one, other], claims={"c": folder})
    assert (outcome.log(one, "main"), outcome.log(other, "main")) == ("2000\n", "kept\n"), str(outcome)
    assert (folder / "file").read_text() == "kept\n"


def alive(seconds: int) -> bool:
    """Return True if a `sleep` process of so many seconds runs on this machine."""
    return any(command(process) == f"sleep\0{seconds}\0" for process in Path("/proc").glob("[0-9]*"))


def command(process: Path) -> str:
    """Return the command of a process, or an empty one if it has just ended."""
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def test_no_process_outlives_a_run(run: Run) -> None:
    seconds = 1_000_000 + os.getpid()
    outcome = run(pod("one", f"sleep {seconds} & setsid sleep {seconds} & sleep 1; exit 0"))
    assert outcome.codes == {("one", "main"): 0}
    assert not alive(seconds)


KILLED = """
import pathlib
from tests.cluster.mpi.images import image
from tests.cluster.mpi.runner import Runner
from tests.cluster.mpi.test_runner import pod
script = "setsid sleep {seconds} & sleep {seconds}"
Runner(None, image).run([[pod("one", script), pod("other", script)]], pathlib.Path({folder!r}), 600)
"""


@pytest.mark.usefixtures("images")
def test_no_process_outlives_a_killed_test_run(tmp_path: Path) -> None:
    seconds = 2_000_000 + os.getpid()
    script = KILLED.format(seconds=seconds, folder=str(tmp_path))
    run = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    wait_until("the pods run", lambda: alive(seconds), 20)
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait_until("they ended too", lambda: not alive(seconds), 5)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert not any((Path("/sys/class/net") / name).exists() for name in ("pods", "pod1", "pod2", "dead1", "dead2"))
    assert list((tmp_path / "scratch").iterdir()) == []
