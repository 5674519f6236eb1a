"""Fields and values that need a feature gate that is off by default (feature_gates.yaml)."""

from __future__ import annotations

from dataclasses import dataclass

from generator.facts.api_versions import is_reached
from generator.facts.table import read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureGate:
    """A row of feature_gates.yaml, which explains the fields."""

    gate: str
    component: str
    of: str
    path: tuple[str, ...]
    values: tuple[str, ...] = ()
    enabled: str = ""
    source: str

    def is_off(self, minor: str) -> bool:
        """Return True if the gate is off by default in a minor version of the component."""
        return not is_reached(minor, self.enabled)


GATES = read_rows("feature_gates", "gates", FeatureGate)
