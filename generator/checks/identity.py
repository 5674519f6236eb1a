"""object/duplicate and object/missing-namespace: objects of any kind that the files repeat or lack."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import NamedTuple

from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.checks.unmatched import is_typo
from generator.facts.names import MANAGED_BY, PART_OF
from generator.manifests import Manifest
from generator.objects.devices import PREFIXES
from generator.objects.fields import mapping
from generator.schemas.catalog import Catalog

_OF_TEAMS = (("", "LimitRange"), ("", "ResourceQuota"), ("kueue.x-k8s.io", "LocalQueue"))
"""The kinds that show that a namespace is for a team."""
_GIVEN = ("default", "kube-*", "openshift-*", "*-system", "*-operator", "*-operators")
"""Patterns of the namespaces that Kubernetes, OpenShift and installers create."""
_INSTALLED = frozenset(("argocd", "jobset-system", "kubeflow-system", "kueue-system", *PREFIXES))
"""Namespaces of the installers of Argo CD, JobSet, Trainer, Kueue and network operators."""


class AllKinds(NamedTuple):
    """The objects of all kinds in the files.

    Attributes:
        objects: the objects.
    """

    objects: Objects

    @classmethod
    def read(cls, objects: Objects) -> AllKinds:
        """Return the objects."""
        return cls(objects)


@check("object/duplicate", severity=ERROR, needs=AllKinds)
def duplicate(everything: AllKinds) -> Iterator[Breach]:
    """Report two objects with the same group, kind, namespace and name.

    The object that is applied last replaces the other one, and kustomize rejects the tree. Different clusters, and
    variants of a job, have such objects too. So outside of a complete release of mpigen, the check reports only objects
    of one platform of mpigen, and objects in one file. The finding is then a warning.

    Source: argo-cd v3.2.1 controller/state.go DeduplicateTargetObjects; kustomize/api v0.20.1
    resmap/reswrangler.go resWrangler.Append
    """
    is_release = everything.objects.is_complete
    first: dict[tuple[str, str, str, str], Manifest] = {}
    catalog = Catalog.bundled(everything.objects.targets)
    for manifest in everything.objects.manifests:
        group, kind, namespace, name = manifest.identity
        is_cluster_scoped = namespace and catalog.scope(manifest.api_version, kind) == "Cluster"
        other = first.setdefault((group, kind, "" if is_cluster_scoped else namespace, name), manifest)
        if other is manifest or not manifest.name or not (is_release or _is_together(manifest, other)):
            continue
        yield Breach(
            ("metadata",),
            f"an object with the same kind, namespace and name is also in {other.file or 'standard input'}",
            "the object that is applied last replaces the other object, and Argo CD never finds both in sync",
            "rename or remove one of the two objects",
            manifest,
            ERROR if is_release else WARNING,
        )


def _is_together(manifest: Manifest, other: Manifest) -> bool:
    """Return True if both objects are certainly for the same cluster."""
    if manifest.file == other.file:
        return True
    labels, labels_of_other = (mapping(item.body, "metadata", "labels") for item in (manifest, other))
    is_ours = labels.items() >= MANAGED_BY.items() and bool(labels.get(PART_OF))
    return is_ours and labels.get(PART_OF) == labels_of_other.get(PART_OF)


@check("object/missing-namespace", severity=WARNING, needs=AllKinds)
def missing_namespace(everything: AllKinds) -> Iterator[Breach]:
    """Report a namespace that no file creates, although the files create other namespaces.

    The API server rejects all objects in the namespace. The check reports each namespace once:

    - the namespace of a LocalQueue, a ResourceQuota or a LimitRange;
    - in a complete release of mpigen, the namespace of an object in the folder of another Namespace;
    - a namespace whose name looks like a misspelling of a namespace that the files create or that an installer of
      Argo CD, Kueue, Trainer or a network operator creates.

    The finding is a warning, because the namespace may exist in the cluster. The check leaves out the namespaces of
    Kubernetes, OpenShift and operators.

    Source: apiserver v0.34.2 pkg/admission/plugin/namespace/lifecycle/admission.go Lifecycle.Admit
    """
    objects = everything.objects
    namespaces = objects.of("", "Namespace")
    created = {namespace.name for namespace in namespaces}
    folders = {PurePath(namespace.file).parent for namespace in namespaces if objects.is_complete} - {PurePath()}
    reported = {"", *created, *_INSTALLED}
    misspelt: dict[str, list[str]] = {}
    catalog = Catalog.bundled(objects.targets)
    for manifest in objects.manifests if created else ():
        name = manifest.namespace
        if name in reported or catalog.scope(manifest.api_version, manifest.kind) == "Cluster":
            continue
        if any(fnmatchcase(name, pattern) for pattern in _GIVEN):
            continue
        if name not in misspelt:
            misspelt[name] = [one for one in sorted({*created, *_INSTALLED}) if is_typo(name, one)]
        is_of_team = (manifest.group, manifest.kind) in _OF_TEAMS or PurePath(manifest.file).parent in folders
        if not (is_of_team or misspelt[name]):
            continue
        reported.add(name)
        fix = "add the Namespace" + (f", or correct the name to `{misspelt[name][0]}`" if misspelt[name] else "")
        yield Breach(
            ("metadata", "namespace"),
            f"no file creates the Namespace `{name}`, although the files create other Namespaces",
            "the API server rejects every object in a namespace that does not exist",
            fix if objects.is_complete else f"{fix}; if another folder has it, pass both folders to mpigen",
            manifest,
            value=name,
        )
