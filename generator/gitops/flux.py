"""Flux: the source and the Kustomizations of a platform, and the annotations of objects that Flux keeps.

An admin applies two objects: the GitRepository or OCIRepository, which names the revision, and the Kustomization of the
platform. The latter applies the other Kustomizations, one for each folder of the cluster and one for each team, at the
same revision.

- A Kustomization applies its folder in stages: ClusterRoles and Namespaces, then kinds such as DeviceClass, then the
  rest. It sends all objects of a stage as a dry run first, so one rejected object holds up its whole stage (
  fluxcd/pkg/ssa v0.61.0 manager_apply.go ResourceManager.ApplyAllStaged; fluxcd/pkg/ssa v0.61.0 manager_apply.go
  ResourceManager.ApplyAll). So each folder of the cluster has its own Kustomization.
- Users get rights only after the policies exist: the Kustomization of `cluster/access` depends on the Kustomizations of
  the policies, and all others depend on `cluster/access`. A dependency must have applied the same revision
  (kustomize-controller v1.7.3 internal/controller/kustomization_controller.go
  KustomizationReconciler.checkDependencies).
- Flux has no confirmation of deletions. It never deletes an object with the annotation `prune: disabled`, so an admin
  deletes such objects by hand. The annotation is on objects whose deletion loses data or that jobs use, and on the
  NetworkPolicy that denies all traffic, because the namespace stays as well.
- If a team leaves, Flux deletes its Kustomization and, because of `deletionPolicy: Orphan`, no other object. Otherwise
  Flux would delete the network policies of a namespace that stays (kustomize-controller v1.7.3
  internal/controller/kustomization_controller.go KustomizationReconciler.finalize).
- With `gitops.kubeConfig`, all Kustomizations are in the cluster of Flux, and all other objects in the cluster of the
  platform. Flux impersonates the account in both clusters. The Kustomization of the platform has no kubeconfig, because
  its objects are the other Kustomizations. Flux applies, prunes and waits for the health of objects with one client
  (fluxcd/pkg/runtime v0.91.0 client/impersonator.go Impersonator.clientForKubeConfig).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generator.config.model.cluster import GitOps
from generator.config.platform import Platform
from generator.errors import ConfigError, Problem
from generator.facts.kinds import KINDS
from generator.facts.names import (
    CATALOGUE_LABEL,
    CONFIRMED_DELETION,
    FLUX_KUSTOMIZATIONS,
    FLUX_PLATFORM,
    FLUX_PRUNE,
    FLUX_SOURCE,
    LONGEST_KUSTOMIZATION_NAME,
    SYNC_OPTIONS,
)
from generator.facts.table import read_table
from generator.gitops.argocd import find_tenant, is_applied
from generator.manifests import Body, Manifest, omit_none

_SOURCE_VERSION = "source.toolkit.fluxcd.io/v1"
_POLICIES = ("admission", "isolation")
"""Folders of `cluster/` with the policies that exist before any user gets rights."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_ACCESS = "access"
_QUEUES = "cluster/queues"
_ATTEMPTED = (
    "dep.status.conditions.exists(each, each.type == 'Ready' && each.status != 'Unknown' "
    "&& each.reason != 'DependencyNotReady')"
)
"""CEL that is true if Flux has tried to apply a dependency (`dep`), and does not try at present."""
_CLUSTER = "cluster"
_KEPT_KINDS = {(row.group, row.kind) for row in KINDS if row.pruning == "confirmed"}
_SYNC_OPTIONS = (SYNC_OPTIONS, CONFIRMED_DELETION)
_DENIES_ALL = ("networking.k8s.io", "NetworkPolicy", "np-default-deny")


@dataclass(frozen=True, slots=True)
class Part:
    """A folder of the release that one Kustomization applies.

    Attributes:
        folder: the folder, such as `cluster/queues`.
        name: the name of the Kustomization.
        manifests: the objects in the folder.
        tenant: the team; empty for a part of the cluster.
    """

    folder: str
    name: str
    manifests: tuple[Manifest, ...]
    tenant: str = ""


def annotate_for_flux(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Annotate the objects that Flux applies but never deletes, unless they have the annotation already."""
    return [_keep(item) if is_applied(item.file) and _is_kept(item) else item for item in manifests]


def _is_kept(item: Manifest) -> bool:
    is_of_kind = (item.group, item.kind) in _KEPT_KINDS and CATALOGUE_LABEL not in item.labels
    return is_of_kind or (item.group, item.kind, item.name) == _DENIES_ALL


def _keep(item: Manifest) -> Manifest:
    """Annotate an object, in place of the sync options of Argo CD that a builder sets."""
    metadata = item.body.get("metadata", {})
    given = {key: value for key, value in metadata.get("annotations", {}).items() if (key, value) != _SYNC_OPTIONS}
    annotations = {FLUX_PRUNE: "disabled", **given}
    return replace(item, body={**item.body, "metadata": {**metadata, "annotations": annotations}})


def flux_manifests(platform: Platform, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the objects of Flux for a release; empty if Flux is not the GitOps engine.

    Raises:
        ConfigError: an object is in a file that no Kustomization can apply.
    """
    gitops = platform.gitops
    if gitops is None or not gitops.is_flux:
        return []
    parts = find_parts(platform.platform, manifests)
    cluster = [part for part in parts if not part.tenant]
    return [
        Manifest(
            _oci_repository(platform, gitops) if gitops.is_oci else _git_repository(platform, gitops), FLUX_SOURCE
        ),
        Manifest(_kustomization_of_platform(platform, gitops), FLUX_PLATFORM),
        *(
            Manifest(
                _kustomization_of_part(platform, gitops, part, cluster),
                f"{FLUX_KUSTOMIZATIONS}/{'tenants' if part.tenant else 'cluster'}.yaml",
            )
            for part in parts
        ),
    ]


def find_parts(platform: str, manifests: Iterable[Manifest]) -> list[Part]:
    """Return the folders of a release that Flux applies, policies first and teams last.

    A folder is `cluster/<name>`, `tenants/<team>`, or another folder at the top of the release.

    Raises:
        ConfigError: an object is in a file that no Kustomization can apply.
    """
    by_folder: dict[str, list[Manifest]] = {}
    problems: list[Problem] = []
    for item in manifests:
        if is_applied(item.file):
            if folder := folder_of(item.file):
                by_folder.setdefault(folder, []).append(item)
            else:
                message = "no Kustomization of Flux applies this file, because it is in no folder of its own"
                problems.append(Problem(message, "put it into a folder such as site/, or `cluster/site/`", item.file))
    parts = [_part(platform, folder, items) for folder, items in by_folder.items()]
    by_name: dict[str, Part] = {}
    for part in parts:
        file = part.manifests[0].file
        if len(part.name) > LONGEST_KUSTOMIZATION_NAME or not _NAME.fullmatch(part.name):
            message = f"the folder `{part.folder}` gives its Kustomization the invalid name `{part.name}`"
            fix = f"use lower-case letters, digits and hyphens, at most {LONGEST_KUSTOMIZATION_NAME} in all"
            problems.append(Problem(message, fix, file))
        elif (other := by_name.setdefault(part.name, part)) is not part:
            message = f"the folders `{other.folder}` and `{part.folder}` give the same name to their Kustomizations"
            problems.append(Problem(message, "rename your folder", file))
    if problems:
        raise ConfigError(tuple(problems))
    return sorted(parts, key=_order)


def folder_of(file: str) -> str:
    """Return the folder whose Kustomization applies a file of the release; empty for a file at the top."""
    first, *rest = file.split("/")
    if first not in (_CLUSTER, "tenants"):
        return first if rest else ""
    return f"{first}/{rest[0]}" if len(rest) > 1 else ""


def _part(platform: str, folder: str, items: Sequence[Manifest]) -> Part:
    if tenant := find_tenant(items[0].file):
        return Part(folder, f"{platform}.{tenant}", tuple(items), tenant)
    return Part(folder, f"{platform}-{folder.removeprefix(f'{_CLUSTER}/')}", tuple(items))


def _order(part: Part) -> tuple[bool, bool, bool, str]:
    is_policy = part.folder in _folders(_POLICIES)
    return bool(part.tenant), not is_policy, part.folder != f"{_CLUSTER}/{_ACCESS}", part.name


def _folders(names: Iterable[str]) -> list[str]:
    return [f"{_CLUSTER}/{name}" for name in names]


def _metadata(platform: Platform, gitops: GitOps, name: str) -> Body:
    return {"name": name, "namespace": gitops.namespace_on(platform.cluster)}


def _oci_repository(platform: Platform, gitops: GitOps) -> Body:
    """Return the OCIRepository. Its artifact has the files of the release, and no folder around them.

    Each platform has a repository of its own in the registry, because several platforms can have the same version.
    """
    return {
        "apiVersion": _SOURCE_VERSION,
        "kind": "OCIRepository",
        "metadata": _metadata(platform, gitops, platform.platform),
        "spec": omit_none(
            {
                "interval": "1m",
                "timeout": "60s",
                "provider": "generic",
                "url": f"{gitops.repository}/{platform.platform}",
                "ref": gitops.flux_reference,
                "secretRef": {"name": gitops.secret} if gitops.secret else None,
            }
        ),
    }


def _git_repository(platform: Platform, gitops: GitOps) -> Body:
    """Return the GitRepository, whose artifact has only the folder of this platform."""
    return {
        "apiVersion": _SOURCE_VERSION,
        "kind": "GitRepository",
        "metadata": _metadata(platform, gitops, platform.platform),
        "spec": omit_none(
            {
                "interval": "1m",
                "timeout": "60s",
                "url": gitops.repository,
                "ref": gitops.flux_reference,
                "secretRef": {"name": gitops.secret} if gitops.secret else None,
                "sparseCheckout": [f"{gitops.path}/{platform.platform}"],
            }
        ),
    }


def _kustomization_of_platform(platform: Platform, gitops: GitOps) -> Body:
    """Return the Kustomization that applies the other Kustomizations.

    It does not apply its own manifest and the source, because the manifest at a tag names the tag of an earlier
    release. With `Orphan`, its deletion deletes no other Kustomization.
    """
    rest = {"prune": True, "deletionPolicy": "Orphan"}
    return _kustomization(platform, gitops, platform.platform, FLUX_KUSTOMIZATIONS, rest)


def _kustomization_of_part(platform: Platform, gitops: GitOps, part: Part, cluster: Sequence[Part]) -> Body:
    rest = {
        "kubeConfig": {"secretRef": {"name": gitops.kube_config}} if gitops.kube_config else None,
        "prune": True,
        "deletionPolicy": "Orphan" if part.tenant else "MirrorPrune",
        "dependsOn": [*_dependencies(part, cluster)] or None,
        "wait": part.folder != _QUEUES,
        "healthCheckExprs": health_checks(part.manifests) or None,
    }
    return _kustomization(platform, gitops, part.name, part.folder, rest)


def _dependencies(part: Part, cluster: Sequence[Part]) -> Iterator[Body]:
    """Yield the `dependsOn` of a part: policies come before access, and access before all others.

    A team also waits until Flux has tried to apply the queues, because its ClusterQueue is inactive without flavors. No
    part waits until queues, networks or runtimes are ready, so their faults do not delay a revocation.
    """
    by_folder = {other.folder: other.name for other in cluster}
    policies = [by_folder[folder] for folder in _folders(_POLICIES) if folder in by_folder]
    access, queues = by_folder.get(f"{_CLUSTER}/{_ACCESS}"), by_folder.get(_QUEUES)
    if part.folder in _folders(_POLICIES):
        return
    yield from ({"name": name} for name in ([access] if access and part.name != access else policies))
    if part.tenant and queues:
        yield {"name": queues, "readyExpr": _ATTEMPTED}


def _kustomization(platform: Platform, gitops: GitOps, name: str, folder: str, rest: Body) -> Body:
    """Return a Kustomization.

    - `timeout`: a Kustomization that waits for the health of its objects occupies one of the 4 workers of
      kustomize-controller (kustomize-controller v1.7.3 main.go `concurrent`). So the queues have no `wait`, and the
      expressions of flux_health.yaml fail at once where the fault does not end by itself.
    - `force` is false, as by default: Flux never deletes and creates an object again to change an immutable field.
    """
    account = gitops.account_on(platform.cluster).rpartition("/")[2]
    source, root = (
        ("OCIRepository", ".") if gitops.is_oci else ("GitRepository", f"./{gitops.path}/{platform.platform}")
    )
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": _metadata(platform, gitops, name),
        "spec": omit_none(
            {
                "interval": "10m",
                "retryInterval": "1m",
                "timeout": "2m",
                "path": f"{root}/{folder}",
                "sourceRef": {"kind": source, "name": platform.platform},
                "serviceAccountName": account,
                "force": False,
                **rest,
            }
        ),
    }


def health_checks(manifests: Iterable[Manifest]) -> list[Body]:
    """Return the `healthCheckExprs` for the kinds of some objects (flux_health.yaml)."""
    versions = {(item.group, item.kind): item.api_version for item in manifests}
    rows: list[dict[str, Any]] = read_table("flux_health")["kinds"]
    return [
        {
            "apiVersion": versions[row["group"], row["kind"]],
            "kind": row["kind"],
            **{key: row[key] for key in ("failed", "current") if key in row},
        }
        for row in rows
        if (row["group"], row["kind"]) in versions
    ]
