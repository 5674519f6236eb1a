"""Test that server types are data with sources, and that each builds a fabric."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from generator import Fabric
from generator.errors import ConfigError
from generator.facts.families import FAMILIES, FamilyName
from generator.facts.nodes import SERVERS, Server, ServerName

# InfiniBand HDR and NDR, 100, 200 and 400 Gbit/s Ethernet, EFA.
LINKS = {100, 200, 400}
# What a person must add where a type cannot say it: names of interfaces, and addresses.
OWN: dict[str, Any] = {"addresses": {"range": "192.168.0.0/16"}}
PORTS = [f"eth{number}" for number in range(8)]


@pytest.fixture(params=SERVERS.values(), ids=lambda server: server.name)
def server(request: pytest.FixtureRequest) -> Server:
    """Return every server type."""
    found: Server = request.param
    return found


def built(server: Server, **own: Any) -> Fabric:
    return Fabric.model_validate({"name": "fabric", "server": server.name, **own})


def own(server: Server) -> dict[str, Any]:
    """Return the settings that a fabric of this server type still needs."""
    needs_ports = server.name == "hgx-spectrum-x"
    has_addresses = server.fabric["type"] == "roce" and server.fabric.get("attach") != "dra"
    return {**(OWN if has_addresses else {}), **({"nics": {"ports": PORTS}} if needs_ports else {})}


def test_every_declared_name_has_data() -> None:
    assert list(SERVERS) == list(get_args(ServerName))
    assert list(FAMILIES) == list(get_args(FamilyName))


def test_every_server_type_has_a_source(server: Server) -> None:
    assert server.sources
    assert all(
        source.startswith("https://") for source in (*server.sources, *(each.source for each in server.measured))
    )


def test_every_server_type_builds_a_fabric_of_its_type(server: Server) -> None:
    fabric = built(server, **own(server))
    assert (fabric.type, fabric.per_node, fabric.known_server) == (
        server.fabric["type"],
        server.fabric["perNode"],
        server,
    )


def test_links_have_a_known_speed(server: Server) -> None:
    assert server.link in LINKS
    assert server.line_rate == server.link * server.fabric["perNode"]
    assert server.line_rate <= 3200


def test_measured_bandwidth_is_near_the_speed_of_the_links(server: Server) -> None:
    """A benchmark requires four fifths of it; trees over two hosts exceed it."""
    for measured in server.measured:
        assert 0.8 <= measured.gigabytes * 8 / server.line_rate <= 1.6, measured


def test_a_network_per_nic_requires_interface_names() -> None:
    with pytest.raises(ConfigError, match="mpigen needs the name or the PCI address of each NIC") as refused:
        built(SERVERS["hgx-spectrum-x"], **OWN)
    assert refused.value.problems[0].fix == "list the NICs in `nics.ports`"


def test_fields_of_a_fabric_override_its_server_type() -> None:
    fabric = built(SERVERS["hgx-h100"], per_node=4)
    assert (fabric.per_node, fabric.nics.device) == (4, "1021")


def test_a_server_type_sets_a_fully_qualified_device_class() -> None:
    assert built(SERVERS["a3-ultragpu-8g"]).device_class == "mrdma.google.com"
