"""Test that every change check finds its case and passes similar good trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
import yaml

from generator.checks import run
from generator.checks.finding import Finding, Severity
from generator.manifests import Manifest, read
from tests.checks import CHANGES, TREE, find_changes
from tests.conftest import ROOT

ODD: tuple[Any, ...] = (None, True, 0, "", "x", [], {}, [None], ["x", 1], {"name": "node"}, {"x": []})
RELEASES = sorted((ROOT / "output").glob("*/release.json"))


def found(new: str, old: str = TREE, targets: Mapping[str, str] | None = None) -> list[Finding]:
    return find_changes(new, old, targets)


def test_an_unchanged_tree_has_no_findings() -> None:
    assert found(TREE) == []


def test_a_first_tree_reports_only_restarting_nodes() -> None:
    assert {(each.check, each.severity) for each in found(TREE, old="")} == {("change/reboots", Severity.INFO)}


def test_only_immutable_changes_are_errors() -> None:
    severities = {
        (finding.check, finding.severity)
        for case in CHANGES.values()
        for finding in found(case.bad, targets=case.targets)
    }
    assert severities == {
        ("change/immutable", Severity.ERROR),
        ("change/runtime-in-use", Severity.WARNING),
        ("change/runtime-removed", Severity.WARNING),
        ("change/tenant-removed", Severity.WARNING),
        ("change/queue-removed", Severity.WARNING),
        ("change/queue-stopped", Severity.WARNING),
        ("change/cohort-removed", Severity.WARNING),
        ("change/less-quota", Severity.WARNING),
        ("change/less-to-borrow", Severity.WARNING),
        ("change/less-to-reclaim", Severity.WARNING),
        ("change/flavor-nodes", Severity.WARNING),
        ("change/flavor-not-retried", Severity.WARNING),
        ("change/flavor-topology", Severity.WARNING),
        ("change/priority-removed", Severity.WARNING),
        ("change/reboots", Severity.WARNING),
        ("change/unknown-predecessor", Severity.WARNING),
    }


def test_a_deprecated_runtime_may_be_removed() -> None:
    case = CHANGES["runtime"]
    assert found(case.bad, old=case.good) == []


def test_a_runtime_removed_with_its_namespace_has_no_own_finding() -> None:
    new = "---\n".join(part for part in TREE.split("---\n") if "namespace: changing" not in part)
    checks = {
        finding.check
        for finding in found(new.replace("metadata: {name: changing}\n---", "metadata: {name: x}\n---", 1))
    }
    assert checks == {"change/tenant-removed"}
    assert {finding.check for finding in found(new)} == {"change/runtime-removed", "change/queue-removed"}


def test_an_object_in_another_api_version_is_the_same_object() -> None:
    new = CHANGES["local-queue"].bad.replace("v1beta2\nkind: LocalQueue", "v1beta1\nkind: LocalQueue")
    assert [finding.check for finding in found(new)] == ["change/immutable"]


def test_reasons_depend_on_the_version_of_trainer() -> None:
    whys = {
        (name, minor): found(CHANGES[name].bad, targets={"trainer": minor})[0].why
        for name in ("runtime", "image")
        for minor in ("2.2", "2.3")
    }
    assert "until then" in whys["runtime", "2.2"]
    assert "hold their quota" in whys["runtime", "2.3"]
    assert "never start" in whys["image", "2.2"]
    assert "their old pods" in whys["image", "2.3"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("numProcPerNode: 8", "numProcPerNode: 4", "`numProcPerNode`"),
        ("parallelism: 1", "parallelism: 1\n            backoffLimit: 1", "`backoffLimit` (job `node`)"),
        ("nodeSelector: {example.com/pool: a}", "hostNetwork: true", "`hostNetwork` (job `node`)"),
        ("nodeSelector: {example.com/pool: a}", "nodeSelector: {example.com/pool: b}", ""),
        ("maxRestarts: 3}\n", "maxRestarts: 3}\n      ttlSecondsAfterFinished: 9\n", ""),
    ],
)
def test_trainer_2_2_rejects_every_change_of_the_pods_of_a_job(before: str, after: str, told: str) -> None:
    new = TREE.replace(before, after)
    assert new != TREE
    assert found(new) == []
    messages = [finding.message for finding in found(new, targets={"trainer": "2.2"})]
    change = f"the update changes {told} of runtime `changing`, but existing TrainJobs keep their old pods"
    assert messages == ([change] if told else [])


def variations(body: Any, node: Any) -> Iterator[Any]:
    """Yield the body with each of its nodes replaced by each odd value."""
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        kept = node[key]
        for odd in ODD:
            node[key] = deepcopy(odd)
            yield body
        node[key] = kept
        yield from variations(body, kept)


@pytest.mark.parametrize("number", range(len(list(read(TREE, "tree.yaml")))))
def test_change_rules_accept_any_value_in_any_place(number: int) -> None:
    body = list(read(TREE, "tree.yaml"))[number].body
    sound = [Manifest(deepcopy(body), "tree.yaml")]
    looked_at = 0
    for odd in variations(body, body):
        list(run.judge_change(sound, [Manifest(odd, "tree.yaml")], {}))
        list(run.judge_change([Manifest(odd, "tree.yaml")], sound, {}))
        looked_at += 1
    assert looked_at > len(ODD)


@pytest.mark.parametrize("lock", RELEASES, ids=lambda lock: lock.parent.parent.name)
def test_a_release_compared_with_itself_has_no_findings(lock: Any) -> None:
    tree = [found for file in sorted(lock.parent.rglob("*.yaml")) for found in read(file.read_bytes(), str(file))]
    again = [Manifest(yaml.safe_load(yaml.safe_dump(manifest.body)), manifest.file) for manifest in tree]
    assert len(tree) > 10
    assert list(run.judge_change(tree, again, {})) == []


def test_a_removed_flavor_is_no_flavor_that_got_a_topology() -> None:
    kept = [
        text
        for text in TREE.split("\n---\n")
        if "metadata: {name: plain-a}" not in text or "ResourceFlavor" not in text
    ]
    assert len(kept) == len(TREE.split("\n---\n")) - 1
    assert "change/flavor-topology" not in {finding.check for finding in find_changes("\n---\n".join(kept), TREE)}
