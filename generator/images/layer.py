"""Reader of the layers of an image: tar archives, of which it keeps names, permissions and links. It extracts nothing.

Source: image-spec v1.1.1 layer.md, and containerd v2.1.4 pkg/archive/tar.go applyNaive.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections import deque
from dataclasses import dataclass, field
from typing import BinaryIO

from generator.documents.messages import shorten
from generator.errors import InputError, Problem
from generator.images.archive import AGAIN, FAULTS
from generator.images.tree import Entry, Folder, Place

USERS: Place = ("etc", "passwd")
"""The only file whose content is kept."""
_WHITEOUT, _OPAQUE, _OF_AUFS = ".wh.", ".wh..wh..opq", ".wh..wh."
_MOST = 2_000_000
"""The most entries of a layer. Images with PyTorch and CUDA have about 400,000 in all."""
_LONGEST = 1_000_000  # bytes of /etc/passwd
_LINKS = 255  # as containerd/continuity fs/path.go allows
_ZSTD = b"\x28\xb5\x2f\xfd"  # RFC 8878, section 3.1.1


@dataclass(slots=True)
class Layer:
    """A layer.

    Attributes:
        top: its uppermost folder.
        users: the content of its /etc/passwd; None if it has none.
    """

    top: Folder = field(default_factory=lambda: Folder(is_implied=True))
    users: str | None = None


def read_layer(stream: BinaryIO, name: str, below: Folder) -> Layer:
    """Return a layer.

    Args:
        stream: the tar archive, without compression or with gzip, bzip2 or xz.
        name: the name of the layer, for messages.
        below: the root filesystem of the layers below. A hard link can lead there.

    Raises:
        InputError: the archive is damaged, too large or compressed with zstd.
    """
    if stream.read(len(_ZSTD)) == _ZSTD:
        raise InputError((Problem("is compressed with zstd, but mpigen reads gzip", _RECOMPRESS, name),))
    stream.seek(0)
    layer, kinds = Layer(), dict[Entry, Entry]()
    try:
        with tarfile.open(fileobj=stream, mode="r:*") as archive:
            count = 0
            while member := archive.next():
                archive.members.clear()  # type: ignore[attr-defined]  # which tarfile keeps for random access
                count += 1
                if count > _MOST:
                    raise InputError((Problem(f"has more than {_MOST:,} files", "use a smaller image", name),))
                _add(layer, archive, member, below, kinds)
    except FAULTS as error:
        raise InputError((Problem(f"is damaged: {shorten(str(error), 200)}", AGAIN, name),)) from None
    return layer


_RECOMPRESS = "convert the image: `skopeo copy --dest-compress-format gzip docker://IMAGE oci:image`"


def _add(
    layer: Layer, archive: tarfile.TarFile, member: tarfile.TarInfo, below: Folder, kinds: dict[Entry, Entry]
) -> None:
    """Add a member of the archive to a layer. `kinds` has equal entries only once, which saves memory."""
    *parents, base = _names(member.name) or [""]
    if not base:
        layer.top.entry, layer.top.is_implied = _entry(member), False
        return
    folder = _folder(layer.top, parents)
    if base == _OPAQUE:
        folder.is_opaque = True
    elif base.startswith(_WHITEOUT):
        if not base.startswith(_OF_AUFS):
            folder.removed.add(base.removeprefix(_WHITEOUT))
    elif member.isdir():
        earlier = folder.children.get(base)
        child = earlier if isinstance(earlier, Folder) else Folder()
        child.entry, child.is_implied = _entry(member), False
        folder.children[base] = child
    elif member.islnk():
        folder.children[base] = _linked(layer, member, below)
    else:
        entry = _entry(member)
        folder.children[base] = kinds.setdefault(entry, entry)
        if (*parents, base) == USERS and member.isreg() and member.size <= _LONGEST:
            content = archive.extractfile(member)
            layer.users = content.read().decode(errors="replace") if content else None


def _names(path: str) -> list[str]:
    """Return the names of a path in an archive, like filepath.Clean of Go: `..` leads at most to `/`."""
    return [name for name in posixpath.normpath(f"/{path.lstrip('/')}").split("/") if name]


def _folder(top: Folder, names: list[str]) -> Folder:
    """Return the folder of a layer at a path, made if it is missing. Links lead only inside of the layer."""
    todo, way, links = deque(names), [top], 0
    while todo:
        name = todo.popleft()
        if name == "..":
            del way[max(1, len(way) - 1) :]
            continue
        child = way[-1].children.get(name)
        if isinstance(child, Entry) and child.kind == "link":
            links += 1
            if links > _LINKS:
                raise ValueError(f"a link to `{child.target}` leads to itself")
            del way[1 if child.target.startswith("/") else len(way) :]
            todo.extendleft(reversed([part for part in child.target.split("/") if part not in ("", ".")]))
            continue
        if not isinstance(child, Folder):
            child = way[-1].children[name] = Folder(is_implied=True)
        way.append(child)
    return way[-1]


def _linked(layer: Layer, member: tarfile.TarInfo, below: Folder) -> Entry:
    """Return the entry to which a hard link leads."""
    place = tuple(_names(member.linkname))
    target = layer.top.find(place) or below.find(place)
    if not isinstance(target, Entry):
        raise ValueError(f"the hard link `{member.name}` has no target")  # noqa: TRY004 - of the archive
    return target


def _entry(member: tarfile.TarInfo) -> Entry:
    mode, user, group = member.mode & 0o7777, member.uid, member.gid
    if member.issym():
        return Entry("link", 0o777, user, group, member.linkname)
    return Entry("folder" if member.isdir() else "file" if member.isreg() else "other", mode, user, group)
