"""A root filesystem in a folder of this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from generator.documents.files import os_error_problem, read_file
from generator.errors import InputError
from generator.images.tree import Entry, Kind, Place

_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_MACHINES = {62: "amd64", 183: "arm64", 243: "riscv64", 21: "ppc64le", 22: "s390x"}
"""Number of a machine → architecture, as in the label kubernetes.io/arch. Source: linux include/uapi/linux/elf-em.h."""


@dataclass(frozen=True, slots=True)
class FolderRoot:
    """A root filesystem in a folder. Nothing outside of the folder is read, because no place has a link on its way."""

    folder: Path

    def entry(self, place: Place) -> Entry | None:
        """Return the entry at a place; None if there is none.

        Raises:
            InputError: a folder on the way is unreadable for the user.
        """
        path = self.folder.joinpath(*place)
        try:
            status = path.lstat()
            target = str(path.readlink()) if stat.S_ISLNK(status.st_mode) else ""
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError((os_error_problem(path, error),)) from None
        mode = stat.S_IMODE(status.st_mode) if place else 0o755  # programs that make folders often close the uppermost
        return Entry(_KINDS.get(stat.S_IFMT(status.st_mode), "other"), mode, status.st_uid, status.st_gid, target)

    def names(self, place: Place) -> Iterable[str]:
        """Return the names in the folder at a place.

        Raises:
            InputError: the folder is unreadable for the user.
        """
        path = self.folder.joinpath(*place)
        try:
            return os.listdir(path)  # noqa: PTH208 - strings, not paths
        except OSError as error:
            raise InputError((os_error_problem(path, error),)) from None

    def text(self, place: Place) -> str:
        """Return the content of the file at a place."""
        return read_file(self.folder.joinpath(*place)).decode(errors="replace")

    def architecture(self, place: Place) -> str:
        """Return the architecture of the program at a place, as in the label kubernetes.io/arch; empty if unknown."""
        with self.folder.joinpath(*place).open("rb") as program:
            head = program.read(20)
        if head[:4] != b"\x7fELF" or len(head) < 20:  # noqa: PLR2004 - magic number and e_machine of elf(5)
            return ""
        return _MACHINES.get(int.from_bytes(head[18:20], "little" if head[5] == 1 else "big"), "")
