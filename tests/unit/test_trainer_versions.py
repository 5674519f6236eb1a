"""Test that differences between Trainer 2.2 and 2.3 are checked against the target version of a manifest."""

from __future__ import annotations

import pytest

from generator.checks.run import check_text, check_together
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

OLD, NEW = "2.2", "2.3"
BOTH = (OLD, NEW)
RUNTIME = """\
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers:
                - {name: node, image: a, resources: {limits: {nvidia.com/gpu: 8}, requests: {nvidia.com/gpu: 8}}}
"""
JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: team, labels: {kueue.x-k8s.io/queue-name: default}}
spec:
  runtimeRef: {name: torch}
"""
IN_POD = "{template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {%s}}}}}]}}}"
PATCH = f"  runtimePatches: [{{manager: example.com/me, trainingRuntimeSpec: {IN_POD}}}]\n"
TOLERATIONS = PATCH % "tolerations: [{operator: Exists}]"
OF_2_1 = "  podTemplateOverrides: [{targetJobs: [{name: node}], spec: {tolerations: [{operator: Exists}]}}]\n"
OF_2_0 = "  podSpecOverrides: [{targetJobs: [{name: node}], tolerations: [{operator: Exists}]}]\n"


def said(text: str, trainer: str) -> list[tuple[str, str]]:
    """Return (place, check) of each finding for a version of Trainer."""
    engine = Engine(Catalog.bundled({"trainer": trainer}))
    checked = check_text(text.encode(), "x.yaml", engine)
    together = check_together(checked.related, engine.targets, lambda _: text.encode())
    return [(each.path.removeprefix("$.spec."), each.check) for each in checked.with_findings(together).in_order()]


@pytest.mark.parametrize("trainer", BOTH)
def test_pods_are_patched_by_runtime_patches_only(trainer: str) -> None:
    assert said(JOB + TOLERATIONS, trainer) == []
    assert said(JOB + OF_2_1, trainer) == [("podTemplateOverrides", "schema/unknown-field")]
    assert said(JOB + OF_2_0, trainer) == [("podSpecOverrides", "schema/unknown-field")]


@pytest.mark.parametrize("trainer", BOTH)
def test_a_patch_requires_a_manager_and_cannot_set_resources(trainer: str) -> None:
    nobody = TOLERATIONS.replace("manager: example.com/me, ", "")
    assert said(JOB + nobody, trainer) == [("runtimePatches[0]", "schema/missing-field")]
    resources = PATCH % "containers: [{name: node, resources: {limits: {nvidia.com/gpu: 8}}}]"
    ((place, check),) = said(JOB + resources, trainer)
    assert (place.rpartition(".")[2], check) == ("resources", "schema/unknown-field")


def test_termination_grace_period_exists_since_trainer_2_3() -> None:
    text = JOB + PATCH % "terminationGracePeriodSeconds: 60"
    ((place, check),) = said(text, OLD)
    assert (place.rpartition(".")[2], check) == ("terminationGracePeriodSeconds", "schema/unknown-field")
    ((place, check),) = said(text, NEW)
    assert (place.rpartition(".")[2], check) == ("terminationGracePeriodSeconds", "trainjob/dropped-field")


def test_resources_missing_from_the_job_are_lost_or_not_counted() -> None:
    text = JOB + "  trainer: {resourcesPerNode: {limits: {cpu: 8}}}\n" + RUNTIME
    assert said(text, OLD) == [("trainer.resourcesPerNode", "trainjob/lost-devices")]
    assert said(text, NEW) == [("trainer.resourcesPerNode", "trainjob/uncounted-resources")]


def test_requests_of_an_init_container_are_counted() -> None:
    job = JOB + "  trainer: {resourcesPerNode: {limits: {cpu: 8}}}\n"
    look = "[{name: look, image: a, resources: {limits: {nvidia.com/gpu: %s}}}]"
    before = f"initContainers: {look}\n{' ' * 16}containers:"
    for amount, expected in ((8, []), (4, ["trainjob/uncounted-resources"])):
        runtime = RUNTIME.replace("containers:", before % amount)
        assert runtime != RUNTIME
        assert [check for _, check in said(job + runtime, NEW)] == expected


def test_only_merged_resources_can_contradict() -> None:
    text = JOB + "  trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}\n" + RUNTIME
    assert said(text, OLD) == []
    assert said(text, NEW) == [("trainer.resourcesPerNode", "trainjob/contradicting-resources")]


@pytest.mark.parametrize("trainer", BOTH)
def test_a_job_with_all_resources_of_the_runtime_is_the_same_on_both_versions(trainer: str) -> None:
    amounts = "{nvidia.com/gpu: 4, cpu: 8}"
    both = f"  trainer: {{resourcesPerNode: {{limits: {amounts}, requests: {amounts}}}}}\n"
    assert said(JOB + both + RUNTIME, trainer) == []
