"""Test patches and own objects through the command line, and that the pages about them have short customizations."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, ROOT, Run
from tests.docs.pages import blocks_in

PATCH = """\
patches:
- target: {kind: Namespace, tenant: team-sim}
  reason: the billing export reads this label
  merge: {metadata: {labels: {example.com/cost-center: "4711"}}}
"""
OPENING = PATCH.replace("example.com/cost-center", "pod-security.kubernetes.io/enforce").replace("4711", "privileged")


@pytest.mark.parametrize("page", ["patch-any-object", "add-an-object", "patch-in-python"])
def test_a_customization_has_fewer_than_30_lines(page: str) -> None:
    sections = (ROOT / f"docs/tasks/{page}.md").read_text("utf-8").split("\n## ")
    lengths = [sum(len(block.text.splitlines()) for block in blocks_in(section) if block.title) for section in sections]
    assert 0 < max(lengths) < 30


def test_plan_shows_the_effect_of_a_patch_and_synth_writes_it(tmp_path: Path, mpigen: Run) -> None:
    file = tmp_path / "platform.yaml"
    shutil.copyfile(EXAMPLES["cpu-kubernetes"], file)
    assert mpigen("synth", "platform.yaml").returncode == 0
    text = file.read_text()
    file.write_text(text + PATCH.replace("Namespace", "Nmespace"))
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 2
    assert re.match(r"error: platform\.yaml:17:3: patches\[0\]\.target: no object of the release has", ran.stderr)
    file.write_text(text + PATCH)
    planned = mpigen("plan", "platform.yaml")
    assert "example.com/cost-center" in planned.stdout
    assert mpigen("synth", "platform.yaml").returncode == 0
    assert "4711" in (tmp_path / "output/cpu-kubernetes/tenants/team-sim/namespace.yaml").read_text()


def test_a_waiver_accepts_a_weaker_protection(tmp_path: Path, mpigen: Run) -> None:
    (tmp_path / "platform.yaml").write_text(EXAMPLES["cpu-kubernetes"].read_text() + OPENING)
    ran = mpigen("synth", "platform.yaml")
    assert ran.returncode == 1
    assert "error: platform/weakened-protection: Namespace team-sim patches[0]" in ran.stdout
    assert not (tmp_path / "output").exists()
    waiver = '[[waivers]]\ncheck = "platform/weakened-protection"\npath = "platform.yaml"\n'
    waiver += 'reason = "a trial"\nuntil = 2099-01-01\n'
    (tmp_path / "mpigen.toml").write_text(waiver)
    assert mpigen("synth", "platform.yaml").returncode == 0
