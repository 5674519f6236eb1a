"""The health checks of Argo CD for kinds that Argo CD does not know (health.yaml)."""

from __future__ import annotations

from dataclasses import dataclass

from generator.facts.table import read_rows, read_table

_PACKAGE = "generator.gitops"


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A script in Lua that returns the health of an object of a kind."""

    group: str
    kind: str
    script: str

    @property
    def setting(self) -> str:
        """Return the key of the script in the ConfigMap `argocd-cm`."""
        return "resource.customizations.health." + (f"{self.group}_{self.kind}" if self.group else self.kind)


HEALTH_CHECKS = read_rows("health", "checks", HealthCheck, _PACKAGE)
"""The checks, sorted by group and kind."""


def health_settings() -> dict[str, str]:
    """Return key → script of the ConfigMap `argocd-cm`."""
    prelude = read_table("health", _PACKAGE)["prelude"]
    return {check.setting: prelude + check.script for check in HEALTH_CHECKS}
