"""The catalogue in ConfigMaps: the objects of a release on which jobs depend, as people who train can read them.

The ConfigMap of a platform has the objects that all teams share, compressed, because runtimes and admission policies
would exceed the limit of 1 MiB (kubernetes v1.34.2 pkg/apis/core/validation/validation.go ValidateConfigMap). The
compression is bzip2: its result is the same on every machine, which zlib does not promise.

The ConfigMap of a team has the objects of the team alone. The quota that other teams lend becomes quota of the cohort,
so the catalogue shows no ClusterQueue of another team, and Kueue admits the same jobs on an idle cluster. Objects with
the values or the places of secrets are left out, except for the name of the Secret.
"""

from __future__ import annotations

import base64
import bz2
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from generator.documents.messages import format_names
from generator.errors import DocumentError, Problem, SimulationError
from generator.facts.names import (
    CATALOGUE,
    CATALOGUE_LABEL,
    CATALOGUE_NAMESPACE,
    PART_OF,
    TEAM_CATALOGUE,
)
from generator.jobs.catalogue import Catalogue, Team
from generator.jobs.offer import describe_offer, example
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, string, string_map
from generator.objects.namespace import is_namespace
from generator.upstream.kueue.configuration import is_configuration
from generator.upstream.kueue.folded import fold_cohorts, with_guarantees
from generator.upstream.kueue.queues import Node, QueueTree, build_quota_tree, read_queue_tree

_OBJECTS, _PACKED, _TARGETS = "objects.json", "objects.json.bz2", "targets.json"
_ABOUT, _EXAMPLE = "about", "example.yaml"
_LARGEST = 64 * 1024**2  # bytes
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
_QUEUES = ("ClusterQueue", "LocalQueue")
_SECRETS = frozenset({"ExternalSecret", "SealedSecret", "Secret"})
"""Kinds that become Secrets."""


class Unpacked(NamedTuple):
    """The objects of manifests, with the objects that catalogues among them contain.

    Attributes:
        objects: the objects, without the catalogues.
        targets: component → minor version; empty without a catalogue.
        is_complete: True if the objects include a catalogue, so that an absent object of the team does not exist.
    """

    objects: list[Manifest]
    targets: dict[str, str]
    is_complete: bool


def fill_catalogues(tree: Sequence[Manifest], targets: Mapping[str, str]) -> list[Manifest]:
    """Return the manifests of a release, in which each ConfigMap of a catalogue has its data.

    Args:
        tree: all manifests of the release.
        targets: component → minor version.
    """
    if not any(map(_part_of, tree)):
        return [*tree]
    release = _Release(Catalogue(tree, targets))
    teams = {home.name: team for team in release.catalogue.teams.values() for home in team.homes}

    def fill(item: Manifest) -> Manifest:
        match _part_of(item):
            case "platform":
                data = _shared_data(release.catalogue)
            case "team" if team := teams.get(item.namespace):
                data = {"data": _team_data(team, release)}
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
        return next((item.namespace for item in self.catalogue.objects if _part_of(item) == "platform"), "")

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


def _part_of(item: Manifest) -> str:
    """Return `platform` or `team` for a ConfigMap of a catalogue; else an empty text."""
    return string(item.labels.get(CATALOGUE_LABEL)) if (item.group, item.kind) == ("", "ConfigMap") else ""


def _shared_data(catalogue: Catalogue) -> Body:
    targets = json.dumps({name: catalogue.targets[name] for name in sorted(catalogue.targets)})
    objects = _lines(item.body for item in catalogue.objects if _is_shared(item))
    packed = base64.b64encode(bz2.compress(objects.encode())).decode()
    return {"data": {_TARGETS: f"{targets}\n"}, "binaryData": {_PACKED: packed}}


def _team_data(team: Team, release: _Release) -> Mapping[str, str]:
    catalogue = release.catalogue
    queues = (release.tree, release.nodes) if release.tree else None
    return {
        _ABOUT: describe_offer(team, catalogue, queues, release.namespace),
        _EXAMPLE: example(team, catalogue),
        _OBJECTS: _lines(_of_team(team, release)),
    }


def _lines(bodies: Iterable[Body]) -> str:
    return "".join(f"{json.dumps(body, separators=(',', ':'), ensure_ascii=False)}\n" for body in bodies)


def _is_shared(item: Manifest) -> bool:
    if item.kind == "ClusterRoleBinding":
        return not item.file.startswith("tenants/")
    return item.kind in _SHARED or is_configuration(item)


def _of_team(team: Team, release: _Release) -> Iterator[Body]:
    """Yield the objects of a team, and the Cohorts above its ClusterQueues with the quota that others lend."""
    for home in team.homes:
        for item in release.catalogue.of_namespace(home.name):
            if item.kind in _SECRETS:
                yield _without_values(item)
            elif (item.kind in _OF_TEAM or is_namespace(item)) and not _part_of(item):
                yield item.body
    yield from (item.body for item in release.grants.get(f"tenants/{team.name}", ()))
    own = [name for name in sorted(release.catalogue.queues_of(team)) if name in release.queues]
    for name in own:
        body = release.queues[name].body
        yield with_guarantees(body, release.nodes[name]) if name in release.nodes else body
    yield from fold_cohorts([release.nodes[name] for name in own if name in release.nodes], release.cohorts)


def _without_values(item: Manifest) -> Body:
    """Return an object that becomes a Secret, with no more than the names of the object and of the Secret."""
    metadata = {"name": item.name, "namespace": item.namespace}
    body: Body = {"apiVersion": item.api_version, "kind": item.kind, "metadata": metadata}
    if target := mapping(item.body, "spec", "target").get("name"):
        body["spec"] = {"target": {"name": target}}
    return body


def unpack_catalogues(manifests: Sequence[Manifest]) -> Unpacked:
    """Return manifests with the objects of the catalogue among them. Objects outside of the catalogue take precedence.

    A catalogue beside queues is not unpacked: it is then a part of a release, or of an export of the cluster.

    Raises:
        DocumentError: a part of the catalogue is missing, there are two of a part, or the data is damaged.
    """
    parts = [*{item.identity: item for item in manifests if _part_of(item)}.values()]
    if not parts or any(item.kind in _QUEUES for item in manifests):
        return Unpacked([*manifests], {}, is_complete=False)
    if problems := [*_find_problems(parts)]:
        raise DocumentError(tuple(problems))
    problems, objects, targets = [], list[Manifest](), dict[str, str]()
    for item in parts:
        try:
            objects += _read_objects(item)
            targets |= string_map(json.loads(string(mapping(item.body, "data").get(_TARGETS)) or "{}"))
        except (ValueError, OSError, EOFError):
            fix = "read the ConfigMap from the cluster again, with `--output yaml`"
            problems.append(Problem(f"the data of {item.resource} is damaged", fix, item.file))
    if problems:
        raise DocumentError(tuple(problems))
    others = [item for item in manifests if not _part_of(item)]
    present = {item.identity for item in others}
    return Unpacked([*(item for item in objects if item.identity not in present), *others], targets, is_complete=True)


def _find_problems(parts: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield why the ConfigMaps are not the catalogue of one team: one of the platform, and one of the team."""
    by_part: dict[str, list[Manifest]] = {part: [] for part in ("platform", "team")}
    for item in parts:
        by_part.setdefault(_part_of(item), []).append(item)
    platform = string(parts[0].labels.get(PART_OF)) or "PLATFORM"
    command = "kubectl get configmap {} --namespace {} --output yaml"
    places = {
        "platform": command.format(CATALOGUE, f"{platform}{CATALOGUE_NAMESPACE}"),
        "team": command.format(TEAM_CATALOGUE, "TEAM"),
    }
    for part, items in by_part.items():
        if part in places and not items:
            message = f"the catalogue of the {part} is missing"
            yield Problem(message, f"add the output of `{places[part]}`", parts[0].file)
        elif len(items) > 1:
            known = format_names(sorted(item.resource for item in items))
            yield Problem(f"there are several catalogues: {known}", "name the catalogue of one team", items[-1].file)


def _read_objects(item: Manifest) -> list[Manifest]:
    """Return the objects in the ConfigMap of a catalogue.

    Raises:
        ValueError, OSError, EOFError: the data is damaged, or has over 64 MiB.
    """
    if _part_of(item) == "team":
        text = string(mapping(item.body, "data").get(_OBJECTS))
    else:
        unpacker = bz2.BZ2Decompressor()
        packed = base64.b64decode(string(mapping(item.body, "binaryData").get(_PACKED)), validate=True)
        text = unpacker.decompress(packed, _LARGEST).decode()
        if not unpacker.eof:
            message = "the data is larger than a catalogue, or incomplete"
            raise ValueError(message)
    bodies = [json.loads(line) for line in text.splitlines()]
    if not (bodies and all(isinstance(body, dict) for body in bodies)):
        message = "a line is no object"
        raise ValueError(message)
    return [Manifest(body, item.file, item.index) for body in bodies]
