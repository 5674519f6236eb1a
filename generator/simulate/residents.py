"""Residents: what pods take of each Node that Kueue does not place, such as those of DaemonSets.

Kueue subtracts the requests of all bound pods without a topology annotation from the room of a Node, and one of its
`pods` for each: kueue v0.19.2 pkg/cache/scheduler/tas_non_tas_pod_cache.go `updatePodUsage`,
pkg/controller/tas/non_tas_usage_controller.go `belongsToNonTASCache`, pkg/util/tas/tas.go `IsTAS`; the same in v0.18.3.

A DaemonSet runs a pod on a Node that its node selector and affinity match and whose taints it tolerates: kubernetes
v1.34.2 pkg/controller/daemon/daemon_controller.go `predicates`, util/daemonset_util.go
`AddOrUpdateDaemonPodTolerations`. If the pod is among the manifests, it counts instead of the template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.facts.names import PODSET_PREFIX, QUEUE_NAME
from generator.manifests import Body, Manifest
from generator.simulate.amounts import Requests
from generator.simulate.fields import labels, mapping, mappings, text
from generator.simulate.places import Machine
from generator.simulate.pods import Surroundings, requests, surroundings
from generator.simulate.selectors import holds, untolerated

_DAEMON_TOLERATIONS: tuple[Body, ...] = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)
_HOST_NETWORK: Body = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}
_QUEUED = ("kueue.x-k8s.io/podset", "kueue.x-k8s.io/cluster-queue-name", QUEUE_NAME)
"""Labels of pods that are of a job which Kueue admitted: they are gone while the queues are idle."""
_ENDED = ("Succeeded", "Failed")


def taken(manifests: Sequence[Manifest], machines: Sequence[Machine]) -> Mapping[str, Requests]:
    """Return what pods take of each Node, by its name; `pods` is their number.

    Raises:
        SimulationError: an amount is no quantity.
        NotModelledError: a DaemonSet tolerates taints by comparing numbers.
    """
    found: dict[str, dict[str, int]] = {}
    running: set[tuple[str, str, str]] = set()
    bare = Surroundings(overheads=surroundings(manifests, "").overheads)
    for manifest in manifests:
        node = text(mapping(manifest.body, "spec").get("nodeName"))
        if (manifest.group, manifest.kind) == ("", "Pod") and node and not _has_ended(manifest):
            running |= {(manifest.namespace, name, node) for name in _daemon_sets(manifest)}
            if not _is_of_a_job(manifest):
                _add(
                    found.setdefault(node, {}), requests(dict(mapping(manifest.body, "spec")), bare, manifest.resource)
                )
    known: dict[str, Surroundings] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) != ("apps", "DaemonSet"):
            continue
        if manifest.namespace not in known:
            known[manifest.namespace] = surroundings(manifests, manifest.namespace)
        pod = dict(mapping(manifest.body, "spec", "template", "spec"))
        asked = requests(pod, known[manifest.namespace], manifest.resource)
        for machine in machines:
            is_there = (manifest.namespace, manifest.name, machine.name) in running
            if not is_there and _runs_on(pod, machine):
                _add(found.setdefault(machine.name, {}), asked)
    return found


def _has_ended(pod: Manifest) -> bool:
    return mapping(pod.body, "status").get("phase") in _ENDED


def _is_of_a_job(pod: Manifest) -> bool:
    metadata = mapping(pod.body, "metadata")
    is_queued = any(name in mapping(metadata, "labels") for name in _QUEUED)
    return is_queued or any(str(name).startswith(PODSET_PREFIX) for name in mapping(metadata, "annotations"))


def _daemon_sets(pod: Manifest) -> Iterator[str]:
    for owner in mappings(mapping(pod.body, "metadata").get("ownerReferences")):
        if owner.get("kind") == "DaemonSet":
            yield text(owner.get("name"))


def _runs_on(pod: Mapping[str, object], machine: Machine) -> bool:
    """Return True if the DaemonSet controller runs a pod on a Node."""
    required = mapping(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    network = (_HOST_NETWORK,) if pod.get("hostNetwork") is True else ()
    tolerations = (*mappings(pod.get("tolerations")), *_DAEMON_TOLERATIONS, *network)
    name, terms = text(pod.get("nodeName")), mappings(required.get("nodeSelectorTerms"))
    return (
        name in ("", machine.name)
        and labels(pod.get("nodeSelector")).items() <= machine.labels.items()
        and (not required or any(matches(term, machine) for term in terms))
        and untolerated(machine.taints, tolerations) is None
    )


def matches(term: Body, machine: Machine) -> bool:
    """Return True if a node selector term matches a Node; a term without a requirement matches none."""
    expressions, fields = mappings(term.get("matchExpressions")), mappings(term.get("matchFields"))
    return (
        bool(expressions or fields)
        and holds(expressions, machine.labels)
        and holds(fields, {"metadata.name": machine.name})
    )


def _add(sums: dict[str, int], more: Requests) -> None:
    for name, amount in (*more.items(), ("pods", 1)):
        sums[name] = sums.get(name, 0) + amount
