"""The test binary that asks the real Kueue's scheduler about quota trees and scenarios."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.inside import compiled
from tests.cluster.versions import Program


def scheduler_tests(kueue: Program) -> Path:
    """Return the binary for a version of Kueue.

    Raises:
        EngineError: there is no Go, or the build failed.
    """
    return compiled(
        kueue,
        "pkg/scheduler",
        "scenarios/scenarios_test.go",
        "quotas/quotas_test.go",
        f"quotas/{kueue.version}/assignments_test.go",
    )
