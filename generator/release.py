"""Puts a rendered and checked tree on disk as an immutable release, and points Argo CD at it.

    output/<platform>/<version>/     the files of a release, and release.json: its lock, which says what we own
    output/<platform>/argocd/        the pointer: the files that make Argo CD follow one release, and pointer.lock

Both folders are written the same way: looked at first, refused if anything would be lost, then prepared beside their
place and exchanged whole (`exchange`). The name `pointer.lock` is one that Argo CD does not read as a manifest: it reads
*.yaml, *.yml, *.json and *.jsonnet (`manifestFile` in its reposerver/repository).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from generator.errors import OutputError, Problem
from generator.exchange import carry, exclusive, fill, parents, put, refusals, staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

LOCK = "release.json"
POINTER = "argocd"
POINTER_LOCK = "pointer.lock"

Status = Literal["created", "unchanged", "replaced"]

_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")  # no leading dot: those names belong to `exchange`
_SHOWN = 10  # names in a message before "and N more"
