"""Admission of jobs that are submitted one after the other: admitted, pending, or preempted.

The simulation follows pkg/scheduler and pkg/cache of kueue v0.19.2, or of v0.18.3 where `configuration.Rules` names a
difference, with the feature gates that are on by default. It settles after each step: preempted jobs have stopped, and
pending jobs were tried. So submit real jobs a few seconds apart: Kueue compares ages by timestamps in seconds, and
retries pending jobs a second after a job released quota.

A job with several PodSets may be retried for ever: as long as one PodSet finds a flavor, the next attempt continues
with the next flavor of each PodSet (`PendingFlavors`), and starts over. When quota is free again, the job's flavors
depend on the moment, and the job may stay pending. The prediction is one of the possible outcomes.

Simulated: flavors in their order with taints, selectors and `flavorFungibility`; quotas with lending and borrowing
limits at every level; both queueing strategies; priorities; `withinClusterQueue`, `reclaimWithinCohort`,
`borrowWithinCohort`; fair sharing with weights and its preemption strategies; and topology placement if the Nodes are
given: required, preferred and unconstrained, a launcher with its hosts. Without Nodes `NotModelledError` is raised if
placement matters: a job requires a level, two jobs would share a node, or the number of nodes is unknown. With
`preferred` it is then enough to count whole nodes, as the annotations of mpigen's ResourceFlavors declare them.

Not simulated: admission checks and slices of a topology (both raise `NotModelledError`), balanced placement, node
replacement, flavors whose nodes overlap within one cycle, partial admission, elastic jobs, ConcurrentAdmission, fair
sharing by past usage (`admissionScope`), `waitForPodsReady` with its timeouts, MultiKueue, and limits of the namespace
(LimitRange: see `podsets.find_broken_bounds`; ResourceQuota).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from generator.errors import NotModelledError, Problem, SimulationError
from generator.manifests import Manifest
from generator.objects.queue import Amounts, ClusterQueue
from generator.simulate.kueue.flavor_assigner import Assigner, Assignment, Mode
from generator.simulate.kueue.nodes import read_machines
from generator.simulate.kueue.placement import Sites
from generator.simulate.kueue.preemption import STRATEGIES
from generator.simulate.kueue.queues import QueueTree, build_quota_tree
from generator.simulate.kueue.scheduler import Head, Scheduler, Waiting
from generator.simulate.kueue.topology import Machine
from generator.simulate.kueue.workloads import Cluster, Finished, Job, Outcome, State, Workload, add

_CYCLES = 1000  # a scenario that ends needs fewer


def predict(
    tree: QueueTree,
    steps: Iterable[Job | Finished],
    strategies: Sequence[str] = (),
    nodes: Iterable[Manifest] = (),
) -> Mapping[str, Outcome]:
    """Return the last state of each job, in the order of submission.

    Args:
        tree: the queues, with the version of Kueue.
        steps: jobs that are submitted and jobs that finish, in order.
        strategies: `fairSharing.preemptionStrategies` of Kueue's configuration; none while fair sharing is disabled.
        nodes: manifests with the Nodes of the cluster, if Kueue places pods by topology.

    Raises:
        NotModelledError: Kueue decides by rules that are not simulated, or the jobs preempt one another for ever.
        SimulationError: two jobs have the same name, or an unknown job finishes.
    """
    if strategies and tuple(strategies) not in STRATEGIES:
        raise SimulationError((Problem(f"Kueue rejects these strategies: {', '.join(strategies)}"),))
    simulation = _Simulation(tree, tuple(strategies), read_machines(nodes))
    for step in steps:
        if isinstance(step, Job):
            simulation.submit(step)
        else:
            simulation.finish(step.name)
        simulation.settle()
    return simulation.outcomes()


def would_admit(
    tree: QueueTree, job: Job, usage: Mapping[str, Amounts] | None = None, nodes: Iterable[Manifest] = ()
) -> Outcome:
    """Return the outcome of one job, given the usage of queues. The job preempts none, since running jobs are unknown.

    Raises:
        NotModelledError: Kueue decides by rules that are not simulated, or the job needs a flavor with a topology that
            is in use: the nodes in use are unknown.
    """
    used = {key.flavor for amounts in (usage or {}).values() for key, amount in amounts.items() if amount}
    simulation = _Simulation(tree, (), read_machines(nodes), used)
    for queue, amounts in (usage or {}).items():
        add(simulation.cluster.nodes[queue], amounts)
    simulation.submit(job)
    simulation.settle()
    return simulation.outcomes()[job.name]


@dataclass(eq=False, slots=True)
class _Record:
    """The history of a job. `rejection` is permanent, and `last` is the assignment of the last attempt."""

    workload: Workload
    rejection: str = ""
    last: Assignment | None = None
    history: list[str] = field(default_factory=list)
    running: Workload | None = None
    is_finished: bool = False


class _Simulation:
    """The jobs, the queues and the scheduler."""

    def __init__(
        self, tree: QueueTree, strategies: tuple[str, ...], nodes: Sequence[Machine], unknown: Iterable[str] = ()
    ) -> None:
        self._tree = tree
        self._machines = nodes
        self.cluster = Cluster(build_quota_tree(tree), Sites(tree.flavors, nodes, unknown, tree.rules))
        self._scheduler = Scheduler(self.cluster, tree.flavors, strategies, tree.rules)
        self._waiting = Waiting(tree.rules)
        self._records: dict[str, _Record] = {}
        self._released: set[str] = set()

    def submit(self, job: Job) -> None:
        """Submit a job to its queue."""
        if job.name in self._records:
            raise SimulationError((Problem(f"there are two jobs named `{job.name}`"),))
        queue = self._tree.queues.get(job.queue)
        if queue is not None and queue.checks:
            message = f"`{queue.name}` has admission checks, which other controllers decide"
            raise NotModelledError((Problem(message),))
        record = self._records[job.name] = _Record(Workload(job, len(self._records)), self._reject(queue, job))
        if queue is not None and not record.rejection:
            self._waiting.enter(record.workload, queue)

    def _reject(self, queue: ClusterQueue | None, job: Job) -> str:
        if queue is None:
            return f"there is no ClusterQueue `{job.queue}`"
        if inactive := self._tree.inactive_reason(queue):
            return f"`{queue.name}` admits no job: {inactive}"
        rejection = self._tree.rejection(queue, job.namespace) if job.namespace else ""
        return f"`{queue.name}` admits no job of `{job.namespace}`: {rejection}" if rejection else ""

    def finish(self, name: str) -> None:
        """Finish a job in any state."""
        record = self._records.get(name)
        if record is None or record.is_finished:
            raise SimulationError((Problem(f"there is no unfinished job named `{name}`"),))
        record.is_finished = True
        record.history.append("finished")
        self._waiting.leave(name)
        self._stop(record)

    def _stop(self, record: _Record) -> None:
        """Stop a job, which releases its quota."""
        if record.running is not None:
            self.cluster.remove(record.running)
            record.running = None
            self._released.add(record.workload.job.queue)
            self._waiting.note_change(record.workload.job.queue)

    def settle(self) -> None:
        """Run cycles until nothing changes.

        Kueue retries inadmissible jobs a while after quota was released, so it first tries the heads of the queues:
        pkg/cache/queue/inadmissible_workloads.go `workqueueRequeuer`.
        """
        seen: set[tuple[tuple[str, str], ...]] = set()
        for _ in range(_CYCLES):
            heads = self._waiting.heads()
            attempt = tuple((head.workload.job.name, str(head.tried)) for head in heads)
            if attempt and attempt not in seen:
                seen.add(attempt)
                if self._run_cycle(heads):
                    seen.clear()
            elif self._released:
                self._retry_inadmissible()
                seen.clear()
            else:
                return
        message = "the jobs preempt one another for ever"
        raise NotModelledError((Problem(message, "check the priorities and `reclaimWithinCohort`"),))

    def _retry_inadmissible(self) -> None:
        """Make the inadmissible jobs of all queues that share a cohort tree with released quota admissible again."""
        roots = [self.cluster.nodes[name].root() for name in self._released]
        self._released.clear()
        self._waiting.retry_inadmissible({name for name, node in self.cluster.nodes.items() if node.root() in roots})

    def _run_cycle(self, heads: list[Head]) -> bool:
        """Run one cycle; return True if anything changed."""
        entries = self._scheduler.cycle(heads)
        is_changed = self._waiting.put_back(entries)
        for entry in entries:
            record = self._records[entry.head.workload.job.name]
            record.last = entry.gets
            if entry.is_admitted:
                record.running = self.cluster.running[entry.node.name][record.workload.job.name]
                record.history.append("admitted")
                self._waiting.leave(record.workload.job.name)
                self._waiting.note_change(entry.node.name)
        for entry in entries:
            for target in entry.targets if entry.is_preempting else ():
                self._preempt(self._records[target.job.name], entry.head.workload.job.name)
        return is_changed or any(entry.is_admitted or entry.is_preempting for entry in entries)

    def _preempt(self, record: _Record, by: str) -> None:
        """Stop a job and queue it again."""
        record.history.append(f"preempted by {by}")
        self._stop(record)
        self._waiting.enter(record.workload, self._tree.queues[record.workload.job.queue])

    def outcomes(self) -> Mapping[str, Outcome]:
        """Return the outcome of each job."""
        return {name: self._outcome(record) for name, record in self._records.items()}

    def _outcome(self, record: _Record) -> Outcome:
        history = tuple(record.history)
        if record.is_finished:
            return Outcome(State.FINISHED, history=history)
        if record.rejection:
            return Outcome(State.NEVER, reason=record.rejection)
        if record.running is not None and record.last:
            podsets = record.last.podsets.items()
            flavors = {name: {key: choice.flavor for key, choice in choices.items()} for name, choices in podsets}
            borrows = record.last.borrowing > 0
            return Outcome(State.ADMITTED, flavors, borrows, history=history, places=record.last.places)
        alone = self._assign_alone(record.workload.job)
        state = State.WAITS if alone.mode is Mode.FIT else State.NEVER
        reasons = alone.reasons if state is State.NEVER or not record.last else record.last.reasons
        return Outcome(state, reason="; ".join(reasons) or "other jobs come first", history=history)

    def _assign_alone(self, job: Job) -> Assignment:
        """Return the assignment of a job if all queues are idle."""
        queue, node = self._tree.queues[job.queue], build_quota_tree(self._tree)[job.queue]
        rules = self._tree.rules
        sites = Sites(self._tree.flavors, self._machines, rules=rules)
        assigner = Assigner(
            queue, node, self._tree.flavors, lambda *_: (Mode.NO_CANDIDATES, 0), sites=sites, rules=rules
        )
        return assigner.assign_at_last(job.podsets)
