"""Compare mpigen's claims about random queue trees with the recorded answers of the real Kueue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.upstream.kueue.admission import would_admit
from generator.upstream.kueue.job_limits import Largest, Limit
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.podsets import podsets
from generator.upstream.kueue.workloads import Job, State
from tests.quota_trees import LARGEST, NAMESPACE, Answers, Tree, usage


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A claim of mpigen that the real Kueue contradicts.

    Attributes:
        queue: the ClusterQueue.
        runtime: the runtime of the job.
        what: `idle`, `owned` or `reclaimable` with the kind of mistake; `now` if `would_admit` is wrong.
        claimed: the size that mpigen computes; the size that it is asked about for `now`.
        answer: one letter per size, as Kueue answers.
    """

    queue: str
    runtime: str
    what: str
    claimed: int
    answer: str


def disagreements(tree: Tree, version: str, answers: Answers) -> Iterator[Disagreement]:
    """Compare every claim about a tree with Kueue's answers.

    A guarantee is sound if Kueue admits the size in every recorded state. It is tight if Kueue leaves every larger size
    pending in some recorded state.
    """
    for each in largest_jobs(tree.queue_tree(version), tree.objects()):
        if each.limit is Limit.UNKNOWN:
            continue
        answer = answers[each.queue]["jobs"][each.runtime]
        yield from _compare(each, "idle", each.idle, answer["idle"], "a")
        if each.owned is not None:
            yield from _compare(each, "owned", each.owned, answer["owned"], "a")
        if each.reclaimable is not None:
            yield from _compare(each, "reclaimable", each.reclaimable, answer["worst"], "ap")
    yield from _now(tree, version, answers)


def _compare(each: Largest, what: str, claimed: int | None, answer: str, admitted: str) -> Iterator[Disagreement]:
    assert claimed is not None, f"{each.queue}, {each.runtime}: {what} is unknown"
    size = min(claimed, LARGEST)
    if size and answer[size - 1] not in admitted:
        yield Disagreement(each.queue, each.runtime, f"{what}: unsound", size, answer)
    elif any(letter in admitted for letter in answer[size:]):
        yield Disagreement(each.queue, each.runtime, f"{what}: not tight", size, answer)


def _now(tree: Tree, version: str, answers: Answers) -> Iterator[Disagreement]:
    """Compare `would_admit` in one state of the other queues, up to one node more than fits while they are idle."""
    known = tree.queue_tree(version)
    bodies = {each.name: each.body for each in tree.objects() if each.kind == "ClusterTrainingRuntime"}
    for queue, found in answers.items():
        used = usage(found["usage"])
        for runtime, answer in found["jobs"].items():
            largest = len(answer["idle"].rstrip("-"))
            for nodes, letter in enumerate(answer["there"][: largest + 1], 1):
                job = Job("j", queue, podsets(bodies[runtime], nodes), namespace=NAMESPACE)
                if (would_admit(known, job, used).state is State.ADMITTED) != (letter == "a"):
                    yield Disagreement(queue, runtime, "now", nodes, answer["there"])
