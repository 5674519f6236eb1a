"""Test that the tables of facts match their schemas, and agree with the data of vendors."""

from __future__ import annotations

import ipaddress
import json
import re
from fractions import Fraction
from typing import Any

import jsonschema
import pytest

from generator.facts.addressing import metadata_of_clouds
from generator.facts.devices import (
    Gpu,
    device_of,
    gpus,
    gpus_of_product,
    gpus_of_server,
    is_known,
    is_one_edit,
    known_profiles,
    known_resources,
    likely_meant,
    profile_of_product,
    vendors,
)
from generator.facts.images import image_fault, is_image
from generator.facts.nodes import SERVERS
from generator.facts.table import read_table
from tests.conftest import ROOT

TABLES = (
    "api_versions",
    "cel",
    "creators",
    "device_variables",
    "devices",
    "environment",
    "families",
    "folders",
    "foreign",
    "kept_fields",
    "kinds",
    "kueue",
    "launchers",
    "programs",
    "machines",
    "metadata",
    "mig",
    "node_labels",
    "node_updates",
    "output_files",
    "phases",
    "privileges",
    "queue_settings",
    "references",
    "security_constraints",
    "servers",
    "subjects",
    "upgrades",
    "versions",
)
REAL = (ROOT / "tests/fixtures/device-resources.txt").read_text("utf-8").split()
MIG_PARTED: list[dict[str, Any]] = json.loads((ROOT / "tests/fixtures/mig-parted.json").read_text("utf-8"))
OF_DEVICE = {
    "0x233010DE": "H100 80GB",
    "0x20B210DE": "A100 80GB",
    "0x20B010DE": "A100 40GB",
    "0x20B710DE": "A30 24GB",
    "0x232110DE": "H100 94GB",
    "0x234210DE": "H100 96GB, alone and in GH200",
    "0x234810DE": "GH200 144GB",
    "0x233510DE": "H200 141GB",
    "0x290110DE": "B200 180GB",
    "0x294110DE": "GB200 186GB",
    "0x318210DE": "B300 288GB",
    "0x31C210DE": "GB300 288GB",
    "0x2BB510DE": "RTX PRO 6000 Blackwell",
}
"""PCI device in mig-parted's configuration → our row."""


@pytest.mark.parametrize("name", TABLES)
def test_a_table_matches_its_schema(name: str) -> None:
    schema = json.loads((ROOT / f"generator/facts/{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(read_table(name), schema)


def test_every_table_has_a_schema_test() -> None:
    found = {path.stem for path in (ROOT / "generator/facts").glob("*.yaml")}
    assert found >= set(TABLES)


def test_all_patterns_of_tables_compile() -> None:
    patterns = [pattern for row in read_table("mig")["gpus"] for pattern in row["products"]]
    patterns += [row["pattern"] for row in read_table("devices")["vendors"] if "pattern" in row]
    assert all(re.compile(pattern) for pattern in patterns)
    assert all(ipaddress.ip_network(address) for address in metadata_of_clouds())


def test_every_nvidia_server_has_a_gpu_and_every_listed_server_exists() -> None:
    named = {server for gpu in gpus() for server in gpu.servers}
    assert named <= SERVERS.keys()
    assert named == {name for name, server in SERVERS.items() if "NVIDIA" in server.accelerators}
    assert [gpu.name for gpu in gpus_of_server("hgx-h100")] == ["H100 80GB"]


@pytest.mark.parametrize("row", MIG_PARTED, ids=lambda row: str(row["instances"]))
def test_mig_parted_configurations_use_known_profiles_within_their_limits(row: dict[str, Any]) -> None:
    models = [_named(OF_DEVICE[device]) for device in row["devices"] if device in OF_DEVICE] or gpus()
    for profile, count in row["instances"].items():
        counts = {gpu.profiles.get(profile.replace("+", "."), 0) for gpu in models}
        if len(row["instances"]) == 1:
            assert count in counts
        else:
            assert count <= max(counts)


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_mig_instances_follow_from_the_slices_of_the_gpu(gpu: Gpu) -> None:
    """A GPU has one `+me` instance; the others are limited by compute and memory slices, in powers of two."""
    row = next(row for row in read_table("mig")["gpus"] if row["name"] == gpu.name)
    sizes = {profile: _size(profile) for profile in gpu.profiles}
    for profile, count in gpu.profiles.items():
        if gpu.name == "RTX PRO 5000 Blackwell":
            continue  # its 42 multiprocessors make no four quarters: NVIDIA lists one 1g.12gb and three 1g.12gb-me
        slices, memory = sizes[profile]
        whole = max(size for _, size in sizes.values())
        parts = max(1, round(Fraction(memory * row["slices"]["memory"], whole)))
        expected = min(row["slices"]["compute"] // slices, row["slices"]["memory"] // parts)
        assert count == (1 if re.search(r"\.me(\.all)?$", profile) else expected), profile


def test_products_of_gpu_feature_discovery_are_known() -> None:
    assert [gpu.name for gpu in gpus_of_product("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me")] == ["H100 80GB"]
    assert [gpu.name for gpu in gpus_of_product("A100-SXM4-40GB-MIG-1g.5gb-SHARED")] == ["A100 40GB"]
    assert [gpu.name for gpu in gpus_of_product("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition")] == [
        "RTX PRO 6000 Blackwell"
    ]
    assert not gpus_of_product("NVIDIA-L40S")[0].profiles
    assert gpus_of_product("NVIDIA-R200") == ()
    assert profile_of_product("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me-SHARED") == "1g.10gb.me"
    assert profile_of_product("NVIDIA-H100-80GB-HBM3") == ""


@pytest.mark.parametrize("name", REAL)
def test_real_device_plugin_names_are_not_misspellings(name: str) -> None:
    assert likely_meant(name) == ""


@pytest.mark.parametrize(("length", "is_compared"), [(100, True), (101, False)])
def test_a_name_of_up_to_100_characters_is_compared(length: int, *, is_compared: bool) -> None:
    name = f"example.com/{'n' * (length - 12)}"
    assert bool(likely_meant(f"{name[:-1]}m", frozenset({name}))) == is_compared


def test_names_chosen_by_administrators_are_unknown() -> None:
    unknown = {name for name in REAL if not is_known(name)}
    assert unknown == {"acme.com/fpga", "example.com/dongle", "hardware-vendor.example/foo"}


def test_every_single_edit_of_a_fixed_name_is_reported() -> None:
    fixed = {f"{vendor.prefix}/{name}" for vendor in vendors().values() for name in vendor.names}
    for name in sorted(fixed):
        for edit in _edits(name):
            prefix, _, local = edit.partition("/")
            vendor = vendors().get(prefix)
            is_real = edit in known_resources() or (vendor and vendor.pattern and re.fullmatch(vendor.pattern, local))
            assert bool(likely_meant(edit)) == (not is_real), edit


def test_digits_distinguish_names_that_administrators_choose() -> None:
    chosen = frozenset({"openshift.io/ib_rail0", "rdma/shared_ib"})
    assert likely_meant("openshift.io/ib_rail1", chosen) == ""
    assert likely_meant("openshift.io/ib_rial0", chosen) == "openshift.io/ib_rail0"
    assert likely_meant("rdma/shared_bi", chosen) == "rdma/shared_ib"


def test_missing_vendor_domains_and_upper_case_are_corrected() -> None:
    assert likely_meant("nvidia/gpu") == "nvidia.com/gpu"
    assert likely_meant("vpc.amazonaws.com/EFA") == "vpc.amazonaws.com/efa"


@pytest.mark.parametrize(
    ("one", "two", "is_edit"),
    [
        *(("ab", "ab", False), ("ab", "ba", True), ("ab", "a", True), ("ab", "abc", True), ("ab", "cb", True)),
        *(("ab", "cd", False), ("abc", "cba", False), ("", "a", True), ("a", "abc", False)),
    ],
)
def test_one_edit_is_a_changed_letter_or_a_swap(one: str, two: str, is_edit: bool) -> None:
    assert is_one_edit(one, two) is is_one_edit(two, one) is is_edit


@pytest.mark.parametrize(("part", "most"), [("quay.io/{}", 255), ("{}.io/acme", 1024 - len(".io/acme"))])
def test_the_parts_of_an_image_reference_have_limits(part: str, most: int) -> None:
    assert is_image(part.format("p" * most))
    assert not is_image(part.format("p" * (most + 1)))


def test_a_message_quotes_up_to_60_characters_of_an_image_reference() -> None:
    assert image_fault(f"quay.io/acme/mpi:{'-' * 60}")[0] == f"`{'-' * 60}` is not a valid tag"
    assert image_fault(f"quay.io/acme/mpi:{'-' * 61}")[0] == f"`{'-' * 57}...` is not a valid tag"


def test_image_references_are_parsed_as_by_the_kubelet() -> None:
    rows = [json.loads(line) for line in (ROOT / "tests/fixtures/image-references.jsonl").read_text().splitlines()]
    assert len(rows) == 2500
    assert [text for text, is_right in rows if is_image(text) != is_right] == []


def test_accelerators_are_known_resources() -> None:
    slices = {f"nvidia.com/mig-{profile}" for profile in known_profiles()}
    kinds = {name: device.kind for name in known_resources() | slices if (device := device_of(name))}
    assert {kinds[name] for name in slices} == {"nvidia-mig"}
    assert set(kinds.values()) == {"nvidia", "nvidia-mig", "amd", "intel", "gaudi"}


def _named(name: str) -> Gpu:
    return next(gpu for gpu in gpus() if gpu.name == name)


def _size(profile: str) -> tuple[int, int]:
    slices, memory = re.match(r"(\d+)g\.(\d+)gb", profile).groups()  # type: ignore[union-attr]
    return int(slices), int(memory)


def _edits(name: str) -> set[str]:
    cuts = {name[:at] + name[at + 1 :] for at in range(len(name))}
    swaps = {name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(len(name) - 1)}
    more = {f"{name[:at]}x{name[at:]}" for at in range(len(name) + 1)}
    replaced = {f"{name[:at]}7{name[at + 1 :]}" for at in range(len(name))}
    return (cuts | swaps | more | replaced) - {name}
