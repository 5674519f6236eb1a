"""pod/claim: the device claims of containers."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.pod.templates import Pods, report
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.messages import format_names, format_value
from generator.objects.fields import indexed_mappings, mapping, mappings
from generator.objects.pods import Container, PodTemplate
from generator.objects.training import resized_containers


@check("pod/claim", severity=ERROR, needs=Pods)
def claim(pods: Pods) -> Iterator[Breach]:
    """Report a container that uses a device claim that its pods do not have.

    `resources.claims` of a container can name only the claims in `resourceClaims` of the pods. A TrainJob with
    `resourcesPerNode` removes the claims of the container `node` of the trainer step, so the finding is a warning
    there. [schema/duplicate-item](../schema/duplicate-item.md) reports a claim that a container uses twice.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateResourceClaimNames; trainer v2.3.0
    pkg/runtime/core/trainingruntime.go TrainingRuntime.newRuntimeInfo
    """
    for template, container in pods.containers:
        defined = [claim["name"] for claim in mappings(template.spec.get("resourceClaims")) if claim.get("name")]
        for number, body in indexed_mappings(mapping(container.body, "resources").get("claims")):
            name = body.get("name")
            if not isinstance(name, str) or not name or name in defined:
                continue
            listed = f"define only {format_names(defined)}" if defined else "define no claim"
            yield report(
                template,
                (*container.path, "resources", "claims", number, "name"),
                f"the container {format_value(container.body.get('name'))} uses the claim {format_value(name)}, "
                f"but the pods {listed}",
                "add the claim to `resourceClaims` of the pods, or correct the name",
                name,
                severity=WARNING if _is_replaced(template, container) else None,
            )


def _is_replaced(template: PodTemplate, container: Container) -> bool:
    """Return True if a TrainJob can replace the resources of a container."""
    resized = resized_containers(template.manifest.body) if template.is_of_runtime else ()
    return any(body is container.body for body in resized)
