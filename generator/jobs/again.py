"""A TrainJob of a cluster as a new TrainJob: `mpigen job again`."""

from __future__ import annotations

from generator.facts.names import KUEUE_MANAGER, LAST_APPLIED, MULTI_KUEUE, TRAINER_MANAGER
from generator.manifests import Body, Manifest, detach
from generator.objects.fields import mapping, mappings, string_map

_OF_JOB = ("suspend", "managedBy", "runtimePatches")
"""Fields of `spec` that controllers and webhooks set."""


def renew_job(job: Manifest, name: str = "") -> Body:
    """Return a TrainJob without the values that servers and controllers wrote, so that `kubectl create` accepts it.

    The API server rejects a `resourceVersion`, and removes the status. Kueue's webhook adds a patch of its own to each
    new TrainJob, and the API server rejects a second patch of the same manager. The webhook also suspends a job in a
    queue, so the result has no `suspend`, and a job without a queue starts at once. Trainer or Kueue set `managedBy`
    again. An empty list of patches is absent, because Kueue cannot admit a TrainJob with an empty value.

    Source: apiserver v0.37.2 pkg/storage/errors.go ErrResourceVersionSetOnCreate; kueue v0.19.2
    pkg/controller/jobs/trainjob/trainjob_webhook.go TrainJobWebhook.Default; trainer v2.3.0
    pkg/apis/trainer/v1alpha1/trainjob_types.go RuntimePatch

    Args:
        job: the TrainJob of the cluster.
        name: the name of the new TrainJob; empty for the same name.
    """
    annotations = {
        key: value
        for key, value in string_map(mapping(job.body, "metadata").get("annotations")).items()
        if key != LAST_APPLIED
    }
    metadata = {"name": name or job.name, "namespace": job.namespace, "labels": {**job.labels}}
    metadata["annotations"] = annotations
    spec = mapping(job.body, "spec")
    manager = spec.get("managedBy")
    patches = [
        {key: value for key, value in patch.items() if key != "time"}
        for patch in mappings(spec.get("runtimePatches"))
        if patch.get("manager") != KUEUE_MANAGER
    ]
    return detach(
        {
            "apiVersion": job.api_version,
            "kind": job.kind,
            "metadata": {key: value for key, value in metadata.items() if value},
            "spec": {
                **{key: value for key, value in spec.items() if key not in _OF_JOB},
                **({"managedBy": manager} if manager not in (None, TRAINER_MANAGER, MULTI_KUEUE) else {}),
                **({"runtimePatches": patches} if patches else {}),
            },
        }
    )
