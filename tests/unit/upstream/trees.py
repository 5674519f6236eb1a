"""Build queues from a few arguments."""

from __future__ import annotations

from typing import Any

from generator.manifests import Body, Manifest
from generator.upstream.kueue.queues import QueueTree, read_queue_tree

Quotas = dict[str, str | tuple[Any, ...]]
"""`flavor/resource` → nominal, or nominal, borrowingLimit and lendingLimit (None: not written)."""


def kueue(kind: str, name: str, spec: Body, **metadata: Any) -> Manifest:
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    return Manifest(body, "queues.yaml")


def flavor(name: str, **spec: Any) -> Manifest:
    return kueue("ResourceFlavor", name, spec)


def topology(name: str, *levels: str) -> Manifest:
    return kueue("Topology", name, {"levels": [{"nodeLabel": level} for level in levels]})


def groups(quotas: Quotas) -> list[Body]:
    """Return one group of all resources, with the flavors in their given order."""
    flavors: dict[str, list[Body]] = {}
    for key, amounts in quotas.items():
        name, resource = key.split("/", 1)
        limits = amounts if isinstance(amounts, tuple) else (amounts,)
        fields = zip(("nominalQuota", "borrowingLimit", "lendingLimit"), limits, strict=False)
        each = {"name": resource, **{field: str(amount) for field, amount in fields if amount is not None}}
        flavors.setdefault(name, []).append(each)
    covered = list(dict.fromkeys(key.split("/", 1)[1] for key in quotas))
    return [{"coveredResources": covered, "flavors": [{"name": n, "resources": r} for n, r in flavors.items()]}]


def queue(name: str, quotas: Quotas, cohort: str = "", **spec: Any) -> Manifest:
    fields = {"cohortName": cohort} if cohort else {}
    spec = {"namespaceSelector": {}, **fields, "resourceGroups": groups(quotas), **spec}
    return kueue("ClusterQueue", name, spec)


def cohort(name: str, parent: str = "", quotas: Quotas | None = None, **spec: Any) -> Manifest:
    fields: Body = {"parentName": parent} if parent else {}
    if quotas:
        fields["resourceGroups"] = groups(quotas)
    return kueue("Cohort", name, {**fields, **spec})


def door(namespace: str, queue_name: str, name: str = "default") -> Manifest:
    return kueue("LocalQueue", name, {"clusterQueue": queue_name}, namespace=namespace)


def tree(*manifests: Manifest) -> QueueTree:
    """Return the tree of the manifests, with a plain flavor for each missing one."""
    named = {
        each["name"]
        for manifest in manifests
        for group in manifest.body["spec"].get("resourceGroups", [])
        for each in group["flavors"]
    }
    there = {manifest.name for manifest in manifests if manifest.kind == "ResourceFlavor"}
    return read_queue_tree([*manifests, *(flavor(name) for name in sorted(named - there))])
