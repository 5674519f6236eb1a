"""pod/field: the schemas of pods, applied to the pod templates of custom resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generator.checks.pod.templates import effect, is_custom, replicated_job_of
from generator.checks.registry import ERROR, Breach, declare
from generator.documents.load import Path
from generator.facts.names import STEP
from generator.manifests import Manifest
from generator.objects.fields import items, mapping
from generator.objects.pods import NODE, RUNTIMES, PodTemplate, pod_templates
from generator.objects.training import TRAINER
from generator.schemas.embedded import Engine, Violation

_KINDS = frozenset({"JobSet", *RUNTIMES})
_WRAPPED = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "of-custom-resource"}}
_JOB: Mapping[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "of-custom-resource"}}
_DEFAULT_POLICY = "OnFailure"
"""The restart policy that JobSet sets in pods without one."""
_VALIDATED = "resizePolicy"
"""The only list whose duplicate items a CustomResourceDefinition accepts and the API server rejects in pods."""


def field(manifest: Manifest, engine: Engine, reported: Sequence[Breach]) -> Iterator[Breach]:
    """Report a pod template of a custom resource with a value that the API server rejects in pods.

    The CustomResourceDefinition of a runtime or of a JobSet describes the types of the fields, but not the names,
    ranges and choices that the API server requires in pods. So the API server accepts the runtime, and rejects the Job
    that JobSet creates later. The check validates the pod template like the pod template of a Deployment. In a JobSet
    or a runtime, the check also validates the other fields of the Jobs, and the labels and annotations of the Jobs.

    The check does not report an absent image that a TrainJob can set: the image of the container `node` of the trainer
    step. [mpi/image](../mpi/image.md) reports containers without an image in MPI runtimes. The check does not report
    unknown fields, because another version of Kubernetes may have them.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidatePodTemplateSpec; jobset v0.12.0
    pkg/controllers/jobset_controller.go (JobCreationFailed)
    """
    if not is_custom(manifest) or manifest.kind == "TrainJob":
        return
    known = {(breach.path, breach.message) for breach in reported}
    wrong = [breach.path for breach in reported if breach.check in ("schema/not-allowed", "schema/wrong-type")]
    for template in pod_templates(manifest):
        if not template.spec and manifest.kind not in _KINDS:
            continue
        for path, violation in _violations(template, engine):
            is_known = (path, violation.message) in known or any(path[: len(place)] == place for place in wrong)
            if not is_known and _is_of_pod(template, violation):
                yield Breach(
                    path,
                    violation.message,
                    effect(template),
                    violation.fix,
                    at_key=violation.keyword == "propertyNames",
                    value=None if violation.keyword == "required" else violation.value,
                    check="pod/field",
                )


def _violations(template: PodTemplate, engine: Engine) -> Iterator[tuple[Path, Violation]]:
    """Yield (path in the object, violation) of a template, or of the whole Job of a JobSet or a runtime."""
    if template.manifest.kind not in _KINDS:
        for violation in engine.violations({**_WRAPPED, "template": dict(template.body)}) or ():
            yield (*template.path, *violation.path[1:]), violation
        return
    job = mapping(replicated_job_of(template), "template")
    own, spec = mapping(job, "metadata"), mapping(job, "spec")
    metadata = {key: own[key] for key in ("labels", "annotations") if key in own}
    if template.spec:
        policy = template.spec.get("restartPolicy") or _DEFAULT_POLICY
        spec = {**spec, "template": {**template.body, "spec": {**template.spec, "restartPolicy": policy}}}
    for violation in engine.violations({**_JOB, "metadata": {**_JOB["metadata"], **metadata}, "spec": spec}) or ():
        yield (*template.path[:-2], *violation.path), violation


def _is_of_pod(template: PodTemplate, violation: Violation) -> bool:
    """Return True if `pod/field` reports a violation.

    The field must be known, no other check may report the violation, and no TrainJob may set the field later.
    """
    if violation.path[-2:] == ("spec", "restartPolicy") and violation.value in ("Always", _DEFAULT_POLICY):
        return False  # pod/restart-policy
    if "completions" in (violation.expected, *violation.path[-1:]) and violation.keyword in ("required", "type"):
        return False  # workload/job
    if violation.keyword == "additionalProperties":
        return False
    if violation.keyword in ("uniqueItemsBy", "uniqueItems"):
        return violation.path[-2:-1] == (_VALIDATED,)
    if violation.path[-2:] == ("spec", "subdomain") and template.manifest.kind in _KINDS:
        return not _has_host_names(template)
    is_image = violation.keyword == "required" and violation.expected == "image"
    is_image = is_image or violation.path[-1:] == ("image",)
    return not (is_image and template.manifest.kind in RUNTIMES and _gets_image(template, violation))


def _has_host_names(template: PodTemplate) -> bool:
    """Return True if JobSet replaces the subdomain of the pods."""
    base = mapping(template.manifest.body, *map(str, template.path[:-5]))
    return mapping(base, "network").get("enableDNSHostnames") is not False


def _gets_image(template: PodTemplate, violation: Violation) -> bool:
    """Return True if a TrainJob sets the image of a container, or if mpi/image reports the container."""
    place = violation.path[3:5]
    if "mpi" in mapping(template.manifest.body, "spec", "mlPolicy"):
        return place[:1] == ("containers",)
    labels = mapping(replicated_job_of(template), "template", "metadata", "labels")
    place = place if labels.get(STEP) == TRAINER else ()
    containers = items(template.spec.get("containers"))
    is_node = [isinstance(body, dict) and body.get("name") == NODE for body in containers]
    return place[:1] == ("containers",) and is_node[int(place[1])]


declare("pod/field", severity=ERROR, text=field)
