"""`policies.images`: where images may come from."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from generator.config.fields import Section, refusal
from generator.documents.syntax import shown

_REGISTRY = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*/")


def _is_registry(value: str) -> str:
    """With a slash at the end, without which `quay.io/acme` would also be the begin of `quay.io/acme-evil`."""
    written = value if value.endswith("/") else f"{value}/"
    host = written.split("/", 1)[0]
    if not _REGISTRY.fullmatch(written) or not ("." in host or ":" in host or host == "localhost"):
        raise refusal(f"{shown(value)} is no registry", "write its host, and what is before the name: quay.io/acme/")
    return written


Registry = Annotated[str, Field(strict=True), AfterValidator(_is_registry)]


class Images(Section):
    """The images of TrainJobs, and of the runtimes here."""

    registries: tuple[Registry, ...] = ()
    """Where they come from, such as `quay.io/acme/`. An image without a host, such as `ubuntu`, is from
    `docker.io/library/`, but is not matched by it: write images in full. Default: from anywhere."""
    digests: Annotated[bool, Field(strict=True)] = False
    """Whether an image must be named by its digest, so that it cannot change behind its name."""

    @field_validator("registries")
    @classmethod
    def _in_order(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(value)))
