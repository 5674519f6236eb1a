"""Start a real node for the tests, and wait until the API server has it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.client import Body, wait_until
from tests.cluster.control_plane import KUBELET, REAL, Cluster
from tests.cluster.kubelet import cgroups
from tests.cluster.kubelet.layout import Blobs, Descriptor, blobs, manifest
from tests.cluster.kubelet.plan import PLAN, Plan
from tests.cluster.mpi.images import Image
from tests.cluster.nodes import is_ready
from tests.cluster.processes import StartError
from tests.conftest import ROOT

Programs = Mapping[str, Path]
"""`kubelet` and `coredns` → the built program."""
_ENDING = 60  # seconds
_TOOLS = ("containerd", "containerd-shim-runc-v2", "runc", "tar", "/usr/lib/cni/ptp")
_BINDING: Body = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "tests:nodes"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
}


def lacking() -> str:
    """Return the reason why this machine cannot run a kubelet, or an empty string."""
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        return f"there is no {', '.join(missing)}; tests/cluster/mpi/setup.sh installs it"
    return cgroups.lacking()


@dataclass(frozen=True, slots=True)
class Node:
    """A running node.

    Attributes:
        name: of its Node object.
        folder: where the logs of its programs are.
        seconds: the time that it took to become ready.
    """

    name: str
    folder: Path
    seconds: float

    def tail(self, program: str, lines: int = 30) -> str:
        """Return the end of a program's log: kubelet, containerd, coredns or registry."""
        return "\n".join((self.folder / f"{program}.log").read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def running_node(
    cluster: Cluster,
    programs: Programs,
    folder: Path,
    images: Mapping[str, Image],
    labels: Mapping[str, str],
    taints: Iterable[Body] = (),
) -> Iterator[Node]:
    """Run a node of a pool.

    Args:
        cluster: the control plane.
        programs: the programs of the node.
        folder: an empty folder for its data and logs.
        images: repository → the image that the node's registry serves.
        labels: the labels of the pool.
        taints: the taints of the pool.

    Raises:
        StartError: the node did not become ready; the message ends with the logs.
    """
    stored = blobs()
    plan: Plan = {
        "name": f"{KUBELET}-{folder.name}",
        "folder": str(folder),
        "kubelet": str(programs["kubelet"]),
        "coredns": str(programs["coredns"]),
        "kubeconfig": str(cluster.processes.folder / f"{KUBELET}.kubeconfig"),
        "reader": str(cluster.processes.folder / "admin.kubeconfig"),
        "api_server": cluster.admin.port,
        "labels": {**labels, REAL: "true"},
        "taints": [*taints],
        "images": {
            **{name: manifest(image, stored) for name, image in images.items()},
            "pause": _pause(next(iter(images.values())), stored),
        },
    }
    cluster.admin.apply(_BINDING, "tests")
    (folder / PLAN).write_text(json.dumps(plan))
    started = time.monotonic()
    body: Body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": plan["name"]}}
    supervisor = start(folder)
    try:
        _wait(cluster, supervisor, body, folder)
        yield Node(plan["name"], folder, time.monotonic() - started)
    finally:
        assert supervisor.stdin
        supervisor.stdin.close()
        supervisor.wait(_ENDING)
        cluster.admin.delete(body)


def _pause(image: Image, stored: Blobs) -> Descriptor:
    """Return the image whose process holds the namespaces of a pod: the Debian of another image, which it shares."""
    return manifest(Image(image.layers[-1:], {}), stored, ["/bin/sleep", "infinity"])


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the supervisor of a folder's node, in its own session: it must outlive a killed test run, to clean up."""
    with (folder / "supervisor.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.kubelet.supervisor", str(folder / PLAN)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(cluster: Cluster, supervisor: subprocess.Popen[bytes], body: Body, folder: Path) -> None:
    def holds() -> bool:
        if supervisor.poll() is not None:
            raise StartError(f"the supervisor ended with code {supervisor.returncode}:\n{logs_of(folder)}")
        return cluster.admin.exists(body) and is_ready(cluster.admin.read(body))

    try:
        wait_until("the node is ready", holds, 300)
    except TimeoutError as error:
        raise StartError(f"{error}\n{logs_of(folder)}") from None


def logs_of(folder: Path) -> str:
    """Return the ends of the logs of a node."""
    logs = sorted(folder.glob("*.log"))
    return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)
