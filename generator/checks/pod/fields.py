"""pod/field: the schemas of pods, applied to the pod templates of custom resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from generator.checks.pod.templates import effect, is_custom
from generator.checks.registry import ERROR, Breach, declare
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.objects.pods import RUNTIMES, PodTemplate, pod_templates
from generator.schemas.embedded import Engine, Violation

_KINDS = frozenset({"JobSet", *RUNTIMES})
_WRAPPED = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "of-custom-resource"}}


def field(manifest: Manifest, engine: Engine, reported: Sequence[Breach]) -> Iterator[Breach]:
    """Report a field of a pod template in a custom resource that the API server rejects in pods.

    The CustomResourceDefinition of a runtime or of a JobSet describes the types of the fields, but not the names,
    ranges and choices that the API server requires in pods. So the API server accepts the runtime, and rejects the Job
    that JobSet creates later. The check uses the schemas of Kubernetes, as for a Deployment.

    [mpi/image](../mpi/image.md) reports containers without an image in MPI runtimes. A TrainJob sets the image of a
    container `node` in other runtimes. The check does not report fields that only another version of Kubernetes has.

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
        for violation in engine.violations({**_WRAPPED, "template": dict(template.body)}) or ():
            path = (*template.path, *violation.path[1:])
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


def _is_of_pod(template: PodTemplate, violation: Violation) -> bool:
    """Return True if no other check reports a violation, and no TrainJob can correct it."""
    if violation.keyword in ("additionalProperties", "uniqueItemsBy", "uniqueItems"):
        return False
    if violation.path[-2:] == ("spec", "subdomain") and template.manifest.kind in _KINDS:
        return False  # JobSet replaces the subdomain
    is_image = violation.keyword == "required" and violation.expected == "image"
    is_image = is_image or violation.path[-1:] == ("image",)
    return not (is_image and template.manifest.kind in RUNTIMES and _gets_image(template, violation))


def _gets_image(template: PodTemplate, violation: Violation) -> bool:
    """Return True if a TrainJob sets the image of a container, or if mpi/image reports the container."""
    if "mpi" in mapping(template.manifest.body, "spec", "mlPolicy"):
        return True
    body: object = violation.value
    return isinstance(body, dict) and body.get("name") == "node"


declare("pod/field", severity=ERROR, text=field)
