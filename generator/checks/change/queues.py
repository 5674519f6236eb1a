"""change/*: queues, cohorts, flavors and priorities that an update removes, stops or reduces.

Kueue stops no job when its flavor changes. In kueue v0.19.2 no call of `workloadevict.Evict` depends on the flavor, and
Kueue does not compare the node selectors and tolerations of a running job's pods (kueue v0.19.2
pkg/util/equality/podset.go; kueue v0.19.2 pkg/controller/jobframework/reconciler.go EquivalentToWorkload). Jobs that
start later get the flavor's new values
(kueue v0.19.2 pkg/podset/podset.go FromAssignment). tests/cluster/test_changed_flavors.py verifies this with a real
Kueue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from generator.checks.change.immutable import next_name, written
from generator.checks.finding import listed
from generator.checks.objects import Change, ChangedObject, Objects
from generator.checks.quota.queues import KUEUE, Queues, by_flavor, format_amounts, quota_path, quota_rows
from generator.checks.registry import WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts.defects import known
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string
from generator.objects.queue import ClusterQueue, Cohort, FlavorResource, format_amount
from generator.upstream.kubernetes.selectors import find_untolerated_taint, format_taint

_STOPS = ("None", "Hold", "HoldAndDrain")
_QUEUES = ("ClusterQueue", "LocalQueue")
_QUEUE_KINDS = ("AdmissionCheck", "ClusterQueue", "Cohort", "ResourceFlavor", "Topology")
_RECLAIMS = ("Never", "LowerPriority", "Any")
_LISTED = 3  # flavors in a message

_Less = Mapping[FlavorResource, tuple[int, int]]
"""(flavor, resource) → (amount before the update, lower amount after the update)."""


@dataclass(frozen=True, slots=True)
class ChangedQueues:
    """The queues before and after an update that changes a ClusterQueue, Cohort, or an object that queues need.

    Attributes:
        before: the queues of the old tree.
        after: the queues of the new tree.
    """

    before: Queues
    after: Queues

    @classmethod
    def between(cls, change: Change) -> Sequence[ChangedQueues]:
        """Return the queues before and after, as one item.

        The result is empty if the update changes no ClusterQueue, Cohort, ResourceFlavor, Topology or AdmissionCheck,
        or if mpigen cannot read the queues of a tree.
        """
        return change.view(cls._read)

    @classmethod
    def _read(cls, change: Change) -> Sequence[ChangedQueues]:
        was, now = (
            {item.identity: item.body for item in tree if item.group == KUEUE and item.kind in _QUEUE_KINDS}
            for tree in (change.old, change.new)
        )
        if was == now:
            return ()
        before, after = (Queues.read(Objects(tuple(tree), change.targets)) for tree in (change.old, change.new))
        return (cls(before, after),) if before and after else ()


@check("change/queue-stopped", severity=WARNING, needs=ChangedObject)
def queue_stopped(change: ChangedObject) -> Iterator[Breach]:
    """Report a queue that stops admitting or running jobs.

    With `stopPolicy: Hold` Kueue admits no more jobs of the queue. With `HoldAndDrain` Kueue also evicts the running
    jobs.

    Source: kueue v0.19.2 pkg/controller/core/workload_controller.go
    WorkloadReconciler.reconcileOnClusterQueueActiveState; kueue v0.19.2 pkg/controller/core/workload_controller.go
    WorkloadReconciler.reconcileOnLocalQueueActiveState
    """
    if change.new.group != KUEUE or change.new.kind not in _QUEUES:
        return
    before, after = (str(mapping(item.body, "spec").get("stopPolicy") or "None") for item in (change.old, change.new))
    if before in _STOPS and after in _STOPS and _STOPS.index(after) > _STOPS.index(before):
        drains = after == "HoldAndDrain"
        yield Breach(
            ("spec", "stopPolicy"),
            f"`stopPolicy` changes from {format_value(before)} to {format_value(after)}",
            "Kueue evicts all running jobs of this queue, and admits no new jobs"
            if drains
            else "Kueue admits no more jobs of this queue",
            "ask the users of the queue to save their data first, or set `Hold`, which lets running jobs complete"
            if drains
            else "inform the users of the queue: running jobs complete, and all other jobs stay pending",
            value=after,
        )


@check("change/queue-removed", severity=WARNING, needs=Change)
def queue_removed(change: Change) -> Iterator[Breach]:
    """Report a removed queue that a remaining namespace uses.

    Kueue keeps a removed ClusterQueue, with a finalizer, until its running jobs end, and admits no jobs meanwhile.
    Pending jobs stay suspended. Running jobs of a removed LocalQueue do not start again after an eviction. If the
    update also removes the ClusterQueue of a LocalQueue, the check reports only the ClusterQueue. If the old files have
    no LocalQueue at all, the check reports every removed ClusterQueue.

    Source: kueue v0.19.2 pkg/controller/core/clusterqueue_controller.go ClusterQueueReconciler.Reconcile; kueue v0.19.2
    pkg/controller/core/workload_controller.go WorkloadReconciler.reconcileOnLocalQueueActiveState
    """
    namespaces = {manifest.name for manifest in change.removed("", "Namespace")}
    queues = {manifest.name for manifest in change.removed(KUEUE, "ClusterQueue")}
    local_queues = [manifest for manifest in change.old if (manifest.group, manifest.kind) == (KUEUE, "LocalQueue")]
    for manifest in change.removed(KUEUE, *_QUEUES):
        if manifest.kind == "ClusterQueue":
            users = {queue.namespace for queue in local_queues if _cluster_queue_of(queue) == manifest.name}
            has_users_left = bool(users - namespaces) or not local_queues
            running = "and Kueue deletes the queue after the last job ends"
        else:
            has_users_left = manifest.namespace not in namespaces and _cluster_queue_of(manifest) not in queues
            running = "but do not start again after an eviction"
        if has_users_left:
            yield Breach(
                ("metadata", "name"),
                f"{manifest.kind} `{manifest.name}` is removed in the next release",
                f"Kueue never admits pending jobs of this queue. Running jobs continue, {running}",
                "set `stopPolicy: Hold` in an earlier release, and remove the queue after all its jobs end",
                manifest,
                value=manifest.name,
            )


def _cluster_queue_of(local_queue: Manifest) -> str:
    return string(mapping(local_queue.body, "spec").get("clusterQueue"))


@check("change/cohort-removed", severity=WARNING, needs=Change)
def cohort_removed(change: Change) -> Iterator[Breach]:
    """Report a removed Cohort that queues or other Cohorts still name.

    The queues of the Cohort lose the quota that they borrow, so their jobs stay pending. Kueue reports no error: it
    treats the removed Cohort as a cohort without quota, parent and weight. The check reports nothing if the removed
    Cohort has no quota, parent or weight.

    Source: kueue v0.19.2 pkg/cache/hierarchy/manager.go: a cohort without an object has no quota and no parent
    """
    members: dict[str, str] = {}
    for manifest in change.new:
        if manifest.group == KUEUE and manifest.kind in ("ClusterQueue", "Cohort"):
            for field in ("cohortName", "cohort", "parentName"):
                members.setdefault(
                    string(mapping(manifest.body, "spec").get(field)), f"{manifest.kind} `{manifest.name}`"
                )
    for manifest in change.removed(KUEUE, "Cohort"):
        if any(mapping(manifest.body, "spec").values()) and manifest.name in members:
            yield Breach(
                ("metadata", "name"),
                f"Cohort `{manifest.name}` is removed in the next release, but {members[manifest.name]} still refers "
                "to it",
                f"Kueue treats `{manifest.name}` as a cohort without quota, parent and weight, so the queues of the "
                "cohort lose the quota that they borrow from the Cohort and from its parent",
                "keep the Cohort, or set another cohort in all objects that refer to it in the same release",
                manifest,
                value=manifest.name,
            )


@check("change/less-quota", severity=WARNING, needs=ChangedQueues)
def less_quota(change: ChangedQueues) -> Iterator[Breach]:
    """Report a queue with less quota than before.

    The update lowers the nominal quota of a ClusterQueue, or removes a flavor from the ClusterQueue. Kueue stops no
    running job at once. Usage above the new quota counts as borrowed, so other queues can reclaim it by preemption.
    Until usage is below the new quota, Kueue admits new jobs only if the queue can borrow more. An evicted job does not
    get a removed flavor again. The check skips a ClusterQueue without a LocalQueue, unless the files have no LocalQueue
    at all.

    Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go available; kueue v0.19.2
    pkg/cache/scheduler/resource_node.go IsWithinNominalInResources
    """
    before, after = change.before, change.after
    for name, queue in sorted(after.tree.queues.items()):
        old = before.tree.queues.get(name)
        if old is None or not has_users(before, name):
            continue
        less = {
            key: (quota.nominal, queue.quota(key).nominal)
            for key, quota in old.quotas.items()
            if quota.nominal > queue.quota(key).nominal
        }
        for flavor, amounts in by_flavor(less):
            manifest, is_removed = after.of("ClusterQueue")[name], flavor not in queue.flavors
            yield Breach(
                quota_path(manifest, amounts, "nominalQuota"),
                f"ClusterQueue `{name}` {'loses' if is_removed else 'has less quota of'} flavor `{flavor}`: "
                f"{_format_less(amounts)}",
                "running jobs continue, but do not get the flavor again after an eviction; new "
                "jobs never get the flavor"
                if is_removed
                else "running jobs continue, but other queues can reclaim usage above the new quota; until usage is "
                "below the new quota, new jobs stay pending unless the queue can borrow more",
                "inform the team first, or set `stopPolicy: Hold` first, so that running jobs end and no new jobs "
                "start",
                manifest,
            )


def has_users(queues: Queues, queue: str) -> bool:
    """Return True if a LocalQueue names the ClusterQueue, or if the files have no LocalQueue at all."""
    return queue in queues.local_queues or not queues.tree.local_queues


def _format_less(less: _Less) -> str:
    """Format lower amounts, devices first: `nvidia.com/gpu 64 → 32, cpu 1536 → 768`."""
    amounts = sorted(((key.resource, *pair) for key, pair in less.items()), key=lambda row: "/" not in row[0])
    return ", ".join(f"{name} {format_amount(name, old)} → {format_amount(name, new)}" for name, old, new in amounts)


@check("change/less-to-borrow", severity=WARNING, needs=ChangedQueues)
def less_to_borrow(change: ChangedQueues) -> Iterator[Breach]:
    """Report a queue that can borrow less than before.

    The queue keeps its nominal quota, but its `borrowingLimit` is lower, or other queues lend less. Kueue never admits
    pending jobs that need more. If a Cohort lowers its `borrowingLimit`, the check reports all affected queues below it
    in one finding, at the Cohort. If a queue or Cohort lends less, and several queues can therefore borrow less, the
    check reports them in one finding, at the queue or Cohort whose lending falls most. The check skips a ClusterQueue
    without a LocalQueue, unless the files have no LocalQueue at all.

    Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go potentialAvailable
    """
    before, after = change.before, change.after
    manifests = after.of("ClusterQueue")
    affected: dict[tuple[str, str, str], dict[str, _Less]] = {}
    for name in sorted(before.most.keys() & after.most.keys()):
        less = _less_at_most(before, after, name) if has_users(before, name) else {}
        for flavor, amounts in by_flavor(less):
            cause = _lower_limit(before, after, name, amounts) or ("", before.nodes[name].root().name)
            affected.setdefault((*cause, flavor), {})[name] = amounts
    for (kind, limited, flavor), queues in affected.items():
        first, less = next(iter(queues.items()))
        if kind:
            manifest = after.of(kind)[limited]
            path = quota_path(manifest, less, "borrowingLimit")
        else:
            manifest, path = _lender(before, after, next(iter(less))) or (manifests[first], ("spec",))
        yield _less_to_borrow(manifest, path, list(queues), flavor, less)


def _less_to_borrow(manifest: Manifest, path: Path, queues: Sequence[str], flavor: str, less: _Less) -> Breach:
    subject, amounts = f"ClusterQueue {listed(queues)}", f"at most {_format_less(less)}"
    if len(queues) > 1:
        subject, amounts = f"ClusterQueues {listed(queues)}", f"`{queues[0]}` {amounts}"
    return Breach(
        path,
        f"{subject} can get less of flavor `{flavor}`: {amounts}",
        "running jobs continue, but Kueue never admits pending jobs that need more than the new amount",
        "inform the owners of pending jobs that need more, or let their jobs start before the update",
        manifest,
    )


def _less_at_most(before: Queues, after: Queues, queue: str) -> _Less:
    """Return (flavor, resource) → (old, new) largest amount that a queue can get, for amounts that fall.

    Amounts whose nominal quota also falls are left out, because `change/less-quota` reports them.
    """
    old, new = before.tree.queues[queue], after.tree.queues[queue]
    return {
        key: (amount, after.most[queue][key])
        for key, amount in before.most[queue].items()
        if amount > after.most[queue].get(key, amount) and old.quota(key).nominal <= new.quota(key).nominal
    }


def _lower_limit(before: Queues, after: Queues, queue: str, keys: Iterable[FlavorResource]) -> tuple[str, str] | None:
    """Return (kind, name) of the queue, or of the nearest Cohort above it, whose lower borrowing limit takes effect.

    The result is None if the update sets or lowers no borrowing limit for these keys, or if all lower limits still
    exceed the quota that others lend.
    """
    node = after.nodes[queue]
    for place, key in product((node, *node.path()), keys):
        kind = "ClusterQueue" if place.queue else "Cohort"
        holders: Mapping[str, ClusterQueue | Cohort] = before.tree.queues if place.queue else before.tree.cohorts
        limit, old = place.quota(key).borrowing, holders[place.name].quotas.get(key) if place.name in holders else None
        if limit is None or place.parent is None or place.name not in after.of(kind):
            continue
        is_lower = old is None or old.borrowing is None or limit < old.borrowing
        if is_lower and place.potential(key) == place.has(key) + limit:
            return kind, place.name
    return None


def _lender(before: Queues, after: Queues, key: FlavorResource) -> tuple[Manifest, Path] | None:
    """Return the queue or Cohort whose lending falls most, and the path of its `lendingLimit` or `nominalQuota`.

    If the update removes this queue or Cohort, return the old object and the path of its name. If no queue or Cohort
    lends less than before, return None.
    """
    old, new = _lending(before, key), _lending(after, key)
    lost = {holder: amount - new.get(holder, 0) for holder, amount in old.items() if amount > new.get(holder, 0)}
    if not lost:
        return None
    kind, name = min(lost, key=lambda holder: (-lost[holder], holder))
    manifest = after.of(kind).get(name)
    if manifest is None:
        return before.of(kind)[name], ("metadata", "name")
    is_limited = any(row.key == key and "lendingLimit" in row.body for row in quota_rows(manifest))
    return manifest, quota_path(manifest, (key,), "lendingLimit" if is_limited else "nominalQuota")


def _lending(queues: Queues, key: FlavorResource) -> Mapping[tuple[str, str], int]:
    """Return (kind, name) of each ClusterQueue and Cohort → the amount of `key` that others can borrow from it."""
    return {
        (kind, name): quota.lendable
        for kind, holders in (("ClusterQueue", queues.tree.queues), ("Cohort", queues.tree.cohorts))
        for name, holder in holders.items()
        if (quota := holder.quotas.get(key)) and name in queues.of(kind)
    }


@check("change/less-to-reclaim", severity=WARNING, needs=ChangedQueues)
def less_to_reclaim(change: ChangedQueues) -> Iterator[Breach]:
    """Report a queue that can no longer reclaim all of its quota by preemption.

    `reclaimWithinCohort` changes from `Any` to `LowerPriority` or `Never`, or from `LowerPriority` to `Never`, and
    other queues can borrow the quota of this queue. The queue gets back the quota that other queues borrowed only
    after their jobs end, or, with `LowerPriority`, by preempting their jobs of lower priority. Fair sharing does not
    change this. The check skips a ClusterQueue without a LocalQueue, unless the files have no LocalQueue at all.

    Source: kueue v0.19.2 pkg/scheduler/preemption/policy.go; kueue v0.19.2
    pkg/scheduler/preemption/classical/hierarchical_preemption.go
    """
    before, after = change.before, change.after
    for name, queue in sorted(after.tree.queues.items()):
        if name not in before.tree.queues or not has_users(before, name):
            continue
        old = before.tree.queues[name].preemption.reclaim_within_cohort
        new = queue.preemption.reclaim_within_cohort
        if old not in _RECLAIMS or new not in _RECLAIMS or _RECLAIMS.index(new) >= _RECLAIMS.index(old):
            continue
        if lent := [
            f"{format_amounts(amounts)} of flavor `{flavor}`" for flavor, amounts in by_flavor(_can_lend(after, name))
        ]:
            victims = "no running job" if new == "Never" else "only running jobs of lower priority"
            yield Breach(
                ("spec", "preemption", "reclaimWithinCohort"),
                f"`reclaimWithinCohort` changes from `{old}` to `{new}`",
                f"other queues can borrow up to {', '.join(lent[:_LISTED])}. Kueue preempts {victims} to reclaim this"
                " quota, so jobs of this queue stay pending until the borrowing jobs end",
                f"keep `reclaimWithinCohort: {old}`, or set a `lendingLimit` so that other queues can borrow less",
                after.of("ClusterQueue")[name],
                value=new,
            )


def _can_lend(queues: Queues, name: str) -> Mapping[FlavorResource, int]:
    """Return (flavor, resource) → the amount that other queues can borrow from a queue; empty without other queues."""
    node = queues.nodes.get(name)
    if node is None or node.parent is None:
        return {}
    if queues.has_members(node.root()) and all(member is node for member in node.root().below()):
        return {}
    lendable = {key: node.has(key) - node.kept(key) for key in node.quotas}
    return {key: amount for key, amount in lendable.items() if amount > 0}


@check("change/flavor-nodes", severity=WARNING, needs=ChangedObject)
def flavor_nodes(change: ChangedObject) -> Iterator[Breach]:
    """Report a ResourceFlavor that selects other nodes or accepts fewer jobs than before.

    The update changes `nodeLabels`, adds a taint that the flavor does not tolerate, or removes a toleration. Kueue
    stops no job: running jobs keep their nodes, and count as usage of the flavor. Jobs that Kueue admits later get the
    new labels and tolerations. If no node matches, the pods of these jobs stay Pending, and the jobs hold their quota.
    Kueue never admits jobs that do not tolerate a new taint to the flavor. For a flavor with a topology,
    `change/immutable` reports changed labels and tolerations, because the API server rejects them.

    Source: kueue v0.19.2 pkg/podset/podset.go FromAssignment copies the labels and tolerations of a flavor on admission
    """
    if change.new.group != KUEUE or change.new.kind != "ResourceFlavor":
        return
    before, after = (mapping(flavor.body, "spec") for flavor in (change.old, change.new))
    if before.get("topologyName"):  # the API server rejects changed labels and tolerations: change/immutable
        after = {**after, "tolerations": before.get("tolerations")}
    else:
        labels, new_labels = mapping(before, "nodeLabels"), mapping(after, "nodeLabels")
        if labels != new_labels:
            yield Breach(
                ("spec", "nodeLabels"),
                f"`nodeLabels` changes from {written(dict(labels) or None)} to {written(dict(new_labels) or None)}",
                "running jobs keep their nodes and count as usage of this flavor. Pods of later jobs need nodes with"
                " the new labels; without such nodes these pods stay Pending, and their jobs hold quota",
                "set the new labels on the nodes first; to use other nodes, add a flavor such as "
                f"`{next_name(change.new.name)}`, and keep this flavor until its jobs end",
            )
        kept = mappings(after.get("tolerations"))
        removed = [toleration for toleration in mappings(before.get("tolerations")) if toleration not in kept]
        if removed:
            yield Breach(
                ("spec", "tolerations"),
                f"pods of new jobs no longer get the toleration {written(removed[0])}",
                "if the nodes have the taint of this toleration, pods without their own toleration stay Pending, and"
                " their jobs hold quota; running jobs continue",
                "remove the taint from the nodes first, or keep the toleration",
            )
    untolerated = _untolerated_taints(before)
    added = [format_taint(taint) for taint in _untolerated_taints(after) if taint not in untolerated]
    if added:
        yield Breach(
            ("spec", "nodeTaints"),
            f"after this update, the flavor accepts only jobs that tolerate the taint {' and the taint '.join(added)}",
            "Kueue never admits a job without this toleration to the flavor, not even a job that is pending now; "
            "running jobs continue",
            "let pending jobs start before the update, or submit these jobs again on a runtime that tolerates the "
            "taint",
        )


def _untolerated_taints(flavor: Mapping[str, object]) -> list[Body]:
    """Return the taints that no toleration of the flavor tolerates, ignoring tolerations that compare numbers."""
    tolerations = [item for item in mappings(flavor.get("tolerations")) if item.get("operator") not in ("Gt", "Lt")]
    return [
        taint
        for taint in mappings(flavor.get("nodeTaints"))
        if find_untolerated_taint([taint], tolerations) is not None
    ]


@check("change/flavor-not-retried", severity=WARNING, needs=ChangedObject)
def flavor_not_retried(change: ChangedObject) -> Iterator[Breach]:
    """Report a flavor that accepts more jobs than before, although Kueue does not retry pending jobs.

    The update removes a taint, adds a toleration or changes the node labels, so the flavor can accept more jobs. Kueue
    does not retry the jobs that it could not admit before: a job stays pending until another workload ends or the
    ClusterQueue of the job changes.

    Source: kueue v0.18.3 pkg/controller/core/resourceflavor_controller.go ResourceFlavorReconciler.Update; kueue
    v0.18.3 pkg/controller/tas/resource_flavor.go rfReconciler.Update
    """
    if change.new.group != KUEUE or change.new.kind != "ResourceFlavor":
        return
    before, after = (mapping(flavor.body, "spec") for flavor in (change.old, change.new))
    tolerations = mappings(before.get("tolerations"))
    fields = {
        "nodeTaints": any(taint not in _untolerated_taints(after) for taint in _untolerated_taints(before)),
        "tolerations": any(toleration not in tolerations for toleration in mappings(after.get("tolerations"))),
        "nodeLabels": mapping(before, "nodeLabels") != mapping(after, "nodeLabels"),
    }
    if changed := [field for field, accepts_more in fields.items() if accepts_more]:
        defect = known("kueue-forgets-jobs-when-a-flavor-changes")
        yield Breach(
            ("spec", changed[0]) if changed[0] in after else ("spec",),
            "the flavor can accept more jobs than before: the update changes "
            + " and ".join(map(format_value, changed)),
            "Kueue does not retry pending jobs when a flavor changes: a job that Kueue could not admit before stays "
            f"pending until another workload ends or the ClusterQueue of the job changes ({defect.note})",
            f"update to {defect.update}, or change `spec` of each ClusterQueue with this flavor in the same release",
            at_key=changed[0] in after,
        )


@check("change/flavor-topology", severity=WARNING, needs=ChangedQueues)
def flavor_topology(change: ChangedQueues) -> Iterator[Breach]:
    """Report a flavor that jobs without a topology request can no longer use.

    If a queue has flavors with and without a topology, Kueue gives a flavor with a topology only to jobs with a
    topology request, such as the pod annotation `kueue.x-k8s.io/podset-required-topology`. An update causes this if it
    adds a topology to one of several flavors of a queue, or if it adds a flavor without a topology to the queue. A
    pending job without the annotation cannot get the annotation later, so the job can use only the flavors without a
    topology.
    Running jobs continue. If all flavors of a queue have a topology, jobs need no topology request. The check skips a
    ClusterQueue without a LocalQueue, unless the files have no LocalQueue at all.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go checkPodSetAndFlavorMatchForTAS
    """
    before, after = change.before, change.after
    flavors = after.of("ResourceFlavor")
    affected: dict[str, list[str]] = {}
    for name, queue in sorted(after.tree.queues.items()):
        old = before.tree.queues.get(name)
        if old is not None and has_users(before, name):
            closed = queue.flavors - _open_flavors(after, queue)
            for flavor in sorted(_open_flavors(before, old) & closed & flavors.keys()):
                affected.setdefault(flavor, []).append(name)
    for flavor, queues in affected.items():
        yield Breach(
            ("spec", "topologyName"),
            f"after this update, only jobs with a topology request can use flavor `{flavor}` in ClusterQueue"
            f"{'s' if len(queues) > 1 else ''} {listed(queues)}",
            "the queue also has a flavor without a topology, so Kueue admits jobs whose pods have no annotation such "
            "as `kueue.x-k8s.io/podset-required-topology` only to flavors without a topology; running jobs continue",
            "set a topology on every flavor of the queue. If a flavor must stay without a topology, either let pending"
            " jobs start before the update, or submit these jobs again on a runtime with this annotation",
            flavors[flavor],
        )


def _open_flavors(queues: Queues, queue: ClusterQueue) -> frozenset[str]:
    """Return the flavors of a queue that jobs without a topology request can use.

    These are the flavors without a topology, or all flavors if each of them has a topology.
    """
    flavors = queues.of("ResourceFlavor")
    plain = {
        name
        for name in queue.flavors
        if name in flavors and not string(mapping(flavors[name].body, "spec").get("topologyName"))
    }
    return frozenset(plain or queue.flavors)


@check("change/priority-removed", severity=WARNING, needs=Change)
def priority_removed(change: Change) -> Iterator[Breach]:
    """Report a removed WorkloadPriorityClass.

    Pending and running jobs keep their priority. Kueue creates no Workload for a later job that names the class: the
    job stays suspended until the class exists again. No event gives the reason, only Kueue's log.

    Source: kueue v0.19.2 pkg/controller/jobframework/reconciler.go JobReconciler.prepareWorkload
    """
    for manifest in change.removed(KUEUE, "WorkloadPriorityClass"):
        yield Breach(
            ("metadata", "name"),
            f"WorkloadPriorityClass `{manifest.name}` is removed in the next release",
            "new jobs with this priority class stay suspended, and only Kueue's log shows the cause; pending and "
            "running jobs keep their priority",
            f"remove the label `{KUEUE}/priority-class: {manifest.name}` from all jobs first",
            manifest,
            value=manifest.name,
        )
