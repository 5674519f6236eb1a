"""Admission rules for places: the nodes that a job selects, and the StorageClasses of its volumes."""

from __future__ import annotations

from generator.policies.admission.patches import PODS
from generator.policies.admission.policy import TRAINJOBS, ResourceRule, Rule, Validation, list_parameter


def residency() -> Rule:
    """Forbid patches that select nodes outside the locations of the platform, which are `key=value`.

    Kueue adds the labels of a flavor to the node selector of each pod and never replaces a selector of the pod. It
    never admits a job whose selector contradicts the flavor (kueue v0.19.2 pkg/cache/scheduler, flavor assignment), so
    the rule rejects such a job at once.
    """
    return Rule(
        name="residency",
        resource_rules=[TRAINJOBS],
        variables={
            **PODS,
            "places": list_parameter("residency"),
            "selected": "variables.pods.map(pods, pods.map(pod, pod.?nodeSelector.orValue({})))",
        },
        validations=[
            Validation(
                "variables.selected.all(pods, pods.all(labels, labels.all(key,"
                " !variables.places.exists(place, place.startsWith(key + '='))"
                " || (key + '=' + labels[key]) in variables.places)))",
                "'a patch selects nodes outside the locations of the platform; remove nodeSelector, or select '"
                " + variables.places.join(' or ')",
                "Forbidden",
            )
        ],
    )


_CLAIMS = ResourceRule("", ("v1",), ("persistentvolumeclaims",))
_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _class_of(claim: str) -> str:
    """Return CEL for the class of a claim or of the template of a claim.

    An old annotation takes precedence over the field (kubernetes v1.34.2, component-helpers storage/volume/helpers.go
    `GetPersistentVolumeClaimClass`).
    """
    return f"{claim}.?metadata.?annotations[?'{_ANNOTATION}'].orValue({claim}.spec.?storageClassName.orValue(''))"


def storage() -> Rule:
    """Require a StorageClass of the platform in a claim; an update may keep an old class.

    The API server sets the default class before it evaluates policies (kubernetes v1.34.2
    plugin/pkg/admission/storage/storageclass/setdefault).
    """
    return Rule(
        name="storage",
        resource_rules=[_CLAIMS],
        variables={
            "classes": list_parameter("storage-classes"),
            "class": _class_of("object"),
            "before": f"oldObject == null ? '' : {_class_of('oldObject')}",
        },
        validations=[
            Validation(
                "variables.classes.size() == 0 || variables.class in variables.classes"
                " || (oldObject != null && variables.class == variables.before)",
                "(variables.class == '' ? 'the claim names no storage class'"
                " : 'this team cannot use the storage class \"' + variables.class + '\"')"
                " + '; set spec.storageClassName to '"
                " + variables.classes.join(' or ')",
                "Forbidden",
            )
        ],
    )


def job_storage() -> Rule:
    """Require a StorageClass of the platform in ephemeral volumes that a patch of a TrainJob adds.

    A controller creates the claim of an ephemeral volume from its template, including annotations (kubernetes v1.34.2
    pkg/controller/volume/ephemeral/controller.go), and the rules ignore requests of controllers.
    """
    return Rule(
        name="job-storage",
        resource_rules=[TRAINJOBS],
        variables={
            **PODS,
            "allowed": list_parameter("storage-classes"),
            "made": "variables.pods.map(pods, pods.map(pod, pod.?volumes.orValue([])"
            ".filter(volume, has(volume.ephemeral) && has(volume.ephemeral.volumeClaimTemplate))"
            f".map(volume, {_class_of('volume.ephemeral.volumeClaimTemplate')})))",
        },
        validations=[
            Validation(
                "variables.allowed.size() == 0 || variables.made.all(pods, pods.all(classes, classes.all(each,"
                " each in variables.allowed)))",
                "'an ephemeral volume uses a storage class that this team cannot use; set storageClassName of its"
                " volumeClaimTemplate to ' + variables.allowed.join(' or ')",
                "Forbidden",
            )
        ],
    )
