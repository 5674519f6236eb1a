"""`egress`: what a tenant's pods may reach outside the cluster."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from generator.config.fields import Name, Section, refusal
from generator.documents.syntax import shown

METADATA = ("169.254.169.254/32", "fd00:ec2::254/128")
"""Where clouds tell a node who it is, and with it whoever asks (Amazon, Google and Microsoft; Amazon's over IPv6)."""
_DOMAIN = re.compile(
    r"(?=.{1,253}$)(?:\*\.)?[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)+"
)


def _is_network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise refusal(f"{shown(value)} is not a network", _network_of(value)) from None


def _network_of(value: str) -> str:
    try:
        return f"its host bits are set: write {ipaddress.ip_network(value, strict=False)}"
    except ValueError:
        return "write it like 10.20.0.0/16"


def _is_domain(value: str) -> str:
    if not _DOMAIN.fullmatch(value):
        raise refusal(f"{shown(value)} is not a domain name", "write it like s3.example.com or *.s3.example.com")
    return value


def _is_not_metadata(value: str) -> str:
    if any(_holds(address, value) for address in METADATA):
        what = f"{value} is where the cloud hands out the rights of the node"
        raise refusal(what, "give pods an identity of their own")
    return value


def _holds(network: str, other: str) -> bool:
    one, two = ipaddress.ip_network(network), ipaddress.ip_network(other)
    return one.version == two.version and two.subnet_of(one)  # type: ignore[arg-type]


def metadata_in(network: str) -> list[str]:
    """The addresses of metadata services in a network."""
    return [address for address in METADATA if _holds(network, address)]


Network = Annotated[str, Field(strict=True), AfterValidator(_is_network)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]


class Egress(Section):
    """Something outside the cluster that the tenant's pods may reach: a network, or a name."""

    name: Name
    """What it is, such as `s3`."""
    cidr: Annotated[Network, AfterValidator(_is_not_metadata)] | None = None
    """The network, such as `10.20.0.0/16`. Whether addresses of pods in it are meant, too, is up to the CNI; the
    address of the cloud's metadata service never is."""
    fqdn: Annotated[str, Field(strict=True), AfterValidator(_is_domain)] | None = None
    """Instead of a network the name, such as `s3.example.com`, or `*.example.com` for what is one level below. Only
    with `cluster.network: cilium`."""
    ports: tuple[Port, ...] = Field(min_length=1)
    """The ports."""
    protocol: Literal["TCP", "UDP"] = "TCP"
    """Of the ports."""

    @field_validator("ports")
    @classmethod
    def _in_order(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.cidr is None) == (self.fqdn is None):
            what = "neither a network nor a name" if self.cidr is None else "both a network and a name"
            raise refusal(f"`{self.name}` is {what}", "write `cidr` or `fqdn`")
        return self
