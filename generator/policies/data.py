"""Data: the volumes that a team's jobs read and write."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.tenants import Tenant
from generator.manifests import Body


def volumes(tenant: Tenant) -> Iterator[Body]:
    """The claims of a namespace. With a claim goes what is on it, so a person confirms, as of a namespace."""
    for volume in tenant.volumes:
        spec: Body = {
            "accessModes": [*volume.access_modes],
            "resources": {"requests": {"storage": volume.size}},
            "volumeMode": "Filesystem",
        }
        if volume.class_name is not None:
            spec["storageClassName"] = volume.class_name
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": volume.name,
                "namespace": tenant.name,
                "annotations": {"argocd.argoproj.io/sync-options": "Prune=confirm,Delete=confirm"},
            },
            "spec": spec,
        }
