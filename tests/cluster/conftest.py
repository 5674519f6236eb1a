"""Run one control plane per session with a fresh namespace per test, and attach logs to failures."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Generator, Iterator, Sequence

import pytest

from generator.errors import EngineError
from tests.cluster import governance, trees
from tests.cluster.build import build
from tests.cluster.client import Client
from tests.cluster.control_plane import Cluster, running
from tests.cluster.selection import MARK, is_core, longest_first, seconds_of_modules
from tests.cluster.trees import Deployed
from tests.cluster.versions import Versions, versions
from tests.conftest import WITH_ARGOCD

_RUNNING = pytest.StashKey[Cluster]()


@pytest.fixture(scope="session")
def control_plane_versions(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Versions:
    """Return the chosen set, after the build of its control plane. Tests that need another program build it."""
    chosen = versions(request.config.getoption("--control-plane"))
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            for program in chosen.control_plane:
                build(program)
    except EngineError as error:
        reason = f"the control plane cannot be built here: {error}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return chosen


@pytest.fixture(scope="session")
def cluster(
    control_plane_versions: Versions, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """A real control plane: etcd, Kubernetes, Trainer, JobSet and Kueue with their webhooks, kwok as kubelet."""
    folder = tmp_path_factory.mktemp("control-plane")
    with running(control_plane_versions, folder) as started:
        pytestconfig.stash[_RUNNING] = started
        yield started
        started.admin.connections.close()
    shutil.rmtree(folder / "etcd")  # the logs stay


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> Client:
    """A client that may do everything."""
    return cluster.admin


@pytest.fixture
def namespace(admin: Client) -> Iterator[str]:
    """A fresh namespace."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"test-{secrets.token_hex(4)}"}}
    admin.create(body)
    yield str(body["metadata"]["name"])  # type: ignore[index]
    admin.delete(body)


@pytest.fixture(scope="session")
def on_the_cluster() -> list[Deployed]:
    """The example that is deployed."""
    return []


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name == "catalogue" else ()) for name in WITH_ARGOCD],
    ids=str,
)
def deployed(request: pytest.FixtureRequest, admin: Client, on_the_cluster: list[Deployed]) -> Deployed:
    """Deploy the examples one after another; pytest runs all tests of a module for one example before the next.

    A running Flux applies the example for Flux in test_flux.py.
    The last one is never removed: the control plane is thrown away.
    """
    platform, tree = trees.example(request.param)
    if not trees.is_deployed(admin, on_the_cluster, platform):
        trees.remove_all(admin, on_the_cluster)
        on_the_cluster.append(trees.deploy(admin, platform, tree))
    return on_the_cluster[-1]


@pytest.fixture(scope="module")
def governed(admin: Client, on_the_cluster: list[Deployed]) -> Deployed:
    """Deploy a platform with a user for each persona, in place of an example."""
    if not trees.is_deployed(admin, on_the_cluster, governance.platform()):
        trees.remove_all(admin, on_the_cluster)
        on_the_cluster.append(governance.deploy(admin))
    return on_the_cluster[-1]


@pytest.hookimpl(tryfirst=True)  # before pytest deselects tests by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of `make cluster-core`, and put modules that take long first.

    With other versions of the control plane, leave out the tests that use none, because their result is the same.
    """
    if MARK in config.getoption("markexpr"):
        for item in filter(is_core, items):
            item.add_marker(MARK)
    if config.getoption("--control-plane") != "default":
        config.hook.pytest_deselected(items=[item for item in items if not _uses_control_plane(item)])
        items[:] = filter(_uses_control_plane, items)
    items[:] = longest_first(items)


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def _uses_control_plane(item: pytest.Item) -> bool:
    return "control_plane_versions" in _fixtures(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Below a failure: where the logs are, and how each ends."""
    report = yield
    started = item.config.stash.get(_RUNNING, None)
    if report.failed and started and "cluster" in _fixtures(item):
        for name in started.processes.names():
            log = started.processes.log(name)
            report.sections.append((f"end of {log}", started.processes.tail(name, 8)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds of each module, for modules.yaml."""
    outcomes = terminalreporter.stats.values()
    reports = [report for found in outcomes for report in found if isinstance(report, pytest.TestReport)]
    if seconds := {path: total for path, total in seconds_of_modules(reports).items() if total}:
        terminalreporter.section("seconds of each module")
        for path, total in seconds.items():
            terminalreporter.line(f"{total:6}  {path}")
