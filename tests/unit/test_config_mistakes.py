"""Test classes of mistakes that mpigen once accepted, as properties. tests/fixtures/broken has examples."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from generator import Access, Platform, Pool
from generator.config.model.fields import check_amount, check_node_amount
from generator.config.model.isolation import Network
from generator.config.model.policies import Image, Registry
from generator.config.model.runtimes import RuntimeVolume
from generator.config.python_file import run_platform_file
from generator.documents.credentials import find_exposures
from generator.errors import ConfigError
from generator.facts.images import hidden_by
from generator.facts.table import read_table
from generator.quantities import parse
from tests.conftest import ROOT
from tests.unit.test_checks_secret import TOKENS
from tests.update_broken import complaint

IN_BYTES = ("memory", "ephemeral-storage", "storage")
REAL = (ROOT / "tests/fixtures/device-resources.txt").read_text("utf-8").split()
SOUND = "platform: prod\nrelease: 1.0.0\npools:\n- {name: cpu, nodes: 4, allocatable: {cpu: 64, memory: 256Gi}}\n"
PLACES = {
    "a comment": f"{SOUND}# see TOKEN\n",
    "a comment behind a value": SOUND.replace("1.0.0\n", "1.0.0 # TOKEN\n"),
    "a key": f"{SOUND}TOKEN: 1\n",
    "a label": SOUND.replace("256Gi}", "256Gi}, labels: {TOKEN: a}"),
    "an anchor": SOUND.replace("pools:\n", "pools: &TOKEN\n"),
    "a block": f"{SOUND}runtimes:\n- name: b\n  pool: cpu\n  environment:\n    A: |\n      x\n      TOKEN\n",
    "what is no YAML": f"{SOUND}runtimes: [\n# TOKEN\n",
}
ONE_LINE = {what: token for what, token in TOKENS.items() if "\n" not in token and " " not in token}


@given(st.sampled_from(IN_BYTES), st.integers(1, 2**20 - 1))
def test_less_than_a_mebibyte_is_reported_as_a_missing_unit(resource: str, amount: int) -> None:
    assert check_amount(resource, parse(str(amount)))


@given(st.sampled_from(IN_BYTES), st.integers(1, 10**6).filter(lambda number: number % 1000))
def test_millibytes_are_rejected(resource: str, amount: int) -> None:
    assert check_amount(resource, parse(f"{amount}m"))


@given(st.integers(1, 10**6), st.sampled_from(("Ki", "Mi", "Gi", "Ti")))
def test_cpu_in_bytes_is_rejected(amount: int, unit: str) -> None:
    assert check_amount("cpu", parse(f"{amount}{unit}"))


@given(st.integers(1, 512), st.integers(1, 16384))
def test_amounts_of_real_nodes_are_plausible(cores: int, gibibytes: int) -> None:
    assert check_node_amount("cpu", parse(str(cores))) is None
    assert check_node_amount("memory", parse(f"{gibibytes}Gi")) is None


@given(st.integers(1001, 10**9))
def test_no_node_has_thousands_of_devices(count: int) -> None:
    assert check_node_amount("nvidia.com/gpu", parse(str(count)))
    assert check_node_amount("openshift.io/ib_vf", parse(str(count))) is None


@pytest.mark.parametrize("name", REAL)
def test_resources_of_real_device_plugins_are_accepted(name: str) -> None:
    Platform(platform="a", release="1.0.0", pools=[_pool({name: 1})])


def test_a_misspelled_resource_is_rejected_unless_declared() -> None:
    pools = [_pool({"nvidia.com/gpus": 8})]
    with pytest.raises(ConfigError, match=r"nvidia\.com/gpu"):
        Platform(platform="a", release="1.0.0", pools=pools)
    Platform.model_validate(
        {"platform": "a", "release": "1.0.0", "pools": pools, "cluster": {"resources": ["nvidia.com/gpus"]}}
    )


@given(st.ip_addresses())
def test_a_bare_address_is_not_a_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert not _is_taken(Network, str(address))


@given(st.ip_addresses(), st.integers(0, 128))
def test_a_network_with_host_bits_is_rejected(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, bits: int
) -> None:
    bits = min(bits, address.max_prefixlen)
    network = ipaddress.ip_network(f"{address}/{bits}", strict=False)
    is_mapped = isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped and bits >= 96
    assert _is_taken(Network, str(network)) is not bool(is_mapped)
    assert _is_taken(Network, f"{address}/{bits}") is (network.network_address == address and not is_mapped)


@pytest.mark.parametrize("folder", [row["path"] for row in read_table("folders")["folders"]])
def test_a_volume_cannot_hide_a_required_folder(folder: str) -> None:
    parts = folder.split("/")[1:]
    around = ["/" + "/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    for path in ["/", *around]:
        assert not _is_mounted(path), path


@pytest.mark.parametrize(
    "path", ["data", "./data", "/data/..", "/data/../x", "//data", "/data/", "", ".", "/da\nta", "/a:b"]
)
def test_a_volume_needs_an_absolute_path(path: str) -> None:
    assert not _is_mounted(path)


@pytest.mark.parametrize(
    "path",
    [
        "/data",
        "/scratch/a",
        "/mnt",
        "/srv/data",
        "/opt/acme",
        "/home/mpiuser/cache",
        "/etc/acme",
        "/var/tmp",
        "/database",
    ],
)
def test_a_volume_is_accepted_in_other_folders(path: str) -> None:
    assert _is_mounted(path)
    assert hidden_by(path) == ""


@pytest.mark.parametrize("role", ["admin", "edit", "submit"])
@pytest.mark.parametrize("row", read_table("subjects")["subjects"], ids=lambda row: f"{row['kind']}:{row['name']}")
def test_subjects_of_the_cluster_cannot_be_team_members(row: dict[str, str], role: str) -> None:
    with pytest.raises(ConfigError):
        Access.model_validate({role: [f"{row['kind']}:{row['name'].replace('*', 'x')}"]})


@pytest.mark.parametrize(
    "image", ["ubuntu", "quay.io/acme/openmpi:5.0", f"[::1]:5000/a@sha256:{'a' * 64}", "localhost/x"]
)
def test_a_valid_image_is_accepted(image: str) -> None:
    assert _is_taken(Image, image)


@pytest.mark.parametrize(
    "registry", ["quay.io", "quay.io/acme/", "registry.example.com:5000", "localhost/x", "[::1]:5000/x"]
)
def test_a_valid_registry_is_accepted(registry: str) -> None:
    assert _is_taken(Registry, registry)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", ONE_LINE)
def test_a_credential_is_detected_in_every_place_and_not_printed(place: str, what: str) -> None:
    token = ONE_LINE[what]
    told = complaint(PLACES[place].replace("TOKEN", token).encode())
    assert f" holds {what}" in told or f" is {what}" in told
    assert token[:16] not in told


def test_a_credential_in_a_python_platform_is_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "mpigen_platform.py"
    file.write_text(f"# {TOKENS['a token of GitHub']}\nraise SystemExit('not run')\n")
    with pytest.raises(ConfigError, match=r":1:3: this line holds a token of GitHub") as told:
        run_platform_file(file)
    assert TOKENS["a token of GitHub"] not in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "# password: $(PASSWORD)\n# token: see the wiki\n# secret: team-cv/s3\n",
        "# write it like https://user:password@host/path, or postgres://user:pass@host\n",
        "# version: v1.2.3, token: 2.0.1\n# passwords come from Vault: https://vault.example.com/ui\n",
        "# max_tokens: 4096\n# the API key is in `tenants[].secrets`\n# https://user@git.example.com/platform.git\n",
    ],
)
def test_texts_about_credentials_are_not_credentials(text: str) -> None:
    assert find_exposures(text) == []


def test_examples_have_no_credentials() -> None:
    for example in ROOT.glob("examples/*/*.yaml"):
        assert find_exposures(example.read_text("utf-8")) == []


def _pool(devices: dict[str, Any]) -> Pool:
    return Pool.model_validate({"name": "a", "nodes": 2, "allocatable": {"cpu": 8, "memory": "32Gi", **devices}})


def _is_mounted(path: str) -> bool:
    return _is_taken(RuntimeVolume, {"name": "a", "mountPath": path, "claim": "a"})


def _is_taken(model: Any, value: Any) -> bool:
    try:
        TypeAdapter(model).validate_python(value)
    except (ValidationError, ConfigError):
        return False
    return True
