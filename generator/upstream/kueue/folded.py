"""The queues of one team without the queues of other teams: each Cohort has the total of the quota below it.

Without its children, a Cohort with its subtree quota (kueue v0.19.2 pkg/cache/scheduler/resource_node.go
updateCohortResourceNode) lets a ClusterQueue have the same quota while all other queues are idle. What depends on the
usage of the other queues is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from generator.facts.names import FOLDED
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping
from generator.objects.queue import FlavorResource, Quota, format_amount
from generator.upstream.kueue.queues import Node

_API = "kueue.x-k8s.io/v1beta2"


def fold_cohorts(queues: Iterable[Node], cohorts: Mapping[str, Manifest]) -> Iterator[Body]:
    """Yield the Cohorts above ClusterQueues, each with its subtree quota as its nominal quota, by name.

    Args:
        queues: the ClusterQueues, as nodes of the quota tree.
        cohorts: name → its Cohort. A cohort may have no object.
    """
    nodes = {node.name: node for queue in queues for node in queue.path()}
    for name, node in sorted(nodes.items()):
        totals = {key: replace(node.quota(key), nominal=amount) for key, amount in node.subtree.items()}
        spec = mapping(cohorts[name].body, "spec") if name in cohorts else {}
        yield {
            "apiVersion": _API,
            "kind": "Cohort",
            "metadata": {"name": name, "annotations": {FOLDED: "true"}},
            "spec": {**spec, "resourceGroups": [*_resource_groups(totals)]},
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
