"""Test that only the kind of a defaulting webhook may leave out the defaulted fields."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from generator.checks.run import check_text
from generator.schemas.catalog import Catalog
from generator.schemas.crd import relax_defaulted_fields
from generator.schemas.embedded import Engine

JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: gang, namespace: default}
spec:
  failurePolicy: {maxRestarts: 1, rules: [{action: FailJobSet}]}
  replicatedJobs:
  - {name: one, template: {spec: {template: {spec: {containers: [{name: a, image: x}]}}}}}
"""
RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: gang}
spec:
  mlPolicy: {numNodes: 1}
  template:
"""
OLD = {"trainer": "2.2", "jobset": "0.11"}


def runtime() -> str:
    """Return a runtime with the same JobSet in it."""
    job_set = yaml.safe_load(JOB_SET)["spec"]
    return RUNTIME + "".join(f"    {line}\n" for line in yaml.safe_dump({"spec": job_set}).splitlines())


@pytest.mark.parametrize("targets", [{}, OLD], ids=["newest", "previous"])
def test_names_of_failure_rules_are_optional_in_job_sets_and_required_in_runtimes(targets: dict[str, str]) -> None:
    """tests/cluster/test_defects.py tests both with the real API server."""
    engine = Engine(Catalog.bundled(targets))
    assert check_text(JOB_SET.encode(), "x.yaml", engine).findings == []
    (found,) = check_text(runtime().encode(), "x.yaml", engine).findings
    assert (found.check, found.path) == ("schema/missing-field", "$.spec.template.spec.failurePolicy.rules[0]")
    nameless = JOB_SET.replace("{action: FailJobSet}", "{name: a}")
    assert [each.check for each in check_text(nameless.encode(), "x.yaml", engine).findings] == ["schema/missing-field"]


def test_relaxing_a_field_does_not_change_the_upstream_schema() -> None:
    rule = {"type": "object", "required": ["action", "name"]}
    upstream: dict[str, object] = {"properties": {"rules": {"items": rule}}}
    for step in ("failurePolicy", "spec"):
        upstream = {"properties": {step: upstream}}
    before = deepcopy(upstream)
    assert relax_defaulted_fields("jobset.x-k8s.io", "JobSet", upstream) != upstream == before
    assert relax_defaulted_fields("jobset.x-k8s.io", "Other", upstream) is upstream
