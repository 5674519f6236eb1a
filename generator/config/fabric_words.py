"""The words that a fabric is declared with, each as whoever reads it on the cluster takes it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from generator.config.egress import Network
from generator.config.fields import Text, refusal
from generator.documents.syntax import shown
from generator.facts.image_reference import is_image


def _like(pattern: str, what: str, fix: str) -> Callable[[str], str]:
    def checked(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise refusal(f"{shown(value)} is not {what}", fix)
        return value

    return checked


_HEX = "^[0-9a-f]{4}$"
Hex = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _HEX}),
    AfterValidator(_like(_HEX, "a number of PCI", 'write its four digits as `lspci -nn` does, such as "15b3"')),
]
_PORT = r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,14}$"
Port = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _PORT}),
    AfterValidator(_like(_PORT, "a network interface", "write its name on the nodes, such as ens1f0np0")),
]
_PCI = r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$"
PciAddress = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _PCI}),
    AfterValidator(_like(_PCI, "an address of PCI", 'write it as `lspci -D` does, such as "0000:18:00.0"')),
]
# resource.k8s.io: names of DeviceClasses are subdomains
_CLASS = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
DeviceClass = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _CLASS}),
    AfterValidator(_like(_CLASS, "the name of a DeviceClass", "write it like mrdma.google.com")),
]
# As in an image, without its last part; Mellanox/network-operator v26.4.1 api/v1alpha1 puts a slash after it.
_REPOSITORY = r"^[a-z0-9][a-z0-9._:/-]*[a-z0-9]$"


def _is_repository(value: str) -> str:
    if not is_image(f"{value}/image"):
        raise refusal(f"{shown(value)} is not where an image is", "write it like registry.example.com/mellanox")
    return value


def _is_version(value: str) -> str:
    if not is_image(f"image:{value}") and not is_image(f"image@{value}"):
        raise refusal(f"{shown(value)} is not the tag or digest of an image", "write it like v1.5.3 or sha256:…")
    return value


Repository = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _REPOSITORY}),
    AfterValidator(_like(_REPOSITORY, "where an image is", "write it like registry.example.com/mellanox")),
    AfterValidator(_is_repository),
]
Version = Annotated[str, Field(strict=True, min_length=1), AfterValidator(_is_version)]
_CPUS = r"^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$"


def cores(value: str | None) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each part of a set of cores, and its first and last one."""
    for part in value.split(",") if value else ():
        first, _, last = part.partition("-")
        yield part, (int(first), int(last or first))


def _counts_up(value: str) -> str:
    for part, (first, last) in cores(value):
        if first > last:
            raise refusal(f"{part} ends before it begins", f"write {last}-{first}")
    return value


CpuSet = Annotated[
    str,
    Field(strict=True, json_schema_extra={"pattern": _CPUS}),
    AfterValidator(_like(_CPUS, "a set of cores", "write it like 0-3,96-99")),
    AfterValidator(_counts_up),
]


def _is_pkey(value: str) -> str:
    """Fifteen bits, of which 0 is invalid and 0x7fff the partition that everybody is in."""
    try:
        number = int(value, 16)
    except ValueError:
        number = 0
    if not value.startswith("0x") or not 0 < number & 0x7FFF < 0x7FFF or number > 0xFFFF:  # noqa: PLR2004 - 16 bits
        raise refusal(f"{shown(value)} is not the key of a partition", "write it in quotes, from 0x1 to 0x7ffe")
    return hex(number & 0x7FFF)


PKey = Annotated[str, Field(strict=True), AfterValidator(_is_pkey)]
Vlan = Annotated[int, Field(strict=True, ge=1, le=4094)]


def _is_for_hosts(value: str) -> str:
    network = ipaddress.ip_network(value)
    if network.prefixlen == 0:
        raise refusal(f"{value} is all there is: pods would send everything over the fabric", "write a private network")
    if network.is_multicast or network.is_loopback:
        raise refusal(f"no host can have an address of {value}", "write a private network, such as 192.168.0.0/16")
    return value


Range = Annotated[Network, AfterValidator(_is_for_hosts)]


def _is_cel(value: str) -> str:
    """The API server compiles it, too, with all functions of Kubernetes, which may be newer than what is known here."""
    from cel_expr_python import cel  # type: ignore[import-untyped]

    from generator.simulate.policies.errors import all_words

    try:
        made = cel.NewEnv(variables={"device": cel.Type.DYN}).compile(value).return_type()
    except RuntimeError as error:
        if wrong := next((words for words in all_words(error) if words.startswith("Syntax error")), ""):
            raise refusal(f"{shown(value)} is not CEL: {wrong.partition(' expecting ')[0]}", "correct it") from None
        return value
    if made not in (cel.Type.BOOL, cel.Type.DYN):
        raise refusal(f"{shown(value)} is neither true nor false", 'compare it, as in `device.driver == "dra.net"`')
    return value


Selector = Annotated[Text, AfterValidator(_is_cel)]
