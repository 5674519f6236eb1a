"""Test that a real node leaves nothing on the machine, and that its registry serves what the images have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.kubelet import cgroups, settings
from tests.cluster.kubelet.layout import Blobs
from tests.cluster.kubelet.node import Node, logs_of
from tests.cluster.kubelet.plan import DATA, PLAN, Plan
from tests.cluster.nodes import is_ready

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
_UNUSED = 1 << 22  # above the largest process id of Linux
_RUN = """
import sys, time
from pathlib import Path
from tests.cluster.kubelet.node import start
start(Path(sys.argv[1]))
time.sleep(600)
"""


@pytest.fixture
def second(real_node: Node, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a second node, which does not run yet.

    Its path is short, because the path of a socket has at most 107 bytes, and kubelet makes one below it.
    """
    folder = tmp_path_factory.mktemp("second")
    plan: Plan = json.loads((real_node.folder / PLAN).read_text())
    second: Plan = {**plan, "name": f"{plan['name']}-second", "folder": str(folder)}
    (folder / PLAN).write_text(json.dumps(second))
    return folder


@pytest.fixture
def run(second: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a test run with the second node."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = subprocess.Popen([sys.executable, "-c", _RUN, str(second)], env=environment)
    yield started
    started.kill()
    started.wait()


def test_a_killed_test_run_leaves_nothing_of_its_node(
    run: subprocess.Popen[bytes], second: Path, admin: Client, namespace: str
) -> None:
    name = json.loads((second / PLAN).read_text())["name"]
    node: Body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    try:
        wait_until("the node is ready", lambda: admin.exists(node) and is_ready(admin.read(node)), 300)
    except TimeoutError as error:
        pytest.fail(f"{error}\n{logs_of(second)}")
    pod = _pod(namespace, name)
    wait_until("the pod can be created", lambda: _has_account(admin, namespace))
    admin.create(pod)
    wait_until("the pod runs", lambda: admin.read(pod)["status"]["phase"] == "Running")
    [supervisor] = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    left = partial(_left, supervisor, second)
    assert len(left()) > len(cgroups.hierarchies())
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait_for("nothing is left", lambda: not left() or None, 30)
    admin.delete(node)


def _pod(namespace: str, node: str) -> Body:
    container = {"name": "sleeps", "image": settings.PAUSE, "command": ["/bin/sh", "-c", "sleep infinity & wait"]}
    metadata = {"name": "sleeps", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container], "automountServiceAccountToken": False},
    }


def _has_account(admin: Client, namespace: str) -> bool:
    metadata = {"name": "default", "namespace": namespace}
    return admin.exists({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def _left(supervisor: str, folder: Path) -> list[Path]:
    """Return what exists of a node: its supervisor, network interface, control groups and data."""
    groups = [Path("/sys/fs/cgroup") / hierarchy / cgroups.name_of(supervisor) for hierarchy in cgroups.hierarchies()]
    places = [Path("/proc") / supervisor, Path(f"/sys/class/net/node{supervisor}"), folder / DATA, *groups]
    return [place for place in places if place.exists()]


def test_the_next_node_removes_control_groups_of_a_killed_supervisor() -> None:
    if reason := cgroups.lacking():
        pytest.skip(reason)
    leftover = Path("/sys/fs/cgroup/memory") / cgroups.name_of(_UNUSED)
    (leftover / "kubepods" / "pod").mkdir(parents=True)
    cgroups.remove_leftovers()
    assert not leftover.exists()


def test_a_removed_file_of_a_lower_layer_is_a_whiteout_of_the_archive(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can create the mark of overlayfs")
    layer, stored = tmp_path / "layer", tmp_path / "blobs"
    (layer / "usr").mkdir(parents=True)
    stored.mkdir()
    (layer / "usr" / "kept").write_text("x")
    os.mknod(layer / "usr" / "removed", 0o020000, os.makedev(0, 0))
    descriptor = Blobs(stored).layer(layer)
    with tarfile.open(Blobs(stored).path(descriptor["digest"])) as archive:
        names = [member.name for member in archive.getmembers() if not member.isdir()]
    assert names == ["./usr/kept", "./usr/.wh.removed"]
