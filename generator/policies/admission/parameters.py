"""The parameters of admission rules: annotations of a team's Namespace, each a string or a list.

A comma separates the items of a list; in `subjects` and `sessions`, a line break.

Team members cannot write these annotations: no role of a team allows writing namespaces, and the rule `generated`
protects all generated objects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generator.config.model.access import to_callers
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import to_seconds
from generator.config.model.roles import SESSIONS
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.env import transport_variables
from generator.facts.names import DIGEST, FABRIC, IMAGES, LOCAL_QUEUE, PARAMETER, STEP, TENANT_LABEL
from generator.facts.subjects import meaning_of
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings

CLAIM = "claim"
"""Value in place of an amount, for a device that pods request by a ResourceClaim."""
_CONTAINER = "node"  # trainer v2.3.0 pkg/constants/constants.go Node: the only container that a TrainJob changes


@dataclass(frozen=True, slots=True)
class FabricUse:
    """The devices and variables with which a runtime uses a fabric.

    Attributes:
        devices: resource → amount in each pod, or name of a claim → `claim`, in pods that `resourcesPerNode` changes.
        variables: environment variables that a job must not set; empty if the fabric allows a fallback to TCP.
    """

    devices: Mapping[str, str]
    variables: tuple[str, ...]


def fabric_use(runtime: Manifest, fabrics: Iterable[Fabric]) -> FabricUse | None:
    """Return the devices and variables with which a runtime uses a fabric; None if it uses no fabric.

    `resourcesPerNode` changes the pods of the `trainer` step; if the launcher runs ranks, the job `node` as well
    (trainer v2.3.0 pkg/runtime/core/trainingruntime.go TrainingRuntime.newRuntimeInfo; trainer v2.2.0
    pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer). A separate launcher uses no fabric.
    """
    spec = mapping(runtime.body, "spec")
    jobs = _jobs(runtime.body)
    fabric = _fabric(jobs, {row.name: row for row in fabrics})
    if fabric is None:
        return None
    is_node = mapping(spec, "mlPolicy", "mpi").get("runLauncherAsNode", False)
    devices: dict[str, str] = {}
    environment: dict[str, str] = {}
    for job in jobs:
        is_step = mapping(job, "template", "metadata", "labels").get(STEP) == "trainer"
        for container in mappings(mapping(_pods(job), "spec").get("containers")):
            if container.get("name") != _CONTAINER:
                continue
            if is_step or (is_node and job.get("name") == _CONTAINER):
                devices |= _devices(container, fabric)
            if is_step:
                variables = ((entry.get("name"), entry.get("value", "")) for entry in mappings(container.get("env")))
                environment |= {str(name): str(value) for name, value in variables}
    return FabricUse(devices, () if fabric.fallback else tuple(transport_variables(environment)))


def _resources(runtime: Body) -> dict[str, str]:
    """Return resource → the request of the container `node` in the job of the `trainer` step.

    Without a request, the value is the limit. If the launcher runs ranks, the job `node` has the same amounts.
    """
    amounts: dict[str, Any] = {}
    for job in _jobs(runtime):
        if mapping(job, "template", "metadata", "labels").get(STEP) == "trainer":
            for container in mappings(mapping(_pods(job), "spec").get("containers")):
                if container.get("name") == _CONTAINER:
                    resources = mapping(container, "resources")
                    amounts |= mapping(resources, "limits") | mapping(resources, "requests")
    return {name: str(amount) for name, amount in amounts.items()}


def _volumes(runtime: Body) -> set[str]:
    """Return the names of the volumes in all pods of a runtime."""
    pods = (mapping(_pods(job), "spec") for job in _jobs(runtime))
    return {str(volume.get("name")) for pod in pods for volume in mappings(pod.get("volumes"))}


def _config_maps(runtime: Body) -> set[str]:
    """Return the names of the ConfigMaps that the pods of a runtime mount, or read as variables."""
    names: set[str] = set()
    for pod in (mapping(_pods(job), "spec") for job in _jobs(runtime)):
        sources = [mapping(volume, "configMap") for volume in mappings(pod.get("volumes"))]
        for volume in mappings(pod.get("volumes")):
            sources += [
                mapping(source, "configMap") for source in mappings(mapping(volume, "projected").get("sources"))
            ]
        for container in (*mappings(pod.get("containers")), *mappings(pod.get("initContainers"))):
            variables = mappings(container.get("env"))
            sources += [mapping(variable, "valueFrom", "configMapKeyRef") for variable in variables]
            sources += [mapping(source, "configMapRef") for source in mappings(container.get("envFrom"))]
        names |= {str(source["name"]) for source in sources if source.get("name")}
    return names


def _fabric(jobs: Iterable[Body], fabrics: Mapping[str, Fabric]) -> Fabric | None:
    """Return the fabric that an annotation of the jobs' pods names; None if no annotation names one of `fabrics`."""
    names = (mapping(_pods(job), "metadata", "annotations").get(FABRIC, "") for job in jobs)
    return next((fabrics[name] for name in names if isinstance(name, str) and name in fabrics), None)


def _devices(container: Body, fabric: Fabric) -> dict[str, str]:
    resources = mapping(container, "resources")
    limits = mapping(resources, "limits")
    amounts = {name: str(limits[name]) for name in sorted(fabric.requests) if name in limits}
    return amounts | {str(claim.get("name")): CLAIM for claim in mappings(resources.get("claims"))}


def _jobs(runtime: Body) -> tuple[Body, ...]:
    """Return the replicated jobs of a runtime. A patch or an object of an admin can have any content."""
    return mappings(mapping(runtime, "spec", "template", "spec").get("replicatedJobs"))


def _pods(job: Body) -> Body:
    return mapping(job, "template", "spec", "template")


_POLICY = "ValidatingAdmissionPolicy"
_DIGITS = 10
_FABRIC_RULE = "cluster/admission/fabric.yaml"
_RESERVED_RULE = "cluster/admission/reserved.yaml"
_COST_RULE = "cluster/admission/cost-labels.yaml"
_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
_TREE_PARAMETERS = (
    "queues",
    "runtimes",
    "copies",
    "fabrics",
    "fabric-variables",
    "reserved",
    "network-policies",
    "services",
    "resources",
    "volumes",
    "config-maps",
    "pod-templates",
)


def namespace_parameters(home: Tenant, team: str, platform: Platform) -> dict[str, str]:
    """Return the annotations of a namespace with the parameters that the platform file sets, without empty ones.

    `add_parameters_of_tree` adds the parameters that depend on rendered objects (`_TREE_PARAMETERS`).
    """
    policies, limits = platform.policies, home.limits
    devices = (f"{device}={count}" for device, count in limits.devices_per_host.items())
    places = (
        [f"{policies.residency.label}={value}" for value in home.residency or policies.residency.values]
        if policies.residency
        else []
    )
    priorities = platform.queues.priorities_of(team, home.priorities)
    values = {
        "cluster-queue": team,
        "queues": LOCAL_QUEUE,
        "priorities": ",".join(row.name for row in priorities),
        "priority-required": "true" if priorities and all(row.value < 0 for row in priorities) else "",
        "registries": ",".join(sorted({*policies.images.registries, *home.registries})),
        "image-digests": "true" if policies.images.digests else "",
        "labels": ",".join(f"{key}={home.labels[key]}" if key in home.labels else key for key in policies.labels),
        "cost-labels": ",".join(f"{key}={home.labels[key]}" for key in policies.cost_labels),
        "residency": ",".join(places),
        "storage-classes": ",".join(row.name for row in policies.storage_classes),
        "secrets": ",".join(sorted(row.name for row in (*home.secrets.external, *home.secrets.connections))),
        "hosts-per-job": str(limits.hosts_per_job or ""),
        "devices-per-host": ",".join(devices),
        "seconds-per-job": str(to_seconds(limits.time_per_job)) if limits.time_per_job else "",
        "storage": "none" if limits.storage is None else str(limits.storage),
        "subjects": "\n".join(_grantable(home)),
        "sessions": "\n".join(_sessions(home)),
        "workload-kinds": ",".join(sorted({*policies.workloads.kinds, *home.workloads.kinds})),
        "workload-controllers": ",".join(
            to_callers([*policies.workloads.controllers, *home.workloads.controllers]).users
        ),
    }
    return {f"{PARAMETER}{name}": value for name, value in values.items() if value}


def _grantable(home: Tenant) -> list[str]:
    """Return the subjects to which team admins can give a role. If the team is retired, these are its viewers alone.

    `view` may also list groups of all users or ServiceAccounts. The result lacks these groups.
    """
    access = home.access
    declared = {*access.view} if home.retired else {*access.grantable}.union(*access.subjects.values())
    return sorted(subject for subject in declared if not meaning_of(subject))


def _sessions(home: Tenant) -> list[str]:
    """Return a line `RESOURCE user:NAME` or `RESOURCE group:NAME` for each subresource of pods that a caller may use.

    The rules `kinds` and `debug` read the lines. A retired team has none.
    """
    lines: set[str] = set()
    for kind, resources in SESSIONS.items():
        callers = to_callers(() if home.retired else home.access.subjects[kind])
        names = [*(f"user:{name}" for name in callers.users), *(f"group:{name}" for name in callers.groups)]
        lines |= {f"{resource} {name}" for resource in resources for name in names}
    return sorted(lines)


def add_parameters_of_tree(tree: list[Manifest], fabrics: Sequence[Fabric] = ()) -> list[Manifest]:
    """Annotate the namespaces of tenants with the parameters that depend on rendered objects.

    These are the queues, the runtimes with their resources and fabrics, the names of NetworkPolicies, and the objects
    that the rule `reserved` protects. The tree includes the objects that an `mpigen_platform.py` adds.

    Remove the admission rule `fabric` from the tree if no runtime uses a fabric.
    """
    bound = _copied_runtimes(tree)
    tree = [_with_digest(manifest) if (manifest.kind, manifest.name) in bound else manifest for manifest in tree]
    values: dict[str | None, set[tuple[str, str]]] = {}
    selectors: dict[str, Mapping[str, str]] = {}
    rules = {manifest.file for manifest in tree if manifest.kind == "ValidatingAdmissionPolicy"}
    is_reserving, needs_templates = _RESERVED_RULE in rules, _COST_RULE in rules
    for manifest in tree:
        place = None if manifest.kind == "ClusterTrainingRuntime" else manifest.namespace
        values.setdefault(place, set()).update(_parameters(manifest, fabrics))
        if (manifest.kind, manifest.name) in bound:
            values[place].add(("copies", f"{manifest.kind}/{manifest.name}={copy_prefix(manifest.body)}"))
        if manifest.kind in _RUNTIMES:
            selectors[f"{manifest.kind}/{manifest.name}"] = _node_selector(manifest.body)
        if needs_templates and manifest.kind in _RUNTIMES:
            values[place].update(("pod-templates", entry) for entry in _pod_templates(manifest))
        if is_reserving and manifest.namespace:
            values[manifest.namespace].add(("reserved", _reserved_key(manifest)))
    annotated = [
        _annotate(manifest, _allowed(manifest, {*values.get(None, ()), *values.get(manifest.name, ())}, selectors))
        if _is_home(manifest)
        else manifest
        for manifest in tree
    ]
    homes = (manifest.body["metadata"]["annotations"] for manifest in annotated if _is_home(manifest))
    if any(f"{PARAMETER}fabrics" in home or f"{PARAMETER}fabric-variables" in home for home in homes):
        return annotated
    return [manifest for manifest in annotated if manifest.file != _FABRIC_RULE]


def _node_selector(runtime: Body) -> Mapping[str, str]:
    """Return the node labels that the pods of a runtime select."""
    selected: dict[str, str] = {}
    for job in _jobs(runtime):
        selected |= {str(key): str(value) for key, value in mapping(_pods(job), "spec", "nodeSelector").items()}
    return selected


def _allowed(
    home: Manifest, values: Collection[tuple[str, str]], selectors: Mapping[str, Mapping[str, str]]
) -> Collection[tuple[str, str]]:
    """Return the parameters of a namespace without the ones about runtimes whose pods run outside of its places."""
    listed = str(mapping(home.body, "metadata", "annotations").get(f"{PARAMETER}residency", ""))
    places = {place for place in listed.split(",") if place}
    labels = {place.partition("=")[0] for place in places}
    outside = {
        runtime
        for runtime, selector in selectors.items()
        if any(key in labels and f"{key}={value}" not in places for key, value in selector.items())
    }
    if not outside:
        return values
    return [(name, entry) for name, entry in values if entry.partition("=")[0] not in outside]


IMAGE_ESCAPES = {"-": "--", ".": "-d", "/": "-s", ":": "-c", "@": "-a", "_": "-u"}
"""Character of an image → its form in the name of a copy, in the order of the replacements."""
IMAGE_END = "-i"
"""End of the name of a copy. An image can end with a hyphen, and a name cannot."""


def copy_prefix(runtime: Body) -> str:
    """Return the beginning of the names of a runtime's copies: its name, and the version of its spec and images.

    The name of a runtime of mpigen has no dot, so no other runtime has this beginning.
    """
    metadata = mapping(runtime, "metadata")
    return f"{metadata.get('name')}.{mapping(metadata, 'annotations').get(DIGEST, '')}-"


def _copied_runtimes(tree: Iterable[Manifest]) -> frozenset[tuple[str, str]]:
    """Return (kind, name) of the runtimes that the rule `own-images` compares with their copies."""
    specs = {
        (item.kind, item.name): mapping(item.body, "spec")
        for item in tree
        if item.kind in (_POLICY, f"{_POLICY}Binding")
    }
    pairs = (
        (
            mapping(specs.get((_POLICY, str(spec.get("policyName"))), {}), "paramKind").get("kind"),
            mapping(spec, "paramRef"),
        )
        for (kind, _), spec in specs.items()
        if kind != _POLICY
    )
    return frozenset((str(kind), str(reference["name"])) for kind, reference in pairs if kind and "name" in reference)


def _with_digest(runtime: Manifest) -> Manifest:
    """Return a runtime with the version of its spec and images as an annotation.

    If the runtime no longer allows an image, the version changes, so jobs cannot use copies with that image.
    """
    metadata = runtime.body["metadata"]
    annotations = metadata.get("annotations", {})
    versioned = [runtime.body.get("spec"), annotations.get(IMAGES)]
    text = json.dumps(versioned, sort_keys=True, separators=(",", ":"))
    annotations = {**annotations, DIGEST: hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}
    return replace(runtime, body={**runtime.body, "metadata": {**metadata, "annotations": annotations}})


def _is_home(manifest: Manifest) -> bool:
    """Return True if the manifest is a Namespace of a tenant."""
    return manifest.kind == "Namespace" and TENANT_LABEL in manifest.labels


def _parameters(manifest: Manifest, fabrics: Sequence[Fabric]) -> Iterator[tuple[str, str]]:
    """Yield (parameter, value) of an object that TrainJobs name or could name themselves after, and of runtimes."""
    if manifest.kind == "NetworkPolicy" and not manifest.name.startswith("np-") and "." not in manifest.name:
        yield "network-policies", manifest.name  # names with a dot are no names of TrainJobs
    elif manifest.kind == "Service":
        yield "services", manifest.name
    elif manifest.kind == "LocalQueue":
        yield "queues", manifest.name
    elif manifest.kind in _RUNTIMES:
        name = f"{manifest.kind}/{manifest.name}"
        yield "runtimes", name
        yield from (
            ("resources", f"{name}={resource}={amount}") for resource, amount in _resources(manifest.body).items()
        )
        yield from (("volumes", f"{name}={volume}") for volume in _volumes(manifest.body))
        yield from (("config-maps", name) for name in _config_maps(manifest.body))
        if use := fabric_use(manifest, fabrics):
            yield from (("fabrics", f"{name}={device}={amount}") for device, amount in use.devices.items())
            yield from (("fabric-variables", f"{name}={variable}") for variable in use.variables)


def _pod_templates(runtime: Manifest) -> Iterator[str]:
    """Yield `KIND/NAME=JOB` for each replicated job of a runtime: a patch can name these jobs."""
    for job in _jobs(runtime.body):
        if name := job.get("name"):
            yield f"{runtime.kind}/{runtime.name}={name}"


def _reserved_key(manifest: Manifest) -> str:
    """Return `KIND.GROUP/NAME` of an object, the form in which the rule `reserved` compares objects."""
    group = manifest.api_version.rpartition("/")[0]
    return f"{manifest.kind}{'.' if group else ''}{group}/{manifest.name}"


def _annotate(home: Manifest, values: Collection[tuple[str, str]]) -> Manifest:
    metadata = home.body["metadata"]
    lists = {name: sorted(value for key, value in values if key == name) for name in _TREE_PARAMETERS}
    annotations = {f"{PARAMETER}{name}": ",".join(entries) for name, entries in lists.items() if entries}
    annotations = {**metadata.get("annotations", {}), **annotations}
    return replace(home, body={**home.body, "metadata": {**metadata, "annotations": annotations}})
