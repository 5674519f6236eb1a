"""Layers of root filesystems, each built once per content and kept beside the other things that tests build."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from generator.schemas.kubeconform import cache_folder
from tests.cluster.mpi.namespaces import guarded
from tests.conftest import ROOT

HERE = Path(__file__).parent
_SCRATCH, _ROOT, _TEMPORARY = ".build-", "root", "temporary"
_SUITE = "bookworm"
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
_MERGED = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"  # else Debian installs all of Perl to merge /usr
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps", "--no-compile")
_PIP_DOWNLOAD = (*_PIP[:5], "download", "--no-deps", "--no-binary=:all:", "--require-hashes")
_GZIP = b"\x1f\x8b"
Command = list[str | Path]


class LayerError(RuntimeError):
    """A layer cannot be built; the message ends with the output of the tool."""


def debian(packages: Sequence[str], user: str, suite: str = _SUITE) -> Path:
    """Return a root filesystem of Debian with packages and a user 1000, without documentation.

    Debian's signatures authenticate the packages. The layer has the versions of the day of the build.

    Args:
        packages: names of packages, with their dependencies but without recommended packages.
        user: the name of user 1000.
        suite: the code name of a release of Debian.

    Raises:
        LayerError: mmdebstrap failed.
    """
    excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    hook = f'--customize-hook=chroot "$1" useradd --create-home --uid 1000 --shell /bin/bash {user}'
    options = ["--quiet", "--variant=essential", _MERGED, *excluded, f"--include={','.join(packages)}", hook, suite]
    return _layer("debian", options, lambda root: _run(["mmdebstrap", *options, root], root))


def wheel(name: str, prefix: str) -> Path:
    """A wheel that is no Python package but a tree for a prefix, as `requirements/<name>.txt` pins it.

    Raises:
        LayerError: pip failed, or the content is not what was pinned.
    """
    pins = HERE / "requirements" / f"{name}.txt"
    command = [*_PIP, "--ignore-installed", "--require-hashes", "--requirement", str(pins), "--prefix"]
    content = [pins.read_text(), prefix]
    return _layer(name, content, lambda root: _run([*command, f"{root}{prefix}"], root))


def python_package(name: str, version: str = "3.11") -> Path:
    """A package for a version of Python, by default of Debian's suite, as `requirements/<name>.txt` pins it.

    Raises:
        LayerError: pip failed, or the content is not what was pinned.
    """
    pins, folder = HERE / "requirements" / f"{name}.txt", f"/usr/local/lib/python{version}/dist-packages"
    options = [f"--python-version={version}", "--implementation=cp", "--platform=manylinux2014_x86_64"]
    command = [*_PIP, "--only-binary=:all:", *options, "--require-hashes", "--requirement", str(pins), "--target"]
    content = [pins.read_text(), folder, *options]
    return _layer(name, content, lambda root: _run([*command, f"{root}{folder}"], root))


def compiled(pins: Path, version: str, below: Path, variables: Sequence[str]) -> Path:
    """Return a layer with source packages of Python that are compiled in a root filesystem.

    Args:
        pins: the requirements, with the hashes of the source packages.
        version: the version of Python in the root filesystem.
        below: the root filesystem, with pip, a compiler and the libraries. Images need this layer too.
        variables: variables of the build, as NAME=VALUE.

    Raises:
        LayerError: pip or the compiler failed, or a source package differs from its pin.
    """
    script, folder = HERE / "files/compile.sh", f"/usr/local/lib/python{version}/dist-packages"

    def make(root: Path) -> None:
        work = root.with_name(_TEMPORARY)
        _run([*_PIP_DOWNLOAD, "--requirement", pins, "--dest", work / "sources"], root)
        _run([script, below, work / "sources", work / "build", f"{root}{folder}", *variables], root)

    content = [pins.read_text(), script.read_text(), folder, below.name, *variables]
    return _layer(pins.parent.name, content, make)


def locking(below: Path) -> Path:
    """The `setpriv` of a layer with the file capability cap_ipc_lock, as `setcap cap_ipc_lock+ep` writes it.

    linux include/uapi/linux/capability.h, struct vfs_cap_data: revision 2 and effective; permitted; inheritable.
    """
    right, program = struct.pack("<5I", 0x02000001, 1 << 14, 0, 0, 0), Path("usr/bin/setpriv")

    def make(root: Path) -> None:
        (root / program).parent.mkdir(parents=True)
        shutil.copy(below / program, root / program)
        os.setxattr(root / program, "security.capability", right)

    return _layer("locking", [below.name, right.hex()], make)


def files(name: str) -> Path:
    """Return a layer with the files below `files/<name>`, world-readable and owned by root."""
    source = HERE / "files" / name
    found = sorted(path for path in source.rglob("*") if path.is_file())
    content = [f"{path.relative_to(source)}\n{path.read_text()}" for path in found]
    return _layer(name, content, lambda root: _copy(source, found, root))


def without(*paths: str) -> Path:
    """Return a layer that removes files and folders of the layers below (overlayfs, "whiteouts")."""

    def make(root: Path) -> None:
        for path in paths:
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))

    return _layer("without", sorted(paths), make)


def openssh() -> Path:
    """Return a layer with static OpenSSH, built in Debian as `examples/images/openssh` describes.

    Raises:
        LayerError: mmdebstrap or the build failed.
    """
    recipe = ROOT / "examples/images/openssh"
    content = [f"{path.name}\n{path.read_text()}" for path in sorted(recipe.iterdir())]

    def make(root: Path) -> None:
        system = root.with_name(_TEMPORARY) / "system"
        hooks = [
            f'copy-in "{recipe}" /recipe',
            f'"{HERE}/files/name-keyring.sh" "$1"',
            'chroot "$1" /recipe/openssh/build.sh',
        ]
        packages = "--include=apt,ca-certificates,debian-archive-keyring"
        options = ["--variant=essential", _MERGED, packages, "--setup-hook=mkdir $1/recipe"]
        options += [f"--customize-hook={hook}" for hook in hooks]
        _run(["mmdebstrap", "--quiet", *options, _SUITE, system], root)
        shutil.copytree(system / "image", root, dirs_exist_ok=True)

    return _layer("openssh", content, make)


def example(name: str) -> tuple[Path, Path]:
    """Return an OCI layout that `examples/images/debian` builds, and the root filesystem in it.

    Raises:
        LayerError: mmdebstrap failed.
    """
    recipe = ROOT / "examples/images/debian/build.sh"
    layout = _layer(f"{name}-layout", [recipe.read_text()], lambda root: _run([recipe, name, root], root))
    (archive,) = (path for path in (layout / "blobs/sha256").iterdir() if path.read_bytes()[:2] == _GZIP)
    content = [layout.name, "root"]
    return layout, _layer(f"{name}-root", content, lambda root: _run(["tar", "-xf", archive, "-C", root], root))


def _copy(source: Path, found: list[Path], root: Path) -> None:
    for path in found:
        target = root / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o755 if os.access(path, os.X_OK) else 0o644)


def _layer(name: str, content: Sequence[str], make: Callable[[Path], None]) -> Path:
    """The folder of a layer, owned by root. A build that is killed leaves only what the next one removes."""
    cache = cache_folder(os.environ, Path.home()) / "images"
    digest = hashlib.sha256(json.dumps([*content]).encode()).hexdigest()[:16]
    layer = cache / f"{name}-{digest}"
    if layer.is_dir():
        return layer
    with _alone(cache):
        if not layer.is_dir():
            _build(layer, cache / f"{_SCRATCH}{layer.name}", make)
    return layer


def _build(layer: Path, scratch: Path, make: Callable[[Path], None]) -> None:
    _report(f"making {layer.name}")
    started = time.monotonic()
    old = os.umask(0o022)
    try:
        for folder in (_ROOT, _TEMPORARY):
            (scratch / folder).mkdir(parents=True)
        make(scratch / _ROOT)
    finally:
        os.umask(old)
    (scratch / _ROOT).replace(layer)
    shutil.rmtree(scratch)
    _report(f"made {layer.name} in {time.monotonic() - started:.0f} s")


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Lock the cache for one build at a time. The kernel frees the lock on exit."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for leftover in cache.glob(f"{_SCRATCH}*"):
            shutil.rmtree(leftover)
        yield


def _run(command: Command, root: Path) -> None:
    """Run a tool in namespaces of its own: its mounts and its children end with it, and it ends with us."""
    done = subprocess.run(
        guarded(command, "--mount"),
        env={**os.environ, "TMPDIR": str(root.with_name(_TEMPORARY))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LayerError(f"{command[0]} ended with code {done.returncode}:\n{done.stderr[-4000:]}")


def _report(line: str) -> None:
    print(f"images: {line}", file=sys.stderr, flush=True)  # noqa: T201
