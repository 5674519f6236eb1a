"""Compare `mpigen image check` with `prepare` of a pod that really runs, on images that differ from one that works."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from generator import pipeline
from generator.images.check import Verdict, check_image
from generator.images.load import load_image
from generator.images.pods import pods_of
from generator.manifests import Manifest
from generator.runtimes.training_runtime import training_runtimes
from tests.cluster.client import Body
from tests.cluster.mpi.conftest import PLATFORMS
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.offline import OfflineJob, manifests_of
from tests.cluster.mpi.runner import Runner
from tests.layouts import Layout, layer_of_folder

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
ARM = 183  # e_machine of arm64
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Change:
    """The difference of an image from the image that works.

    Attributes:
        make: adds files to a layer on top of the image, whose lowest layer is the second argument.
        path: the PATH of its containers.
        missing: words of the message; empty for an image that works.
    """

    make: Callable[[Path, Path], None]
    missing: str = ""
    path: str = PATH


def program(path: Path, mode: int = 0o755) -> None:
    """Write a script with permissions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)


def link(path: Path, target: str) -> None:
    """Write a symbolic link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def remove(path: Path) -> None:
    """Remove a file of the layers below."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def opaque(path: Path) -> None:
    """Replace a folder of the layers below by an empty folder."""
    path.mkdir(parents=True)
    os.setxattr(path, "trusted.overlay.opaque", b"y")


def without_user(top: Path, below: Path) -> None:
    """Remove user 1000, and make `sed` a program of group 0, which the user then has."""
    lines = [line for line in (below / "etc/passwd").read_text().splitlines() if ":1000:" not in line]
    (top / "etc").mkdir()
    (top / "etc/passwd").write_text("\n".join(lines) + "\n")
    program(top / "usr/bin/sed", 0o750)


def of_user(top: Path, below: Path) -> None:
    """Make `sed` a program of user 1000 alone."""
    del below
    program(top / "usr/bin/sed", 0o500)
    os.chown(top / "usr/bin/sed", 1000, 0)


def of_arm(top: Path, below: Path) -> None:
    """Replace the shell by a program for another architecture."""
    head = bytearray((below / "usr/bin/dash").read_bytes())
    head[18:20] = ARM.to_bytes(2, "little")
    (top / "usr/bin").mkdir(parents=True)
    (top / "usr/bin/dash").write_bytes(bytes(head))
    (top / "usr/bin/dash").chmod(0o755)


def moved(top: Path, below: Path) -> None:
    """Move `orted` to a folder that a job can add to PATH."""
    del below
    remove(top / "usr/bin/orted")
    program(top / "opt/vendor/openmpi-4/bin/orted")


def linked(top: Path, below: Path) -> None:
    """Make `ssh` a hard link, and `sed` a chain of absolute and relative links."""
    del below
    program(top / "opt/real/ssh")
    (top / "usr/bin").mkdir(parents=True)
    (top / "usr/bin/ssh").hardlink_to(top / "opt/real/ssh")
    link(top / "usr/bin/sed", "/etc/alternatives/sed")
    link(top / "etc/alternatives/sed", "../../opt/real/../real/ssh")


def replaced_folder(top: Path, below: Path) -> None:
    """Add a file in `bin`, which is a link in the layer below: the new folder hides the link."""
    del below
    program(top / "bin/tool")


def closed(top: Path, below: Path) -> None:
    """Close the folder of sshd for users."""
    del below
    (top / "usr/sbin").mkdir(parents=True)
    (top / "usr/sbin").chmod(0o700)


def _nothing(top: Path, below: Path) -> None:
    del top, below


def on(function: Callable[..., None], path: str, *arguments: object) -> Callable[[Path, Path], None]:
    """Return a change of one path."""
    return lambda top, _: function(top / path, *arguments)


CHANGES: Mapping[str, Change] = {
    "works": Change(_nothing),
    "no-sshd": Change(on(remove, "usr/sbin/sshd"), "lacks `/usr/sbin/sshd` (OpenSSH server)."),
    "no-shell": Change(on(remove, "usr/bin/sh"), "lacks `/bin/sh`."),
    "not-executable": Change(on(program, "usr/bin/ssh", 0o644), "lacks `ssh` (OpenSSH client)."),
    "of-root": Change(on(program, "usr/bin/sed", 0o700), "lacks `sed` (sed)."),
    "of-group-0": Change(on(program, "usr/bin/sed", 0o750), "lacks `sed` (sed)."),
    "of-group-0-without-user": Change(without_user),
    "of-user-1000": Change(of_user),
    "dangling": Change(on(link, "usr/bin/ssh", "/usr/bin/nowhere"), "lacks `ssh` (OpenSSH client)."),
    "loop": Change(on(link, "usr/bin/ssh", "ssh"), "lacks `ssh` (OpenSSH client)."),
    "linked": Change(linked),
    "moved": Change(moved),
    "no-daemon": Change(on(remove, "usr/bin/orted"), "lacks `orted` or `prted` (Open MPI)."),
    "opaque": Change(on(opaque, "usr/sbin"), "lacks `/usr/sbin/sshd` (OpenSSH server)."),
    "replaced-folder": Change(replaced_folder, "lacks `/bin/sh`."),
    "closed": Change(closed, "lacks `/usr/sbin/sshd` (OpenSSH server)."),
    "other-path": Change(_nothing, "lacks `ssh` (OpenSSH client), `base64`, `cat`", path="/opt/tools:/usr/local/bin"),
    "other-architecture": Change(of_arm, "the image is for `arm64`, but the nodes of pool `mpi-hosts` have `amd64`."),
}


@dataclass(frozen=True, slots=True)
class Base:
    """The image that works, and its OCI layout.

    Attributes:
        image: the image.
        layout: an OCI layout with its layers.
        layers: the layers, the lowest first.
    """

    image: Image
    layout: Layout
    layers: tuple[bytes, ...]


@pytest.fixture(scope="module")
def base(images: Callable[[str], Image], tmp_path_factory: pytest.TempPathFactory) -> Base:
    image = images("mpi.test/openmpi-4")
    folders = reversed(image.layers)
    return Base(image, Layout(tmp_path_factory.mktemp("image") / "layout"), tuple(map(layer_of_folder, folders)))


@pytest.fixture(scope="module")
def job() -> OfflineJob:
    return OfflineJob.on("openmpi-4", ["mpirun"], manifests_of(PLATFORMS / "images.yaml"))


@pytest.mark.parametrize("name", CHANGES)
def test_the_check_gives_the_result_of_the_pods(name: str, base: Base, job: OfflineJob, tmp_path: Path) -> None:
    change, top = CHANGES[name], tmp_path / "layer"
    top.mkdir(mode=0o755)
    change.make(top, base.image.layers[-1])
    image = replace(base.image, layers=(top, *base.image.layers), environment={"PATH": change.path})
    verdicts = judge(base, change, top)
    for pod, verdict in zip(pods(job), verdicts, strict=True):
        name = pod["metadata"]["name"]
        (tmp_path / name).mkdir()
        outcome = Runner(lambda *_: {}, lambda _: image).run([[only_prepare(pod)]], tmp_path / name)
        assert (outcome.codes[name, "prepare"] == 0) is (not verdict.message), outcome
        log = outcome.log(pod, "prepare")
        if change.make is of_arm:
            assert "Exec format error" in log
        elif log.startswith("prepare: "):
            assert log == f"prepare: {verdict.message}\n"
            assert outcome.messages[name, "prepare"] == log
        elif verdict.message:
            assert "lacks `/bin/sh`" in verdict.message
    assert change.missing in verdicts[0].message
    assert bool(change.missing) is bool(verdicts[0].message)


def pods(job: OfflineJob) -> list[Body]:
    """Return a worker pod and the launcher pod."""
    return [job.waves[0][0], job.launcher]


def only_prepare(pod: Body) -> Body:
    """Return a pod without its programs and checks, except the container `prepare`."""
    (prepare,) = (one for one in pod["spec"]["initContainers"] if one["name"] == "prepare")
    main = {"name": "node", "image": prepare["image"], "command": ["/bin/sh", "-c", ":"]}
    volumes = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "run"]
    return {**pod, "spec": {**pod["spec"], "initContainers": [prepare], "containers": [main], "volumes": volumes}}


def judge(base: Base, change: Change, top: Path) -> list[Verdict]:
    """Return the result of `mpigen image check` for the image with a further layer."""
    architecture = "arm64" if change.make is of_arm else "amd64"
    layers = [*base.layers, layer_of_folder(top)]
    path = base.layout.write(base.layout.image(layers, architecture, variables={"PATH": change.path}))
    platform, _ = pipeline.load(PLATFORMS / "images.yaml")
    runtime = next(one for one in platform.runtimes if one.name == "openmpi-4")
    (body,) = training_runtimes(runtime, platform.pool(runtime.pool), platform.cluster)
    pods = pods_of(runtime, Manifest(body, ""))
    return check_image(load_image(str(path), "amd64"), runtime.name, runtime.pool, "amd64", pods)
