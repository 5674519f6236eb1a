"""The creator of an existing object, and the object as its creator sent it to the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any

from generator.facts.creators import can_create, fields_of_controllers, find_ownerless, qualify
from generator.facts.names import KUEUE_MANAGER, MANAGED_BY
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, string_map, strings
from generator.objects.training import GROUP, KUEUE


class Creator(StrEnum):
    """The creator of an existing object.

    Attributes:
        MEMBER: a user, who can be a platform admin: no field of the object shows the difference.
        CONTROLLER: a controller, which its owner reference names.
        PLATFORM: Kubernetes, OpenShift, or the release.
        UNKNOWN: the object names a controlling owner whose kind creates such objects, but the export has no owner of
            this name and UID.
    """

    MEMBER = "user"
    CONTROLLER = "controller"
    PLATFORM = "platform"
    UNKNOWN = "unknown"


class Inventory:
    """The objects of an export and of a release, with their creators."""

    def __init__(self, export: Sequence[Manifest], release: Sequence[Manifest]) -> None:
        """Index the objects.

        Args:
            export: the objects of the cluster.
            release: the objects of the release; empty without one.
        """
        self.release = {item.identity: item for item in release}
        self.export = {item.identity: item for item in export}
        self.kinds = {(item.group, item.kind) for item in export}

    def find_creator(self, manifest: Manifest) -> Creator:
        """Return the creator of an object. The owner counts only if objects of its kind create objects of this kind."""
        if _is_of_kubernetes(manifest) or self._is_of_release(manifest):
            return Creator.PLATFORM
        owner = next((item for item in _owners(manifest) if item.get("controller") is True), None)
        if owner is None:
            return Creator.MEMBER
        kind, group = string(owner.get("kind")), string(owner.get("apiVersion")).rpartition("/")[0]
        if not can_create(qualify(kind, group), qualify(manifest.kind, manifest.group)):
            return Creator.MEMBER
        name = string(owner.get("name"))
        parent = self.export.get((group, kind, manifest.namespace, name)) or self.export.get((group, kind, "", name))
        if parent is None or mapping(parent.body, "metadata").get("uid") != owner.get("uid"):
            return Creator.UNKNOWN
        return Creator.CONTROLLER

    def _is_of_release(self, manifest: Manifest) -> bool:
        """Return True if an object has all values of the object of the same name in the release.

        Without a release, return True if the object has the labels of mpigen.
        """
        if not self.release:
            labels = manifest.labels
            return all(labels.get(name) == value for name, value in MANAGED_BY.items())
        original = self.release.get(manifest.identity)
        return original is not None and not find_difference(original.body, manifest.body)

    def as_created(self, manifest: Manifest) -> Body:
        """Return an object without the values that the API server and controllers set after the creation."""
        metadata = {key: value for key, value in mapping(manifest.body, "metadata").items() if key not in _OF_SERVER}
        written = fields_of_controllers().get(qualify(manifest.kind, manifest.group))
        finalizers = {*_OF_DELETION, *(written.finalizers if written else ())}
        if "finalizers" in metadata:
            metadata["finalizers"] = [name for name in strings(metadata["finalizers"]) if name not in finalizers]
        if written and "annotations" in metadata:
            annotations = string_map(metadata["annotations"])
            metadata["annotations"] = {key: annotations[key] for key in annotations if key not in written.annotations}
        body = {key: value for key, value in manifest.body.items() if key != "status"} | {"metadata": metadata}
        if (manifest.group, manifest.kind) == ("", "PersistentVolumeClaim"):
            return _without_provisioned_volume(body)
        if (manifest.group, manifest.kind) == (GROUP, "TrainJob"):
            return self._without_patch_of_kueue(body, manifest)
        return body

    def _without_patch_of_kueue(self, body: Body, manifest: Manifest) -> Body:
        """Return a TrainJob without the values that Kueue wrote when it admitted the job.

        Kueue writes them into the patch of its own manager, and its webhook adds this patch to each job. If the export
        has Workloads, the values stay unless the Workload of the job is admitted and its flavors have the values. The
        values of a finished job without a Workload do not stay.

        Source: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go TrainJob.RunWithPodSetsInfo
        """
        spec = mapping(body, "spec")
        patches = [self._emptied(patch, manifest) for patch in mappings(spec.get("runtimePatches"))]
        return {**body, "spec": {**spec, "runtimePatches": patches}} if patches else body

    def _emptied(self, patch: Body, manifest: Manifest) -> Body:
        if patch.get("manager") != KUEUE_MANAGER or not self._is_of_kueue(patch, manifest):
            return patch
        kept = {key: value for key, value in patch.items() if key in ("manager", "time")}
        return {**kept, "trainingRuntimeSpec": {"template": {"spec": {}}}}

    def _is_of_kueue(self, patch: Body, manifest: Manifest) -> bool:
        """Return True if Kueue can have written the values of its patch."""
        if (KUEUE, "Workload") not in self.kinds:
            return True
        workload = self._workloads.get(string(mapping(manifest.body, "metadata").get("uid")))
        if workload is None:
            return _is_finished(manifest)  # Kueue can delete the Workloads of finished jobs
        if not mapping(workload.body, "status", "admission"):
            return False
        names = {
            flavor
            for item in mappings(mapping(workload.body, "status", "admission").get("podSetAssignments"))
            for flavor in string_map(item.get("flavors")).values()
        }
        flavors = [
            mapping(item.body, "spec")
            for name in names
            if (item := self._one(KUEUE, "ResourceFlavor", name)) is not None
        ]
        labels = {pair for flavor in flavors for pair in string_map(flavor.get("nodeLabels")).items()}
        tolerations = [item for flavor in flavors for item in mappings(flavor.get("tolerations"))]
        return all(_is_explained(job, labels, tolerations) for job in _patched_jobs(patch))

    def _one(self, group: str, kind: str, name: str) -> Manifest | None:
        identity = (group, kind, "", name)
        return self.export.get(identity) or self.release.get(identity)

    @cached_property
    def _workloads(self) -> Mapping[str, Manifest]:
        """The Workloads, by the UID of the job that owns them."""
        return {
            string(owner.get("uid")): item
            for item in self.export.values()
            if (item.group, item.kind) == (KUEUE, "Workload")
            for owner in _owners(item)
        }


def _is_of_kubernetes(manifest: Manifest) -> bool:
    """Return True if Kubernetes or OpenShift creates an object with this kind, name and values, without an owner."""
    expected = find_ownerless(qualify(manifest.kind, manifest.group), manifest.name)
    return expected is not None and not find_difference(_fill(expected.values, manifest.namespace), manifest.body)


def _fill(values: Any, namespace: str) -> Any:
    """Return the values with the namespace in place of `{namespace}`."""
    if isinstance(values, Mapping):
        return {key: _fill(value, namespace) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_fill(value, namespace) for value in values]
    return values.replace("{namespace}", namespace) if isinstance(values, str) else values


def _is_finished(job: Manifest) -> bool:
    conditions = mappings(mapping(job.body, "status").get("conditions"))
    return any(item.get("type") in ("Complete", "Failed") and item.get("status") == "True" for item in conditions)


def _is_explained(job: Body, labels: set[tuple[str, str]], tolerations: Sequence[Body]) -> bool:
    """Return True if a job patch of Kueue has only node labels and tolerations of flavors, and names of Kueue."""
    template = mapping(job, "template", "spec", "template")
    spec = mapping(template, "spec")
    names = [*string_map(mapping(template, "metadata").get("labels"))]
    names += string_map(mapping(template, "metadata").get("annotations"))
    return (
        {*job} <= {"name", "template"}
        and {*mapping(job, "template")} <= {"spec"}
        and {*mapping(job, "template", "spec")} <= {"template"}
        and {*template} <= {"metadata", "spec"}
        and {*spec} <= {"nodeSelector", "tolerations", "schedulingGates"}
        and all(pair in labels for pair in string_map(spec.get("nodeSelector")).items())
        and all(item in tolerations for item in mappings(spec.get("tolerations")))
        and all(name.startswith(f"{KUEUE}/") for name in names)
        and all(string(item.get("name")).startswith(f"{KUEUE}/") for item in mappings(spec.get("schedulingGates")))
    )


def _patched_jobs(patch: Body) -> tuple[Body, ...]:
    return mappings(mapping(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs"))


_OF_SERVER = frozenset(
    {"managedFields", "resourceVersion", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}
)
"""Keys of `metadata` that the API server sets after the admission of a new object."""
_OF_DELETION = ("foregroundDeletion", "orphan")
"""Finalizers that the API server adds when a user deletes an object."""


def _without_provisioned_volume(body: Body) -> Body:
    """Return a claim without the volume that a provisioner created for it.

    Its name contains the UID of the claim, which no user can predict: kubernetes v1.34.2
    pkg/controller/volume/persistentvolume/pv_controller.go PersistentVolumeController.getProvisionedVolumeNameForClaim;
    the sidecar
    external-provisioner uses the same name.
    """
    spec, uid = mapping(body, "spec"), string(mapping(body, "metadata").get("uid"))
    if not uid or spec.get("volumeName") != f"pvc-{uid}":
        return body
    return {**body, "spec": {key: value for key, value in spec.items() if key != "volumeName"}}


def _owners(manifest: Manifest) -> tuple[Body, ...]:
    return mappings(mapping(manifest.body, "metadata").get("ownerReferences"))


def find_difference(original: object, live: object) -> bool:
    """Return True if a live object lacks a value of the original. Further keys of mappings are no difference."""
    if isinstance(original, dict):
        return not isinstance(live, dict) or any(
            find_difference(value, live.get(key)) for key, value in original.items() if value not in ({}, [], None)
        )
    if isinstance(original, list):
        return not isinstance(live, list) or len(original) != len(live) or any(map(find_difference, original, live))
    return original != live
