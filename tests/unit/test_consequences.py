"""Test that one mistake has one finding, at its line, and that placeholders are not mistakes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from generator.checks.consequences import without_consequences
from generator.checks.finding import Finding, Severity
from generator.checks.placeholders import read_values
from generator.checks.run import check_text, check_together
from generator.checks.submission import Destination
from generator.manifests import Manifest, read
from generator.pipeline import JobVerdicts, check_jobs
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

RELEASE = Path(__file__).parents[2] / "output" / "openshift-h100"
JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: train
  namespace: team-nlp
  labels: {kueue.x-k8s.io/queue-name: default}
  annotations: {mpigen.dev/owner: ada}
spec:
  runtimeRef: {name: openmpi-h100}
  trainer:
    numNodes: 2
    numProcPerNode: 8
    command: [mpirun, ./train]
    resourcesPerNode:
      requests: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 8, openshift.io/ib: 8}
      limits: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 8, openshift.io/ib: 8}
"""
PATCH = (
    "  runtimePatches: [{manager: a/b, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, "
    "template: {spec: {template: {spec: {serviceAccountName: bob}}}}}]}}}}]\n"
)
POLICY = RELEASE / "tenants" / "team-nlp" / "isolation.yaml"
RUNTIME = RELEASE / "cluster" / "runtimes" / "openmpi-h100.yaml"


@cache
def world() -> list[Manifest]:
    return [item for file in sorted(RELEASE.rglob("*.yaml")) for item in read(file.read_bytes(), str(file))]


def judge_job(text: str) -> JobVerdicts:
    return check_jobs({"job.yaml": text.encode()}, Destination(world(), is_complete=True))


def mutate(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def judge_release(file: Path, old: str, new: str) -> list[Finding]:
    """Return the findings of the release with a mistake in one file."""
    text = mutate(file.read_text(), old, new).encode()
    checked = check_text(text, str(file), Engine(Catalog.bundled()))
    others = [item for item in world() if item.file != str(file)]
    texts = {str(file): text}
    together = check_together(
        [*others, *checked.related],
        Catalog.bundled().targets,
        lambda name: texts.get(name) or Path(name).read_bytes(),
        files={item.file for item in world()},
    )
    return without_consequences(checked.with_findings(together).in_order())


@pytest.mark.parametrize(
    ("old", "new", "check", "line"),
    [
        ("nvidia.com/gpu: 8", "nvidia.com/gpus: 8", "object/misspelt-device", 15),
        ("nvidia.com/gpu: 8, openshift.io/ib: 8}\n      limits", "nvidia.com/gpu: 8x}\n      limits", None, 15),
        ("openshift.io/ib: 8", "openshift.io/ibs: 8", "object/misspelt-device", 15),
        ("memory: 64Gi", "memory: -64Gi", "pod/field", 15),
        ("nvidia.com/gpu: 8", "nvidia.com/gpu: -8", "pod/field", 15),
        ("requests: {cpu: 8", "requests: {cpus: 8", "pod/field", 15),
        ("requests:", "requestss:", "schema/unknown-field", 15),
        ("runtimeRef: {name: openmpi-h100}", "runtimeRef: {names: openmpi-h100}", "schema/unknown-field", 9),
        ("name: openmpi-h100}", "name: openmpi-h100x}", "trainjob/denied", 9),
        ("queue-name: default", "queue-name: defaultx", "trainjob/denied", 6),
        ("namespace: team-nlp", "namespace: team-nlpx", "trainjob/unknown", 5),
        ("numNodes: 2", "numNodes: 0", "trainjob/denied", 11),
        ("spec:\n", f"spec:\n{PATCH}", "trainjob/denied", 9),
    ],
)
def test_one_mistake_in_a_trainjob_has_one_finding(old: str, new: str, check: str | None, line: int) -> None:
    findings = without_consequences(judge_job(mutate(JOB, old, new)).findings)
    assert {finding.line for finding in findings if finding.severity is Severity.ERROR} <= {line, line + 1}
    assert check is None or {finding.check for finding in findings} == {check}
    assert findings[0].line == line


@pytest.mark.parametrize(
    ("file", "old", "new", "check"),
    [
        (POLICY, "- Egress", "- Egresss", "schema/not-allowed"),
        (POLICY, "kind: NetworkPolicy", "kind: NetworkPolicyx", "schema/no-schema"),
        (POLICY, "podSelector:", "podSelectors:", "schema/unknown-field"),
        (RUNTIME, 'nvidia.com/gpu: "8"', 'nvidia.com/gpu: "8x"', "schema/not-allowed"),
        (RUNTIME, "nvidia.com/gpu: ", "nvidia.com/gpus: ", "object/misspelt-device"),
    ],
    ids=str,
)
def test_one_mistake_in_a_release_has_findings_of_one_check(file: Path, old: str, new: str, check: str) -> None:
    findings = judge_release(file, old, new)
    assert {(finding.check, finding.file) for finding in findings} == {(check, str(file))}


IMAGES = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: images}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [trainer.kubeflow.org], apiVersions: ["*"], operations: [CREATE], resources: [trainjobs]}
  variables:
  - {name: trainer, expression: "object.spec.?trainer.orValue({})"}
  validations:
  - expression: "!has(object.spec.trainer.image) || object.spec.trainer.image.startsWith('quay.io/')"
    message: MESSAGE
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: images}
spec: {policyName: images, validationActions: [Deny]}
"""


@pytest.mark.parametrize("message", ["the image is not allowed", "use quay.io, not docker.io/any/image:1"])
def test_a_denied_image_is_reported_at_the_image(message: str) -> None:
    text = mutate(JOB, "    numNodes: 2\n", "    numNodes: 2\n    image: docker.io/any/image:1\n")
    policies = read(IMAGES.replace("MESSAGE", f'"{message}"'), "policy.yaml")
    done = check_jobs({"job.yaml": text.encode()}, Destination([*world(), *policies], is_complete=True))
    denied = [finding for finding in done.findings if finding.check == "trainjob/denied"]
    assert [(finding.path, finding.line) for finding in denied] == [("$.spec.trainer.image", 12)]


def test_a_placeholder_makes_the_verdict_unknown() -> None:
    done = judge_job(mutate(mutate(JOB, "numNodes: 2", "numNodes: ${NODES}"), "openmpi-h100}", '"openmpi-${GPU}"}'))
    assert [finding.check for finding in done.findings] == ["object/placeholder"]
    assert "`${GPU}`, `${NODES}`" in done.findings[0].message
    assert done.submissions[0].verdict == "unknown"


def test_a_placeholder_with_a_default_is_judged_by_the_default() -> None:
    done = judge_job(mutate(JOB, "numNodes: 2", "numNodes: ${NODES:=2}"))
    assert done.submissions[0].verdict == "admitted"
    done = judge_job(mutate(JOB, "numNodes: 2", "numNodes: ${NODES:-0}"))
    assert {finding.line for finding in without_consequences(done.findings)} == {11}
    assert done.submissions[0].verdict == "rejected"


def test_shell_variables_in_commands_are_no_placeholders() -> None:
    done = judge_job(mutate(JOB, "[mpirun, ./train]", '[mpirun, "${HOME}/train"]'))
    assert done.submissions[0].verdict == "admitted"


def test_flux_sets_values() -> None:
    flux = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: jobs, namespace: flux-system}
spec: {postBuild: {substitute: {NODES: zero, GPU: h100}}}
"""
    values = read_values(read(flux, "flux.yaml"))
    assert values == {"NODES": "zero", "GPU": "h100"}
    other = flux.replace("zero", "two")
    assert read_values([*read(flux, "a.yaml"), *read(other, "b.yaml")]) == {"GPU": "h100"}
    text = mutate(JOB, "numNodes: 2", "numNodes: ${NODES}").encode()
    checked = check_text(text, "job.yaml", Engine(Catalog.bundled()), values=values)
    assert [(finding.check, finding.line) for finding in checked.findings] == [("schema/wrong-type", 11)]


def test_an_unknown_number_of_devices_has_no_follow_up() -> None:
    text = mutate(RUNTIME.read_text(), 'openshift.io/ib: "8"', 'openshift.io/ib: "${NICS}"').encode()
    checked = check_text(text, str(RUNTIME), Engine(Catalog.bundled()))
    together = check_together(checked.related, Catalog.bundled().targets, lambda _: text)
    assert {finding.check for finding in (*checked.findings, *together)} == {"object/placeholder"}


def test_a_mistake_deep_in_a_container_hides_no_mistake_of_the_runtime() -> None:
    jobs = "$.spec.template.spec.replicatedJobs"
    container = f"{jobs}[0].template.spec.template.spec.containers[0]"
    deep, runtime = (
        Finding("a.yaml", line, 1, path, check, "ClusterTrainingRuntime a", "", "", "", Severity.ERROR)
        for line, path, check in ((3, jobs, "mpi/jobs"), (9, f"{container}.imagee", "schema/unknown-field"))
    )
    assert without_consequences([deep, runtime]) == [deep, runtime]


@pytest.mark.parametrize("resource", ["object team-a/high", "WorkloadPriorityClass", "WorkloadPriorityClass high"])
def test_an_object_without_kind_or_name_hides_the_references_to_it(resource: str) -> None:
    message = "the WorkloadPriorityClass `high` is in no file"
    named, other = (
        Finding("b.yaml", 3, 1, "$.spec", "quota/missing-priority", "TrainJob team-a/b", text, "", "", Severity.WARNING)
        for text in (message, "the LocalQueue `low` is in no file")
    )
    lost = Finding("a.yaml", 1, 1, "$", "schema/not-an-object", resource, "", "", "", Severity.ERROR)
    assert without_consequences([lost, named, other]) == [lost, other]
