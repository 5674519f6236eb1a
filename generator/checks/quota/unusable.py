"""quota/no-job and quota/same-nodes: runtimes on which no queue admits a job, and flavors that share their nodes.

The first rule has the verdicts of `mpigen queues`: both call `largest_jobs`, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from generator.checks.finding import listed
from generator.checks.graph import Graph, Reference
from generator.checks.objects import Objects
from generator.checks.quota.jobs import explain_never, unmatched_flavors
from generator.checks.quota.namespaces import limit_range
from generator.checks.quota.queues import RUNTIMES, TRAINER, Queues
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names
from generator.errors import SimulationError
from generator.facts.names import PODSET_PREFIX
from generator.manifests import Manifest
from generator.objects.fields import string_map
from generator.objects.namespace import listed_runtimes, read_host_limits
from generator.objects.pods import pod_templates
from generator.objects.queue import ClusterQueue, FlavorResource
from generator.upstream.kueue.job_limits import Largest, Limit
from generator.upstream.kueue.largest import largest_jobs

_REPLICATED_JOBS: Path = ("spec", "template", "spec", "replicatedJobs")
_FIXES = {
    Limit.QUOTA: "raise the quota of the queue, or remove the runtime from the annotation `mpigen.dev/runtimes`",
    Limit.NODE: "create a runtime whose pods request less: no node is large enough, whatever the quota",
    Limit.NODES: "create a runtime whose pods request less, or add nodes",
    Limit.PLACE: "compare the tolerations, the node selector and the topology request of the runtime with the taints, "
    "the labels and the Topology of the ResourceFlavor, and its resources with `coveredResources` of the queue",
    Limit.LIMIT_RANGE: "change the bound of the LimitRange, or create a runtime whose pods keep it",
    Limit.POLICY: "raise the annotation `mpigen.dev/hosts-per-job` of the Namespace",
}
_LOST = ("quota/missing-flavor", "quota/missing-topology")
_WHY = "jobs on this runtime stay suspended there, and only the status of the Workload shows why"


class _Row(NamedTuple):
    """A queue, a namespace with a LocalQueue of it, and a runtime that jobs of this namespace can use."""

    queue: ClusterQueue
    namespace: str
    runtime: Manifest

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The names of all three, with the kind of the runtime."""
        return self.queue.name, self.namespace, self.runtime.kind, self.runtime.name


@check("quota/no-job", severity=ERROR, needs=Objects)
def no_job(objects: Objects) -> Iterator[Breach]:
    """Report a runtime on which the queues of a namespace admit no job of any size.

    `mpigen queues` shows 0 nodes for such a runtime. The pods do not tolerate a taint of the ResourceFlavor, select
    nodes with another label, or request a topology level that the Topology lacks. Or a ResourceFlavor or Topology of
    the queue is in no file, or the queue has no quota for a resource.

    The annotation `mpigen.dev/runtimes` lists the runtimes that jobs of a Namespace can use. The check reports a listed
    runtime if no queue of the Namespace admits a job on it, unless these queues have no quota on its nodes, or only
    other queues have quota for its devices. Without the annotation, it reports a runtime if no queue in the files
    admits a job on it, and ignores queues without quota for the devices of the runtime.

    The finding is a warning outside of a complete release of mpigen, because other files can have further objects. It
    is also a warning if the quota is too small, because a team can get its quota later. The check leaves out queues
    with a `stopPolicy`, and jobs whose cause another check of this family reports.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.assignFlavors; kueue v0.19.2
    pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.checkFlavorForPodSets; kueue v0.19.2
    pkg/cache/scheduler/clusterqueue.go clusterQueue.inactiveReason
    """
    queues = objects.view(Queues.read)
    if queues is None or not queues.settings.is_modelled:
        return
    try:
        refused = [*_find_refused(queues, objects)]
    except SimulationError:  # an amount is no quantity, which other rules report
        return
    groups: dict[tuple[str, str], list[tuple[_Row, Largest]]] = {}
    for row, largest in refused:
        cause = largest.reason.replace(f"`{row.queue.name}`", "the queue")
        groups.setdefault((row.runtime.resource, cause), []).append((row, largest))
    by_cause: dict[str, list[tuple[_Row, Largest]]] = {}
    for (_, cause), rows in groups.items():
        by_cause.setdefault(cause, []).extend(rows)
    for rows in by_cause.values():
        yield _explain(rows, queues, objects)


def _explain(rows: Sequence[tuple[_Row, Largest]], queues: Queues, objects: Objects) -> Breach:
    """Return the breach of runtimes without jobs, all for one cause."""
    (first, largest) = rows[0]
    runtimes = dict.fromkeys(row.runtime.name for row, _ in rows)
    namespaces = dict.fromkeys(row.namespace for row, _ in rows)
    noun = "runtime" if len(runtimes) == 1 else "runtimes"
    where = f"namespace{'s' if len(namespaces) > 1 else ''} {listed([*namespaces])}"
    manifest, path, fix = _place(first, largest, queues)
    if not objects.is_complete:
        fix += "; if another folder has further objects of this cluster, pass both folders to mpigen"
    return Breach(
        path,
        f"no queue admits a job on {noun} {listed([*runtimes])} in {where}: {largest.reason}",
        _WHY,
        fix,
        manifest,
        ERROR if objects.is_complete and largest.limit is not Limit.QUOTA else WARNING,
        at_key=True,
    )


def _place(row: _Row, largest: Largest, queues: Queues) -> tuple[Manifest, Path, str]:
    """Return the object, the path and the fix to report."""
    cluster_queue = queues.of("ClusterQueue")[row.queue.name]
    if largest.limit is Limit.QUEUE:
        if missing := queues.tree.missing_flavors(row.queue):
            fix = f"add the ResourceFlavor {format_names(missing)}, or remove it from the queue"
            return cluster_queue, ("spec", "resourceGroups"), fix
        for name in sorted(row.queue.flavors):
            flavor = queues.tree.flavors[name]
            if flavor.topology and not flavor.levels:
                fix = f"add the Topology `{flavor.topology}`, or correct `topologyName`"
                return queues.of("ResourceFlavor")[name], ("spec", "topologyName"), fix
        return cluster_queue, ("spec",), "correct the queue as the message requires"
    fix = _FIXES.get(largest.limit, "correct the runtime or the queue as the message requires")
    if largest.limit is not Limit.PLACE:
        return cluster_queue, ("spec", "resourceGroups"), fix
    return row.runtime, _find_request(row, queues), fix


def _find_request(row: _Row, queues: Queues) -> Path:
    """Return the path of a topology level that no flavor of the queue has; else the path of the replicated jobs."""
    levels = {level for name in row.queue.flavors for level in queues.tree.flavors[name].levels}
    for pods in pod_templates(row.runtime):
        for key, value in string_map(pods.annotations).items():
            if key.startswith(PODSET_PREFIX) and key.endswith("-topology") and "/" in value and value not in levels:
                return (*pods.path, "metadata", "annotations", key)
    return _REPLICATED_JOBS


def _find_refused(queues: Queues, objects: Objects) -> Iterator[tuple[_Row, Largest]]:
    """Yield the rows to report, each with the result of `largest_jobs`."""
    rows, host_limits = [*_rows(queues)], read_host_limits(objects.of("", "Namespace"))
    has_nodes = bool(objects.names("", "Node"))
    suspects = {row.queue.name for row in rows if has_nodes or not _runs(row, queues, host_limits)}
    if not suspects:
        return
    try:
        everything = [*largest_jobs(queues.tree, [*objects.manifests, *objects.others], suspects)]
    except SimulationError:  # other checks report the invalid amount
        return
    zeros = {(one.queue, one.namespace, one.kind, one.runtime): one for one in everything if one.idle == 0}
    usable: dict[tuple[str, str, str], bool] = {}
    used_anywhere: dict[str, bool] = {}
    listing = {item.name: frozenset(listed_runtimes(item)) for item in objects.of("", "Namespace")}
    for row in rows:
        is_usable = row.key not in zeros and not _is_for_others(row, queues)
        usable[row.key[1:]] = usable.get(row.key[1:], False) or is_usable
        if not listing.get(row.namespace):
            used_anywhere[row.runtime.resource] = used_anywhere.get(row.runtime.resource, False) or is_usable
    everywhere = {key for name in queues.nodes for key, amount in queues.most_of(name).items() if amount}
    lost = {reference.name for rule in _LOST for reference in _reported(objects.view(Graph.read), rule)}
    limited = {breach.manifest.namespace for breach in limit_range(objects) if breach.manifest}
    for row in rows:
        if (largest := zeros.get(row.key)) is None or usable[row.key[1:]]:
            continue
        if listing.get(row.namespace):
            is_listed = f"{row.runtime.kind}/{row.runtime.name}" in listing[row.namespace]
            is_meant = is_listed and not _is_of_another_pool(row, queues, everywhere)
        else:
            is_meant = not (used_anywhere[row.runtime.resource] or _is_for_others(row, queues))
        is_limited = largest.limit is Limit.LIMIT_RANGE and row.namespace in limited
        if is_meant and not is_limited and not _is_explained(row, largest, queues, lost):
            yield row, largest


def _rows(queues: Queues) -> Iterator[_Row]:
    runtimes = [item for item in queues.manifests if item.group == TRAINER and item.kind in RUNTIMES]
    for namespace, names in sorted(queues.of_namespaces.items()):
        for name in sorted(names & queues.tree.queues.keys()):
            for runtime in runtimes:
                if runtime.kind == "ClusterTrainingRuntime" or runtime.namespace == namespace:
                    yield _Row(queues.tree.queues[name], namespace, runtime)


def _runs(row: _Row, queues: Queues, host_limits: Mapping[str, int]) -> bool:
    """Return True if the queue certainly admits the smallest job, so that `largest_jobs` need not decide.

    `largest_jobs` takes much longer, and almost all rows of a release have jobs.
    """
    job = queues.job(row.runtime, row.namespace)
    if job is None or not queues.admits(row.queue, row.namespace) or not queues.has_quota(row.queue, job):
        return False
    flavors = [queues.tree.flavors[name] for name in row.queue.flavors]
    levels = [{*flavor.levels} for flavor in flavors if flavor.levels]
    requests = [pods.topology for pods in job.podsets]
    has_levels = not levels or all(
        request and (not request.level or all(request.level in some for some in levels)) for request in requests
    )
    return has_levels and host_limits.get(row.namespace, 1) > 0 and not queues.has_broken_bounds(job)


def _is_for_others(row: _Row, queues: Queues) -> bool:
    """Return True if a queue seems meant for jobs on other runtimes, or can borrow from queues that the files lack."""
    job = queues.job(row.runtime, row.namespace)
    devices = [name for name in job.total if "/" in name] if job else []
    if row.queue.name not in queues.nodes:
        return bool(devices) and not any(row.queue.group(name) for name in devices)
    offered = {key.resource for key, amount in queues.most_of(row.queue.name).items() if amount}
    return (bool(devices) and offered.isdisjoint(devices)) or not queues.has_lenders(row.queue)


def _is_of_another_pool(row: _Row, queues: Queues, everywhere: AbstractSet[FlavorResource]) -> bool:
    """Return True if a queue has quota, but none on the nodes or for the devices of a runtime."""
    job = queues.job(row.runtime, row.namespace)
    if job is None or row.queue.name not in queues.nodes:
        return False
    own = {key for key, amount in queues.most_of(row.queue.name).items() if amount}
    devices = {name for name in job.total if "/" in name}
    offers = (
        {key for key in everywhere if key.flavor in job.common},
        {key for key in everywhere if key.resource in devices},
    )
    is_on_other_nodes = bool(job.common) and job.common.isdisjoint(key.flavor for key in own)
    return (bool(everywhere) and is_on_other_nodes) or any(keys and own.isdisjoint(keys) for keys in offers)


def _reported(graph: Graph, rule: str) -> Iterator[Reference]:
    """Yield the references to absent objects that a rule reports."""
    yield from (reference for reference in graph.dangling(rule) if any(graph.explain(reference)))


def _is_explained(row: _Row, largest: Largest, queues: Queues, lost: AbstractSet[str]) -> bool:
    """Return True if another rule reports the cause: a lost object, a selector, a LimitRange, or a flavor."""
    queue, tree, job = row.queue, queues.tree, queues.job(row.runtime, row.namespace)
    if largest.limit is Limit.QUEUE:
        topologies = {
            flavor.topology for flavor in map(tree.flavors.get, queue.flavors) if flavor and not flavor.levels
        }
        is_cyclic = bool(queue.cohort) and tree.is_cyclic(queue.cohort)
        is_lost = not lost.isdisjoint({*tree.missing_flavors(queue), *topologies})
        return is_lost or is_cyclic or queue.stop_policy != "None" or not tree.inactive_reason(queue)
    if job is None or not queues.admits(queue, row.namespace):
        return False
    is_too_large = queues.has_lenders(queue) and bool(explain_never(queues, queue, job)[1])
    return is_too_large or bool(job.uncovered_by(queue)) or bool(unmatched_flavors(queues, queue.name))


@check("quota/same-nodes", severity=WARNING, needs=Queues)
def same_nodes(queues: Queues) -> Iterator[Breach]:
    """Report two ResourceFlavors that select the same nodes.

    Kueue counts the quota of both flavors, so it admits jobs for more nodes than the cluster has. The check reads
    flavors with equal `nodeLabels` whose annotations `mpigen.dev/nodes` both count nodes: mpigen writes one
    ResourceFlavor for each pool.

    Source: kueue v0.19.2 pkg/podset/podset.go FromAssignment adds `nodeLabels` to the node selector of the pods
    """
    first: dict[tuple[tuple[str, str], ...], str] = {}
    for name, flavor in sorted(queues.tree.flavors.items()):
        labels = tuple(sorted(flavor.labels.items()))
        if not labels or flavor.nodes is None:
            continue
        other = first.setdefault(labels, name)
        if other != name:
            yield Breach(
                ("spec", "nodeLabels"),
                f"the flavors `{other}` and `{name}` select the same nodes, with the labels "
                f"{format_names(f'{key}={value}' for key, value in labels)}",
                "Kueue counts the quota of both flavors, and admits jobs whose pods then stay Pending",
                "correct the labels: each pool of nodes needs a label that the other pools lack",
                queues.of("ResourceFlavor")[name],
                at_key=True,
            )
