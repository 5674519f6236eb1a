"""Test that `mpigen drift` compares quantities by their amount in every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from generator.checks.existing.drift import find_differences
from generator.manifests import Manifest, read
from generator.schemas.catalog import Catalog
from generator.schemas.patterns import QUANTITIES

FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: std}\n"
QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: ci}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: std
      resources: [{name: cpu, nominalQuota: CPU}, {name: memory, nominalQuota: MEMORY}]
"""
COHORT = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: all}
spec:
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors: [{name: std, resources: [{name: cpu, nominalQuota: CPU}, {name: memory, nominalQuota: MEMORY}]}]
"""
TRAINER = "apiVersion: trainer.kubeflow.org/v1alpha1\n"
JOB = f"""\
{TRAINER}kind: TrainJob
metadata: {{name: a, namespace: b}}
spec: {{runtimeRef: {{name: r}}, trainer: {{resourcesPerNode: {{limits: {{cpu: CPU, memory: MEMORY}}}}}}}}
"""
RUNTIME = f"""\
{TRAINER}kind: ClusterTrainingRuntime
metadata: {{name: r}}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {{spec: {{template: {{spec: {{containers: [{{name: node, resources: {{limits: {{cpu: CPU,
          memory: MEMORY}}}}}}]}}}}}}}}
"""
RANGE = """\
apiVersion: v1
kind: LimitRange
metadata: {name: a, namespace: b}
spec: {limits: [{type: Container, max: {cpu: CPU, memory: MEMORY}}]}
"""
NODE = """\
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: b}
spec: {containers: [{name: c, resources: {limits: {cpu: CPU, memory: MEMORY}}}]}
"""
KINDS = {"ClusterQueue": QUEUE, "Cohort": COHORT, "TrainJob": JOB, "Runtime": RUNTIME, "Range": RANGE, "Pod": NODE}


def differences(released: str, live: str) -> list[Any]:
    ours, theirs = (next(iter(read(text, "a.yaml"))) for text in (released, live))
    return list(find_differences(ours, theirs, Catalog.bundled()))


def with_amounts(kind: str, cpu: str, memory: str) -> str:
    return KINDS[kind].replace("CPU", cpu).replace("MEMORY", memory)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("cpu", "memory"), [("12000m", "1024Mi"), ('"12"', "1Gi"), ("12", "1073741824"), ("12e0", "1Gi")]
)
def test_equal_amounts_are_no_drift(kind: str, cpu: str, memory: str) -> None:
    assert differences(with_amounts(kind, cpu, memory), with_amounts(kind, '"12"', "1Gi")) == []


@pytest.mark.parametrize("kind", KINDS)
def test_other_amounts_are_drift(kind: str) -> None:
    found = differences(with_amounts(kind, "12000m", "1024Mi"), with_amounts(kind, '"12"', "1G"))
    assert {item.path[-1] for item in found} <= {"memory", "nominalQuota"}
    assert {(item.released, item.live) for item in found} == {("1Gi" if kind in ("Range", "Pod") else "1024Mi", "1G")}


def patterns(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        for child in node.values():
            yield from patterns(child)
    elif isinstance(node, list):
        for child in node:
            yield from patterns(child)


def test_all_quantity_patterns_of_the_schemas_are_known() -> None:
    catalog = Catalog.bundled()
    found = {pattern for entry in catalog.entries.values() for pattern in patterns(catalog.load(entry))}
    assert {pattern for pattern in found if "KMGTPE" in pattern} == QUANTITIES


def test_an_empty_spec_that_a_webhook_writes_is_no_drift() -> None:
    assert differences(FLAVOR, f"{FLAVOR}spec: {{}}\n") == []
    (added,) = differences(FLAVOR, f"{FLAVOR}spec: {{nodeLabels: {{a: b}}}}\n")
    assert added.path == ("spec",)
    policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a, namespace: b}\nspec: {%s}\n"
    assert differences(policy % "podSelector: {}", policy % "podSelector: {}, egress: [{}]")


def test_manifests_without_a_schema_are_compared_as_text() -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "a"}, "spec": {"cpu": "12000m"}}
    live = {**body, "spec": {"cpu": "12"}}
    assert list(find_differences(Manifest(body, ""), Manifest(live, ""), Catalog.bundled()))
