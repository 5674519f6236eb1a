"""Jobs in Python: what a cluster offers to jobs, new jobs, and what becomes of them. No function contacts a cluster.

from generator import JobRequest, catalogue, check_jobs, new_job

offer = catalogue("output/prod")
job = new_job(offer, JobRequest(runtime="openmpi", nodes=4, command=("mpirun", "python3", "train.py")))
for verdict in check_jobs(job, offer):
print(verdict.name, verdict.verdict, *verdict.findings)
print(job.text)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from generator.checks.finding import Finding
from generator.documents.emit import BriefEmitter
from generator.errors import DocumentError, InputError, OutputError, Problem
from generator.jobs.catalogue import Catalogue
from generator.jobs.job import NewJob
from generator.manifests import Body, Manifest

if TYPE_CHECKING:
    from generator.checks.submission import Submission


class HasDict(Protocol):
    """A model of an object, such as `TrainerV1alpha1TrainJob` of the Kubeflow SDK."""

    def to_dict(self) -> dict[str, Any]:
        """Return the object as plain data."""
        ...


Jobs: TypeAlias = str | Mapping[str, Any] | HasDict | NewJob | Iterable[Mapping[str, Any] | HasDict]
"""TrainJobs: YAML or JSON text, objects as plain data, models of the Kubeflow SDK, or the result of `new_job`."""


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """The verdict of a cluster on a TrainJob.

    Attributes:
        namespace: the namespace of the TrainJob.
        name: its name.
        verdict: `admitted`; `waits`; `faulty` (Kueue admits it, but a finding is an error); `never` (Kueue never admits
            it); `rejected` (the API server or a controller rejects it); `unknown` (a finding names the question that
            only the cluster answers).
        queue: its ClusterQueue; empty if it reaches none.
        flavors: PodSet → resource → the ResourceFlavor that Kueue assigns; empty unless Kueue admits the TrainJob.
        findings: the findings about the TrainJob.
    """

    namespace: str
    name: str
    verdict: str
    queue: str
    flavors: Mapping[str, Mapping[str, str]]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Permission:
    """The answer of RBAC to a request.

    Attributes:
        is_allowed: True if RBAC allows the request.
        by: the binding and the role that allow it; empty if none does.
        unknown: the bindings whose roles the files lack, so that the answer may be wrong.
    """

    is_allowed: bool
    by: str
    unknown: tuple[str, ...] = ()


def catalogue(*paths: str | Path, kustomize: bool = False) -> Catalogue:
    """Return what the cluster of files offers to jobs: its teams, namespaces, runtimes and objects.

    Args:
        paths: releases such as `output/prod`, platform files, outputs of `kubectl get -o yaml`, or folders.
        kustomize: True to read what kustomize renders from the kustomizations in folders.

    Raises:
        ConfigError: a platform file is invalid.
        DocumentError: a text is not YAML or JSON.
        OutputError: a path does not exist, or a folder has no manifests.
        InputError: a file cannot be read, or kustomize rejects a kustomization.
        EngineError: `kustomize` is True, and PATH has neither kubectl nor kustomize.
    """
    from generator.checks.foreign import describe_skipped
    from generator.stages.catalogues import read_offer

    offer = read_offer([*map(Path, paths)], _no_stdin, renders=kustomize)
    if offer.is_empty:
        raise OutputError(tuple(map(Problem, describe_skipped(offer.skipped, renders=kustomize))))
    return offer.catalogue


def check_jobs(
    jobs: Jobs, cluster: Catalogue, *, user: str = "", groups: Sequence[str] = (), namespace: str = "default"
) -> list[JobVerdict]:
    """Return the verdicts on TrainJobs that a user submits in this order, while no other job runs.

    Args:
        jobs: the TrainJobs.
        cluster: the cluster, from `catalogue`.
        user: the user, as `user:NAME` or `serviceaccount:NAMESPACE/NAME`. Default: the owner of each TrainJob, without
            a check of RBAC.
        groups: the groups of the user.
        namespace: the namespace of TrainJobs that set none.

    Raises:
        DocumentError: `jobs` has an object that is not a TrainJob, or two TrainJobs have the same name.
        InputError: `user` has another form.
        SimulationError: an object of the cluster is invalid.
    """
    from generator import pipeline
    from generator.checks.submission import Destination
    from generator.stages.job_verdicts import findings_about
    from generator.upstream.kubernetes.access import parse_requester

    try:
        requester = parse_requester(user, groups) if user else None
    except ValueError as error:
        raise InputError((Problem(str(error), "write user:NAME", path="user"),)) from None
    destination = Destination(
        cluster.objects, cluster.targets, requester, namespace, is_complete=cluster.is_complete, created=_others(jobs)
    )
    done = pipeline.check_jobs({_FILE: _text(jobs).encode()}, destination)

    def verdict(submission: Submission) -> JobVerdict:
        job, outcome = submission.job, submission.outcome
        return JobVerdict(
            job.namespace,
            job.name,
            done.verdict(submission, done.findings),
            submission.queue,
            outcome.flavors if outcome else {},
            tuple(findings_about(job, done.findings)),
        )

    return [verdict(submission) for submission in done.submissions]


_FILE = "jobs.yaml"


def _others(jobs: Jobs) -> list[Manifest]:
    return [Manifest(body, "") for body in jobs.others] if isinstance(jobs, NewJob) else []


def compile_jobs(jobs: Jobs, cluster: Catalogue) -> list[Body]:
    """Return the objects that Trainer, JobSet and Kubernetes create for TrainJobs: JobSets, Jobs, Pods and others.

    Args:
        jobs: the TrainJobs.
        cluster: the cluster with their runtimes, from `catalogue`.

    Raises:
        DocumentError: `jobs` is not YAML.
        SimulationError: a runtime is missing, a controller or the API server rejects an object, or mpigen cannot
            compute the objects exactly.
    """
    from generator.manifests import read
    from generator.stages.compilation import compile_all

    world = [*cluster.objects, *_others(jobs)]
    compiled = compile_all(list(read(_text(jobs).encode(), "")), world, cluster.targets)
    return [body for one in compiled for body in one.objects]


def queues(cluster: Catalogue) -> dict[str, Any]:
    """Return the quota of each ClusterQueue and the largest job on each runtime, as `mpigen queues --format json` does.

    Args:
        cluster: the cluster, from `catalogue`.

    Raises:
        SimulationError: an object of the cluster is invalid.
    """
    from generator.report import queues as report
    from generator.upstream.kueue.largest import largest_jobs
    from generator.upstream.kueue.queues import read_queue_tree

    tree = read_queue_tree(cluster.objects, cluster.targets.get("kueue", ""))
    return report.facts(tree, list(largest_jobs(tree, cluster.objects)))


def can_i(  # noqa: PLR0913 - the parts of a request, as for `kubectl auth can-i`
    cluster: Catalogue,
    subject: str,
    verb: str,
    resource: str,
    *,
    namespace: str = "",
    subresource: str = "",
    groups: Sequence[str] = (),
) -> Permission:
    """Return whether RBAC allows a request. Admission policies can still reject it.

    Args:
        cluster: the cluster, from `catalogue`.
        subject: group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME.
        verb: the verb, such as `create`.
        resource: the resource as for kubectl, such as trainjobs or jobs.batch.
        namespace: the namespace; empty for all namespaces.
        subresource: such as log.
        groups: further groups of `subject`.

    Raises:
        InputError: `subject` has another form.
    """
    from generator.schemas.catalog import Catalog
    from generator.upstream.kubernetes.access import parse_request, parse_requester, read_access

    try:
        requester = parse_requester(subject, groups)
    except ValueError as error:
        raise InputError((Problem(str(error), "write user:NAME", path="subject"),)) from None
    request = parse_request(Catalog.bundled(), verb, resource, namespace, subresource)
    access = read_access(cluster.objects)
    by = access.allowed(requester, request)
    return Permission(bool(by), by, () if by else access.gaps(requester, namespace))


def _text(jobs: Jobs) -> str:
    if isinstance(jobs, str):
        return jobs
    if isinstance(jobs, NewJob):
        return BriefEmitter().emit(jobs.bodies)
    if isinstance(jobs, Mapping):
        return BriefEmitter().emit([dict(jobs)])
    if hasattr(jobs, "to_dict"):
        return BriefEmitter().emit([jobs.to_dict()])
    return BriefEmitter().emit([dict(job) if isinstance(job, Mapping) else job.to_dict() for job in jobs])


def _no_stdin() -> bytes:
    raise DocumentError((Problem("standard input is no path in Python", "name a file"),))
