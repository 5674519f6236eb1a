"""The result of `prepare` for an image, without a pod: `mpigen image check`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from generator.documents.messages import format_names
from generator.facts.programs import shell
from generator.images.load import Image
from generator.images.pods import Pod
from generator.images.walk import Walk
from generator.runtimes.image_needs import Need, lacks_message


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of `prepare` in the pods of one job.

    Attributes:
        pods: the name of the pods.
        message: the message with which the container fails; empty if it accepts the image.
        unknown: the programs that the image lacks, and that a volume in PATH can have.
    """

    pods: str
    message: str
    unknown: tuple[str, ...] = ()


def check_image(image: Image, runtime: str, pool: str, architecture: str, pods: Iterable[Pod]) -> list[Verdict]:
    """Return the result of `prepare` in each pod of a runtime.

    Args:
        image: the image.
        runtime: the name of the runtime.
        pool: the name of its pool.
        architecture: the architecture of the nodes of the pool; empty if unknown.
        pods: the pods of the runtime.
    """
    if architecture and image.architectures and architecture not in image.architectures:
        message = (
            f"the image is for {format_names(image.architectures)}, but the nodes of pool `{pool}` have "
            f"`{architecture}`. The pods would fail with `no match for platform in manifest` or `exec format error`. "
            f"Build the image for `{architecture}`, or use another image."
        )
        return [Verdict(pod.name, message) for pod in pods]
    return [_verdict(image, runtime, pod) for pod in pods]


def _verdict(image: Image, runtime: str, pod: Pod) -> Verdict:
    files = _Files(image, Walk(image.root, pod.user_in(image.root)), pod.mounts)
    if not files.has(shell(), []):
        # containerd v2.1.4 internal/cri/server/container_start.go: errorStartReason, errorStartExitCode. CRI-O is not
        # tested.
        message = (
            f"the image lacks `{shell()}`. The container runtime cannot start `prepare`. With containerd, the job "
            "fails at once with `StartError`. Install a shell in the image of runtime "
            f"`{runtime}`, or use another image."
        )
        return Verdict(pod.name, message)
    missing: list[Need] = []
    unknown: list[str] = []
    for need in pod.needs:
        folders = files.folders(need)
        absent = tuple(program for program in need.programs if not files.has(program, folders))
        if absent and files.is_mounted(folders):
            unknown += absent
        elif absent:
            missing.append(replace(need, programs=absent))
    return Verdict(pod.name, lacks_message(runtime, pod.needs, missing) if missing else "", tuple(unknown))


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of an image in a pod.

    Attributes:
        image: the image.
        walk: its files as the user of the pod finds them.
        mounts: the folders in which the pod has a volume.
    """

    image: Image
    walk: Walk
    mounts: Sequence[str]

    def folders(self, need: Need) -> list[str]:
        """Return the folders in which the pod looks for programs, with patterns resolved as a shell does."""
        path = (need.path or self.image.path).split(":")
        return [match for folder in [*path, *need.folders] for match in self.walk.expand(self._absolute(folder))]

    def _absolute(self, folder: str) -> str:
        """Return the absolute path of a folder. check.sh looks in `/` for an empty part of PATH."""
        return folder if folder.startswith("/") or not folder else f"{self.image.folder}/{folder}"

    def has(self, program: str, folders: Iterable[str]) -> bool:
        """Return True if the image has one of the alternatives of a program."""
        for name in program.split("|"):
            paths = [name] if name.startswith("/") else [f"{folder}/{name}" for folder in folders]
            if any(self.walk.is_program(path) and not self.is_mounted([path]) for path in paths):
                return True
        return False

    def is_mounted(self, paths: Iterable[str]) -> bool:
        """Return True if one of the paths is in a volume."""
        return any(f"{path}/".startswith(f"{mount.rstrip('/')}/") for path in paths for mount in self.mounts if mount)
