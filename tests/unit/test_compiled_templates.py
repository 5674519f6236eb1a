"""Test that mpigen judges the pods of a TrainJob as the API server judged the pods of the same template."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generator.checks.compiled import judge_compiled
from generator.manifests import Body, Manifest, read
from generator.objects.fields import mapping, mappings
from generator.objects.pods import RUNTIMES
from generator.schemas.catalog import Catalog
from generator.upstream.compile import Fault, compile_job, find_faults, find_runtime
from tests.cluster.differential.cases import Case, read_cases, read_seeds
from tests.cluster.differential.templates import NAMESPACE
from tests.cluster.differential.verdicts import read_answers, read_causes, reviewed

SEEDS, ANSWERS = read_seeds(), read_answers()
REVIEWED = {name for name, _ in reviewed(read_causes())}
TARGETS = Catalog.bundled().targets
LEFT_OUT = (".ports", "spec.mlPolicy.numNodes", "spec.managedBy")
"""Fields for which the JobSet of Trainer is not the template: it merges ports by their names and numbers."""


def cases() -> Iterator[Case]:
    """Yield the cases of runtimes that the API server stores, and about whose pods it agrees with mpigen."""
    for name, case in read_cases().items():
        is_stored = not ANSWERS[name].create[:1].isdigit()  # of a rejected object, the kind precedes the status
        is_same = not any(field in case.path for field in LEFT_OUT)
        if SEEDS[case.seed]["kind"] in RUNTIMES and is_stored and is_same and name not in REVIEWED:
            yield case


def runtime_of(case: Case) -> Manifest:
    """Return the changed runtime, without ports that Trainer merges."""
    (runtime,) = read(case.text(SEEDS).encode(), "runtime.yaml")
    for job in mappings(mapping(runtime.body, "spec", "template", "spec").get("replicatedJobs")):
        for container in mappings(mapping(job, "template", "spec", "template", "spec").get("containers")):
            if len(mappings(container.get("ports"))) > 2:
                container["ports"] = container["ports"][:2]
    return runtime


def is_rejected(runtime: Manifest) -> bool:
    """Return True if a TrainJob on a runtime gets no pods, according to mpigen."""
    reference = {"name": runtime.name, "kind": runtime.kind}
    body: Body = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    body |= {"metadata": {"name": "made", "namespace": runtime.namespace or NAMESPACE}}
    job = Manifest({**body, "spec": {"runtimeRef": reference}}, "job.yaml")
    known = find_runtime(job, [runtime])
    if isinstance(known, Fault) or any(find_faults(job, known, TARGETS)):
        return True
    return any(judge_compiled(compile_job(job, known, TARGETS), TARGETS, is_verdict=True))


@pytest.mark.parametrize("is_accepted", [True, False])
def test_pods_of_jobs_are_judged_like_the_api_server_judges_them(*, is_accepted: bool) -> None:
    relevant = [case for case in cases() if (ANSWERS[case.name].create == "") is is_accepted]
    assert len(relevant) > 200
    assert [case.name for case in relevant if is_rejected(runtime_of(case)) is is_accepted] == []
