"""Output: immutable releases on disk, and the pointer that Argo CD follows.

    output/<platform>/<version>/   the files of one release, and release.json: its lock, which lists the generated files
    output/<platform>/argocd/      the pointer: the files that make Argo CD follow one release, and pointer.lock

Both folders are written in the same way: read the folder (`folder`), compare it with the content to write (`lock`),
stop if anything would be lost (`write`), prepare the new folder beside the old one and exchange them (`exchange`).
"""

from generator.release.folder import read_previous
from generator.release.lock import LOCK, POINTER, POINTER_LOCK, Lock, Release
from generator.release.write import Pointer, Written, verify, write

__all__ = [
    "LOCK",
    "POINTER",
    "POINTER_LOCK",
    "Lock",
    "Pointer",
    "Release",
    "Written",
    "read_previous",
    "verify",
    "write",
]
