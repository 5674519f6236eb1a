"""quota/*: quota that exceeds the nodes, expired reservations, and limits and weights without effect.

Kueue does not count nodes: it admits jobs by quota, and pods for which no node has room stay Pending.
The rules on lending need two queues of a cohort tree or its root Cohort: with one queue, other lenders may exist.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from generator.checks.objects import Objects
from generator.checks.quota.queues import KUEUE, Queues, by_flavor, format_amounts, quota_path
from generator.checks.registry import ERROR, INFO, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.scalars import read_json
from generator.facts.names import NODES, RESERVATIONS
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.objects.queue import FlavorResource, format_amount
from generator.upstream.kueue.queues import Node

_WEIGHT: Path = ("spec", "fairSharing", "weight")
_LISTED = 3  # holders of quota in a message


@check("quota/over-capacity", severity=ERROR, needs=Queues)
def over_capacity(queues: Queues) -> Iterator[Breach]:
    """Report quotas of a ResourceFlavor that exceed its nodes.

    Kueue does not count nodes. It admits jobs by quota, and the pods that exceed the nodes stay Pending while their
    job holds the quota.

    The annotations `mpigen.dev/nodes: "16"` and `mpigen.dev/allocatable: '{"cpu": "192", "nvidia.com/gpu": "8"}'` of
    a ResourceFlavor set the number of its nodes, and the resources that one node offers. Without these annotations the
    check reports nothing. Jobs of a MultiKueue queue run on other clusters, so the quota of the queue counts only if
    another queue of this cluster can borrow the quota. Quota of a Cohort does not count if the Cohort's tree has only
    MultiKueue queues.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.fitsResourceQuota compares
    quotas only
    """
    holders = _holders(queues)
    counting = queues.settings.counting
    for name, flavor in sorted(queues.tree.flavors.items()) if queues.settings.is_modelled else ():
        if not flavor.allocatable or flavor.nodes is None:
            continue
        capacity = {resource: flavor.nodes * amount for resource, amount in counting.of(flavor.allocatable).items()}
        over = {
            key.resource: amounts
            for key, amounts in holders.items()
            if key.flavor == name
            and counting.is_counted(key.resource)
            and (key.resource in capacity or "/" in key.resource)
            and sum(amounts.values()) > capacity.get(key.resource, 0)
        }
        if capacity and over:
            yield Breach(
                ("metadata", "annotations", NODES),
                f"the quotas of this flavor exceed its {flavor.nodes} nodes: {_format_excess(over, capacity)}",
                "Kueue admits jobs by quota alone. Jobs that do not fit on the nodes hold quota while their pods stay "
                "Pending",
                "lower the quotas, set `lendingLimit: 0` on MultiKueue queues, or correct the number of nodes"
                if any(" lends" in holder for amounts in over.values() for holder in amounts)
                else "lower the quotas, or correct the number of nodes",
                queues.of("ResourceFlavor")[name],
                value=str(flavor.nodes),
            )


def _format_excess(over: Mapping[str, Mapping[str, int]], capacity: Mapping[str, int]) -> str:
    """Format excess quota for a message, devices first: the totals, and the largest holders of one resource.

    Args:
        over: resource → `queue NAME has` → nominal quota.
        capacity: resource → amount of the nodes.
    """
    resources = sorted(over, key=lambda resource: ("/" not in resource, resource))
    totals = [
        f"quotas of {format_amount(resource, sum(over[resource].values()))} {resource} for nodes with "
        f"{format_amount(resource, capacity.get(resource, 0))}"
        for resource in resources
    ]
    first, amounts = resources[0], over[resources[0]]
    largest = sorted(amounts, key=lambda holder: (-amounts[holder], holder))
    parts = [f"{holder} {format_amount(first, amounts[holder])} {first}" for holder in largest[:_LISTED]]
    if len(largest) > _LISTED:
        parts.append(f"{len(largest) - _LISTED} more have the rest")
    return f"{' and '.join(totals)} ({', '.join(parts)})"


def _holders(queues: Queues) -> Mapping[FlavorResource, Mapping[str, int]]:
    """Return (flavor, resource) → holder, such as `queue NAME has` → its nominal quota for jobs in this cluster."""
    holders: dict[FlavorResource, dict[str, int]] = {}
    tree, borrowers = queues.tree, _borrowers(queues)
    roots: Mapping[bool, set[str]] = {True: set(), False: set()}  # True: root cohorts with MultiKueue queues
    for name, queue in tree.queues.items():
        root = queues.nodes[name].root().name if queue.cohort and name in queues.nodes else ""
        roots[queue.is_multi_kueue].add(root)
        for key, quota in queue.quotas.items():
            holder, amount = f"queue `{name}` has", quota.nominal
            if queue.is_multi_kueue:
                is_lent = any(not tree.queues[borrower].is_multi_kueue for borrower in borrowers.get((root, key), ()))
                holder, amount = f"queue `{name}` lends", quota.lendable if is_lent else 0
            if amount > 0:
                holders.setdefault(key, {})[holder] = amount
    remote = roots[True] - roots[False]
    for name, cohort in tree.cohorts.items():
        if not remote or [*tree.ancestors(name)][-1].name not in remote:
            for key, quota in cohort.quotas.items():
                if quota.nominal > 0:
                    holders.setdefault(key, {})[f"cohort `{name}` has"] = quota.nominal
    return holders


def _borrowers(queues: Queues) -> Mapping[tuple[str, FlavorResource], AbstractSet[str]]:
    """Return (root cohort, flavor and resource) → the queues that can get more than their nominal quota."""
    borrowers: dict[tuple[str, FlavorResource], set[str]] = {}
    for name, most in queues.most.items():
        node = queues.nodes[name]
        root = node.root().name
        for key, amount in most.items():
            if amount > node.quota(key).nominal:
                borrowers.setdefault((root, key), set()).add(name)
    return borrowers


@check("quota/reservation-over", severity=WARNING, needs=Objects)
def reservation_over(objects: Objects) -> Iterator[Breach]:
    """Report a reservation whose last day is past.

    A reservation gives a team more quota until a last day (`tenants[].reservations` of `platform.yaml`). Nothing in a
    cluster removes the quota on this day: it stays in the ClusterQueue until you remove the reservation.

    The annotation `mpigen.dev/reservations` of a ClusterQueue has the last days. The check takes the present day from
    the clock (UTC), or from `SOURCE_DATE_EPOCH` if this variable is set.

    Source: mpigen: it defines reservations, and writes their last days into the annotation
    """
    today = objects.today
    if today is None:
        return
    for queue in objects.of(KUEUE, "ClusterQueue"):
        for name, until in _reservations(queue):
            if until < today:
                days = (today - until).days
                yield Breach(
                    ("metadata", "annotations", RESERVATIONS),
                    f"the reservation `{name}` ended on {until}, {days} day{'' if days == 1 else 's'} ago",
                    "the queue keeps the reserved quota, because nothing in a cluster removes it on that day",
                    "remove the reservation from `platform.yaml`, or set a later last day",
                    queue,
                )


def _reservations(manifest: Manifest) -> Iterator[tuple[str, dt.date]]:
    """Yield the name and the last day of each reservation of a queue."""
    text = mapping(manifest.body, "metadata", "annotations").get(RESERVATIONS)
    try:
        reservations = read_json(text) if isinstance(text, str) else None
    except ValueError:
        return
    for name, until in sorted(reservations.items()) if isinstance(reservations, dict) else ():
        try:
            yield name, dt.date.fromisoformat(str(until))
        except ValueError:
            continue


@check("quota/borrows-nothing", severity=WARNING, needs=Queues)
def borrows_nothing(queues: Queues) -> Iterator[Breach]:
    """Report a borrowing limit above 0 in a cohort that lends nothing.

    A ClusterQueue with the limit never gets more than its nominal quota. A Cohort with the limit never gets more than
    its nominal quota and the quota that its queues and child Cohorts lend. The check reports nothing if the files have
    only one queue of a cohort tree without its root Cohort, because other queues may lend.

    Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go potentialAvailable
    """
    for manifest, node, root in _in_cohorts(queues):
        unusable: dict[str, dict[FlavorResource, int]] = {}
        for key, quota in node.quotas.items():
            if quota.borrowing and node.potential(key) <= node.has(key):
                unusable.setdefault(_borrowing_scope(node, key).name, {})[key] = quota.borrowing
        for scope, (flavor, limits) in ((name, part) for name, keys in unusable.items() for part in by_flavor(keys)):
            amounts, most = (format_amounts(some) for some in (limits, {key: node.has(key) for key in limits}))
            name, is_queue, is_root = manifest.name, manifest.kind == "ClusterQueue", scope == root
            yield Breach(
                quota_path(manifest, limits, "borrowingLimit"),
                f"`borrowingLimit` of {manifest.kind} `{name}` allows {amounts} of flavor `{flavor}`, but "
                + ("no other queue or Cohort" if is_queue else f"no queue or Cohort outside `{name}`")
                + f" in the tree of cohort `{scope}` lends any"
                + ("" if is_root else f", and `{scope}` itself has `borrowingLimit: 0`"),
                f"`{name}` never gets more than its nominal quota of {most}"
                if is_queue
                else f"`{name}` and its queues never get more than {most} together: the nominal quota of `{name}` and "
                "the quota that its queues and child Cohorts lend",
                "add quota that another queue or Cohort of the cohort tree lends, or set this `borrowingLimit` to 0"
                if is_root
                else f"raise the `borrowingLimit` of Cohort `{scope}`, or set this `borrowingLimit` to 0",
                manifest,
            )


@check("quota/borrows-less", severity=WARNING, needs=Queues)
def borrows_less(queues: Queues) -> Iterator[Breach]:
    """Report a borrowing limit that exceeds what a Cohort above can borrow.

    The `borrowingLimit` of a Cohort also limits its queues and child Cohorts. So a queue never gets more than the
    other queues of the Cohort lend, plus the limit of the Cohort. `quota/borrows-nothing` reports limits of which a
    queue can use nothing.

    Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go potentialAvailable
    """
    for manifest, node, _ in _in_cohorts(queues):
        for key, quota in node.quotas.items():
            most, declared = node.potential(key), node.has(key) + (quota.borrowing or 0)
            if (
                not quota.borrowing
                or most <= node.has(key)
                or most >= min(declared, _potential_without_limits(node, key))
            ):
                continue
            limiting = next(one for one in node.path() if one.parent and one.quota(key).borrowing is not None)
            borrowed, limit = (
                f"{format_amount(key.resource, amount)} {key.resource}"
                for amount in (most - node.has(key), limiting.quota(key).borrowing or 0)
            )
            yield Breach(
                quota_path(manifest, [key], "borrowingLimit"),
                f"{manifest.kind} `{manifest.name}` can borrow at most {borrowed} of flavor `{key.flavor}`, because "
                f"its Cohort `{limiting.name}` can borrow only {limit}",
                f"jobs that need the whole `borrowingLimit` of {format_amount(key.resource, quota.borrowing)} stay "
                "suspended",
                f"lower this `borrowingLimit`, or raise the `borrowingLimit` of Cohort `{limiting.name}`",
                manifest,
            )


def _potential_without_limits(node: Node, key: FlavorResource) -> int:
    """Return the quota that a node would get if neither it nor a Cohort above had a `borrowingLimit`."""
    root, kept = node.root(), sum(one.kept(key) for one in (node, *node.path()) if one.parent)
    return root.has(key) + kept


def _borrowing_scope(node: Node, key: FlavorResource) -> Node:
    """Return the lowest Cohort above a node that sets `borrowingLimit: 0`; else the root.

    A node borrows only the quota that queues and Cohorts in the tree of this Cohort lend.
    """
    return next((cohort for cohort in node.path() if cohort.quota(key).borrowing == 0), node.root())


@check("quota/lends-nobody", severity=INFO, needs=Queues)
def lends_nobody(queues: Queues) -> Iterator[Breach]:
    """Report quota that no other queue can borrow.

    The check reads the ClusterQueues of cohorts, and reports:

    - Quota with a `lendingLimit` above 0. This quota is idle while the queue itself does not use it.
    - Quota of a ClusterQueue without a LocalQueue. The queue has no jobs, so no job can use the quota. An example is
      mpigen's ClusterQueue `slack`, which has the quota of nodes that no team owns. If the files have no LocalQueue at
      all, the check reports only quota with a `lendingLimit`.

    The check reports nothing if the files have only one queue of a cohort tree without its root Cohort, because other
    queues may borrow.

    Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go LocalAvailable; kueue v0.19.2
    pkg/cache/scheduler/resource_node.go available
    """
    borrowers = _borrowers(queues)
    for manifest, node, root in _in_cohorts(queues):
        if node.queue is None:
            continue
        is_unreachable = bool(queues.tree.local_queues) and node.name not in queues.local_queues
        idle = {
            key: quota.lendable
            for key, quota in node.quotas.items()
            if (is_unreachable or quota.lending) and not borrowers.get((root, key), set()) - {node.name}
        }
        for flavor, amounts in by_flavor({key: amount for key, amount in idle.items() if amount}):
            yield Breach(
                quota_path(manifest, amounts, "nominalQuota" if is_unreachable else "lendingLimit"),
                f"ClusterQueue `{node.name}` lends {format_amounts(amounts)} of flavor `{flavor}`, but no other queue "
                f"in cohort `{root}` can borrow this quota",
                "this queue has no LocalQueue either, so no job can use the quota"
                if is_unreachable
                else "the quota is idle when this queue does not use all of its quota",
                "raise the `borrowingLimit` of another queue, or move the quota to a queue whose jobs need it",
                manifest,
            )


@check("quota/no-share", severity=WARNING, needs=Queues)
def no_share(queues: Queues) -> Iterator[Breach]:
    """Report a fair-sharing weight of 0 on a ClusterQueue or Cohort that can borrow.

    With fair sharing, Kueue admits jobs that borrow with this weight after all other jobs, and preempts them first. The
    check reports nothing if Kueue's configuration is among the files and turns fair sharing off, or if the files have
    only one queue of a cohort tree without its root Cohort.

    Source: kueue v0.19.2 pkg/cache/scheduler/fair_sharing.go CompareDRS
    """
    if queues.settings.is_fair is False:
        return
    for manifest, node, _ in _in_cohorts(queues):
        key = next((key for key in node.subtree if node.potential(key) > node.has(key)), None)
        if node.weight == 0 and key:
            amount = format_amount(key.resource, node.potential(key) - node.has(key))
            yield Breach(
                _WEIGHT,
                f"the weight is 0, but the {manifest.kind} can borrow {amount} {key.resource} of flavor `{key.flavor}`",
                f"with fair sharing, Kueue admits the borrowing jobs of this {manifest.kind} last, and preempts these "
                "jobs first",
                "set a weight above 0, unless you intend these jobs to use only quota that no other queue needs",
                manifest,
                value=0,
            )


@check("quota/idle-weight", severity=WARNING, needs=Queues)
def idle_weight(queues: Queues) -> Iterator[Breach]:
    """Report a fair-sharing weight while fair sharing is off.

    Kueue ignores weights unless its configuration turns fair sharing on. The check needs Kueue's configuration among
    the files. A weight of 1, the default, is not reported.

    Source: kueue v0.19.2 pkg/scheduler/scheduler.go `fairsharing.Enabled`
    """
    if queues.settings.is_fair is not False:
        return
    for kind, members in (("ClusterQueue", queues.tree.queues), ("Cohort", queues.tree.cohorts)):
        for name in sorted(name for name, member in members.items() if member.weight != 1):
            manifest = queues.of(kind)[name]
            weight = manifest.body["spec"]["fairSharing"]["weight"]
            yield Breach(
                _WEIGHT,
                f"the weight is {weight}, but Kueue's configuration turns fair sharing off",
                "Kueue ignores the weight: the priority and the age of jobs decide which job borrows first",
                "turn fair sharing on in Kueue's configuration, or remove the weight",
                manifest,
                value=weight,
            )


def _in_cohorts(queues: Queues) -> Iterator[tuple[Manifest, Node, str]]:
    """Yield (ClusterQueue or Cohort, its node in the cohort tree, name of the root Cohort).

    Cohort trees of which the files seem to lack queues are left out, see `Queues.has_members`.
    """
    cohorts = {parent.name: parent for node in queues.nodes.values() for parent in node.path() if parent.parent}
    for kind, nodes in (("ClusterQueue", queues.nodes), ("Cohort", cohorts)):
        for name, node in sorted(nodes.items()):
            if node.parent and name in queues.of(kind) and queues.has_members(root := node.root()):
                yield queues.of(kind)[name], node, root.name
