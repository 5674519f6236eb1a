"""The programs that the pods of a runtime need in its image, and the message of `prepare` about missing programs.

The init container `prepare` looks for the programs in the pod (scripts/check.sh), and `mpigen image check` in an image.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from generator.config.model.runtimes import RUN, Runtime
from generator.facts.programs import Pods, Software, mpi_folders, needed_software

PATH = f"{RUN}/bin:{RUN}/image:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of a launcher pod: mpigen's `mpirun`, programs that set the PATH of the image, and the usual folders."""


@dataclass(frozen=True, slots=True)
class Need:
    """Programs of one software that a pod needs, and the folders in which the pod looks for them.

    Attributes:
        software: the name of the software.
        programs: the programs: a name or an absolute path, or alternatives with `|` between them.
        path: the PATH; empty for the PATH of the image.
        folders: patterns of further folders.
    """

    software: str
    programs: tuple[str, ...]
    path: str = ""
    folders: tuple[str, ...] = ()


def image_needs(runtime: Runtime, path: str, *, is_launcher: bool) -> list[Need]:
    """Return the programs that the image of a runtime needs in the pods of one job; the programs of the MPI are last.

    Args:
        runtime: the runtime.
        path: the PATH of the launcher; empty for the PATH of the image.
        is_launcher: True for the launcher pod, False for a worker pod.
    """
    rows = [*_software(runtime, "launcher" if is_launcher else "hosts")]
    common = [Need(row.software, row.programs) for row in rows if not row.mpi]
    # mpigen's `mpirun`, in /run/mpi/bin, looks for the `mpirun` of the image on the rest of PATH.
    path = "" if path == PATH else path.removeprefix(f"{RUN}/bin:")
    return common + [Need(row.software, row.programs, path, mpi_folders()) for row in rows if row.mpi]


def _software(runtime: Runtime, pods: Pods) -> Iterator[Software]:
    for row in needed_software(runtime.family.mpi, pods, locks_memory=runtime.locks_memory):
        if not (row.openssh and runtime.ssh_image):
            yield row


@dataclass(frozen=True, slots=True)
class Advice:
    """The sentences that follow the missing programs in the message of `prepare`.

    Attributes:
        always: the effect and the fix.
        openssh: a further fix if OpenSSH is missing.
        mpi: a further fix if the MPI is missing.
    """

    always: str
    openssh: str
    mpi: str


def advice(runtime: str, mpi: str) -> Advice:
    """Return the sentences for a runtime whose image needs an MPI."""
    return Advice(
        f"The job would start no ranks, so it fails now. Install them in the image of runtime `{runtime}`, or use "
        "another image.",
        "For OpenSSH, you can set `sshImage` of the runtime in platform.yaml instead.",
        f"If the image has {mpi} in another folder, add this folder to PATH in `environment` of the runtime.",
    )


def lacks_message(runtime: str, needs: Iterable[Need], missing: Iterable[Need]) -> str:
    """Return the message of `prepare` for an image that lacks programs. The function `report` of check.sh writes it.

    Args:
        runtime: the name of the runtime.
        needs: all needs of the pod.
        missing: the needs whose `programs` are missing, at least one.
    """
    mpi = next(need.software for need in needs if need.folders)
    lacking = [*missing]
    texts = advice(runtime, mpi)
    names = ", ".join(f"{', '.join(map(format_program, need.programs))} ({need.software})" for need in lacking)
    fixes = [texts.always]
    fixes += [texts.openssh] if any("OpenSSH" in need.software for need in lacking) else []
    fixes += [texts.mpi] if any(need.software == mpi for need in lacking) else []
    return " ".join([f"the image lacks {names}.", *fixes])


def format_program(program: str) -> str:
    """Return a program with its alternatives for a message: "`orted` or `prted`"."""
    return " or ".join(f"`{name}`" for name in program.split("|"))
