"""quota/too-many-hosts, quota/default-hosts: is a TrainJob as small as the platform asks for in its namespace?

The API server keeps the limit where a TrainJob names its hosts. Of one that names none it knows nothing: a
ValidatingAdmissionPolicy does not see the runtime. Nor would it help to refuse the JobSet that Trainer makes of it:
Kueue has admitted the job by then, so that it would keep its quota and never run.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.queued import RUNTIMES, TRAINER, Queued
from generator.checks.quota_runtimes import has_quota
from generator.checks.trainjob_runtime import runtime_of
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.fields import integer, mapping
from generator.objects.namespace import ANNOTATION, most_hosts
from generator.simulate.kueue.podsets import usual_nodes

_NODES: Path = ("spec", "trainer", "numNodes")
_UNSEEN = "no policy sees the hosts of a runtime: such a job is taken, and is larger than it may be"


def allowed(namespace: str, gathered: Gathered) -> int | None:
    """The largest `numNodes` that the API server takes in a namespace; None where no limit is known."""
    home = gathered.one("", "Namespace", namespace)
    return most_hosts(home) if home else None


def too_many_hosts(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Judged where the files hold the Namespace, and the runtime if the TrainJob leaves the number to it."""
    for job in gathered.of(TRAINER, "TrainJob"):
        most = allowed(job.namespace, gathered)
        if most is not None:
            yield from ((job, breach) for breach in _judged(job, most, gathered))


def _judged(job: Manifest, most: int, gathered: Gathered) -> Iterator[Breach]:
    trainer = mapping(job.body, *map(str, _NODES[:-1]))
    limit, fix = f"a job of `{job.namespace}` has at most {most}", f"write `numNodes: {most}` or less"
    nodes, check = integer(trainer.get("numNodes"), 0), "quota/too-many-hosts"
    if nodes > most:
        why = "the API server refuses the TrainJob"
        yield Breach(_NODES, check, f"asks for {nodes} hosts, and {limit}", why, fix, value=nodes)
    runtime = None if "numNodes" in trainer else runtime_of(job, gathered)
    if runtime and (usual := usual_nodes(runtime.body)) > most:
        message = f"names no number of hosts, so that it has the {usual} of `{runtime.name}`, and {limit}"
        yield Breach(("spec", "runtimeRef"), check, message, _UNSEEN, fix, value=runtime.name)


def default_hosts(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Of the runtimes that the queues of the namespace have quota for; of all where the files do not tell."""
    for home in gathered.of("", "Namespace"):
        most = allowed(home.name, gathered)
        if most is None:
            continue
        large = [each for each in gathered.of(TRAINER, *RUNTIMES) if usual_nodes(each.body) > most]
        used = [each for each in large if _is_used(each, home.name, gathered.view(Queued.read))]
        if used:
            usual = " and ".join(sorted({f"{usual_nodes(each.body)} on `{each.name}`" for each in used}))
            breach = Breach(
                ("metadata", "annotations", ANNOTATION),
                "quota/default-hosts",
                f"a job of `{home.name}` has at most {most} hosts, and one that names none has {usual}",
                _UNSEEN,
                f"give the runtimes {most} nodes or less, or raise the limit; or see that jobs name their hosts",
                Severity.WARNING,
                value=most,
            )
            yield home, breach


def _is_used(runtime: Manifest, namespace: str, queued: Queued | None) -> bool:
    """Whether a namespace has a runtime, and quota for a job on it."""
    if runtime.kind == "TrainingRuntime" and runtime.namespace != namespace:
        return False
    names = queued.queues.get(namespace, frozenset()) if queued else frozenset()
    job = queued.job(runtime, namespace) if queued else None
    if queued is None or job is None or not names or not names <= queued.tree.queues.keys():
        return True
    queues = [queued.tree.queues[name] for name in names]
    return any(queued.admits(queue, namespace) and has_quota(queued, queue, job) for queue in queues)
