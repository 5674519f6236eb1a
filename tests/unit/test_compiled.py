"""Test that the rules of JobSets and pods judge what a TrainJob becomes, at the line of the TrainJob."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from generator.checks.run import check_text, judge_together
from generator.checks.submission import Destination
from generator.cli.main import run
from generator.documents.emit import Emitter
from generator.documents.messages import format_path
from generator.jobs.request import JobRequest
from generator.manifests import Body, Manifest
from generator.pipeline import check_jobs, load, render
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.upstream.kubernetes.access import parse_requester
from tests.conftest import EXAMPLES
from tests.offers import job_of

PLATFORM = EXAMPLES["cpu-kubernetes"]
JOB: Body = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "train", "namespace": "team-sim"},
    "spec": {"runtimeRef": {"name": "openmpi"}, "trainer": {"numNodes": 2, "command": ["mpirun", "./train"]}},
}
EQUALS = {"env": [{"name": "A=B", "value": "c"}]}
PATCHED = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"


@pytest.fixture(scope="module")
def release() -> list[Manifest]:
    """Return a release whose runtime `openmpi` has a launcher that is a node."""
    return list(render(*load(PLATFORM)))


def job(trainer: Body | None = None, patch: Body | None = None, **spec: Any) -> Body:
    """Return the TrainJob with further fields of the trainer, a patch of its worker pods, and further fields."""
    more = {**JOB["spec"], "trainer": {**JOB["spec"]["trainer"], **(trainer or {})}, **spec}
    if patch:
        jobs = [{"name": "node", "template": {"spec": {"template": {"spec": patch}}}}]
        template = {"template": {"spec": {"replicatedJobs": jobs}}}
        more["runtimePatches"] = [{"manager": "example.com/me", "trainingRuntimeSpec": template}]
    return {**JOB, "spec": more}


BROKEN = {
    "a variable with `=`": (job(EQUALS), "pod/field", "spec.trainer.env[0].name"),
    "a variable from no field": (
        job({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.nope"}}}]}),
        "pod/field",
        "spec.trainer.env[0].valueFrom.fieldRef.fieldPath",
    ),
    "a mount of no volume": (
        job(patch={"containers": [{"name": "node", "volumeMounts": [{"name": "absent", "mountPath": "/a"}]}]}),
        "pod/mount",
        f"{PATCHED}.containers[0].volumeMounts[0].name",
    ),
    "a volume with two sources": (
        job(patch={"volumes": [{"name": "tmp", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
        "pod/field",
        f"{PATCHED}.volumes[0]",
    ),
    "a part of a device": (
        job({"resourcesPerNode": {"limits": {"nvidia.com/gpu": "500m"}}}),
        "pod/resources",
        'spec.trainer.resourcesPerNode.limits["nvidia.com/gpu"]',
    ),
    "an empty image": (job({"image": ""}), "pod/field", "spec.trainer.image"),
}


@pytest.mark.parametrize(("body", "check", "path"), BROKEN.values(), ids=BROKEN)
def test_a_mistake_in_the_pods_of_a_job_is_an_error_at_the_field_of_the_job(
    body: Body, check: str, path: str, release: list[Manifest]
) -> None:
    done = check_jobs({"job.yaml": text(body)}, Destination(release, is_complete=True))
    found = [(each.check, each.path.removeprefix("$.")) for each in done.findings if each.check.startswith("pod/")]
    assert found == [(check, path)]
    assert done.verdict(done.submissions[0], done.findings) == "rejected"
    everything = judge_together([*release, Manifest(body, "job.yaml")], Catalog.bundled().targets)
    assert [breach.check for manifest, breach in everything if manifest.kind == "TrainJob" and "pod/" in breach.check]


def patched(manager: str, name: str) -> Body:
    """Return the TrainJob with a patch of a replicated job."""
    body = job(patch={"nodeSelector": {"disk": "ssd"}})
    (patch,) = body["spec"]["runtimePatches"]
    patch["manager"] = manager
    patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]["name"] = name
    return body


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (patched("example.com/me", "trainer"), "trainingRuntimeSpec.template.spec.replicatedJobs[0].name"),
        (patched("me", "node"), "manager"),
    ],
)
def test_files_show_the_patch_that_a_webhook_rejects(body: Body, place: str, release: list[Manifest]) -> None:
    located = judge_together([*release, Manifest(body, "job.yaml")], Catalog.bundled().targets)
    rejected = [format_path(breach.path) for _, breach in located if breach.check == "trainjob/rejected"]
    assert rejected == [f"spec.runtimePatches[0].{place}"]


@pytest.mark.parametrize("body", [body for body, _, _ in BROKEN.values()], ids=BROKEN)
def test_objects_that_the_api_server_rejects_are_not_printed(
    body: Body, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(text(body))
    assert run(["compile", str(file), "--release", str(PLATFORM)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(file) in captured.err


def test_compiled_objects_have_no_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(text(job()))
    assert run(["compile", str(file), "--release", str(PLATFORM)]) == 0
    checked = check_text(capsys.readouterr().out.encode(), "compiled.yaml", Engine(Catalog.bundled()))
    assert [finding for finding in checked.in_order() if finding.severity == "error"] == []


def test_a_mistake_of_the_runtime_is_reported_at_the_reference_to_it(release: list[Manifest]) -> None:
    world = with_pod(release, lambda pod: {**pod, "nodeSelector": {"pool": "a b"}})
    done = check_jobs({"job.yaml": text(job())}, Destination(world, is_complete=True))
    [finding] = [each for each in done.findings if each.check == "pod/field"]
    assert finding.path == "$.spec.runtimeRef.name"
    assert "nodeSelector.pool" in finding.fix
    located = judge_together([*world, Manifest(job(), "job.yaml")], Catalog.bundled().targets)
    assert not [breach for manifest, breach in located if manifest.kind == "TrainJob" and "pod/" in breach.check]


def test_absent_volumes_of_the_runtime_are_errors_of_the_job(release: list[Manifest]) -> None:
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "configMap": {"name": "scripts"}},
        {"name": "c", "secret": {"secretName": "keys"}},
    ]
    world = with_pod(release, lambda pod: {**pod, "volumes": [*pod["volumes"], *volumes]})
    done = check_jobs({"job.yaml": text(job())}, Destination(world, is_complete=True))
    errors = {each.check: each for each in done.findings if each.severity == "error"}
    assert errors.keys() == {"reference/claim", "reference/config-map", "reference/secret"}
    assert {each.path for each in errors.values()} == {"$.spec.runtimeRef.name"}
    assert not any("mpi-hostfile" in each.fix or "mpi-ssh-auth" in each.fix for each in errors.values())
    assert done.verdict(done.submissions[0], done.findings) == "faulty"
    unknown = check_jobs({"job.yaml": text(job())}, Destination(world))
    assert not [each for each in unknown.findings if each.severity == "error"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_jobs_on_all_runtimes_of_an_example_are_admitted_without_errors(name: str) -> None:
    platform, *rest = load(EXAMPLES[name])
    world = [*render(platform, *rest)]
    for runtime in platform.runtimes:
        tenant = next(tenant for tenant in platform.tenants if tenant.name in (runtime.tenants or (tenant.name,)))
        group = next(subject for subject in tenant.access.edit if subject.startswith("group:"))
        user = parse_requester("user:ada", [group.removeprefix("group:")])
        new = job_of(platform, JobRequest(runtime.name, tenant.name)).body
        done = check_jobs({"job.yaml": text(new)}, Destination(world, {}, user, is_complete=True))
        assert [each for each in done.findings if each.severity == "error"] == []
        assert done.verdict(done.submissions[0], done.findings) == "admitted"


@pytest.mark.parametrize("body", [job(activeDeadlineSeconds=2**63 - 1), job({"numProcPerNode": 0})])
def test_an_admitted_job_with_an_error_is_faulty(body: Body, release: list[Manifest]) -> None:
    done = check_jobs({"job.yaml": text(body)}, Destination(release, is_complete=True))
    [submission] = done.submissions
    assert submission.verdict == "admitted"
    assert done.verdict(submission, done.findings) == "faulty"
    assert done.verdict(submission, []) == "admitted"


def with_pod(release: list[Manifest], change: Callable[[Body], Body]) -> list[Manifest]:
    """Return the release with changed worker pods of the runtime `openmpi`."""
    path = ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec")

    def changed(value: Any, steps: tuple[Any, ...]) -> Any:
        if not steps:
            return change(value)
        copied = value.copy()
        copied[steps[0]] = changed(value[steps[0]], steps[1:])
        return copied

    runtime = "ClusterTrainingRuntime", "openmpi"
    return [replace(one, body=changed(one.body, path)) if (one.kind, one.name) == runtime else one for one in release]


def text(body: Body) -> bytes:
    return Emitter().emit([body]).encode()
