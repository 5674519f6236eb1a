"""A renamed platform: the objects of the earlier release under the names that the new release gives them.

The name of a platform stands in the label `app.kubernetes.io/part-of`, in the names of admission policies, cohorts and
objects of the GitOps engine, and in the fields that refer to them. tests/unit/test_platform_name.py renames each
example, and compares the result with a release that has the new name from the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from generator.documents.load import Path
from generator.facts.names import CATALOGUE_LABEL, PART_OF, REMOTE_COHORT
from generator.manifests import Manifest
from generator.objects.fields import mapping, string

_RELEASE = ("mpigen.dev", "Release")
_ADMISSION = "admissionregistration.k8s.io"
_ARGOCD = "argoproj.io"
_FLUX = "kustomize.toolkit.fluxcd.io"
_FLUX_SOURCE = "source.toolkit.fluxcd.io"
_KUEUE = "kueue.x-k8s.io"
_NAME = ("metadata", "name")
_FIELDS: Mapping[tuple[str, str], Sequence[tuple[str, ...]]] = {
    (_ADMISSION, "ValidatingAdmissionPolicy"): (
        _NAME,
        ("spec", "variables", "*", "expression"),
        ("spec", "validations", "*", "messageExpression"),
    ),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): (_NAME, ("spec", "policyName")),
    _RELEASE: (_NAME,),
    (_KUEUE, "Cohort"): (_NAME, ("spec", "parentName")),
    (_KUEUE, "ClusterQueue"): (("spec", "cohortName"),),
    (_ARGOCD, "AppProject"): (_NAME, ("spec", "description")),
    (_ARGOCD, "Application"): (_NAME, ("spec", "project"), ("spec", "source", "path")),
    (_ARGOCD, "ApplicationSet"): (
        _NAME,
        ("spec", "generators", "*", "git", "directories", "*", "path"),
        ("spec", "template", "metadata", "name"),
        ("spec", "template", "spec", "project"),
    ),
    (_FLUX_SOURCE, "GitRepository"): (_NAME, ("spec", "sparseCheckout", "*")),
    (_FLUX_SOURCE, "OCIRepository"): (_NAME, ("spec", "url")),
    (_FLUX, "Kustomization"): (
        _NAME,
        ("spec", "path"),
        ("spec", "sourceRef", "name"),
        ("spec", "dependsOn", "*", "name"),
    ),
}
"""(group, kind) → the fields that contain the name of the platform; `*` is the position in a list."""
_OF_CATALOGUE: Mapping[str, Sequence[tuple[str, ...]]] = {
    "Namespace": (_NAME,),
    "ConfigMap": (("metadata", "namespace"),),
}
"""Kind of an object of a catalogue → its fields that contain the name of the platform."""
_PATHS = ("path", "sparseCheckout", "url")
_EXPRESSIONS = ("expression", "messageExpression")


def find_rename(old: Sequence[Manifest], new: Sequence[Manifest]) -> tuple[str, str] | None:
    """Return (earlier name, name) of the platform if the new release renames the platform of the old one; else None."""
    before, after = (_read_lock(side) for side in (old, new))
    names = string(before.get("platform")), string(after.get("platform"))
    return names if names[0] and names[0] != names[1] and names[0] == after.get("predecessor") else None


def find_predecessor(manifests: Sequence[Manifest]) -> str:
    """Return the earlier name of the platform of a release; empty if its platform file has no `renamedFrom`."""
    return string(_read_lock(manifests).get("predecessor"))


def _read_lock(manifests: Sequence[Manifest]) -> Mapping[str, Any]:
    return next((mapping(item.body, "spec") for item in manifests if (item.group, item.kind) == _RELEASE), {})


def rename_objects(old: Sequence[Manifest], new: Sequence[Manifest]) -> Sequence[Manifest]:
    """Return the objects of the old release under the new name of the platform.

    If the new release does not rename the platform, return the objects of the old release. The lock gets the new name,
    and keeps its `spec`. An object whose old name the new release has too, such as one of the user, keeps its name.
    A catalogue gets the content of the new release: it repeats other objects.
    """
    names = find_rename(old, new)
    if names is None:
        return old
    kept = {item.identity for item in new}
    contents = {item.identity: item.body for item in new if _is_catalogue(item)}
    renamed = (_rename(item, *names, kept) for item in old)
    return [
        replace(item, body={**contents[item.identity], "metadata": item.body["metadata"]})
        if item.identity in contents
        else item
        for item in renamed
    ]


def _is_catalogue(item: Manifest) -> bool:
    return (item.group, item.kind) == ("", "ConfigMap") and CATALOGUE_LABEL in item.labels


def find_renamed(old: Sequence[Manifest], new: Sequence[Manifest], earlier: str, name: str) -> list[Manifest]:
    """Return the objects of the new release that had another name in the old one, without the lock.

    Args:
        old: the objects of the old release, under the new name of the platform.
        new: the objects of the new release.
        earlier: the earlier name of the platform.
        name: the new name of the platform.
    """
    before = {item.identity for item in old if (item.group, item.kind) != _RELEASE}
    return [item for item in new if item.identity in before and _rename(item, name, earlier).identity != item.identity]


def _rename(
    item: Manifest, earlier: str, name: str, kept: AbstractSet[tuple[str, str, str, str]] = frozenset()
) -> Manifest:
    fields, names = _FIELDS.get((item.group, item.kind), ()), _Names(item, earlier, name)
    if CATALOGUE_LABEL in item.labels:
        fields = _OF_CATALOGUE.get(item.kind, ())
    renamed = replace(item, body=_renamed(item.body, (), fields, names))
    if renamed.identity != item.identity and item.identity in kept:
        return replace(item, body=_renamed(item.body, (), (), names))
    return renamed


class _Names:
    """The replacement of the name of the platform in the fields of an object."""

    def __init__(self, item: Manifest, earlier: str, name: str) -> None:
        self._earlier, self._name = earlier, name
        self._is_reserved = item.name == f"{earlier}-reserved"
        self._cohorts = {earlier: name, earlier + REMOTE_COHORT: name + REMOTE_COHORT}
        self._is_of_kueue = item.group == _KUEUE

    def replace(self, field: str, value: str) -> str:
        """Return the value of a field with the new name."""
        earlier = re.escape(self._earlier)
        if self._is_of_kueue:
            return self._cohorts.get(value, value)
        if field in _EXPRESSIONS:
            pattern = rf"(?<=')(?:{earlier})(?=['.-])|(?<= of ){earlier}(?=;)"
            return re.sub(pattern, self._name, value) if self._is_reserved else value
        if field in _PATHS:
            return re.sub(rf"^(.*/|){earlier}(?=/|$)", rf"\g<1>{self._name}", value, count=1)
        return re.sub(rf"^{earlier}(?=[-.]|$)|(?<= ){earlier}(?=:)", self._name, value)

    def label(self, value: object) -> object:
        """Return the value of the label `app.kubernetes.io/part-of` with the new name."""
        return self._name if value == self._earlier else value


def _renamed(value: Any, path: Path, fields: Sequence[tuple[str, ...]], names: _Names) -> Any:
    if isinstance(value, dict):
        return {
            key: names.label(item) if key == PART_OF else _renamed(item, (*path, key), fields, names)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_renamed(item, (*path, "*"), fields, names) for item in value]
    if isinstance(value, str) and path in fields:
        return names.replace(next(str(step) for step in reversed(path) if step != "*"), value)
    return value
