"""change/flavor-*: what becomes of jobs whose flavor comes to mean other nodes.

Kueue stops no job for it: none of the calls of `workloadevict.Evict` in kueue v0.19.2 asks for the flavor, and of the
pods of a job that runs neither node selectors nor tolerations are compared (pkg/util/equality/podset.go,
pkg/controller/jobframework/reconciler.go EquivalentToWorkload). Those that start get what the flavor says then
(pkg/podset/podset.go FromAssignment). tests/cluster/test_changed_flavors.py shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.change_immutable import next_name, written
from generator.checks.change_quota import has_people
from generator.checks.finding import Breach, Severity, listed
from generator.checks.queued import KUEUE, Queued
from generator.facts.defects import known
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string
from generator.objects.selectors import find_untolerated_taint, format_taint
from generator.simulate.kueue.queues import ClusterQueue

_CHECK = "change/flavor-nodes"


def nodes(old: Manifest, new: Manifest, _targets: Mapping[str, str]) -> Iterator[Breach]:
    """Other labels, a taint that keeps jobs out, a toleration less; of a topology's nodes only taints may change."""
    if new.group != KUEUE or new.kind != "ResourceFlavor":
        return
    was, now = (mapping(each.body, "spec") for each in (old, new))
    if was.get("topologyName"):
        now = {**now, "tolerations": was.get("tolerations")}
    else:
        yield from _labels(new, mapping(was, "nodeLabels"), mapping(now, "nodeLabels"))
        yield from _tolerations(was, now)
    yield from _taints(was, now)


def _labels(new: Manifest, was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Breach]:
    if was != now:
        yield Breach(
            ("spec", "nodeLabels"),
            _CHECK,
            f"`nodeLabels` was {written(dict(was) or None)}, and becomes {written(dict(now) or None)}",
            "jobs that run stay on the nodes of before, and count against this flavor; those that start go to nodes"
            " with the new labels, and where there are none, hold their quota and wait",
            f"label the nodes before; for other nodes write another flavor, such as `{next_name(new.name)}` (in a"
            " platform file: another pool), and keep this one until its jobs have ended",
            Severity.WARNING,
        )


def _taints(was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Breach]:
    before = _keeping_out(was)
    more = [format_taint(taint) for taint in _keeping_out(now) if taint not in before]
    if more:
        yield Breach(
            ("spec", "nodeTaints"),
            _CHECK,
            f"only jobs that tolerate {', '.join(more)} are let in from now on",
            "Kueue never admits the others here, not even those that wait; jobs that run go on",
            "let those that wait begin before, or have them submitted again on a runtime that tolerates it",
            Severity.WARNING,
        )


def _keeping_out(flavor: Mapping[str, object]) -> list[Body]:
    """The taints that pods have to tolerate themselves. Tolerations that compare numbers are not counted."""
    own = [each for each in mappings(flavor.get("tolerations")) if each.get("operator") not in ("Gt", "Lt")]
    return [taint for taint in mappings(flavor.get("nodeTaints")) if find_untolerated_taint([taint], own) is not None]


def _tolerations(was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[Breach]:
    kept = mappings(now.get("tolerations"))
    gone = [each for each in mappings(was.get("tolerations")) if each not in kept]
    if gone:
        yield Breach(
            ("spec", "tolerations"),
            _CHECK,
            f"pods of jobs no longer get the toleration {written(gone[0])}",
            "those that start and do not tolerate it themselves wait on nodes with such a taint, and hold their quota;"
            " jobs that run go on",
            "take the taint from the nodes before, or keep the toleration",
            Severity.WARNING,
        )


def not_retried(old: Manifest, new: Manifest, _targets: Mapping[str, str]) -> Iterator[Breach]:
    """Report a flavor that lets in more jobs than before, while Kueue does not look at those that wait again.

    kueue v0.18.3 pkg/controller/core/resourceflavor_controller.go Update, pkg/controller/tas/resource_flavor.go Update
    """
    if new.group != KUEUE or new.kind != "ResourceFlavor":
        return
    was, now = (mapping(each.body, "spec") for each in (old, new))
    fields = {
        "nodeTaints": any(taint not in _keeping_out(now) for taint in _keeping_out(was)),
        "tolerations": any(each not in mappings(was.get("tolerations")) for each in mappings(now.get("tolerations"))),
        "nodeLabels": mapping(was, "nodeLabels") != mapping(now, "nodeLabels"),
    }
    if changed := [field for field, lets_in_more in fields.items() if lets_in_more]:
        defect = known("kueue-forgets-jobs-when-a-flavor-changes")
        yield Breach(
            ("spec", changed[0]) if changed[0] in now else ("spec",),
            "change/flavor-not-retried",
            f"{' and '.join(f'`{field}`' for field in changed)} of the flavor let in more jobs than before",
            "Kueue does not look again at jobs that it could not admit to the flavor: they stay pending until another "
            f"workload ends or their queue changes ({defect.note})",
            f"update to {defect.update}, or change the ClusterQueues of this flavor in the same release",
            Severity.WARNING,
            at_key=changed[0] in now,
        )


def topology(before: Queued, after: Queued) -> Iterator[tuple[Manifest, Breach]]:
    """A flavor that gave to all jobs of a queue gives only to those that ask for a topology.

    kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go checkPodSetAndFlavorMatchForTAS: all may have it
    where it has no topology, or where all flavors of the queue have one.
    """
    closed: dict[str, list[str]] = {}
    for name, queue in sorted(after.tree.queues.items()):
        was = before.tree.queues.get(name)
        if was is not None and has_people(before, name):
            for flavor in sorted(_for_all(before, was) & (queue.flavors - _for_all(after, queue))):
                closed.setdefault(flavor, []).append(name)
    for flavor, queues in closed.items():
        yield after.of("ResourceFlavor")[flavor], _closed(flavor, queues)


def _for_all(known: Queued, queue: ClusterQueue) -> frozenset[str]:
    """The flavors of which jobs get something that ask for no topology."""
    flavors = known.of("ResourceFlavor")
    plain = {
        name
        for name in queue.flavors
        if name in flavors and not string(mapping(flavors[name].body, "spec").get("topologyName"))
    }
    return frozenset(plain or queue.flavors)


def _closed(flavor: str, queues: Sequence[str]) -> Breach:
    return Breach(
        ("spec", "topologyName"),
        "change/flavor-topology",
        f"in {listed(queues)} only jobs that ask for a topology get something of `{flavor}` from now on",
        "the queue has a flavor without one as well; jobs that wait and ask for none never come to this one, and jobs"
        " that run go on",
        "let those that wait begin before, or have them submitted again on a runtime that asks for it; or give every"
        " flavor of the queue a topology",
        Severity.WARNING,
    )
