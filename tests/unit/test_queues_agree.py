"""`mpigen queues` and `mpigen validate` agree: a runtime without any job is a finding, and only such a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from generator.checks.finding import Severity
from generator.checks.registry import Stage, Suite
from generator.checks.run import judge_together
from generator.manifests import Manifest, read
from generator.objects.namespace import listed_runtimes
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import read_queue_tree

OUTPUT = Path(__file__).parents[2] / "output"
TREES = ("eks-p5", "openshift-h100", "roce-h200", "university")
RUNTIME = "ClusterTrainingRuntime"
OTHERS = [check.id for check in Suite().at(Stage.TOGETHER, {}) if not check.id.startswith("quota/")]
NO_JOB = "quota/no-job"

Body = dict[str, Any]


@cache
def tree(name: str) -> Sequence[Manifest]:
    files = sorted((OUTPUT / name).rglob("*.yaml"))
    return [manifest for file in files for manifest in read(file.read_bytes(), str(file.relative_to(OUTPUT)))]


def of_kind(bodies: list[Body], kind: str) -> list[Body]:
    return [body for body in bodies if body["kind"] == kind]


def pods(bodies: list[Body]) -> Iterator[Body]:
    for runtime in of_kind(bodies, RUNTIME):
        for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
            yield job["template"]["spec"]["template"]


def rows(bodies: list[Body]) -> Iterator[Body]:
    for queue in of_kind(bodies, "ClusterQueue"):
        for group in queue["spec"]["resourceGroups"]:
            for flavor in group["flavors"]:
                yield from flavor["resources"]


def without_tolerations(bodies: list[Body]) -> None:
    for template in pods(bodies):
        template["spec"].pop("tolerations", None)


def with_selector(bodies: list[Body]) -> None:
    for template in pods(bodies):
        for key in template["spec"].get("nodeSelector", {}):
            template["spec"]["nodeSelector"][key] += "-x"


def with_taint(bodies: list[Body]) -> None:
    for flavor in of_kind(bodies, "ResourceFlavor"):
        flavor["spec"].setdefault("nodeTaints", []).append({"key": "example.com/broken", "effect": "NoSchedule"})


def with_labels(bodies: list[Body]) -> None:
    for flavor in of_kind(bodies, "ResourceFlavor"):
        flavor["spec"]["nodeLabels"] = {
            key: f"{value}-x" for key, value in flavor["spec"].get("nodeLabels", {}).items()
        }


def with_one_label(bodies: list[Body]) -> None:
    labels = [
        flavor["spec"]["nodeLabels"] for flavor in of_kind(bodies, "ResourceFlavor") if "nodeLabels" in flavor["spec"]
    ]
    for one in labels:
        one.update(labels[0])


def with_level(bodies: list[Body]) -> None:
    for template in pods(bodies):
        annotations = template.get("metadata", {}).get("annotations", {})
        annotations |= {key: f"{value}-x" for key, value in annotations.items() if key.endswith("-topology")}


def with_other_levels(bodies: list[Body]) -> None:
    for topology in of_kind(bodies, "Topology"):
        for level in topology["spec"]["levels"][:-1]:
            level["nodeLabel"] += "-x"


def without_topologies(bodies: list[Body]) -> None:
    bodies[:] = [body for body in bodies if body["kind"] != "Topology"]


def without_flavors(bodies: list[Body]) -> None:
    bodies[:] = [body for body in bodies if body["kind"] != "ResourceFlavor"]


def without_one_flavor(bodies: list[Body]) -> None:
    bodies.remove(of_kind(bodies, "ResourceFlavor")[-1])


def without_quota(bodies: list[Body]) -> None:
    for row in rows(bodies):
        row |= {field: "0" for field in ("nominalQuota", "borrowingLimit", "lendingLimit") if field in row}
    bodies[:] = [body for body in bodies if body["kind"] != "Cohort" or "resourceGroups" not in body["spec"]]


def without_devices(bodies: list[Body]) -> None:
    for queue in of_kind(bodies, "ClusterQueue"):
        for group in queue["spec"]["resourceGroups"]:
            group["coveredResources"] = [name for name in group["coveredResources"] if "/" not in name]
            for flavor in group["flavors"]:
                flavor["resources"] = [row for row in flavor["resources"] if "/" not in row["name"]]


def with_small_nodes(bodies: list[Body]) -> None:
    for flavor in of_kind(bodies, "ResourceFlavor"):
        flavor["metadata"]["annotations"]["mpigen.dev/allocatable"] = '{"cpu": "1", "memory": "1Gi"}'


def with_small_limits(bodies: list[Body]) -> None:
    for limits in of_kind(bodies, "LimitRange"):
        for item in limits["spec"]["limits"]:
            item["max"] = {"cpu": "1"}


def with_closed_queues(bodies: list[Body]) -> None:
    for queue in of_kind(bodies, "ClusterQueue"):
        queue["spec"]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}


def with_one_closed_queue(bodies: list[Body]) -> None:
    of_kind(bodies, "ClusterQueue")[-1]["spec"].pop("namespaceSelector", None)


def with_cycle(bodies: list[Body]) -> None:
    for cohort in of_kind(bodies, "Cohort")[:1]:
        cohort["spec"]["parentName"] = cohort["metadata"]["name"]


def with_more_quota(bodies: list[Body]) -> None:
    """A harmless change: no queue loses quota."""
    for queue in of_kind(bodies, "ClusterQueue"):
        queue["spec"]["queueingStrategy"] = "StrictFIFO"


CHANGES: Sequence[Callable[[list[Body]], None]] = (
    *(without_tolerations, with_selector, with_taint, with_labels, with_one_label, with_level, with_other_levels),
    *(without_topologies, without_flavors, without_one_flavor, without_quota, without_devices, with_small_nodes),
    *(with_small_limits, with_closed_queues, with_one_closed_queue, with_cycle, with_more_quota),
)


def unusable(manifests: Sequence[Manifest]) -> set[tuple[str, str]]:
    """Return (namespace, runtime) of the listed runtimes for which `mpigen queues` shows 0 nodes."""
    listing = {item.name: listed_runtimes(item) for item in manifests if item.kind == "Namespace"}
    zeros: dict[tuple[str, str], list[bool]] = {}
    for one in largest_jobs(read_queue_tree(manifests), manifests):
        if f"{one.kind}/{one.runtime}" in listing.get(one.namespace, ()):
            zeros.setdefault((one.namespace, one.runtime), []).append(one.idle == 0)
    return {key for key, are_zero in zeros.items() if all(are_zero)}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("is_complete", [True, False])
def test_a_runtime_without_jobs_is_a_finding(
    name: str, change: Callable[[list[Body]], None], *, is_complete: bool
) -> None:
    bodies = [deepcopy(dict(manifest.body)) for manifest in tree(name)]
    places = {id(body): manifest for body, manifest in zip(bodies, tree(name), strict=True)}
    change(bodies)
    manifests = [replace(places[id(body)], body=body) for body in bodies]
    located = [*judge_together(manifests, {}, files=() if is_complete else None, left_out=OTHERS)]
    serious = [breach for _, breach in located if breach.severity in (Severity.ERROR, Severity.WARNING)]
    zeros = unusable(manifests)
    assert not zeros or serious, zeros
    assert zeros or not [breach for breach in serious if breach.check == NO_JOB]


@pytest.mark.parametrize("name", TREES)
def test_the_trees_have_jobs_on_all_runtimes(name: str) -> None:
    assert unusable(tree(name)) == set()


def test_the_changes_break_most_trees() -> None:
    broken = set()
    for name in TREES:
        for change in CHANGES:
            bodies = [deepcopy(dict(manifest.body)) for manifest in tree(name)]
            places = {id(body): manifest for body, manifest in zip(bodies, tree(name), strict=True)}
            change(bodies)
            if unusable([replace(places[id(body)], body=body) for body in bodies]):
                broken.add((name, change))
    assert len(broken) >= 30
