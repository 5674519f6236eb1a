"""The kubeconform binary: built once from its pinned Go module, kept in a cache."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from pathlib import Path

from generator.errors import EngineError, Problem
from generator.schemas.gotool import run_go

VERSION = "v0.7.0"
_COMMAND = "github.com/yannh/kubeconform/cmd/kubeconform"
_PINS = Path(__file__).parent / "go"  # go.mod and go.sum: Go refuses any module whose content differs
_CHECKOUT = Path(__file__).parent.parent.parent


def cache_folder(chosen: str | None = None, user_caches: str | None = None) -> Path:
    """Where built tools are kept.

    Args:
        chosen: what the user said (`MPIGEN_CACHE`); wins when not empty.
        user_caches: the folder of all the user's caches (`XDG_CACHE_HOME`); `~/.cache` when empty.

    Returns:
        The chosen folder; else `.cache` of a source checkout; else `mpigen` among the user's caches.
    """
    if chosen:
        return Path(chosen)
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "schemas").is_dir():
        return _CHECKOUT / ".cache"
    return (Path(user_caches) if user_caches else Path.home() / ".cache") / "mpigen"


def ensure_kubeconform(cache: Path) -> Path:
    """The path of kubeconform at the pinned version, built on first use (about 20 s, then nothing).

    Raises:
        EngineError: there is no Go, the build failed, or the cache cannot be used.
    """
    binary = cache / f"kubeconform-{VERSION}-{platform.system()}-{platform.machine()}".lower()
    try:
        if not binary.is_file():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix=".build-") as scratch:
                _build(Path(scratch) / "kubeconform", binary)
    except OSError as error:
        message, fix = f"kubeconform cannot be built there: {error.strerror}", "set MPIGEN_CACHE to a writable folder"
        raise EngineError((Problem(message, fix, str(error.filename or cache)),)) from None
    return binary


def _build(fresh: Path, binary: Path) -> None:
    for pin in ("go.mod", "go.sum"):
        shutil.copyfile(_PINS / pin, fresh.parent / pin)
    options = ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags=-X main.version={VERSION}"]
    run_go(["build", *options, "-o", str(fresh), _COMMAND], fresh.parent)
    os.replace(fresh, binary)  # noqa: PTH105 - atomic, whoever else builds at the same time
