"""Every row of upgrades.yaml hits an object of its fixture, and spares another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from generator.facts.upgrades import Change, upgrade_changes
from generator.manifests import Manifest
from generator.upgrade.rows import Verdict, World, find_rows, judge_alike
from tests.conftest import ROOT

FIXTURE: dict[str, Any] = yaml.safe_load((ROOT / "tests/fixtures/upgrades.yaml").read_text("utf-8"))
FIRST = {"argocd": "3.2", "jobset": "0.11", "kubernetes": "1.33", "kueue": "0.18", "trainer": "2.2"}
LAST = {"argocd": "3.9", "kubernetes": "1.39", "kueue": "0.29", "trainer": "2.9"}


def hit_rows(change: Change, bodies: list[dict[str, Any]]) -> set[str]:
    """Return the ids of the rows that hit some objects, if only the component of a row is upgraded to its version."""
    version = change.version or LAST[change.component]
    major, minor = map(int, version.split("."))
    before = {**FIRST, change.component: f"{major}.{minor - 1}"}
    runtime = Manifest(FIXTURE["runtime"], "release.yaml")
    world = World.of([runtime], [Manifest(body, "cluster.yaml", index) for index, body in enumerate(bodies)])
    return {row.change.id for row in find_rows(world, [], before, {**before, change.component: version})}


def test_every_row_has_a_case() -> None:
    assert [change.id for change in upgrade_changes()] == list(FIXTURE["rows"])


@pytest.mark.parametrize("change", upgrade_changes(), ids=lambda change: change.id)
def test_a_row_hits_one_case_and_spares_the_other(change: Change) -> None:
    cases = FIXTURE["rows"][change.id]
    for body in cases["hits"]:
        assert change.id in hit_rows(change, [body])
    assert change.id not in hit_rows(change, cases["spares"])


@pytest.mark.parametrize("change", upgrade_changes(), ids=lambda change: change.id)
def test_a_row_is_silent_if_another_component_is_upgraded(change: Change) -> None:
    other = next(item for item in upgrade_changes() if item.component != change.component and item.version)
    assert change.id not in hit_rows(other, FIXTURE["rows"][change.id]["hits"])
    assert not change.version or not change.happens(change.version, LAST[change.component])


def export_of(names: dict[str, dict[str, Any]]) -> list[Manifest]:
    """Return the objects of a cluster: the runtime, and a suspended TrainJob with its JobSet for each name and spec."""
    bodies = [FIXTURE["runtime"]]
    for name, spec in names.items():
        job = {**FIXTURE["job"], "metadata": {"name": name, "namespace": "team-a"}}
        bodies.append({**job, "spec": {**job["spec"], **spec}})
        bodies.append({**job, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"suspend": True}})
    return [Manifest(body, "export.json", index) for index, body in enumerate(bodies)]


def verdicts(names: dict[str, dict[str, Any]]) -> tuple[dict[str, str], int]:
    """Return name of a TrainJob → what changes for it in Trainer 2.3, and how many kinds of TrainJobs were judged."""
    before, after = FROM_2_2, {**FROM_2_2, "trainer": "2.3"}
    world = World.of([], export_of(names))
    rows = find_rows(world, [], before, after)
    found = {
        item.manifest.name: item.detail for row in rows if row.change.hits.has_changed_pods for item in row.located
    }
    return found, len(world.verdicts)


FROM_2_2 = {"trainer": "2.2", "jobset": "0.11", "kueue": "0.19", "kubernetes": "1.34"}


def test_jobs_that_differ_in_their_names_are_judged_once() -> None:
    alone, judged = verdicts({"run-1": {}})
    assert alone["run-1"]
    together, judged_together = verdicts({f"run-{number}": {} for number in range(5)})
    assert set(together.values()) == set(alone.values())
    assert judged_together == judged


def test_jobs_that_differ_in_their_form_are_judged_alone() -> None:
    _, judged = verdicts({"run-1": {}})
    others: list[dict[str, dict[str, Any]]] = [{"run-22": {}}, {"run-x": {}}, {"run-2": {"trainer": {"numNodes": 3}}}]
    for other in others:
        assert verdicts({"run-1": {}, **other})[1] > judged


def test_an_answer_with_the_name_is_not_reused() -> None:
    known: dict[str, tuple[Verdict, ...]] = {}
    asked: list[str] = []

    def ask(job: Manifest, _: Manifest) -> Iterator[Verdict]:
        asked.append(job.name)
        yield Verdict(f"changes {job.name}")

    first, second, runtime = (Manifest({"metadata": {"name": name}}, "a.yaml", 0) for name in ("run-1", "run-2", "r"))
    for job in (first, second):
        (verdict,) = judge_alike(job, runtime, known, partial(ask))
        assert verdict.detail == f"changes {job.name}"
    assert asked == ["aaa-0", "run-1", "run-2"]


@pytest.mark.parametrize("other", ["run-1", "aaa-0"])
def test_a_job_with_a_name_in_its_fields_is_judged_alone(other: str) -> None:
    asked: list[str] = []

    def ask(job: Manifest, _: Manifest) -> Iterator[Verdict]:
        asked.append(job.name)
        yield Verdict("changes nothing")

    runtime = Manifest({"metadata": {"name": "r"}}, "a.yaml", 0)
    job = Manifest({"metadata": {"name": "run-1"}, "spec": {"secret": f"{other}-keys"}}, "a.yaml", 0)
    judge_alike(job, runtime, {}, partial(ask))
    assert asked == ["run-1"]
