"""pod/volume, pod/projected-source, pod/mount and pod/variable-file: the volumes of pods, and their use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.pod.templates import Pods, report
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names, format_value
from generator.objects.fields import indexed_mappings, mapping, mappings
from generator.objects.pods import RUNTIMES, Container, PodTemplate
from generator.upstream.jobset.jobs import find_volume_claims

_MEDIUM = re.compile("(Memory|HugePages(-[0-9.]+[A-Za-z]*)?)?")
_OF_TRAINER = {
    "flux": ("flux-curve", "flux-install", "shared-memory", "spack-install"),
    "mpi": ("mpi-hostfile", "mpi-ssh-auth"),
}
"""Policy of a runtime → volumes that Trainer adds to the pods of a TrainJob.

Source: trainer v2.3.0 pkg/constants/constants.go
"""
_OF_JOB_SETS = frozenset({"JobSet", *RUNTIMES})
_CLAIM = ("ephemeral", "volumeClaimTemplate", "spec")
_NOT_OMITTED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("projected",), "sources", "[]"),
    ((*_CLAIM, "dataSource"), "apiGroup", '""'),
    ((*_CLAIM, "dataSourceRef"), "apiGroup", '""'),
)
"""(path in a volume, field, empty value) of optional fields that JobSet's webhook writes as null if they are absent."""
_LONGEST_NAME = 253
_LONGEST_PORTAL = 64  # of a volume and its iSCSI portal
_OF_FILES = ("secret", "configMap", "downwardAPI")
"""Kinds of a source that list their files."""
_SINCE_1_37 = ("clusterTrustBundle", "podCertificate")
"""Kinds of a source that the API server drops before Kubernetes 1.37: their feature gates were off by default."""
_OF_CERTIFICATES = ("credentialBundlePath", "keyPath", "certificateChainPath")
_LONGEST_OF_KUBERNETES = 24 * 60 * 60  # seconds
_READ_ONLY = ("Enabled", "IfPossible")


@check("pod/volume", severity=ERROR, needs=Pods)
def volume(pods: Pods) -> Iterator[Breach]:
    """Report a volume that the API server or the kubelet rejects.

    The check reports a source of a projected volume with two kinds, two sources that write a file at the same path, a
    long name of an iSCSI volume with an initiator or of a claim of a Pod, and an `emptyDir` with an unknown medium. The
    API server accepts any medium, but the kubelet cannot mount the volume, so the pod stays in ContainerCreating. In a
    JobSet or a runtime, a projected volume needs the list `sources`, and the data source of a claim needs an
    `apiGroup`, because the webhook of JobSet sets a missing field to null.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go validateProjectionSources; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateVolumeSource; kubernetes v1.34.2 pkg/volume/emptydir/empty_dir.go
    emptyDir.SetUpAt; api v0.36.2 core/v1/types.go ProjectedVolumeSource; api v0.36.2 core/v1/types.go
    TypedLocalObjectReference (JSON without omitempty)
    """
    for template in pods.templates:
        for number, body in indexed_mappings(template.spec.get("volumes")):
            path = (*template.path, "spec", "volumes", number)
            medium = mapping(body, "emptyDir").get("medium")
            if isinstance(medium, str) and not _MEDIUM.fullmatch(medium):
                yield Breach(
                    (*path, "emptyDir", "medium"),
                    f"{format_value(medium)} is not a medium of an `emptyDir`",
                    "the kubelet cannot mount the volume, so the pod stays in ContainerCreating",
                    "set `Memory`, `HugePages` or `HugePages-` with a page size, or remove the field",
                    value=medium,
                )
            yield from _long_names(template, path, body)
            if template.manifest.kind in _OF_JOB_SETS:
                yield from _nulls(path, body)
            for index, source in indexed_mappings(mapping(body, "projected").get("sources")):
                keys = [key for key, value in source.items() if value is not None and key not in _SINCE_1_37]
                if len(keys) > 1:
                    message = f"one source of the volume {format_value(body.get('name'))} has {format_names(keys)}"
                    place = (*path, "projected", "sources", index)
                    yield report(template, place, message, "write one source for each of these kinds")
            first: dict[str, Path] = {}
            for place, name in _projected_files((*path, "projected", "sources"), body):
                if first.setdefault(name, place) != place:
                    message = f"two sources of the volume {format_value(body.get('name'))} write the file `{name}`"
                    yield report(template, place, message, "choose another `path` for one of the files", name)


def _long_names(template: PodTemplate, path: Path, volume: Mapping[str, Any]) -> Iterator[Breach]:
    """Yield the breach of a volume whose name is too long together with the name of the pod or with a portal."""
    name, iscsi = volume.get("name"), mapping(volume, "iscsi")
    claim, portal = f"{template.manifest.name}-{name}", f"{name}:{iscsi.get('targetPortal')}"
    if template.manifest.kind == "Pod" and volume.get("ephemeral") and len(claim) > _LONGEST_NAME:
        message = f"the claim `{claim}` of the volume has {len(claim)} characters"
        fix = f"shorten the name of the pod or of the volume, so that the claim has at most {_LONGEST_NAME} characters"
        yield report(template, (*path, "name"), message, fix, name)
    if iscsi.get("initiatorName") is not None and len(portal.encode()) > _LONGEST_PORTAL:
        message = (
            f"`{portal}`, the name of the volume with `targetPortal`, is too long for a volume with `initiatorName`"
        )
        fix = f"shorten the name of the volume, so that this text has at most {_LONGEST_PORTAL} characters"
        yield report(template, (*path, "name"), message, fix, name)


def _nulls(path: Path, volume: Mapping[str, Any]) -> Iterator[Breach]:
    """Yield the fields of a volume that JobSet's webhook sets to null."""
    for steps, key, value in _NOT_OMITTED:
        parent = mapping(volume, *steps[:-1]).get(steps[-1])
        if isinstance(parent, dict) and key not in parent:
            message = f"`{steps[-1]}` of the volume {format_value(volume.get('name'))} has no `{key}`"
            why = "JobSet's webhook sets the field to null, and the API server rejects the JobSet, so no pod starts"
            yield Breach((*path, *steps), message, why, f"set `{key}`, at least to `{value}`")


def _projected_files(path: Path, volume: object) -> Iterator[tuple[Path, str]]:
    """Yield (path of the item, path of its file) for each file that the sources of a projected volume list."""
    for number, source in indexed_mappings(mapping(volume, "projected").get("sources")):
        for key in _OF_FILES:
            for index, item in indexed_mappings(mapping(source, key).get("items")):
                if isinstance(name := item.get("path"), str) and name:
                    yield (*path, number, key, "items", index, "path"), name


@check("pod/projected-source", severity=ERROR, needs=Pods, since="kubernetes 1.37")
def projected_source(pods: Pods) -> Iterator[Breach]:
    """Report a trust bundle or a certificate of a projected volume that the API server rejects.

    A source with `clusterTrustBundle` or `podCertificate` has no second kind. Its files have paths that no other source
    of the volume writes. A certificate needs at least one path, and a signer of Kubernetes issues it for 24 hours at
    most. Before Kubernetes 1.37, the API server removes both kinds without an error.

    Source: kubernetes v1.37.2 pkg/apis/core/validation/validation.go validateProjectionSources
    """
    for template in pods.templates:
        for number, volume in indexed_mappings(template.spec.get("volumes")):
            path = (*template.path, "spec", "volumes", number, "projected", "sources")
            yield from _mixed_sources(template, path, volume)
            yield from _certificates(template, path, volume)


def _mixed_sources(template: PodTemplate, path: Path, volume: Mapping[str, Any]) -> Iterator[Breach]:
    written = {file for _, file in _projected_files(path, volume)}
    for index, source in indexed_mappings(mapping(volume, "projected").get("sources")):
        kinds = [key for key, value in source.items() if value is not None]
        if len(kinds) > 1 and {*kinds} & {*_SINCE_1_37}:
            message = f"one source of the volume {format_value(volume.get('name'))} has {format_names(kinds)}"
            yield report(template, (*path, index), message, "write one source for each of these kinds")
        for kind, key in (("clusterTrustBundle", "path"), *(("podCertificate", key) for key in _OF_CERTIFICATES)):
            file = mapping(source, kind).get(key)
            if isinstance(file, str) and file in written:
                message = f"two sources of the volume {format_value(volume.get('name'))} write the file `{file}`"
                yield report(template, (*path, index, kind, key), message, f"choose another `{key}` here", file)
            elif isinstance(file, str) and file:
                written.add(file)


def _certificates(template: PodTemplate, path: Path, volume: Mapping[str, Any]) -> Iterator[Breach]:
    for index, source in indexed_mappings(mapping(volume, "projected").get("sources")):
        certificate = mapping(source, "podCertificate")
        if certificate and not any(certificate.get(key) for key in _OF_CERTIFICATES):
            message = f"the certificate of the volume {format_value(volume.get('name'))} has no path"
            fix = f"set {format_names(_OF_CERTIFICATES, 'or')}"
            yield report(template, (*path, index, "podCertificate"), message, fix)
        seconds, signer = certificate.get("maxExpirationSeconds"), str(certificate.get("signerName"))
        is_of_kubernetes = f".{signer.partition('/')[0]}".endswith(".kubernetes.io")
        if isinstance(seconds, int) and seconds > _LONGEST_OF_KUBERNETES and is_of_kubernetes:
            message = f"{seconds} seconds are more than the 24 hours of a certificate from `{signer}`"
            place = (*path, index, "podCertificate", "maxExpirationSeconds")
            yield report(template, place, message, f"set at most {_LONGEST_OF_KUBERNETES}", seconds)


@check("pod/mount", severity=ERROR, needs=Pods)
def mount(pods: Pods) -> Iterator[Breach]:
    """Report a volume mount or a volume device of a container that the API server rejects.

    The check reports a mount of an undefined volume, and options of a mount that exclude each other. The check also
    reports a block device (`volumeDevices`) whose volume is no claim, or whose volume or path another mount or block
    device of the container uses.

    A TrainJob can add a volume to its runtime, so an undefined volume of a runtime is a warning. Trainer adds the
    volumes for ssh keys and for the hostfile itself, a StatefulSet adds its `volumeClaimTemplates`, and JobSet adds the
    claims in `volumeClaimPolicies`.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateVolumeMounts; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidateVolumeDevices; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateMountPropagation; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go validateMountRecursiveReadOnly; kubernetes v1.34.2
    pkg/apis/apps/validation/validation.go ValidateStatefulSetSpec
    """
    for template, container in pods.containers:
        yield from _undefined_volumes(template, container)
        yield from _mount_options(template, container)
        yield from _devices(template, container)


def _sources(template: PodTemplate) -> dict[str, dict[str, object]]:
    """Return name → volume, for the volumes of the pods and the claims that StatefulSet or JobSet controllers add.

    Source: jobset v0.12.0 pkg/controllers/volume_claim_policy.go addVolumes
    """
    kind, spec = template.manifest.kind, mapping(template.manifest.body, "spec")
    names: list[str] = []
    if kind == "StatefulSet":
        names = [str(mapping(claim, "metadata").get("name")) for claim in mappings(spec.get("volumeClaimTemplates"))]
    elif kind in _OF_JOB_SETS:
        job_set = mapping(template.manifest.body, *map(str, template.path[:-5]))
        names = [name for _, name in find_volume_claims(job_set)]
    named: dict[str, dict[str, object]] = {name: {"persistentVolumeClaim": {}} for name in names}
    return {**named, **{str(volume.get("name")): volume for volume in mappings(template.spec.get("volumes"))}}


def _undefined_volumes(template: PodTemplate, container: Container) -> Iterator[Breach]:
    volumes = _sources(template)
    policies = mapping(template.manifest.body, "spec", "mlPolicy")
    added = [name for policy, names in _OF_TRAINER.items() if policy in policies for name in names]
    for key in ("volumeMounts", "volumeDevices"):
        for number, item in indexed_mappings(container.body.get(key)):
            name = item.get("name")
            if not isinstance(name, str) or not name or name in volumes:
                continue
            if template.is_of_runtime and name in added:
                continue
            defined = f"the pods define {format_names(volumes)}" if volumes else "the pods define no volume"
            yield report(
                template,
                (*container.path, key, number, "name"),
                f"the container {format_value(container.body.get('name'))} uses the volume {format_value(name)}, "
                f"but {defined}",
                "add the volume to `volumes` of the pods, or correct the name"
                + ("; or add the volume in `runtimePatches` of each TrainJob" if template.is_of_runtime else ""),
                name,
                severity=WARNING if template.is_of_runtime else None,
            )


@check("pod/variable-file", severity=ERROR, needs=Pods, since="kubernetes 1.35")
def variable_file(pods: Pods) -> Iterator[Breach]:
    """Report a variable from a file whose volume is not an `emptyDir` of the pods.

    `fileKeyRef` reads a file that an init container wrote to an `emptyDir`. Kubernetes 1.34 rejects `fileKeyRef`, see
    [workload/feature-gate](../workload/feature-gate.md).

    Source: kubernetes v1.37.2 pkg/apis/core/validation/validation.go validateFileKeyRefVolumes
    """
    for template, container in pods.containers:
        volumes = {str(volume.get("name")): volume for volume in mappings(template.spec.get("volumes"))}
        for number, item in indexed_mappings(container.body.get("env")):
            name = mapping(item, "valueFrom", "fileKeyRef").get("volumeName")
            if not isinstance(name, str) or not name or volumes.get(name, {}).get("emptyDir") is not None:
                continue
            variable, path = format_value(item.get("name")), (*container.path, "env", number, "valueFrom", "fileKeyRef")
            reason = "is not an `emptyDir`" if name in volumes else "is not in `volumes` of the pods"
            message = f"the variable {variable} reads a file of the volume {format_value(name)}, which {reason}"
            fix = "name an `emptyDir` of the pods, to which an init container writes the file"
            severity = WARNING if template.is_of_runtime and name not in volumes else None  # a TrainJob can add it
            yield report(template, (*path, "volumeName"), message, fix, name, severity=severity)


def _mount_options(template: PodTemplate, container: Container) -> Iterator[Breach]:
    for number, item in indexed_mappings(container.body.get("volumeMounts")):
        path = (*container.path, "volumeMounts", number)
        if item.get("subPath") and item.get("subPathExpr"):
            message = "a mount has both `subPath` and `subPathExpr`"
            yield report(template, (*path, "subPathExpr"), message, "remove one of the two fields")
        propagation = item.get("mountPropagation")
        if propagation == "Bidirectional" and container.security.get("privileged") is not True:
            message = "`mountPropagation` is `Bidirectional` in a container that is not privileged"
            fix = "set `HostToContainer`, or set `privileged: true` in the container"
            yield report(template, (*path, "mountPropagation"), message, fix, propagation)
        recursive = item.get("recursiveReadOnly")
        if recursive in _READ_ONLY and item.get("readOnly") is not True:
            message = f"`recursiveReadOnly` is `{recursive}`, but the mount is not read-only"
            yield report(template, (*path, "recursiveReadOnly"), message, "set `readOnly: true`", recursive)
        if recursive in _READ_ONLY and propagation not in (None, "", "None"):
            message = f"`recursiveReadOnly` is `{recursive}`, but the mount has `mountPropagation: {propagation}`"
            yield report(template, (*path, "recursiveReadOnly"), message, "remove `mountPropagation`", recursive)


def _devices(template: PodTemplate, container: Container) -> Iterator[Breach]:
    devices = indexed_mappings(container.body.get("volumeDevices"))
    mounts = mappings(container.body.get("volumeMounts")) if devices else ()
    volumes = _sources(template) if devices else {}
    names: set[object] = set()
    for number, item in devices:
        path, name = (*container.path, "volumeDevices", number), item.get("name")
        volume = volumes.get(str(name))
        if volume is not None and not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            message = f"the volume {format_value(name)} is used as a block device, but is not a claim"
            fix = "use a volume with `persistentVolumeClaim` or `ephemeral`, or move the entry to `volumeMounts`"
            yield report(template, (*path, "name"), message, fix, name)
        if name and (str(name) in names or any(mount.get("name") == name for mount in mounts)):
            message = f"the container uses the volume {format_value(name)} twice"
            fix = "keep one entry of the volume in `volumeMounts` and `volumeDevices`"
            yield report(template, (*path, "name"), message, fix, name)
        if (place := item.get("devicePath")) and any(mount.get("mountPath") == place for mount in mounts):
            message = f"the path {format_value(place)} is also the path of a mount"
            yield report(template, (*path, "devicePath"), message, "choose another `devicePath`", place)
        names.add(str(name))
