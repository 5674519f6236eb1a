"""object/metadata, object/required-name, object/data: metadata and keys of ConfigMaps that the API server rejects.

Source: apimachinery v0.34.2 pkg/api/validation/objectmeta.go ValidateObjectMetaAccessor
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, string, strings
from generator.schemas.patterns import KEY
from generator.upstream.kubernetes.names import is_label

_REJECTED = "the API server rejects the object"
_STANDARD = ("foregroundDeletion", "kubernetes", "orphan")
_BUILTIN = frozenset(
    (
        *("", "apps", "autoscaling", "batch", "discovery.k8s.io", "networking.k8s.io", "rbac.authorization.k8s.io"),
        *("resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io"),
    )
)
"""Groups whose finalizers need a domain. Custom resources, webhooks and leases accept other names."""
_KEY = re.compile(KEY)
_READ = ("namespace", "finalizers", "ownerReferences", "annotations")
_MOST_ANNOTATIONS = 256 * 1024  # bytes of all keys and values


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of an object with a namespace, annotations, finalizers or owners.

    Attributes:
        group: the API group of the object.
        body: the metadata.
    """

    group: str
    body: Mapping[str, Any]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> Metadata | None:
        """Return the metadata of a manifest; None for an object without any of these fields."""
        body = manifest.body.get("metadata")
        is_known = isinstance(body, dict) and not body.keys().isdisjoint(_READ)
        return cls(manifest.group, mapping(body)) if is_known else None


@check("object/metadata", severity=ERROR, needs=Metadata)
def metadata(metadata: Metadata) -> Iterator[Breach]:
    """Report a namespace, annotations, finalizers or owner references that the API server rejects.

    The name of a namespace has at most 63 lower-case letters, digits and inner hyphens. A finalizer needs a domain,
    such as `example.com/keep`, except for the finalizers of Kubernetes. All annotations of an object together have at
    most 256 KiB. At most one owner of an object can be its
    controller. `orphan` and `foregroundDeletion` exclude each other.

    Source: apimachinery v0.34.2 pkg/api/validation/objectmeta.go ValidateFinalizers; apimachinery v0.34.2
    pkg/api/validation/objectmeta.go ValidateOwnerReferences; apimachinery v0.34.2 pkg/api/validation/objectmeta.go
    ValidateAnnotationsSize; apimachinery v0.34.2 pkg/api/validation/generic.go ValidateNamespaceName; kubernetes
    v1.34.2 pkg/apis/core/validation/validation.go validateKubeFinalizerName
    """
    namespace = string(metadata.body.get("namespace"))
    if namespace and not is_label(namespace, starts_with_letter=False):
        message = f"{format_value(namespace)} is not the name of a namespace"
        fix = "write at most 63 lower-case letters, digits and inner hyphens"
        why = f"no namespace can have this name, so {_REJECTED}"
        yield Breach(("metadata", "namespace"), message, why, fix, value=namespace)
    annotations = mapping(metadata.body.get("annotations"))
    size = sum(len(str(key).encode()) + len(string(value).encode()) for key, value in annotations.items())
    if size > _MOST_ANNOTATIONS:
        message = f"the annotations have {size} bytes, but an object can have {_MOST_ANNOTATIONS}"
        yield Breach(("metadata", "annotations"), message, _REJECTED, "keep this text in a ConfigMap or a Secret")
    yield from _finalizer_breaches(metadata)
    yield from _owner_breaches(metadata)


def _finalizer_breaches(metadata: Metadata) -> Iterator[Breach]:
    finalizers = strings(metadata.body.get("finalizers"))
    for path, message, fix, value in find_finalizer_faults(finalizers, needs_domain=metadata.group in _BUILTIN):
        yield Breach(("metadata", "finalizers", *path), message, _REJECTED, fix, value=value)


def find_finalizer_faults(
    finalizers: Sequence[str], *, needs_domain: bool
) -> Iterator[tuple[Path, str, str, str | list[str]]]:
    """Yield (path below `finalizers`, message, fix, value) of the finalizers that the API server rejects.

    Args:
        finalizers: the list.
        needs_domain: True for a built-in kind, whose finalizers need a domain.
    """
    for number, name in enumerate(finalizers):
        if not _KEY.fullmatch(name) or (needs_domain and "/" not in name and name not in _STANDARD):
            fix = "write a domain and a name, such as `example.com/keep`"
            yield (number,), f"`{name}` is not the name of a finalizer", fix, name
    if {"orphan", "foregroundDeletion"} <= {*finalizers}:
        message = "the finalizers `orphan` and `foregroundDeletion` exclude each other"
        yield (), message, "remove one of them", [*finalizers]


def _owner_breaches(metadata: Metadata) -> Iterator[Breach]:
    controller = ""
    for number, owner in indexed_mappings(metadata.body.get("ownerReferences")):
        path = ("metadata", "ownerReferences", number)
        for key in ("apiVersion", "kind", "name", "uid"):
            if owner.get(key) == "":
                yield Breach((*path, key), f"`{key}` of the owner is empty", _REJECTED, f"set `{key}`", value="")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            yield Breach(path, "the owner is an Event, which cannot own objects", _REJECTED, "remove this owner")
        if owner.get("controller") is True:
            name = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                message = f"`{controller}` and `{name}` are both controllers, but an object can have one"
                fix = "set `controller: true` in one reference only"
                yield Breach((*path, "controller"), message, _REJECTED, fix, value=True)
            controller = controller or name


_NAMED_BY_SPEC: Mapping[tuple[str, str], Sequence[Path]] = {
    ("apiregistration.k8s.io", "APIService"): (("spec", "version"), ("spec", "group")),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (("spec", "names", "plural"), ("spec", "group")),
}
"""(group, kind) → the fields of which the name of an object consists, with a dot between them."""


@dataclass(frozen=True, slots=True)
class NamedBySpec:
    """An object whose name consists of fields of its spec.

    Attributes:
        name: its name.
        required: the name that it needs.
        fields: the paths of the fields.
    """

    name: str
    required: str
    fields: Sequence[Path]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> NamedBySpec | None:
        """Return the name of an APIService or CustomResourceDefinition.

        Return None for another kind, an object without a name, and a field that is not a string.
        """
        fields = _NAMED_BY_SPEC.get((manifest.group, manifest.kind), ())
        parts = [mapping(manifest.body, *map(str, path[:-1])).get(str(path[-1]), "") for path in fields]
        if not (manifest.name and fields and all(isinstance(part, str) for part in parts)):
            return None
        return cls(manifest.name, ".".join(map(str, parts)), fields)


@check("object/required-name", severity=ERROR, needs=NamedBySpec)
def required_name(named: NamedBySpec) -> Iterator[Breach]:
    """Report an APIService or a CustomResourceDefinition whose name does not match its spec.

    The name of an APIService must be `spec.version`, a dot and `spec.group`, such as `v1beta1.metrics.k8s.io`. The name
    of a CustomResourceDefinition must be `spec.names.plural`, a dot and `spec.group`.

    Source: kube-aggregator v0.34.2 pkg/apis/apiregistration/validation/validation.go ValidateAPIService;
    apiextensions-apiserver v0.34.2 pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinition
    """
    if named.name != named.required:
        first, second = (".".join(map(str, path)) for path in named.fields)
        message = f"the name is {format_value(named.name)}, but `{first}` and `{second}` require `{named.required}`"
        fix = f"set the name to `{named.required}`, or correct these fields"
        yield Breach(("metadata", "name"), message, _REJECTED, fix, value=named.name)


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap.

    Attributes:
        body: the whole object.
    """

    body: Mapping[str, Any]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> ConfigMap | None:
        """Return the ConfigMap in a manifest; None for another kind."""
        return cls(manifest.body) if (manifest.group, manifest.kind) == ("", "ConfigMap") else None


@check("object/data", severity=ERROR, needs=ConfigMap)
def data(config_map: ConfigMap) -> Iterator[Breach]:
    """Report a key that is in both `data` and `binaryData` of a ConfigMap.

    Both fields become files of one folder, or variables of one container. So the API server accepts each key only once.

    Source: kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateConfigMap
    """
    for key in mapping(config_map.body, "data"):
        if key in mapping(config_map.body, "binaryData"):
            message = f"the key `{key}` is in both `data` and `binaryData`"
            yield Breach(("data", key), message, _REJECTED, "remove or rename one of the two keys", at_key=True)
