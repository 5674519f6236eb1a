"""workload/volume-claim: the specs of volume claims, in claims, StatefulSets, pods and JobSets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generator.checks.pod.templates import effect
from generator.checks.registry import ERROR, Breach, declare
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import JOB_SET, RUNTIMES, pod_templates
from generator.schemas.embedded import Engine
from generator.upstream.jobset.jobs import find_volume_claims

_REJECTED = "the API server rejects the object"
_STORED = (
    "the API server accepts the object, but rejects the claim: the JobSet creates no Job, and only an event "
    "`PVCCreationFailed` reports the error"
)
_CLAIM: Mapping[str, Any] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
_JOB_SETS: Mapping[str, Path] = {"JobSet": ("spec",), **dict.fromkeys(RUNTIMES, JOB_SET)}
_OF_DEFINITION = ("additionalProperties", "uniqueItems", "uniqueItemsBy")
"""Keywords of violations that the CustomResourceDefinition of a JobSet reports, or that no controller repeats."""
_COMPARED = ("apiGroup", "kind", "name")


def volume_claim(manifest: Manifest, engine: Engine, reported: Sequence[Breach]) -> Iterator[Breach]:
    """Report a volume claim that the API server rejects.

    `dataSource` and `dataSourceRef` of a claim name the same object, if both are set. A template in a StatefulSet or in
    a pod cannot set `dataSource` if `dataSourceRef` has a `namespace`.

    The API server stores the templates in `volumeClaimPolicies` of a JobSet or a runtime without validation, and
    rejects the claims that JobSet creates of them. So the check applies the schema of claims to these templates.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimSpec; kubernetes
    v1.34.2 pkg/api/persistentvolumeclaim/util.go DropDisabledFields; jobset v0.12.0
    pkg/controllers/volume_claim_policy.go JobSetReconciler.createPVCsIfNecessary
    """
    known = {(breach.path, breach.message) for breach in reported}
    for path, template in _stored_templates(manifest):
        for violation in engine.violations(_as_claim(template)) or ():
            place = (*path, *violation.path)
            if violation.keyword not in _OF_DEFINITION and (place, violation.message) not in known:
                yield Breach(
                    place,
                    violation.message,
                    _STORED,
                    violation.fix,
                    at_key=violation.keyword == "propertyNames",
                    value=None if violation.keyword == "required" else violation.value,
                    check="workload/volume-claim",
                )
        yield from _find_other_source((*path, "spec"), mapping(template, "spec"), _STORED, drops_reference=True)
    for path, why in _places(manifest):
        drops = manifest.kind == "PersistentVolumeClaim"
        yield from _find_other_source(path, _mapping_at(manifest, path), why, drops_reference=drops)


declare("workload/volume-claim", severity=ERROR, text=volume_claim)


def _stored_templates(manifest: Manifest) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield (path, template) of the claims that a JobSet creates."""
    if base := _JOB_SETS.get(manifest.kind):
        for path, _ in find_volume_claims(_mapping_at(manifest, base)):
            yield (*base, *path), _mapping_at(manifest, (*base, *path))


def _as_claim(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claim of a template, with a valid name. The webhook of JobSet validates the name."""
    own = mapping(template, "metadata")
    kept = {key: own[key] for key in ("labels", "annotations") if key in own}
    return {**_CLAIM, "metadata": {**kept, "name": "claim"}, "spec": template.get("spec")}


def _places(manifest: Manifest) -> Iterator[tuple[Path, str]]:
    """Yield (path, effect of a mistake) of the specs of claims that the API server validates with the object."""
    if (manifest.group, manifest.kind) == ("", "PersistentVolumeClaim"):
        yield ("spec",), _REJECTED
    if manifest.kind == "StatefulSet":
        templates = mapping(manifest.body, "spec").get("volumeClaimTemplates")
        for number, _ in indexed_mappings(templates):
            yield ("spec", "volumeClaimTemplates", number, "spec"), _REJECTED
    for template in pod_templates(manifest):
        for number, volume in indexed_mappings(template.spec.get("volumes")):
            if "ephemeral" in volume:
                path = (*template.path, "spec", "volumes", number, "ephemeral", "volumeClaimTemplate", "spec")
                yield path, effect(template)


def _mapping_at(manifest: Manifest, path: Path) -> Mapping[str, Any]:
    """Return the mapping at a path of an object; empty if there is none."""
    value: Any = manifest.body
    for step in path:
        value = value[step] if isinstance(step, int) else mapping(value).get(step)
    return mapping(value)


def _find_other_source(path: Path, spec: Mapping[str, Any], why: str, *, drops_reference: bool) -> Iterator[Breach]:
    """Yield the data source of a claim that differs from the reference of the same claim.

    Args:
        path: the path of the spec.
        spec: the spec of the claim.
        why: the effect.
        drops_reference: True if the API server ignores a reference to another namespace. The feature gate
            CrossNamespaceVolumeDataSource is off by default.
    """
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if not isinstance(source, dict) or not isinstance(reference, dict):
        return
    message, fix = "", ""
    if reference.get("namespace"):
        if not drops_reference:
            message = "`dataSource` is set beside a `dataSourceRef` with a `namespace`"
            fix = "remove `dataSource`"
    elif others := [key for key in _COMPARED if source.get(key) != reference.get(key)]:
        own, other = (_describe(others[0], body) for body in (source, reference))
        message = f"`dataSource` has {own}, but `dataSourceRef` has {other}"
        fix = "set one of the two fields, and remove the other"
    if message:
        yield Breach((*path, "dataSource"), message, why, fix, value=source, check="workload/volume-claim")


def _describe(key: str, reference: Mapping[str, Any]) -> str:
    """Return a field of a reference in words."""
    value = reference.get(key)
    return f"no `{key}`" if value is None else f"the `{key}` {format_value(value)}"
