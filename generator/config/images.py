"""`policies.images`: where images may come from."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from generator.config.fields import Section, refusal
from generator.documents.syntax import shown
from generator.facts.image_reference import image_fault, is_image

_PORT = re.compile(r"(?:[^/\[\]]*|\[[^\]]*\]):(?P<port>[0-9]+)/")
_MOST = 65535


def _is_image(value: str) -> str:
    what, fix = image_fault(value)
    if what:
        raise refusal(f"{shown(value)} is not an image reference: {what}", fix)
    return _has_a_port(value)


def _is_registry(value: str) -> str:
    """With a slash at the end, without which `quay.io/acme` would also be the begin of `quay.io/acme-evil`."""
    written = value if value.endswith("/") else f"{value}/"
    host = written.split("/", 1)[0]
    is_host = "." in host or ":" in host or host == "localhost"
    if not is_image(f"{written}image") or not is_host or host.lower() != host:
        raise refusal(f"{shown(value)} is no registry", "write its host, and what is before the name: quay.io/acme/")
    return _has_a_port(written)


def _has_a_port(value: str) -> str:
    found = _PORT.match(value)
    if found and not 0 < int(found["port"]) <= _MOST:
        raise refusal(f"{shown(value)}: there is no port {found['port']}", f"write a port from 1 to {_MOST}")
    return value


Image = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_image)]
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
