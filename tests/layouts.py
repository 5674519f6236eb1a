"""Writers of images for tests: layers as tar archives, OCI layouts, and the archives of `docker save`."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
TAG = "org.opencontainers.image.ref.name"
Descriptor = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a layer and its content."""

    info: tarfile.TarInfo
    content: bytes = b""


def file(name: str, mode: int = 0o755, content: bytes = b"", owner: tuple[int, int] = (0, 0)) -> Member:
    """Return a file."""
    info = tarfile.TarInfo(name)
    info.mode, (info.uid, info.gid), info.size = mode, owner, len(content)
    return Member(info, content)


def folder(name: str, mode: int = 0o755) -> Member:
    """Return a folder."""
    member = file(name, mode)
    member.info.type = tarfile.DIRTYPE
    return member


def link(name: str, target: str, *, hard: bool = False) -> Member:
    """Return a symbolic or hard link."""
    member = file(name)
    member.info.type, member.info.linkname = tarfile.LNKTYPE if hard else tarfile.SYMTYPE, target
    return member


def layer_of(*members: Member, compression: str = "gz") -> bytes:
    """Return a layer with the members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for member in members:
            archive.addfile(member.info, io.BytesIO(member.content))
    return buffer.getvalue()


def layer_of_folder(root: Path) -> bytes:
    """Return the layer of a folder with the changes of overlayfs, whose removed names become whiteouts.

    Source: linux Documentation/filesystems/overlayfs.rst ("whiteouts and opaque directories").
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(root.rglob("*")):
            name, status = str(path.relative_to(root)), path.lstat()
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                archive.addfile(tarfile.TarInfo(f"{Path(name).parent}/.wh.{path.name}"))
                continue
            archive.add(path, name, recursive=False)
            if path.is_dir() and not path.is_symlink() and "trusted.overlay.opaque" in os.listxattr(path):
                archive.addfile(tarfile.TarInfo(f"{name}/.wh..wh..opq"))
    return buffer.getvalue()


class Layout:
    """An OCI layout in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "blobs/sha256").mkdir(parents=True)
        (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, content: bytes | dict[str, Any], media_type: str) -> Descriptor:
        """Add a blob and return its descriptor."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        (self.root / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def image(
        self,
        layers: Sequence[bytes],
        architecture: str = "amd64",
        variables: Mapping[str, str] | None = None,
        tag: str = "",
        **settings: Any,
    ) -> Descriptor:
        """Add an image and return the descriptor of its manifest, with its platform and its tag."""
        variables = {"PATH": "/usr/bin:/bin"} if variables is None else variables
        of_containers = {"Env": [f"{name}={value}" for name, value in variables.items()], **settings}
        config = {"architecture": architecture, "os": "linux", "config": of_containers}
        manifest = {
            "schemaVersion": 2,
            "config": self.blob(config, CONFIG),
            "layers": [self.blob(layer, LAYER) for layer in layers],
        }
        platform = {"architecture": architecture, "os": "linux"}
        annotations = {"annotations": {TAG: tag}} if tag else {}
        return {**self.blob(manifest, MANIFEST), "platform": platform, **annotations}

    def write(self, *manifests: Descriptor) -> Path:
        """Write the index, and return the folder."""
        (self.root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
        return self.root

    def archive(self, target: Path) -> Path:
        """Write the layout as an archive, as `podman save --format oci-archive` does, and return its path."""
        with tarfile.open(target, "w") as archive:
            archive.add(self.root, ".")
        return target


def docker_archive(target: Path, layers: Sequence[bytes], **entry: Any) -> Path:
    """Write an archive as `docker save` of old versions does: each layer is a link or a file. Return its path."""
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/bin:/bin"]}}).encode()
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    listed = [{"Config": "config.json", "RepoTags": ["acme/mpi:1"], "Layers": names, **entry}]
    files = {"config.json": config, "manifest.json": json.dumps(listed).encode()}
    files |= {f"data/{number}": gzip.decompress(layer) for number, layer in enumerate(layers)}
    members = [file(name, content=content) for name, content in files.items()]
    members += [link(name, f"../data/{number}") for number, name in enumerate(names)]
    target.write_bytes(layer_of(*members, compression=""))
    return target
