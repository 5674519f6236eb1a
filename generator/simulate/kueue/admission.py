"""What Kueue makes of jobs that are sent one after the other: who is admitted, who waits, who is driven out.

It follows pkg/scheduler and pkg/cache of kueue v0.19.2, or of v0.18.3 where `kueue_rules` names a difference, with the
feature gates that are on by default. Between two steps everything comes to rest: jobs that are driven out have stopped,
and who waits was tried. So send real jobs a few seconds apart: Kueue tells older from younger by timestamps in seconds,
and tries again a second after something was given back.

A job with several kinds of pods may be tried again for ever: as long as one kind finds a flavor, the next attempt goes
on with the next flavor of each (`PendingFlavors`), and goes round. Once there is room, what it then gets depends on the
moment, and it may go on waiting. The prediction is one of the things that may happen.

Simulated are flavors in their order with taints, selectors and `flavorFungibility`, quotas with lending and borrowing
limits at every level, both queueing strategies, priorities, `withinClusterQueue`, `reclaimWithinCohort`,
`borrowWithinCohort`, and fair sharing with weights and its preemption strategies.

Pods are placed by topology as Kueue does it if the Nodes are given: required, preferred and unconstrained, a launcher
with its hosts. Without them `NotModelledError` is raised where places matter: a job asks for one as `required`, two
jobs would share a node, or nobody says how many nodes there are. With `preferred` it is then enough to count whole
nodes, as the annotations of mpigen's ResourceFlavors tell them.

Not simulated: admission checks and slices of a topology (both raise `NotModelledError`), balanced placement, the
replacement of nodes that fail, pods that Kueue did not place, such as those of DaemonSets, flavors whose nodes overlap
within one cycle, partial admission, elastic jobs, several flavors at once (ConcurrentAdmission), fair sharing by what
was used before (`admissionScope`), `waitForPodsReady` with its timeouts, MultiKueue, and limits of the namespace that a
job breaks (LimitRange `max`, `min`: see `podsets.refusals`; ResourceQuota).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from generator.errors import NotModelledError, Problem, SimulationError
from generator.manifests import Manifest
from generator.objects.amounts import Amounts
from generator.simulate.kueue.assignment import Assignment, Mode
from generator.simulate.kueue.flavor_assigner import Assigner, Oracle
from generator.simulate.kueue.nodes import machines
from generator.simulate.kueue.placement import Sites
from generator.simulate.kueue.preemption import STRATEGIES
from generator.simulate.kueue.queues import ClusterQueue, QueueTree
from generator.simulate.kueue.quota_tree import balance
from generator.simulate.kueue.scheduler import Head, Scheduler, Waiting
from generator.simulate.kueue.topology import Machine
from generator.simulate.kueue.workloads import Cluster, Finished, Job, Outcome, State, Workload, add

_CYCLES = 1000
"""More than any scenario needs that comes to rest."""


def predict(
    tree: QueueTree,
    steps: Iterable[Job | Finished],
    strategies: Sequence[str] = (),
    nodes: Iterable[Manifest] = (),
) -> Mapping[str, Outcome]:
    """Where each job stands in the end.

    Args:
        tree: the queues, with the version of Kueue.
        steps: jobs that are sent and jobs that finish, in this order.
        strategies: of fair sharing (`fairSharing.preemptionStrategies` of Kueue's configuration); none where it is off.
        nodes: manifests among which the Nodes of the cluster are, where Kueue places pods by topology.

    Returns:
        Job → outcome, in the order in which they were sent.

    Raises:
        NotModelledError: Kueue decides by rules that are not simulated, or the jobs drive one another out for ever.
        SimulationError: a job has the name of another one, or one finishes that was never sent.
    """
    if strategies and tuple(strategies) not in STRATEGIES:
        raise SimulationError((Problem(f"Kueue refuses these strategies: {', '.join(strategies)}"),))
    story = _Story(tree, tuple(strategies), machines(nodes))
    for step in steps:
        if isinstance(step, Job):
            story.send(step)
        else:
            story.finish(step.name)
        story.settle()
    return story.outcomes()


def would_admit(
    tree: QueueTree, job: Job, usage: Mapping[str, Amounts] | None = None, nodes: Iterable[Manifest] = ()
) -> Outcome:
    """What comes of one job, given what queues have in use; nobody is driven out, as nothing is known of their jobs.

    Of a flavor with a topology of which something is in use, it is not known where: then `NotModelledError` is raised.

    Raises:
        NotModelledError: Kueue decides by rules that are not simulated.
    """
    used = {key.flavor for amounts in (usage or {}).values() for key, amount in amounts.items() if amount}
    story = _Story(tree, (), machines(nodes), used)
    for queue, amounts in (usage or {}).items():
        add(story.cluster.nodes[queue], amounts)
    story.send(job)
    story.settle()
    return story.outcomes()[job.name]


@dataclass(eq=False, slots=True)
class _Told:
    """A job and what is known of it.

    Attributes:
        workload: the job.
        refused: why its queue never takes it; empty if it does.
        last: what came of the last attempt.
        history: all that happened.
        running: it as it runs; None while it does not.
        is_done: it finished.
    """

    workload: Workload
    refused: str = ""
    last: Assignment | None = None
    history: list[str] = field(default_factory=list)
    running: Workload | None = None
    is_done: bool = False


class _Story:
    """Jobs, queues, and what happens."""

    def __init__(
        self, tree: QueueTree, strategies: tuple[str, ...], nodes: Sequence[Machine], unknown: Iterable[str] = ()
    ) -> None:
        self._tree = tree
        self._machines = nodes
        self.cluster = Cluster(balance(tree), Sites(tree.flavors, nodes, unknown, tree.rules))
        self._scheduler = Scheduler(self.cluster, tree.flavors, strategies, tree.rules)
        self._waiting = Waiting(tree.rules)
        self._jobs: dict[str, _Told] = {}
        self._given_back: set[str] = set()

    def send(self, job: Job) -> None:
        """A job comes to its queue."""
        if job.name in self._jobs:
            raise SimulationError((Problem(f"there are two jobs called `{job.name}`"),))
        queue = self._tree.queues.get(job.queue)
        if queue is not None and queue.checks:
            message = f"`{queue.name}` has admission checks, which others than Kueue decide on"
            raise NotModelledError((Problem(message),))
        told = self._jobs[job.name] = _Told(Workload(job, len(self._jobs)), self._refused(queue, job))
        if queue is not None and not told.refused:
            self._waiting.enter(told.workload, queue)

    def _refused(self, queue: ClusterQueue | None, job: Job) -> str:
        if queue is None:
            return f"there is no ClusterQueue `{job.queue}`"
        stopped = self._tree.stopped(queue) or self._tree.lacks(queue)
        if stopped:
            return f"`{queue.name}` admits nothing: {stopped}"
        refused = self._tree.refuses(queue, job.namespace) if job.namespace else ""
        return f"`{queue.name}` takes no job of `{job.namespace}`: {refused}" if refused else ""

    def finish(self, name: str) -> None:
        """A job is done, wherever it stands."""
        told = self._jobs.get(name)
        if told is None or told.is_done:
            raise SimulationError((Problem(f"there is no job called `{name}` to finish"),))
        told.is_done = True
        told.history.append("finished")
        self._waiting.leave(name)
        self._stop(told)

    def _stop(self, told: _Told) -> None:
        """It gives back what it has."""
        if told.running is not None:
            self.cluster.remove(told.running)
            told.running = None
            self._given_back.add(told.workload.job.queue)
            self._waiting.note_change(told.workload.job.queue)

    def settle(self) -> None:
        """Cycle after cycle, until nothing happens any more.

        Those who were tried in vain are tried again a while after something was given back, and so after those who come
        first: pkg/cache/queue/inadmissible_workloads.go `workqueueRequeuer`.
        """
        seen: set[tuple[tuple[str, str], ...]] = set()
        for _ in range(_CYCLES):
            heads = self._waiting.heads()
            attempt = tuple((each.workload.job.name, str(each.tried)) for each in heads)
            if attempt and attempt not in seen:
                seen.add(attempt)
                if self._one_cycle(heads):
                    seen.clear()
            elif self._given_back:
                self._wake()
                seen.clear()
            else:
                return
        message = "the jobs drive one another out for ever"
        raise NotModelledError((Problem(message, "look at the priorities and at `reclaimWithinCohort`"),))

    def _wake(self) -> None:
        """All in the same trees of cohorts."""
        roots = [self.cluster.nodes[name].root() for name in self._given_back]
        self._given_back.clear()
        self._waiting.wake({name for name, node in self.cluster.nodes.items() if node.root() in roots})

    def _one_cycle(self, heads: list[Head]) -> bool:
        """Whether anything changed."""
        entries = self._scheduler.cycle(heads)
        slept = self._waiting.put_back(entries)
        for entry in entries:
            told = self._jobs[entry.head.workload.job.name]
            told.last = entry.gets
            if entry.is_admitted:
                told.running = self.cluster.running[entry.node.name][told.workload.job.name]
                told.history.append("admitted")
                self._waiting.leave(told.workload.job.name)
                self._waiting.note_change(entry.node.name)
        for entry in entries:
            for target in entry.targets if entry.is_preempting else ():
                self._drive_out(self._jobs[target.job.name], entry.head.workload.job.name)
        return slept or any(entry.is_admitted or entry.is_preempting for entry in entries)

    def _drive_out(self, told: _Told, by: str) -> None:
        """It stops, and waits again where it was."""
        told.history.append(f"preempted by {by}")
        self._stop(told)
        self._waiting.enter(told.workload, self._tree.queues[told.workload.job.queue])

    def outcomes(self) -> Mapping[str, Outcome]:
        """Where each stands."""
        return {name: self._outcome(told) for name, told in self._jobs.items()}

    def _outcome(self, told: _Told) -> Outcome:
        history = tuple(told.history)
        if told.is_done:
            return Outcome(State.FINISHED, history=history)
        if told.refused:
            return Outcome(State.NEVER, reason=told.refused)
        if told.running is not None and told.last:
            flavors = {name: {r: each.flavor for r, each in got.items()} for name, got in told.last.podsets.items()}
            borrows = told.last.borrowing > 0
            return Outcome(State.ADMITTED, flavors, borrows, history=history, places=told.last.places)
        alone = self._alone(told.workload.job)
        state = State.WAITS if alone.mode is Mode.FIT else State.NEVER
        reasons = alone.reasons if state is State.NEVER or not told.last else told.last.reasons
        return Outcome(state, reason="; ".join(reasons) or "others come first", history=history)

    def _alone(self, job: Job) -> Assignment:
        """What it would get if nobody else had anything."""
        queue, node = self._tree.queues[job.queue], balance(self._tree)[job.queue]
        rules = self._tree.rules
        sites = Sites(self._tree.flavors, self._machines, rules=rules)
        oracle: Oracle = lambda *_: (Mode.NO_CANDIDATES, 0)  # noqa: E731
        assigner = Assigner(queue, node, self._tree.flavors, oracle, sites=sites, rules=rules)
        return assigner.assign_at_last(job.podsets)
