"""pod/finalizer: the finalizers in the metadata of pod templates."""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.metadata import find_finalizer_faults
from generator.checks.pod.templates import Pods, report
from generator.checks.registry import ERROR, Breach, check
from generator.objects.fields import mapping, strings


@check("pod/finalizer", severity=ERROR, needs=Pods)
def finalizer(pods: Pods) -> Iterator[Breach]:
    """Report a finalizer in a pod template that the API server rejects in the pods.

    Controllers copy the finalizers of a pod template into each pod. The API server accepts the object with the
    template, and rejects the pods. A finalizer of a pod needs a domain, such as `example.com/keep`, except for
    `kubernetes`, `orphan` and `foregroundDeletion`. [object/metadata](../object/metadata.md) reports the finalizers
    of a Pod.

    Source: kubernetes v1.34.2 pkg/controller/controller_utils.go GetPodFromTemplate; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidateObjectMeta; kubernetes v1.34.2 pkg/apis/core/validation/validation.go
    validateKubeFinalizerName
    """
    for template in pods.templates if pods.manifest.kind != "Pod" else ():
        finalizers = strings(mapping(template.body, "metadata").get("finalizers"))
        for path, message, fix, value in find_finalizer_faults(finalizers, needs_domain=True):
            place = (*template.path, "metadata", "finalizers", *path)
            yield report(template, place, message, fix, value, is_of_pods=True)
