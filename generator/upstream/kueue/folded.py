"""The queues of one team without the queues of other teams: their quota becomes quota of the cohorts.

On an idle cluster, Kueue admits the same jobs of the team: a ClusterQueue or Cohort adds its subtree quota to its
parent, without the part that it never lends (kueue v0.19.2 pkg/cache/scheduler/resource_node.go
updateCohortResourceNode). What depends on the usage of the other queues is written into the ClusterQueue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace

from generator.facts.names import FOLDED, GUARANTEES
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping
from generator.objects.queue import FlavorResource, Quota, format_amount
from generator.upstream.kueue.capacity import compute_guarantee
from generator.upstream.kueue.queues import Node

_API = "kueue.x-k8s.io/v1beta2"


def fold_cohorts(own: Sequence[Node], cohorts: Mapping[str, Manifest]) -> Iterator[Body]:
    """Yield the Cohorts above some ClusterQueues, with the quota that all other ClusterQueues and Cohorts lend.

    This is the subtree quota of a Cohort without the quota that the listed children lend.

    Args:
        own: the ClusterQueues, as nodes of the quota tree.
        cohorts: name → its Cohort. A cohort may have no object.
    """
    chain = {node.name: node for queue in own for node in queue.path()}
    listed: dict[str, list[Node]] = {}
    for node in (*own, *chain.values()):
        if node.parent:
            listed.setdefault(node.parent.name, []).append(node)
    for name, node in sorted(chain.items()):
        quotas = {}
        for key in node.subtree:
            nominal = node.has(key) - sum(child.has(key) - child.kept(key) for child in listed.get(name, ()))
            if nominal or key in node.quotas:
                quotas[key] = replace(node.quota(key), nominal=nominal)
        cohort = cohorts.get(name)
        spec = mapping(cohort.body, "spec") if cohort else {}
        yield {
            "apiVersion": _API,
            "kind": "Cohort",
            "metadata": {"name": name, "annotations": {FOLDED: "true"}},
            "spec": {**spec, "resourceGroups": [*_resource_groups(quotas)]},
        }


def _resource_groups(quotas: Mapping[FlavorResource, Quota]) -> Iterator[Body]:
    """Yield a group for each set of resources, with all flavors that have quota of these resources."""
    by_flavor: dict[str, dict[str, Quota]] = {}
    for (flavor, resource), quota in quotas.items():
        by_flavor.setdefault(flavor, {})[resource] = quota
    by_resources: dict[tuple[str, ...], list[str]] = {}
    for flavor, rows in by_flavor.items():
        by_resources.setdefault(tuple(sorted(rows)), []).append(flavor)
    for resources, flavors in by_resources.items():
        yield {
            "coveredResources": [*resources],
            "flavors": [
                {"name": flavor, "resources": [_row(name, by_flavor[flavor][name]) for name in resources]}
                for flavor in flavors
            ],
        }


def _row(resource: str, quota: Quota) -> Body:
    limits = {"borrowingLimit": quota.borrowing, "lendingLimit": quota.lending}
    return {
        "name": resource,
        "nominalQuota": format_amount(resource, quota.nominal),
        **{key: format_amount(resource, limit) for key, limit in limits.items() if limit is not None},
    }


def with_guarantees(queue: Body, node: Node) -> Body:
    """Return a ClusterQueue with the amounts that it gets whatever the other queues use, which the catalogue lacks."""
    amounts: dict[str, dict[str, object]] = {}
    for key in node.quotas:
        amounts.setdefault(key.flavor, {})[key.resource] = [*astuple(compute_guarantee(node, key))]
    metadata = queue["metadata"]
    text = json.dumps(amounts, separators=(",", ":"))
    return {**queue, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), GUARANTEES: text}}}
