"""Where images come from, in jobs and in runtimes.

A TrainJob names an image in `spec.trainer.image`, and may mount one as a volume; containers that a patch changes keep
theirs (trainer v2.3.0 ContainerPatch has none).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from generator.policies.admission.patches import PODS
from generator.policies.admission.policy import TRAINJOBS, Demand, Requests, Rule, parameter, parameters

RUNTIMES = Requests("trainer.kubeflow.org", ("v1alpha1",), ("clustertrainingruntimes", "trainingruntimes"))
_DIGEST = "matches('@sha256:[0-9a-f]{64}$')"


def images(conditions: dict[str, str], *, from_registries: bool, by_digest: bool) -> Rule:
    """The images of a job: from a registry of the team's, by digest, or both."""
    return Rule(
        name="images",
        requests=[TRAINJOBS],
        variables={
            **PODS,
            "registries": parameters("registries"),
            "byDigest": f"{parameter('image-digests')} == 'true'",
            "image": "object.spec.?trainer.?image.orValue('')",
            "mounted": "variables.pods.map(pods, pods.map(pod, pod.?volumes.orValue([])"
            ".filter(volume, has(volume.image)).map(volume, volume.image.?reference.orValue(''))))",
        },
        demands=[*(_places() if from_registries else []), *(_digests() if by_digest else [])],
        conditions=conditions,
    )


def _places() -> list[Demand]:
    return [
        Demand(
            "oldObject != null || variables.image == '' || variables.registries.size() == 0"
            " || variables.registries.exists(each, variables.image.startsWith(each))",
            "'the image ' + variables.image + ' is from no registry of this team; take it from '"
            " + variables.registries.join(' or ')",
        ),
        Demand(
            "variables.registries.size() == 0 || variables.mounted.all(pods, pods.all(images, images.all(image,"
            " variables.registries.exists(each, image.startsWith(each)))))",
            "'a mounted image is from no registry of this team; take it from ' + variables.registries.join(' or ')",
        ),
    ]


def _digests() -> list[Demand]:
    return [
        Demand(
            f"oldObject != null || variables.image == '' || !variables.byDigest || variables.image.{_DIGEST}",
            "'the image ' + variables.image + ' may change behind its name; write it with its digest, as in"
            " name@sha256:...'",
        ),
        Demand(
            f"!variables.byDigest || variables.mounted.all(pods, pods.all(images, images.all(image, image.{_DIGEST})))",
            "'a mounted image may change behind its name; write it with its digest, as in name@sha256:...'",
        ),
    ]


def runtime_images(
    registries: Sequence[str], labelled: dict[str, str], conditions: dict[str, str], *, by_digest: bool
) -> Rule:
    """The images of the platform's runtimes, by the same rule."""
    pods = "object.spec.template.spec.replicatedJobs.map(job, job.template.spec.template.spec)"
    return Rule(
        name="runtime-images",
        requests=[RUNTIMES],
        variables={
            "registries": json.dumps([*registries]),
            "images": f"{pods}.map(pod, pod.containers.map(each, each.?image.orValue('')))"
            f" + {pods}.map(pod, pod.?initContainers.orValue([]).map(each, each.?image.orValue('')))",
        },
        demands=[
            *([_from_registries()] if registries else []),
            *([_by_digest()] if by_digest else []),
        ],
        conditions=conditions,
        labelled=labelled,
        is_for_tenants=False,
    )


def _from_registries() -> Demand:
    return Demand(
        "variables.images.all(images, images.all(image, variables.registries.exists(each, image.startsWith(each))))",
        "'an image is from no registry of the platform; take it from ' + variables.registries.join(' or ')",
    )


def _by_digest() -> Demand:
    return Demand(
        f"variables.images.all(images, images.all(image, image.{_DIGEST}))",
        "'an image may change behind its name; write it with its digest, as in name@sha256:...'",
    )
