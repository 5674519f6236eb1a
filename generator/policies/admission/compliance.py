"""Admission rules for compliance: registries and digests of images, the location of nodes, and StorageClasses.

A TrainJob names an image in `spec.trainer.image` and may mount one as a volume. A patch cannot change the image of a
container (trainer v2.3.0 ContainerPatch has no such field).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from generator.policies.admission.patches import PODS
from generator.policies.admission.policy import TRAINJOBS, ResourceRule, Rule, Validation, list_parameter, parameter

RUNTIMES = ResourceRule("trainer.kubeflow.org", ("v1alpha1",), ("clustertrainingruntimes", "trainingruntimes"))
_DIGEST = "matches('@sha256:[0-9a-f]{64}$')"


def images(*, from_registries: bool, by_digest: bool) -> Rule:
    """Require images of jobs from a registry of the team, by digest, or both."""
    return Rule(
        name="images",
        resource_rules=[TRAINJOBS],
        variables={
            **PODS,
            "registries": list_parameter("registries"),
            "byDigest": f"{parameter('image-digests')} == 'true'",
            "image": "object.spec.?trainer.?image.orValue('')",
            "mounted": "variables.pods.map(pods, pods.map(pod, pod.?volumes.orValue([])"
            ".filter(volume, has(volume.image)).map(volume, volume.image.?reference.orValue(''))))",
        },
        validations=[*(_registries() if from_registries else []), *(_digests() if by_digest else [])],
    )


def _registries() -> list[Validation]:
    return [
        Validation(
            "oldObject != null || variables.image == '' || variables.registries.size() == 0"
            " || variables.registries.exists(each, variables.image.startsWith(each))",
            "'the image ' + variables.image + ' is not from a registry of this team; use an image from '"
            " + variables.registries.join(' or ')",
        ),
        Validation(
            "variables.registries.size() == 0 || variables.mounted.all(pods, pods.all(images, images.all(image,"
            " variables.registries.exists(each, image.startsWith(each)))))",
            "'a mounted image is not from a registry of this team; use an image from '"
            " + variables.registries.join(' or ')",
        ),
    ]


def _digests() -> list[Validation]:
    return [
        Validation(
            f"oldObject != null || variables.image == '' || !variables.byDigest || variables.image.{_DIGEST}",
            "'the image ' + variables.image + ' has no digest, so its content can change; write NAME@sha256:DIGEST'",
        ),
        Validation(
            f"!variables.byDigest || variables.mounted.all(pods, pods.all(images, images.all(image, image.{_DIGEST})))",
            "'a mounted image has no digest, so its content can change; write NAME@sha256:DIGEST'",
        ),
    ]


def runtime_images(registries: Sequence[str], labels: dict[str, str], *, by_digest: bool) -> Rule:
    """Require the same of the images of the platform's runtimes.

    Args:
        registries: the registries of the platform; empty if an image may come from any.
        labels: labels of the platform's objects.
        by_digest: True if each image needs a digest.
    """
    pods = "object.spec.template.spec.replicatedJobs.map(job, job.template.spec.template.spec)"
    return Rule(
        name="runtime-images",
        resource_rules=[RUNTIMES],
        variables={
            "registries": json.dumps([*registries]),
            "images": f"{pods}.map(pod, pod.containers.map(each, each.?image.orValue('')))"
            f" + {pods}.map(pod, pod.?initContainers.orValue([]).map(each, each.?image.orValue('')))",
        },
        validations=[
            *([_runtime_registries()] if registries else []),
            *([_runtime_digests()] if by_digest else []),
        ],
        object_labels=labels,
        is_cluster_wide=True,
    )


def _runtime_registries() -> Validation:
    return Validation(
        "variables.images.all(images, images.all(image, variables.registries.exists(each, image.startsWith(each))))",
        "'an image is not from a registry of the platform; use an image from ' + variables.registries.join(' or ')",
    )


def _runtime_digests() -> Validation:
    return Validation(
        f"variables.images.all(images, images.all(image, image.{_DIGEST}))",
        "'an image has no digest, so its content can change; write NAME@sha256:DIGEST'",
    )


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


_VOLUME_CLAIMS = ResourceRule("", ("v1",), ("persistentvolumeclaims",))
_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _storage_class(claim: str) -> str:
    """Return CEL for the class of a claim or of the template of a claim.

    An old annotation takes precedence over the field (kubernetes v1.34.2, component-helpers storage/volume/helpers.go
    `GetPersistentVolumeClaimClass`).
    """
    field = f"{claim}.spec.?storageClassName.orValue('')"
    return f"{claim}.?metadata.?annotations[?'{_STORAGE_CLASS_ANNOTATION}'].orValue({field})"


def storage() -> Rule:
    """Require a StorageClass of the platform in a claim; an update may keep an old class.

    The API server sets the default class before it evaluates policies (kubernetes v1.34.2
    plugin/pkg/admission/storage/storageclass/setdefault).
    """
    return Rule(
        name="storage",
        resource_rules=[_VOLUME_CLAIMS],
        variables={
            "classes": list_parameter("storage-classes"),
            "class": _storage_class("object"),
            "before": f"oldObject == null ? '' : {_storage_class('oldObject')}",
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
            f".map(volume, {_storage_class('volume.ephemeral.volumeClaimTemplate')})))",
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
