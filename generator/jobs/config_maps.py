"""The data of the catalogue's ConfigMaps: the objects of a release on which jobs depend, for people who train.

The ConfigMap of a team has the objects of the team alone. Each Cohort, in the ConfigMap of the platform, has the total
of the quota below it. So the catalogue shows no ClusterQueue of another team, Kueue admits the same jobs on an idle
cluster, and a changed quota of a team changes no ConfigMap of another team. Objects with the values or the places of
secrets are left out, except for the name of the Secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from generator.errors import SimulationError
from generator.jobs.catalogue import Catalogue, Team
from generator.jobs.offer import describe_offer, example
from generator.manifests import Body, Manifest
from generator.objects.catalogue import OBJECTS, PACKED, TARGETS, as_lines, pack, part_of
from generator.objects.fields import mapping
from generator.objects.namespace import is_namespace
from generator.upstream.kueue.configuration import is_configuration
from generator.upstream.kueue.folded import fold_cohorts
from generator.upstream.kueue.queues import Node, QueueTree, build_quota_tree, read_queue_tree

_ABOUT, _EXAMPLE = "about", "example.yaml"
_SHARED = frozenset(
    {"AdmissionCheck", "ClusterRole", "ClusterTrainingRuntime", "DeviceClass", "MultiKueueConfig", "PriorityClass"}
) | {
    *("ProvisioningRequestConfig", "ResourceFlavor", "SecurityContextConstraints", "Topology", "WorkloadPriorityClass"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}
"""Cluster-scoped kinds that decide about the jobs of every team."""
_OF_TEAM = frozenset(
    {"ConfigMap", "LimitRange", "LocalQueue", "NetworkAttachmentDefinition", "NetworkPolicy", "PersistentVolumeClaim"}
) | {"ResourceClaimTemplate", "ResourceQuota", "Role", "RoleBinding", "ServiceAccount", "TrainingRuntime"}
"""Kinds in the namespaces of a team that decide about its jobs."""
_LARGE = ("ConfigMap", "TrainingRuntime")
"""Kinds of which a few objects can exceed the size of a ConfigMap."""
_SECRETS = frozenset({"ExternalSecret", "SealedSecret", "Secret"})
"""Kinds that become Secrets."""


def fill_catalogues(tree: Sequence[Manifest], targets: Mapping[str, str]) -> list[Manifest]:
    """Return the manifests of a release, in which each ConfigMap of a catalogue has its data.

    Args:
        tree: all manifests of the release.
        targets: component → minor version.
    """
    if not any(map(part_of, tree)):
        return [*tree]
    release = _Release(Catalogue(tree, targets))
    teams = {home.name: team for team in release.catalogue.teams.values() for home in team.homes}

    def fill(item: Manifest) -> Manifest:
        match part_of(item):
            case "platform":
                data = _shared_data(release)
            case "team" if team := teams.get(item.namespace):
                data = _team_data(team, release)
            case _:
                return item
        return replace(item, body={**item.body, **data})

    return [fill(item) for item in tree]


@dataclass(frozen=True)
class _Release:
    """The objects of a release, indexed once for all teams."""

    catalogue: Catalogue

    @cached_property
    def namespace(self) -> str:
        """The namespace of the catalogue that all teams share."""
        return next((item.namespace for item in self.catalogue.objects if part_of(item) == "platform"), "")

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """ClusterQueue → its node in the quota tree; empty if an amount is invalid."""
        return build_quota_tree(self.tree) if self.tree else {}

    @cached_property
    def tree(self) -> QueueTree | None:
        """The queues; None if an amount is invalid, which a check reports."""
        try:
            return read_queue_tree(self.catalogue.objects, self.catalogue.targets.get("kueue", ""))
        except SimulationError:
            return None

    @cached_property
    def queues(self) -> Mapping[str, Manifest]:
        """The ClusterQueues by name."""
        return {item.name: item for item in self.catalogue.objects if item.kind == "ClusterQueue"}

    @cached_property
    def cohorts(self) -> Mapping[str, Manifest]:
        """The Cohorts by name."""
        return {item.name: item for item in self.catalogue.objects if item.kind == "Cohort"}

    @cached_property
    def grants(self) -> Mapping[str, list[Manifest]]:
        """Folder, such as `tenants/team-cv` → its ClusterRoleBindings."""
        by_folder: dict[str, list[Manifest]] = {}
        for item in self.catalogue.objects:
            if item.kind == "ClusterRoleBinding":
                by_folder.setdefault(item.file.rpartition("/")[0], []).append(item)
        return by_folder


def _shared_data(release: _Release) -> Body:
    catalogue = release.catalogue
    bodies = [item.body for item in catalogue.objects if _is_shared(item)]
    bodies += fold_cohorts(release.nodes.values(), release.cohorts)
    targets = json.dumps({name: catalogue.targets[name] for name in sorted(catalogue.targets)})
    return {"data": {TARGETS: f"{targets}\n"}, "binaryData": {PACKED: pack(bodies)}}


def _team_data(team: Team, release: _Release) -> Body:
    catalogue, bodies = release.catalogue, [*_of_team(team, release)]
    large = [body for body in bodies if body["kind"] in _LARGE]
    return {
        "data": {
            _ABOUT: describe_offer(team, catalogue, release.tree, release.namespace),
            _EXAMPLE: example(team, catalogue),
            OBJECTS: as_lines(body for body in bodies if body["kind"] not in _LARGE),
        },
        **({"binaryData": {PACKED: pack(large)}} if large else {}),
    }


def _is_shared(item: Manifest) -> bool:
    if item.kind == "ClusterRoleBinding":
        return not item.file.startswith("tenants/")
    return item.kind in _SHARED or is_configuration(item)


def _of_team(team: Team, release: _Release) -> Iterator[Body]:
    """Yield the objects of a team."""
    for home in team.homes:
        for item in release.catalogue.of_namespace(home.name):
            if item.kind in _SECRETS:
                yield _without_values(item)
            elif (item.kind in _OF_TEAM or is_namespace(item)) and not part_of(item):
                yield item.body
    yield from (item.body for item in release.grants.get(f"tenants/{team.name}", ()))
    names = sorted(release.catalogue.queues_of(team))
    yield from (release.queues[name].body for name in names if name in release.queues)


def _without_values(item: Manifest) -> Body:
    """Return an object that becomes a Secret, with no more than the names of the object and of the Secret."""
    metadata = {"name": item.name, "namespace": item.namespace}
    body: Body = {"apiVersion": item.api_version, "kind": item.kind, "metadata": metadata}
    if target := mapping(item.body, "spec", "target").get("name"):
        body["spec"] = {"target": {"name": target}}
    return body
