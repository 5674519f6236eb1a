"""Fixtures for all tests: the examples, a valid platform, and the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from generator import Platform
from generator.cli.setup import PLATFORM_FILES
from tests.warm import MPIGEN as MPIGEN  # noqa: PLC0414 - the tests import it from here
from tests.warm import Warm, run_cold

# How long an example takes depends on what else the machine does, so no test fails by the clock. In CI the examples
# depend on the code alone, so that a second run has the same result.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("untimed")
ROOT = Path(__file__).parent.parent
EXAMPLES = {path.parent.name: path for name in PLATFORM_FILES for path in sorted(ROOT.glob(f"examples/*/{name}"))}
WITH_ARGOCD = [name for name in EXAMPLES if (ROOT / "output" / name / "argocd").is_dir()]
"""The examples that Argo CD applies. Flux applies the others."""
Run = Callable[..., subprocess.CompletedProcess[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--control-plane",
        default="default",
        choices=("default", "previous"),
        help="which releases of Kubernetes, Trainer, JobSet and Kueue the tests marked `cluster` run",
    )
    parser.addoption("--record", action="store_true", help="write what a control plane says to the fixtures anew")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Keep modules with an expensive fixture on one worker, whatever scope xdist would use."""
    if config.getvalue("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False  # tests/cluster/conftest.py puts long modules first
    from tests.cluster.workers import Together

    return Together(config, log)


@pytest.fixture(params=EXAMPLES, ids=str)
def example(request: pytest.FixtureRequest) -> Path:
    """Return the platform file of each example."""
    return EXAMPLES[request.param]


@pytest.fixture
def platform() -> Platform:
    """Return a small platform with two pools, a runtime on each, two tenants and an engine."""
    return Platform.model_validate(small_platform())


def small_platform() -> dict[str, Any]:
    """Return the small platform as plain data, for tests that change it."""
    return {
        "platform": "small",
        "release": "1.0.0",
        "pools": [
            {
                "name": "gpu",
                "nodes": 4,
                "allocatable": {"cpu": 96, "memory": "1Ti", "nvidia.com/gpu": 8},
                "labels": {"example.com/pool": "gpu"},
                "taints": [{"key": "nvidia.com/gpu"}],
            },
            {"name": "cpu", "nodes": 10, "allocatable": {"cpu": "63500m", "memory": "250Gi"}},
        ],
        "runtimes": [
            {"name": "openmpi-gpu", "pool": "gpu", "image": "quay.io/acme/openmpi:1"},
            {"name": "openmpi-cpu", "pool": "cpu"},
        ],
        "tenants": [
            {
                "name": "team-a",
                "quota": {"gpu": 2, "cpu": 4},
                "borrow": {"gpu": 1},
                "access": {"admin": ["user:ada"], "edit": ["group:a"], "view": ["serviceaccount:ci/reader"]},
                "egress": [{"name": "s3", "cidr": "10.20.0.0/16", "ports": [443]}],
            },
            {"name": "team-b", "quota": {"nvidia.com/gpu": 4}, "cohort": "research"},
        ],
        "gitops": {"repository": "https://git.example.com/platform.git"},
    }


NEW_YEAR = "1767225600"
"""The start of 2026, so that reservations of examples never expire in a test."""


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Start the process that the runs of `mpigen` fork from, once for each worker."""
    process = Warm()
    yield process
    process.close()


@pytest.fixture
def mpigen(tmp_path: Path, warm: Warm) -> Run:
    """Return a function that runs `mpigen ARGUMENTS…` in an empty folder, as its own process with shared imports."""
    return _runs(warm.run, tmp_path)


@pytest.fixture
def cold_mpigen(tmp_path: Path) -> Run:
    """Return the same function with a new Python for each run, for tests of the process itself."""
    return _runs(run_cold, tmp_path)


def _runs(
    start: Callable[[list[str], Path, Mapping[str, str], str], subprocess.CompletedProcess[str]], folder: Path
) -> Run:
    def run(*arguments: str | Path, cwd: Path = folder, **environment: str) -> subprocess.CompletedProcess[str]:
        stdin = environment.pop("stdin", "")
        return start([*map(str, arguments)], cwd, {**os.environ, "SOURCE_DATE_EPOCH": NEW_YEAR, **environment}, stdin)

    return run
