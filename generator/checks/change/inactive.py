"""change/queue-inactive: an update after which a ClusterQueue admits no job, because it lacks an object.

Kueue keeps a deleted ResourceFlavor or AdmissionCheck with a finalizer while a ClusterQueue names it, and a deleted
Topology while a ResourceFlavor names it (kueue v0.19.2 pkg/controller/core/resourceflavor_controller.go
ResourceFlavorReconciler.Reconcile; kueue v0.19.2 pkg/controller/core/admissioncheck_controller.go
AdmissionCheckReconciler.Reconcile; kueue v0.19.2 pkg/controller/tas/topology_controller.go
topologyReconciler.Reconcile).
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.change.queues import ChangedQueues, has_users
from generator.checks.finding import listed
from generator.checks.quota.queues import Queues
from generator.checks.registry import WARNING, Breach, check
from generator.objects.queue import ClusterQueue


@check("change/queue-inactive", severity=WARNING, needs=ChangedQueues)
def queue_inactive(change: ChangedQueues) -> Iterator[Breach]:
    """Report a removed ResourceFlavor, Topology or AdmissionCheck that a ClusterQueue still needs.

    Without the object, the queue is inactive: Kueue admits none of its jobs, even on other flavors. Running jobs
    continue. As long as the queue needs the removed object, Kueue keeps it, and only its deletion timestamp shows the
    removal. So the queue becomes inactive later, or on a new cluster. The check reports all queues of a removed object
    in one finding, and skips a ClusterQueue without a LocalQueue, unless the files have no LocalQueue at all.

    Source: kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go clusterQueue.inactiveReason; kueue v0.19.2
    pkg/controller/tas/topology_controller.go topologyReconciler.Reconcile; kueue v0.19.2
    pkg/controller/core/resourceflavor_controller.go ResourceFlavorReconciler.Reconcile
    """
    missing: dict[tuple[str, str], list[str]] = {}
    for name, queue in sorted(change.after.tree.queues.items()):
        old = change.before.tree.queues.get(name)
        if old is None or not has_users(change.before, name):
            continue
        earlier = {*_missing(change.before, old)}
        for key in _missing(change.after, queue):
            if key not in earlier and key[1] in change.before.of(key[0]):
                missing.setdefault(key, []).append(name)
    for (kind, name), queues in missing.items():
        noun, verb = ("ClusterQueue", "needs") if len(queues) == 1 else ("ClusterQueues", "need")
        yield Breach(
            ("metadata", "name"),
            f"{kind} `{name}` is removed in the next release, but {noun} {listed(queues)} {verb} it",
            f"Kueue keeps the {kind} while it is in use, and deletes it later. From then on, and on a new cluster, "
            f"Kueue admits no job of the {noun}, and running jobs continue",
            f"keep the {kind}, or change all objects that name it in the same release",
            change.before.of(kind)[name],
            value=name,
        )


def _missing(queues: Queues, queue: ClusterQueue) -> Iterator[tuple[str, str]]:
    """Yield (kind, name) of the objects that a queue needs and that the files lack.

    A Topology of a queue with an AdmissionCheck is left out, because MultiKueue may send its jobs to other clusters.
    """
    yield from (("ResourceFlavor", name) for name in queues.tree.missing_flavors(queue))
    yield from (("AdmissionCheck", name) for name in queue.checks if name not in queues.of("AdmissionCheck"))
    flavors = [queues.tree.flavors[name] for name in sorted(queue.flavors) if name in queues.tree.flavors]
    if not queue.checks:
        yield from dict.fromkeys(
            ("Topology", flavor.topology) for flavor in flavors if flavor.topology and not flavor.levels
        )
