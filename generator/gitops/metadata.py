"""The comment at the top of each generated file, and the owner labels and Argo CD sync wave of each manifest.

Argo CD waits until a wave is healthy before the next. A ClusterQueue is inactive without its flavors and checks, a
flavor needs its topology, a LocalQueue its ClusterQueue, and a namespace must be closed before jobs can enter it. The
last wave holds objects that others must fill: a SecretStore without a login is Degraded, and a claim is Progressing
until its first pod. No object waits for them, because the mistake of one team would hold up all teams: Argo CD applies
the last wave and is done (argo-cd v3.2.1, gitops-engine 13d5172 pkg/sync/sync_context.go `Sync`,
pkg/health/health_pvc.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import BaseModel

from generator.config.platform import Platform
from generator.documents.messages import shorten
from generator.facts.names import MANAGED_BY, PART_OF
from generator.facts.table import read_table
from generator.gitops.argocd import NOT_APPLIED
from generator.manifests import Manifest

_SHARED_KINDS = ("ClusterRole", "WorkloadPriorityClass")
"""Kinds whose names do not depend on the platform: where there are several on one cluster, these are of all of them."""


def label_owner(manifests: Iterable[Manifest], platform: str) -> list[Manifest]:
    """Label each manifest as generated for this platform."""
    return [
        _label(manifest, MANAGED_BY if manifest.kind in _SHARED_KINDS else {**MANAGED_BY, PART_OF: platform})
        for manifest in manifests
    ]


def _label(manifest: Manifest, labels: dict[str, str]) -> Manifest:
    metadata = manifest.body["metadata"]
    named = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    labelled = {**named, "labels": {**metadata.get("labels", {}), **labels}}
    rest = {key: value for key, value in metadata.items() if key not in labelled}
    return replace(manifest, body={**manifest.body, "metadata": {**labelled, **rest}})


WAVE_ANNOTATION = "argocd.argoproj.io/sync-wave"
WAVES = {
    "ValidatingAdmissionPolicy": -6,  # one may hold in a namespace what nothing else does
    "ValidatingAdmissionPolicyBinding": -6,
    "Namespace": -5,
    "ServiceAccount": -4,
    "SecurityContextConstraints": -4,
    "ClusterRole": -4,
    "ClusterRoleBinding": -3,
    "RoleBinding": -3,
    "NetworkPolicy": -3,
    "CiliumNetworkPolicy": -3,
    "AdminNetworkPolicy": -3,
    "BaselineAdminNetworkPolicy": -3,
    "ResourceQuota": -3,
    "LimitRange": -3,
    "Topology": -3,
    "WorkloadPriorityClass": -3,
    "ProvisioningRequestConfig": -3,
    "MultiKueueCluster": -3,
    "MultiKueueConfig": -3,
    "KubeletConfig": -4,
    "MachineConfig": -4,
    "PerformanceProfile": -4,
    "SriovNetworkPoolConfig": -4,  # says how many nodes go at a time when what follows takes them
    "SriovNetworkNodePolicy": -3,
    "NicNodePolicy": -3,
    "IPPool": -3,
    "DeviceClass": -3,
    "AdmissionCheck": -2,
    "NetworkAttachmentDefinition": -2,
    "ResourceClaimTemplate": -2,
    "SriovIBNetwork": -2,
    "SriovNetwork": -2,
    "ResourceFlavor": -2,
    "Cohort": -2,
    "ClusterQueue": -1,
    "SecretStore": 1,
    "ExternalSecret": 1,
    "PersistentVolumeClaim": 1,
}
"""Kind → wave; every other kind is in wave 0."""


def annotate_waves(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Annotate each manifest that is applied with its wave, unless it has one already."""
    return [manifest if manifest.file in NOT_APPLIED else _annotate_wave(manifest) for manifest in manifests]


def _annotate_wave(manifest: Manifest) -> Manifest:
    metadata = manifest.body.get("metadata", {})
    annotations = metadata.get("annotations", {})
    wave = WAVES.get(manifest.kind)
    if wave is None or WAVE_ANNOTATION in annotations:
        return manifest
    marked = {**metadata, "annotations": {**annotations, WAVE_ANNOTATION: str(wave)}}
    return replace(manifest, body={**manifest.body, "metadata": marked})


_WIDEST = 100  # columns
_LONGEST_FILE_NAME = 40  # characters
_STEP = re.compile(r"(?P<field>\w+)(?:\[(?P<name>[^\]]+)\])?")
_CAMEL = re.compile(r"(?=[A-Z])")


class Headers:
    """The comments of the files of one platform.

    Args:
        platform: the platform.
        platform_file: the name of its file, such as `platform.yaml`.
    """

    def __init__(self, platform: Platform, platform_file: str) -> None:
        self._platform = platform
        self._file = shorten(platform_file, _LONGEST_FILE_NAME)
        self._named = {
            (field, entry.name): entry
            for field in ("fabrics", "runtimes", "tenants")
            for entry in getattr(platform, field)
        }

    def add(self, texts: Mapping[str, str], folder: str = "") -> dict[str, str]:
        """Return the texts of generated files, each with its comment in place of the first `---`.

        Args:
            texts: path → YAML text.
            folder: the folder that the paths are relative to, with a final slash.
        """
        return {path: self.header(folder + path) + text.removeprefix("---\n") for path, text in texts.items()}

    def header(self, path: str) -> str:
        """Return the two lines of comment for a file."""
        row, names = _find_row(path)
        if row is None:
            content, readers, source = "Objects that the platform file adds.", "platform admins", self._file
        else:
            content, readers = f"{row['holds'].format(**names)}.", row["for"]
            source = self._source([section.format(**names) for section in row["sections"]])
        return _comment(f"{content} For {readers}.", content) + _comment(
            f"Source: {source}. Generated by mpigen: edit that file instead.",
            f"Source: {source}. Generated by mpigen.",
            f"Source: {source}",
        )

    def _source(self, sections: list[str]) -> str:
        declared = [self._declared(section) for section in sections]
        whole = [section for section, reference in zip(sections, declared, strict=True) if section == reference]
        if section := next(iter(whole), declared[0]):
            return f"{section} in {self._file}"
        return self._file if "[" in sections[0] else f"{self._file} ({sections[0]}: default)"

    def _declared(self, section: str) -> str:
        """Return the longest part of a section that the platform file sets; empty if it sets none of it."""
        node: Any = self._platform
        steps: list[str] = []
        for step in section.split("."):
            match = _STEP.fullmatch(step)
            field = _CAMEL.sub("_", match["field"]).lower() if match else ""
            if match is None or not isinstance(node, BaseModel) or field not in node.model_fields_set:
                break
            node = self._named.get((field, match["name"])) if match["name"] else getattr(node, field)
            if node is None:
                break
            steps.append(step)
        return ".".join(steps)


def _comment(*variants: str) -> str:
    """Return the first variant that fits into a line of comment; the last one is cut to fit."""
    fitting = (text for text in variants if len(text) <= _WIDEST - 2)
    return f"# {next(fitting, None) or shorten(variants[-1], _WIDEST - 2)}\n"


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    return {row["path"]: row for row in read_table("output_files")["files"]}


def _find_row(path: str) -> tuple[Mapping[str, Any] | None, Mapping[str, str]]:
    """Return the row of a path, and the names that the path has in place of `{tenant}` and `{name}`."""
    folders = path.split("/")
    names = {"name": folders[-1].removesuffix(".yaml"), "tenant": folders[1] if len(folders) > 1 else ""}
    if folders[0] == "tenants":
        folders[1] = "{tenant}"
    for last in (folders[-1], "{name}.yaml"):
        if row := _rows().get("/".join([*folders[:-1], last])):
            return row, names
    return None, names
