"""The copy of a runtime with another image: a TrainingRuntime in the namespace of the job.

Trainer before 2.4 applies `trainer.image` of a TrainJob to the launcher only (trainer v2.3.0
pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer), and no patch of a TrainJob changes an image (trainer
v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go ContainerPatch). So all pods get another image only from a runtime.
The admission rule `own-images` compares the copy with the runtime.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace

from generator.documents.messages import format_value
from generator.errors import Problem
from generator.facts.images import image_fault
from generator.facts.names import BASE, CONTRACT, DIGEST, FRAMEWORK, SUPPORT
from generator.jobs.catalogue import Home, OfferedRuntime
from generator.manifests import Body, omit_none
from generator.objects.fields import mapping, mappings
from generator.objects.training import mpi_runtime
from generator.policies.admission.parameters import IMAGE_END, IMAGE_ESCAPES, copy_prefix

_UNFIT = re.compile(r"[^-a-z0-9./:@_]")
"""A character of an image that the name of a copy cannot have, also not escaped."""
_LONGEST = 253  # apimachinery v0.34.2 pkg/util/validation/validation.go IsDNS1123Subdomain


def find_image_problems(runtime: OfferedRuntime, image: str) -> Iterator[Problem]:
    """Yield why the API server rejects a copy of a runtime with an image, as problems of the option `--image`."""
    annotations = mapping(runtime.runtime.body, "metadata", "annotations")
    patterns = runtime.images
    fault, fix = image_fault(image)
    if fault:
        yield Problem(f"{format_value(image)} is not an image reference: {fault}", fix, path="--image")
    elif not patterns or DIGEST not in annotations:
        message = f"the runtime `{runtime.name}` allows no other image than {runtime.image}"
        fix = f"remove --image, or ask a platform admin to add the image to `images` of runtime `{runtime.name}`"
        yield Problem(message, fix, path="--image")
    elif not any(_is_match(image, pattern) for pattern in patterns):
        message = f"the runtime `{runtime.name}` does not allow the image {format_value(image)}"
        yield Problem(message, f"use {' or '.join(patterns)}", path="--image")
    elif unfit := _UNFIT.search(image):
        message = f"the name of the copied runtime contains the image, and cannot have {format_value(unfit[0])}"
        yield Problem(message, "name the image by its digest, NAME@sha256:DIGEST, or another image", path="--image")
    elif len(name := name_of_copy(runtime, image)) > _LONGEST:
        message = f"the name of the copied runtime would have {len(name)} characters, more than {_LONGEST}"
        yield Problem(message, "use an image with a shorter path or a tag", path="--image")


def _is_match(image: str, pattern: str) -> bool:
    return image.startswith(pattern[:-1]) if pattern.endswith("*") else image == pattern


def name_of_copy(runtime: OfferedRuntime, image: str) -> str:
    """Return the name of a copy: the name of the runtime, its version, and the image.

    So equal jobs share a copy, and no user can give the jobs of another user another image.
    """
    written = image
    for character, escape in IMAGE_ESCAPES.items():
        written = written.replace(character, escape)
    return f"{copy_prefix(runtime.runtime.body)}{written}{IMAGE_END}"


def with_image(runtime: OfferedRuntime, image: str, home: Home) -> OfferedRuntime:
    """Return the copy of a runtime, in a namespace, in which the containers of the ranks have another image.

    So do the other containers with the image of the ranks, such as init containers.
    """
    return replace(
        runtime,
        runtime=mpi_runtime(copied_runtime(runtime, image, home)) or runtime.runtime,
        namespaces=frozenset({home.name}),
    )


def copied_runtime(runtime: OfferedRuntime, image: str, home: Home) -> Body:
    """Return the TrainingRuntime that users create before their TrainJob."""
    body = runtime.runtime.body
    metadata = mapping(body, "metadata")
    labels, annotations = mapping(metadata, "labels"), mapping(metadata, "annotations")
    spec = copy.deepcopy(body["spec"])
    for job in mappings(mapping(spec, "template", "spec").get("replicatedJobs")):
        pod = mapping(job, "template", "spec", "template", "spec")
        for container in (*mappings(pod.get("containers")), *mappings(pod.get("initContainers"))):
            if container.get("image") == runtime.image:
                container["image"] = image
    kept = {key: labels[key] for key in (FRAMEWORK, SUPPORT) if key in labels}
    return omit_none(
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainingRuntime",
            "metadata": {
                "name": name_of_copy(runtime, image),
                "namespace": home.name,
                "labels": {BASE: runtime.name, **kept},
                "annotations": {CONTRACT: annotations[CONTRACT]} if CONTRACT in annotations else None,
            },
            "spec": spec,
        }
    )
