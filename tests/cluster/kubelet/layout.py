"""Images of the tests as an OCI registry serves them: a manifest and blobs, made once per content.

Source of the formats: github.com/opencontainers/image-spec v1.1.1 manifest.md, config.md and layer.md ("Whiteouts").
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator.schemas.kubeconform import cache_folder
from tests.cluster.mpi.images import Image

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
# Names sorted and times constant: the same files give the same digest.
_TAR = ("tar", "--create", "--format=pax", "--sort=name", "--numeric-owner", "--xattrs", "--xattrs-include=*")
_REPRODUCIBLE = ("--mtime=@0", "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime")
Descriptor = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Blobs:
    """A folder of blobs, each named by its SHA-256."""

    folder: Path

    def path(self, digest: str) -> Path:
        """Return the file of a blob such as `sha256:…`."""
        return self.folder / digest.replace(":", "-")

    def store(self, content: object, media_type: str) -> Descriptor:
        """Store a JSON document."""
        text = json.dumps(content, sort_keys=True).encode()
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        _write(self.path(digest), text)
        return {"mediaType": media_type, "digest": digest, "size": len(text)}

    def layer(self, folder: Path) -> Descriptor:
        """Store a layer as an archive, unless an earlier run did."""
        known = self.folder / f"{folder.name}.json"
        with self._alone():
            if not known.is_file():
                _write(known, json.dumps(self._pack(folder)).encode())
        descriptor: Descriptor = json.loads(known.read_text())
        return descriptor

    def _pack(self, folder: Path) -> Descriptor:
        scratch, marks = self.folder / ".archive", self.folder / ".whiteouts"
        removed = [path.relative_to(folder) for path in folder.rglob("*") if _is_whiteout(path)]
        shutil.rmtree(marks, ignore_errors=True)
        for path in removed:
            mark = marks / path.with_name(f".wh.{path.name}")
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        without = ["--no-wildcards", "--anchored", *(f"--exclude=./{path}" for path in removed)]
        own = [f"--directory={marks}", "."] if removed else []
        command = [*_TAR, *_REPRODUCIBLE, f"--file={scratch}", *without, f"--directory={folder}", ".", *own]
        subprocess.run(command, check=True)
        with scratch.open("rb") as archive:
            digest = f"sha256:{hashlib.file_digest(archive, 'sha256').hexdigest()}"
        size = scratch.stat().st_size
        scratch.replace(self.path(digest))
        return {"mediaType": _LAYER, "digest": digest, "size": size}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the folder. The kernel frees the lock on exit."""
        with (self.folder / "lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield


def blobs() -> Blobs:
    """Return the blobs of all images, beside the layers that they are made of."""
    folder = cache_folder(os.environ, Path.home()) / "images" / "blobs"
    folder.mkdir(parents=True, exist_ok=True)
    return Blobs(folder)


def manifest(image: Image, stored: Blobs, command: Sequence[str] = ()) -> Descriptor:
    """Store an image with all its blobs, and return the descriptor of its manifest."""
    layers = [stored.layer(layer) for layer in reversed(image.layers)]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": _variables(image.environment), "User": str(image.user), "Cmd": [*command]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    body = {"schemaVersion": 2, "mediaType": MANIFEST, "config": stored.store(config, _CONFIG), "layers": layers}
    return stored.store(body, MANIFEST)


def _is_whiteout(path: Path) -> bool:
    """Return True for overlayfs' mark of a removed file of a lower layer. In an archive, the mark is `.wh.NAME`."""
    found = path.lstat()
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _variables(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def _write(path: Path, content: bytes) -> None:
    scratch = path.with_name(f".{path.name}-{os.getpid()}")
    scratch.write_bytes(content)
    scratch.replace(path)
