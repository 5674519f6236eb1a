"""The images that the pods of these tests name: `python -m tests.cluster.mpi.images` makes all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cluster.mpi import layers

# libfabric is for Intel MPI, whose wheel comes without.
_PACKAGES = ("libfabric1", "libpython3.11-stdlib", "openssh-client", "openssh-server", "python3-minimal")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PREFIX = "/opt/mpi"
_REGISTRY = "mpi.test/"
RICH = "-with-200-variables"
"""Ends the reference of an image that differs from another in its variables only."""
OF_RICH = {
    **{f"FROM_IMAGE_{number}": f'it\'s "{number}"\n\ta=b $HOME `id` \\' for number in range(200)},
    **dict.fromkeys(("FROM_RUNTIME", "FROM_JOB", "FROM_BOTH"), "of the image"),
    "UCX_TLS": "tcp,self,sm",
    "not.an-identifier": "kept",
    "EMPTY": "",
    "LONG": "'" * 120_000,
}


@dataclass(frozen=True, slots=True)
class Image:
    """A root filesystem with the ENV and USER of a Containerfile.

    Attributes:
        layers: folders, the uppermost first.
        environment: the variables of whatever runs in it.
        user: default user of containers.
    """

    layers: tuple[Path, ...]
    environment: Mapping[str, str]
    user: int = 1000


@dataclass(frozen=True, slots=True)
class _Recipe:
    environment: Mapping[str, str]
    wheel: str = ""
    package: str = ""
    locks_memory: bool = False
    openssh: bool = True


_WITH_PREFIX = {"PATH": f"{_PREFIX}/bin:{_PATH}", "LD_LIBRARY_PATH": f"{_PREFIX}/lib"}
_RECIPES = {
    "openmpi-4": _Recipe({"PATH": _PATH}, package="openmpi-bin"),
    "openmpi-4-locking": _Recipe({"PATH": _PATH}, package="openmpi-bin", locks_memory=True),
    "openmpi-5": _Recipe(_WITH_PREFIX, "openmpi"),
    "openmpi-5-locking": _Recipe(_WITH_PREFIX, "openmpi", locks_memory=True),
    "mpich": _Recipe(_WITH_PREFIX, "mpich"),
    "intel-mpi": _Recipe({**_WITH_PREFIX, "I_MPI_ROOT": _PREFIX}, "intel-mpi"),
    "openmpi-4-bare": _Recipe({"PATH": _PATH}, package="openmpi-bin", openssh=False),
    "openmpi-5-bare": _Recipe(_WITH_PREFIX, "openmpi", openssh=False),
    "mpich-bare": _Recipe(_WITH_PREFIX, "mpich", openssh=False),
    "intel-mpi-bare": _Recipe({**_WITH_PREFIX, "I_MPI_ROOT": _PREFIX}, "intel-mpi", openssh=False),
}
OPENSSH = "mpi.test/openssh"
"""The image of `examples/images/openssh`, with static programs and nothing else."""
_OF_OPENSSH = ("openssh-client", "openssh-server")
_OPENSSH_FILES = ("/etc/ssh", "/usr/bin/ssh", "/usr/bin/slogin", "/usr/lib/openssh", "/usr/sbin/sshd")


@cache
def image(reference: str) -> Image:
    """Return the image for a pod's `image`.

    Raises:
        LayerError: it cannot be made.
    """
    if reference == OPENSSH:
        return Image((layers.openssh(),), {"PATH": _PATH})
    recipe = _RECIPES[reference.removeprefix(_REGISTRY).removesuffix(RICH)]
    environment = {**recipe.environment, **(OF_RICH if reference.endswith(RICH) else {})}
    mpi = (layers.wheel(recipe.wheel, _PREFIX),) if recipe.wheel else ()
    packages = [name for name in _PACKAGES if recipe.openssh or name not in _OF_OPENSSH]
    debian = layers.debian([*packages, *filter(None, [recipe.package])], "mpiuser")
    removed = (layers.without(*_OPENSSH_FILES),) if not recipe.openssh else ()  # openmpi-bin depends on openssh-client
    locking = (layers.locking(debian),) if recipe.locks_memory else ()
    return Image(
        (layers.files("smoke"), *locking, *mpi, layers.python_package("mpi4py"), *removed, debian), environment
    )


def make_all() -> None:
    """Make what is missing, so that no test has to wait for it."""
    for name in _RECIPES:
        image(name)


if __name__ == "__main__":
    make_all()
