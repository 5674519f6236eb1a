"""Output: immutable releases on disk, and the pointer that Argo CD follows.

    output/<platform>/<version>/   the files of one release, and release.json: its lock, which says what we own
    output/<platform>/argocd/      the pointer, the files that make Argo CD follow one release, and pointer.lock

Both folders are written alike: looked at (`found`), held against what is wanted (`lock`), refused if anything would be
lost (`plan`), prepared beside their place and exchanged whole (`exchange`).
"""

from generator.release.lock import LOCK, POINTER, POINTER_LOCK, Lock, Release
from generator.release.replaced import replaced
from generator.release.write import Pointer, Written, verify, write

__all__ = ["LOCK", "POINTER", "POINTER_LOCK", "Lock", "Pointer", "Release", "Written", "replaced", "verify", "write"]
