"""Test the health checks of Argo CD with Argo CD's own engine, on statuses that real controllers wrote."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator.gitops.health import HEALTH_CHECKS, health_settings
from tests.cluster.argocd_health import judge
from tests.cluster.build import build
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.versions import Versions

pytestmark = pytest.mark.cluster
FOLDER = Path(__file__).with_name("health")
LIVE: dict[str, Any] = yaml.safe_load((FOLDER / "live.yaml").read_text())
WRITTEN: list[dict[str, Any]] = yaml.safe_load((FOLDER / "written.yaml").read_text())["cases"]
OUTCOMES = {"Healthy", "Degraded", "Progressing", "Suspended"}


@pytest.fixture(scope="module")
def argocd(control_plane_versions: Versions) -> Path:
    """Return the program of Argo CD."""
    return build(control_plane_versions["argocd"])


@pytest.fixture(scope="module")
def live(admin: Client) -> Iterator[list[Body]]:
    """Create the objects of all live cases, and return the object of each case that the test judges."""
    cases = LIVE["cases"]
    created = [*LIVE["shared"], *(body for case in cases for body in case["objects"])]
    for body in created:
        admin.create(body)
    yield [case["objects"][-1] for case in cases]
    for body in reversed(created):
        admin.delete(body)
    wait_until("the objects are gone", lambda: not any(map(admin.exists, created)), 120)


def end_pods(admin: Client, body: Body, phase: str) -> bool:
    """Set the phase of the pods of a job; return True if a pod has this phase."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    pods = [pod for pod in admin.items("v1", "Pod", namespace) if pod["metadata"]["name"].startswith(f"{name}-")]
    for pod in pods:
        if pod["status"].get("phase") != phase:
            path = admin.path("v1", "Pod", namespace) + f"/{pod['metadata']['name']}/status"
            admin.request("PATCH", path, {"status": {"phase": phase}}, "application/merge-patch+json")
    return bool(pods)


def test_objects_of_real_controllers_have_the_expected_health(admin: Client, argocd: Path, live: list[Body]) -> None:
    cases = LIVE["cases"]
    expected = {case["name"]: (case["health"], case["message"]) for case in cases}
    ending = [(case["objects"][-1], case["pods"]) for case in cases if "pods" in case]
    for body, phase in ending:
        wait_until(f"{body['metadata']['name']} has pods", partial(end_pods, admin, body, phase))

    def found() -> dict[str, tuple[str, str]]:
        for body, phase in ending:  # again: kwok can replace the phase of a pod that has just started
            end_pods(admin, body, phase)
        stored = [{**body, **admin.read(body)} for body in live]
        return dict(zip(expected, judge(argocd, stored, health_settings()), strict=True))

    try:
        wait_until("the controllers report all statuses", lambda: found() == expected, 90)
    except TimeoutError:
        answers = found()
        assert {name: answers[name] for name in expected if answers[name] != expected[name]} == {}


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case["name"])
def test_a_written_status_has_the_expected_health(argocd: Path, case: dict[str, Any]) -> None:
    assert judge(argocd, [case["object"]], health_settings()) == [(case["health"], case["message"])]


def test_without_the_checks_argo_cd_reports_no_health_or_a_wrong_one(argocd: Path) -> None:
    bodies = [case["object"] for case in WRITTEN]
    ours = {(check.group, check.kind) for check in HEALTH_CHECKS}
    answers = judge(argocd, bodies, {})
    for body, (status, _) in zip(bodies, answers, strict=True):
        group = body["apiVersion"].rpartition("/")[0]
        if (group, body["kind"]) not in ours:
            assert status, body["kind"]
        elif body["kind"] != "PersistentVolumeClaim":
            assert not status, body["kind"]


def test_cases_cover_all_outcomes_of_checks() -> None:
    cases = [(case["objects"][-1], case["health"]) for case in LIVE["cases"]]
    cases += [(case["object"], case["health"]) for case in WRITTEN]
    tested = {(body["apiVersion"].rpartition("/")[0], body["kind"], health) for body, health in cases}
    outcomes = {
        (check.group, check.kind, outcome)
        for check in HEALTH_CHECKS
        for outcome in OUTCOMES
        if f'report("{outcome}"' in check.script
    }
    assert outcomes <= tested
