"""Test server types of the platform file: their facts, and the defaults of fabrics with these server types.

tests/fixtures/broken/servers*.txt have the messages of all mistakes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from generator import Fabric, FabricDefaults, Platform, Pool, ServerType
from generator.config.rules.pools import hardware_of
from generator.errors import ConfigError
from generator.facts.nodes import SERVERS
from generator.jobs.fabrics import describe_fabric, server_facts

NODE: dict[str, Any] = {
    "name": "acme-h100",
    "title": "Acme node",
    "accelerators": "8 NVIDIA H100",
    "link": 400,
    "sockets": 2,
    "topology": ["example.com/rack"],
    "fabric": {"type": "infiniband", "perNode": 4, "nics": {"vendor": "15b3", "device": "1021"}, "mtu": 4092},
}


def platform(server: dict[str, Any], /, **fabric: Any) -> Platform:
    """Return a platform with a server type and a fabric of it."""
    pool = {"name": "h100", "nodes": 4, "allocatable": {"cpu": 96, "memory": "1Ti", "nvidia.com/gpu": 8}}
    return Platform.model_validate(
        {
            "platform": "prod",
            "release": "1.0.0",
            "servers": [server],
            "fabrics": [{"name": "ib", "server": server["name"], **fabric}],
            "pools": [{**pool, "labels": {"example.com/pool": "h100"}, "fabric": "ib"}],
        }
    )


def problems(change: Any) -> list[str]:
    """Return the problems of a change, without their files."""
    with pytest.raises(ConfigError) as caught:
        change()
    return [f"{problem.path}: {problem.message}; {problem.fix}" for problem in caught.value.problems]


@pytest.mark.parametrize("like", SERVERS)
def test_a_server_type_without_further_fields_has_the_facts_of_its_like(like: str) -> None:
    server = ServerType.model_validate({"name": "acme", "like": like}).server
    known = replace(SERVERS[like], sources=(), measured=(), note="")
    assert replace(server, name=like, like="") == known


def test_a_fabric_has_the_defaults_of_its_server_type() -> None:
    (fabric,) = platform(NODE).fabrics
    assert (fabric.type, fabric.per_node, fabric.nics.device, fabric.mtu) == ("infiniband", 4, "1021", 4092)
    assert fabric.known_server
    assert (fabric.server_name, fabric.known_server.line_rate) == ("acme-h100", 1600)


def test_fields_of_a_fabric_override_its_server_type() -> None:
    (fabric,) = platform(NODE, perNode=2, nics={"device": "1017"}).fabrics
    assert (fabric.per_node, fabric.nics.vendor, fabric.nics.device) == (2, "15b3", "1017")


def test_fields_of_a_server_type_override_its_like() -> None:
    own = {"name": "acme", "like": "hgx-h100", "fabric": {"perNode": 4, "nics": {"device": "1017"}}}
    (fabric,) = platform(own).fabrics
    assert (fabric.type, fabric.per_node, fabric.nics.vendor, fabric.nics.device) == ("infiniband", 4, "15b3", "1017")


def test_yaml_and_python_give_the_same_platform() -> None:
    defaults = FabricDefaults.model_validate(NODE["fabric"])
    server = ServerType.model_validate({**NODE, "fabric": defaults})
    parsed = platform(NODE)
    built = parsed.replace(servers=(server,), fabrics=(Fabric.model_validate({"name": "ib", "server": server}),))
    assert built == parsed
    assert built.digest() == parsed.digest()
    assert parsed.replace() == parsed


def test_a_server_type_that_the_platform_lacks_is_an_error_in_python() -> None:
    fabric = Fabric.model_validate({"name": "ib", "server": ServerType.model_validate(NODE)})
    pool = Pool(name="cpu", nodes=1, allocatable={"cpu": 8, "memory": "64Gi"})
    assert problems(lambda: Platform(platform="prod", release="1.0.0", fabrics=(fabric,), pools=(pool,))) == [
        (
            "fabrics.ib.server: `servers` of the platform lacks this server type `acme-h100`; "
            "add the same ServerType to `servers`"
        )
    ]


def test_a_fabric_in_python_cannot_name_a_server_type_of_the_platform() -> None:
    (problem,) = problems(lambda: Fabric(name="ib", type="infiniband", server="acme-h100"))
    assert problem.startswith("Fabric.server: there is no server type `acme-h100`;")


def test_own_server_types_are_described() -> None:
    declared = platform(NODE)
    (server,), (fabric,) = declared.servers, declared.fabrics
    text = [f"{topic}: {point}" for topic, point in describe_fabric(declared, fabric)]
    assert "fabric: ib: infiniband, on Acme node" in text
    facts = server_facts(server.server)
    assert (facts["type"], facts["nicsPerNode"], facts["topology"]) == ("infiniband", 4, ["example.com/rack"])


def test_gpus_of_a_server_type_like_another_are_known() -> None:
    (pool,) = platform({"name": "acme", "like": "hgx-h100"}).pools
    hardware = hardware_of(pool)
    assert (hardware.count, hardware.name) == (8, "acme")
    assert hardware.gpus
    (pool,) = platform({"name": "acme", "like": "hgx-h100", "accelerators": "4 Acme X1"}).pools
    assert (hardware_of(pool).count, hardware_of(pool).gpus) == (4, ())


def test_only_a_platform_with_server_types_has_another_digest() -> None:
    declared = platform({**NODE, "name": "unused"}, server="hgx-h100")
    assert declared.digest() != declared.replace(servers=()).digest()
