"""Admission of jobs that are submitted one after the other: admitted, pending, or preempted.

The simulation follows pkg/scheduler and pkg/cache of kueue v0.19.2, or of v0.18.3 where `configuration.Rules` names a
difference, with the feature gates that are on by default. After each step, preempted jobs have stopped, and Kueue has
tried all pending jobs. To compare with a real Kueue, submit jobs a few seconds apart: Kueue compares ages in whole
seconds, and retries pending jobs a second after a job released quota.

Kueue may retry a job with several PodSets for ever: while one PodSet finds a flavor, the next attempt continues with
the next flavor of each PodSet (`PendingFlavors`), and later starts over. When quota is free again, the job's flavors
depend on the moment, and the job may stay pending. The prediction is one of the possible outcomes.

Simulated: flavors in their order with taints, selectors and `flavorFungibility`; quotas with lending and borrowing
limits at every level; both queueing strategies; priorities; `withinClusterQueue`, `reclaimWithinCohort`,
`borrowWithinCohort`; fair sharing with weights and its preemption strategies; and topology placement if the Nodes are
given: required, preferred and unconstrained, a launcher pod with its worker pods. Without Nodes, `NotModelledError` is
raised if placement matters: a job requires a level, two jobs would share a node, or the number of nodes is unknown. For
a `preferred` level without Nodes, the nodes that the annotations of mpigen's ResourceFlavors declare are counted.

Not simulated: admission checks and slices of a topology (both raise `NotModelledError`), balanced placement, node
replacement, flavors whose nodes overlap within one cycle, partial admission, elastic jobs, ConcurrentAdmission, fair
sharing by past usage (`admissionScope`), `waitForPodsReady` with its timeouts, MultiKueue, and limits of the namespace
(LimitRange: see `podsets.find_broken_bounds`; ResourceQuota).

tests/cluster compares `predict` with a real Kueue, and tests/quota_claims.py compares `largest.largest_jobs` with
`would_admit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from generator.errors import NotModelledError, Problem, SimulationError
from generator.manifests import Manifest
from generator.objects.queue import Amounts, ClusterQueue, FlavorResource
from generator.upstream.kueue.flavor_assigner import Assigner, Assignment, Mode
from generator.upstream.kueue.nodes import read_machines
from generator.upstream.kueue.placement import Sites
from generator.upstream.kueue.preemption import STRATEGIES
from generator.upstream.kueue.queues import QueueTree, build_quota_tree
from generator.upstream.kueue.scheduler import Head, Scheduler, Waiting
from generator.upstream.kueue.topology import Machine
from generator.upstream.kueue.workloads import Cluster, Finished, Job, Outcome, State, Workload, add

_CYCLES = 1000  # a scenario that ends needs fewer


def predict(
    tree: QueueTree,
    steps: Iterable[Job | Finished],
    strategies: Sequence[str] = (),
    nodes: Iterable[Manifest] = (),
    present: Sequence[Workload] = (),
) -> Mapping[str, Outcome]:
    """Return the state of each job after all steps, in the order of submission.

    Args:
        tree: the queues, with the version of Kueue.
        steps: jobs that are submitted and jobs that finish, in order.
        strategies: `fairSharing.preemptionStrategies` of Kueue's configuration; none while fair sharing is disabled.
        nodes: manifests that include the Nodes of the cluster; needed only if Kueue places pods by topology.
        present: the workloads that hold quota or wait before the first step. Default: all queues are idle.

    Raises:
        NotModelledError: Kueue decides by rules that are not simulated, the jobs preempt one another for ever, or Kueue
            would admit or preempt one of `present` without a step.
        SimulationError: two jobs have the same name, an unknown or finished job finishes, Kueue rejects the strategies,
            or an amount of a node or pod in `nodes` is not a quantity.
    """
    if strategies and tuple(strategies) not in STRATEGIES:
        raise SimulationError((Problem(f"Kueue rejects these strategies: {', '.join(strategies)}"),))
    simulation = _Simulation(tree, tuple(strategies), read_machines(nodes))
    simulation.restore(present)
    for step in steps:
        if isinstance(step, Job):
            simulation.submit(step)
        else:
            simulation.finish(step.name)
        simulation.settle()
    return simulation.outcomes()


@dataclass(frozen=True, slots=True)
class Need:
    """A flavor and resource that a job needs, in the units of `parse_amount`.

    Attributes:
        key: the flavor and resource.
        takes: the amount that the job takes.
        owned: the nominal quota of its ClusterQueue.
        used: the amount that the jobs of the ClusterQueue use.
        free: the amount that the ClusterQueue can still use or borrow without preemption.
    """

    key: FlavorResource
    takes: int
    owned: int
    used: int
    free: int


def find_needs(
    tree: QueueTree,
    steps: Sequence[Job],
    strategies: Sequence[str],
    nodes: Iterable[Manifest],
    present: Sequence[Workload],
) -> list[Need]:
    """Return what the last job takes of the flavors that it gets while all queues are idle, and what is free before it.

    The arguments and errors are as for `predict`.
    """
    *before, job = steps
    simulation = _Simulation(tree, tuple(strategies), read_machines(nodes))
    alone = simulation.assign_alone(job)
    simulation.restore(present)
    for step in before:
        simulation.submit(step)
        simulation.settle()
    node = simulation.cluster.nodes[job.queue]
    return [
        Need(key, amount, node.quota(key).nominal, node.uses(key), max(node.available(key), 0))
        for key, amount in alone.usage.items()
        if amount
    ]


def would_admit(
    tree: QueueTree, job: Job, usage: Mapping[str, Amounts] | None = None, nodes: Iterable[Manifest] = ()
) -> Outcome:
    """Return the outcome of a job that is submitted while the queues have this usage.

    The job preempts no other job, because the running jobs are unknown.

    Args:
        tree: the queues, with the version of Kueue.
        job: the job.
        usage: ClusterQueue → the quota that its running jobs use. Default: all queues are idle.
        nodes: manifests that include the Nodes of the cluster; needed only if Kueue places pods by topology.

    Raises:
        NotModelledError: Kueue decides by rules that are not simulated, or the job needs a flavor with a topology of
            which some quota is in use: the nodes in use are unknown.
        SimulationError: an amount of a node or pod in `nodes` is not a quantity.
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
    """A submitted job. `rejection` is why Kueue never admits it, and `last` is the assignment of its last attempt.

    `short` is the last assignment without enough quota. `is_present` is True for a job that was in the cluster before
    the first step.
    """

    workload: Workload
    rejection: str = ""
    last: Assignment | None = None
    short: Assignment | None = None
    history: list[str] = field(default_factory=list)
    running: Workload | None = None
    is_finished: bool = False
    is_present: bool = False


class _Simulation:
    """A simulated cluster: its jobs, its queues and the scheduler of Kueue."""

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

    def restore(self, present: Sequence[Workload]) -> None:
        """Start from workloads that hold quota or wait.

        Raises:
            NotModelledError: Kueue would change one of them at once, so mpigen and the cluster disagree.
        """
        for workload in present:
            queue = self._tree.queues.get(workload.job.queue)
            rejection = "" if workload.gets else self._reject(queue, workload.job)
            record = _Record(workload, rejection, last=workload.gets, is_present=True)
            self._records[workload.job.name] = record
            if workload.gets is not None:
                record.running = workload
                self.cluster.add(workload)
            elif queue is not None and not rejection:
                self._waiting.enter(workload, queue)
        self._scheduler.admitted = max((workload.admitted for workload in present), default=0)
        self.settle()
        for name, record in self._records.items():
            if record.history:
                message = f"in this state of the cluster, `{name}` would be {record.history[0]} at once"
                raise NotModelledError((Problem(message, "export the cluster again when its jobs change no more"),))

    def submit(self, job: Job) -> None:
        """Submit a job to its ClusterQueue.

        Raises:
            SimulationError: a job of this name exists.
            NotModelledError: the ClusterQueue has AdmissionChecks.
        """
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
        """Finish the job with this name, whether it runs or is pending.

        Raises:
            SimulationError: there is no unfinished job of this name.
        """
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
        """Run cycles of the scheduler until no job changes its state.

        Kueue retries inadmissible jobs only a while after quota was released, and tries the heads of the queues first:
        kueue v0.19.2 pkg/cache/queue/inadmissible_workloads.go workqueueRequeuer.

        Raises:
            NotModelledError: jobs preempt one another for ever.
        """
        seen: set[tuple[tuple[str, str], ...]] = set()
        for _ in range(_CYCLES + 10 * len(self._records)):
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
        """Make the inadmissible jobs admissible again in each cohort tree in which a job released quota."""
        roots = [self.cluster.nodes[name].root() for name in self._released]
        self._released.clear()
        self._waiting.retry_inadmissible({name for name, node in self.cluster.nodes.items() if node.root() in roots})

    def _run_cycle(self, heads: list[Head]) -> bool:
        """Run one cycle of the scheduler; return True if the state of a job changed."""
        entries = self._scheduler.cycle(heads)
        is_changed = self._waiting.put_back(entries)
        for entry in entries:
            record = self._records[entry.head.workload.job.name]
            record.last = entry.gets
            record.short = entry.gets if entry.gets.shortages else record.short
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
        """Stop a job that the job named `by` preempts, and queue it again."""
        record.history.append(f"preempted by {by}")
        self._stop(record)
        self._waiting.enter(record.workload, self._tree.queues[record.workload.job.queue])

    def outcomes(self) -> Mapping[str, Outcome]:
        """Return job name → outcome."""
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
        if record.is_present:
            return Outcome(State.WAITS, history=history)
        alone = self.assign_alone(record.workload.job)
        state = State.WAITS if alone.mode is Mode.FIT else State.NEVER
        if state is State.WAITS and record.short:  # a later attempt may have tried only flavors that never fit
            reasons = list(dict.fromkeys(map(str, record.short.shortages)))
        else:
            reasons = alone.reasons if state is State.NEVER or not record.last else record.last.reasons
        before = tuple(self._waiting.before(record.workload)) if state is State.WAITS else ()
        return Outcome(state, reason="; ".join(reasons) or "other jobs come first", history=history, before=before)

    def assign_alone(self, job: Job) -> Assignment:
        """Return the assignment that a job gets while all queues are idle."""
        queue, node = self._tree.queues[job.queue], build_quota_tree(self._tree)[job.queue]
        rules = self._tree.rules
        sites = Sites(self._tree.flavors, self._machines, rules=rules)
        assigner = Assigner(
            queue, node, self._tree.flavors, lambda *_: (Mode.NO_CANDIDATES, 0), sites=sites, rules=rules
        )
        return assigner.assign_at_last(job.podsets)
