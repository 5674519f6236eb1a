"""Read the platform of docs/explanations/compliance.md, which meets the profile `regulated`."""

from __future__ import annotations

import re
from typing import Any

import yaml

from generator import Platform
from tests.conftest import ROOT

DOCUMENT = ROOT / "docs/explanations/compliance.md"


def regulated() -> dict[str, Any]:
    """Return the platform file as data, for tests that change it."""
    shown = re.search(r"```yaml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert shown
    data: dict[str, Any] = yaml.safe_load(shown[1])
    return data


def regulated_platform() -> Platform:
    """Return the platform."""
    return Platform.model_validate(regulated())
