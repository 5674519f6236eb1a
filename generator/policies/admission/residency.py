"""Admission rules for places: the nodes that a job selects, and the StorageClasses of its volumes."""

from __future__ import annotations

from generator.policies.admission.patches import PODS
from generator.policies.admission.policy import TRAINJOBS, Demand, Requests, Rule, parameters


def residency(conditions: dict[str, str]) -> Rule:
    """No patch selects nodes elsewhere. A place that is allowed is `key=value`."""
    return Rule(
        name="residency",
        requests=[TRAINJOBS],
        variables={
            **PODS,
            "places": parameters("residency"),
            "selected": "variables.pods.map(pods, pods.map(pod, pod.?nodeSelector.orValue({})))",
        },
        demands=[
            Demand(
                "variables.selected.all(pods, pods.all(labels, labels.all(key,"
                " !variables.places.exists(place, place.startsWith(key + '='))"
                " || (key + '=' + labels[key]) in variables.places)))",
                "'jobs compute where the platform says; remove nodeSelector, or select '"
                " + variables.places.join(' or ')",
                "Forbidden",
            )
        ],
        conditions=conditions,
    )


_CLAIMS = Requests("", ("v1",), ("persistentvolumeclaims",))
_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _class_of(claim: str) -> str:
    """CEL: the class that a claim, or the template of one, has."""
    return f"{claim}.?metadata.?annotations[?'{_ANNOTATION}'].orValue({claim}.spec.?storageClassName.orValue(''))"


def storage(conditions: dict[str, str]) -> Rule:
    """A class of the platform. It never changes once there is one; a claim of before is not judged again."""
    return Rule(
        name="storage",
        requests=[_CLAIMS],
        variables={
            "classes": parameters("storage-classes"),
            "class": _class_of("object"),
            "before": f"oldObject == null ? '' : {_class_of('oldObject')}",
        },
        demands=[
            Demand(
                "variables.classes.size() == 0 || variables.class in variables.classes"
                " || (oldObject != null && variables.class == variables.before)",
                "(variables.class == '' ? 'it names no storage class' : 'the storage class \"' + variables.class"
                " + '\" is not open to this team') + '; set spec.storageClassName to '"
                " + variables.classes.join(' or ')",
                "Forbidden",
            )
        ],
        conditions=conditions,
    )


def job_storage(conditions: dict[str, str]) -> Rule:
    """The same for volumes that a patch of a TrainJob gives to each pod."""
    return Rule(
        name="job-storage",
        requests=[TRAINJOBS],
        variables={
            **PODS,
            "allowed": parameters("storage-classes"),
            "made": "variables.pods.map(pods, pods.map(pod, pod.?volumes.orValue([])"
            ".filter(volume, has(volume.ephemeral) && has(volume.ephemeral.volumeClaimTemplate))"
            f".map(volume, {_class_of('volume.ephemeral.volumeClaimTemplate')})))",
        },
        demands=[
            Demand(
                "variables.allowed.size() == 0 || variables.made.all(pods, pods.all(classes, classes.all(each,"
                " each in variables.allowed)))",
                "'an ephemeral volume is of no storage class that is open to this team; set storageClassName of its"
                " volumeClaimTemplate to ' + variables.allowed.join(' or ')",
                "Forbidden",
            )
        ],
        conditions=conditions,
    )
