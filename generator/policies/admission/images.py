"""Admission rules for images: the registries that jobs and runtimes may use, and digests.

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
            *([_from_registries()] if registries else []),
            *([_by_digest()] if by_digest else []),
        ],
        object_labels=labels,
        is_cluster_wide=True,
    )


def _from_registries() -> Validation:
    return Validation(
        "variables.images.all(images, images.all(image, variables.registries.exists(each, image.startsWith(each))))",
        "'an image is not from a registry of the platform; use an image from ' + variables.registries.join(' or ')",
    )


def _by_digest() -> Validation:
    return Validation(
        f"variables.images.all(images, images.all(image, image.{_DIGEST}))",
        "'an image has no digest, so its content can change; write NAME@sha256:DIGEST'",
    )
