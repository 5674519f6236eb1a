"""Test that every object in the diagrams of docs/explanations/fabrics.md is in the example's release."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

_TEXT = (ROOT / "docs" / "explanations" / "fabrics.md").read_text("utf-8")
_PICTURES = dict(re.findall(r"examples/([a-z0-9-]+)/platform\.yaml`.*?```text\n(.*?)```", _TEXT, re.DOTALL))
_OBJECT = re.compile(r"\+-- ([A-Z]\w+) (\S+)")
_DEVICE = re.compile(r"(\S+/\S+): (\d+) -")
_VARIABLE = re.compile(r"\b([A-Z][A-Z0-9_a-z]+)=(\^?[A-Za-z]+)")


def _release(example: str) -> str:
    folder = ROOT / "output" / example
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.yaml")))


def test_every_fabric_example_has_a_diagram() -> None:
    assert set(_PICTURES) == {"openshift-h100", "roce-h200", "eks-p5"}


@pytest.mark.parametrize("example", _PICTURES)
def test_every_object_of_a_diagram_is_in_the_release(example: str) -> None:
    release, found = _release(example), _OBJECT.findall(_PICTURES[example])
    assert found
    for kind, name in found:
        assert re.search(rf"^kind: {kind}\nmetadata:\n  name: \"?{re.escape(name)}\"?$", release, re.MULTILINE), name


@pytest.mark.parametrize("example", _PICTURES)
def test_every_device_and_variable_of_a_diagram_is_in_the_release(example: str) -> None:
    release, picture = _release(example), _PICTURES[example]
    devices, variables = _DEVICE.findall(picture), _VARIABLE.findall(picture)
    assert devices
    assert variables
    for device, count in devices:
        asked = f'{device}: "{count}"'
        owned = f"name: {device}\n        nominalQuota: {count}"
        assert asked in release or owned in release or owned.replace(count, f'"{count}"') in release, device
    for name, value in variables:
        if name.isupper() or name.startswith("OMPI_"):
            assert re.search(rf"name: {name}\n +value: \"?{re.escape(value)}", release), name
