"""The standing of a TrainJob in the cluster as it is: what is free, who comes first, and what would fit now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from generator.manifests import Manifest
from generator.objects.pods import NODE
from generator.objects.training import mpi_runtime
from generator.upstream.kueue.admission import Need, find_needs, predict
from generator.upstream.kueue.queues import QueueTree
from generator.upstream.kueue.workloads import Job, Outcome, State, Workload


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of a TrainJob.

    Attributes:
        needs: what it takes, and what is free.
        before: the jobs that come before it in its queue.
        preempts: the jobs that Kueue preempts for it.
        fits: the largest `numNodes` that Kueue would admit now without preemption, after the earlier jobs of the same
            command; 0 for none. None for a job that is admitted, or that waits after another job of the command.
    """

    needs: Sequence[Need]
    before: Sequence[str]
    preempts: Sequence[str]
    fits: int | None


@dataclass(frozen=True, slots=True)
class Present:
    """The cluster in which TrainJobs are submitted: its queues, its nodes and its workloads."""

    tree: QueueTree
    strategies: Sequence[str]
    world: Sequence[Manifest]
    workloads: Sequence[Workload]

    def submit(self, jobs: Sequence[Job]) -> Mapping[str, Outcome]:
        """Return job → outcome of jobs that are submitted in this order, and of the present jobs.

        Raises:
            NotModelledError: Kueue decides by rules that are not simulated.
        """
        return predict(self.tree, jobs, self.strategies, self.world, self.workloads)

    def stand(self, jobs: Sequence[Job], outcomes: Mapping[str, Outcome], runtime: Manifest | None) -> Standing:
        """Return the standing of the last of some jobs, which are submitted in this order.

        Args:
            jobs: the jobs.
            outcomes: job → its outcome, from `submit`.
            runtime: the runtime of the last job; None if it is unknown.

        Raises:
            NotModelledError: Kueue decides by rules that are not simulated.
        """
        *earlier, job = jobs
        preempted = [name for name, outcome in outcomes.items() if f"preempted by {job.name}" in outcome.history]
        needs = find_needs(self.tree, jobs, self.strategies, self.world, self.workloads)
        waits = [outcomes[one.name].state is State.WAITS for one in jobs]
        fits = self._fitting(earlier, job, runtime) if waits[-1] and not any(waits[:-1]) else None
        return Standing(needs, outcomes[job.name].before, preempted, fits)

    def _fitting(self, earlier: Sequence[Job], job: Job, runtime: Manifest | None) -> int:
        """Return the largest `numNodes` at which the job is admitted at once, by bisection."""
        mpi = mpi_runtime(runtime.body) if runtime else None
        extra = int(mpi.is_launcher_a_node) if mpi else 0
        low, high = 0, max((pods.count for pods in job.podsets if pods.name == NODE), default=0)
        while low < high:
            count = (low + high + 1) // 2
            low, high = (count, high) if self._is_admitted(earlier, job, count) else (low, count - 1)
        return low + extra if low else 0

    def _is_admitted(self, earlier: Sequence[Job], job: Job, count: int) -> bool:
        podsets = tuple(replace(pods, count=count) if pods.name == NODE else pods for pods in job.podsets)
        outcomes = self.submit([*earlier, replace(job, podsets=podsets)])
        others = (outcome for name, outcome in outcomes.items() if name != job.name)
        return outcomes[job.name].state is State.ADMITTED and not any(outcome.was_preempted for outcome in others)
