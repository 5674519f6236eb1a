"""Volumes of a runtime's pods, and the places that are taken."""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from generator.config.fields import Name, Room, Section, refusal
from generator.documents.syntax import shown
from generator.facts.folders import hidden_by

HOME = "/home/mpiuser"
RUN = "/run/mpi"
_PLACE = re.compile(r"[^:\x00-\x1f\x7f]{1,4095}")
_TAKEN_NAMES = ("home", "run", "tmp", "shared-memory", "mpi-hostfile", "mpi-ssh-auth")


def _is_place(value: str) -> str:
    is_plain = value.startswith("/") and not value.startswith("//") and posixpath.normpath(value) == value
    if not is_plain or value == "/" or not _PLACE.fullmatch(value):
        raise refusal(f"{shown(value)} is not a place for a volume", "write an absolute path, such as /data")
    if what := hidden_by(value):
        raise refusal(f"a volume at {shown(value)} {what}", "use a path such as /data")
    return value


def _is_free(value: str) -> str:
    if value in _TAKEN_NAMES:
        raise refusal(f"`{value}` is a volume that every pod has", "give yours another name")
    return value


class RuntimeVolume(Section):
    """A volume of launcher and nodes: a claim of the tenant's, or scratch space on the node."""

    name: Annotated[Name, AfterValidator(_is_free)]
    """Its name in the pods."""
    mount_path: Annotated[str, Field(strict=True), AfterValidator(_is_place)]
    """Where programs see it."""
    claim: Name | None = None
    """The PersistentVolumeClaim in the namespace of whoever trains. Several nodes use it at once: ReadWriteMany."""
    scratch: Room | None = None
    """The size of scratch space on each node, gone with the pod."""
    read_only: bool = False
    """Whether programs can only read it."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.claim is None) == (self.scratch is None):
            raise refusal("a volume is one of `claim` and `scratch`", "write exactly one of them")
        return self
