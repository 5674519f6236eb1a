"""Test hazards of platform files in examples, in `synth` and in Python; tests/checks/platform has a case per check."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.checks.finding import Severity
from generator.config.load import load_platform
from generator.hazards.find import find_hazards
from generator.hazards.settings import covered
from tests.checks import CASES
from tests.conftest import ROOT, Run

EXAMPLES = sorted(ROOT.glob("examples/*/platform.yaml"))
PYTHON = """
from generator import Access, Pool, Platform, Tenant

platform = Platform(
    platform="prod",
    release="1.0.0",
    pools=[Pool(name="cpu", nodes=2, allocatable={"cpu": 8, "memory": "32Gi"})],
    tenants=[Tenant(name="b", quota={"cpu": 1}, access=Access(view=["group:system:authenticated"]))],
)
"""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_has_no_hazard(example: Path) -> None:
    assert find_hazards(load_platform(example), example) == []


def test_synth_reports_hazards_and_writes_the_release(mpigen: Run, tmp_path: Path) -> None:
    (tmp_path / "people.yaml").write_text(CASES["platform/everyone-reads"].bad)
    result = mpigen("synth", "people.yaml", "--format", "json")
    found = [each for each in json.loads(result.stdout)["findings"] if each["check"].startswith("platform/")]
    assert result.returncode == 0
    assert [(each["severity"], each["line"], each["path"]) for each in found] == [
        ("warning", 8, "tenants[0].access.view[0]"),
        ("warning", 8, "tenants[0].access.view[1]"),
        ("warning", 8, "tenants[0].access.view[2]"),
    ]
    assert (tmp_path / "output/prod/release.json").is_file()


def test_a_platform_in_python_has_a_path_of_names_and_the_line_of_the_section(tmp_path: Path) -> None:
    file = tmp_path / "mpigen_platform.py"
    file.write_text(PYTHON)
    from generator.pipeline import load

    platform, _ = load(file)
    (finding,) = find_hazards(platform, file)
    assert (finding.line, finding.column, finding.severity) == (8, 0, Severity.WARNING)
    assert finding.path == "tenants.b.access.view.group:system:authenticated"


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_partition_of_all_addresses_covers_all_addresses(data: st.DataObject) -> None:
    parts = [ipaddress.ip_network(data.draw(st.sampled_from(["0.0.0.0/0", "::/0"])))]
    for _ in range(data.draw(st.integers(0, 12))):
        whole = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts += whole.subnets() if whole.prefixlen < whole.max_prefixlen else [whole]
    assert covered(parts) == 1


@given(st.integers(8, 32), st.integers(0, 2**32 - 1))
def test_a_network_of_an_organisation_is_not_open(bits: int, address: int) -> None:
    assert covered([ipaddress.ip_network((address >> (32 - bits) << (32 - bits), bits))]) <= 1 / 256
