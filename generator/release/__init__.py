"""Output: one folder per platform, replaced in place, and its history in Git.

    output/<platform>/              the generated files, and files of the user
    output/<platform>/release.json  the lock: the version, the inputs, and the digest of every generated file
    output/<platform>/CHANGES.md    the plans of the releases, if the user writes them; the lock does not list it

`write` reads the folder (`folder`), compares it with the content to write (`lock`), stops if files or edits of the user
would be lost, prepares the new folder beside the old one and exchanges them (`exchange`). `merged` recognizes the
files that Git merged from two releases. `history` reads the release that a new one replaces, from a Git revision
(`git`) or from disk. `archive` packs a release into one file.
"""

from generator.release.archive import Packed, pack
from generator.release.changes import CHANGES, add_section, has_section
from generator.release.exchange import report_os_errors
from generator.release.history import (
    Tree,
    Update,
    find_orphans,
    find_replaced,
    find_tagged,
    find_unraised,
    is_tag,
    is_uncommitted,
    next_version,
    read_manifest_texts,
    read_others,
    read_update,
    read_update_between,
)
from generator.release.lock import LOCK, Lock, Release
from generator.release.write import Written, verify, write, write_all

__all__ = [
    "CHANGES",
    "LOCK",
    "Lock",
    "Packed",
    "Release",
    "Tree",
    "Update",
    "Written",
    "add_section",
    "find_orphans",
    "find_replaced",
    "find_tagged",
    "find_unraised",
    "has_section",
    "is_tag",
    "is_uncommitted",
    "next_version",
    "pack",
    "read_manifest_texts",
    "read_others",
    "read_update",
    "read_update_between",
    "report_os_errors",
    "verify",
    "write",
    "write_all",
]
