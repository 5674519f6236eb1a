"""Verdicts on TrainJobs: what the cluster does with them, and the findings in their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from generator import manifests
from generator.checks.finding import Finding, Located, Severity
from generator.checks.registry import Stage, Suite
from generator.checks.run import judge_together
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    from generator.checks.submission import Destination, Submission


@dataclass(frozen=True, slots=True)
class JobVerdicts:
    """The result of `check_jobs`: the submitted TrainJobs, and all findings in their files."""

    submissions: Sequence[Submission]
    findings: Sequence[Finding]

    @property
    def jobs(self) -> list[manifests.Manifest]:
        """The TrainJobs."""
        return [submission.job for submission in self.submissions]

    def verdict(self, submission: Submission, findings: Collection[Finding]) -> str:
        """Return the verdict on a TrainJob: that of the cluster, or `faulty`.

        A TrainJob that Kueue admits, now or later, is `faulty` if a finding about it is an error.

        Args:
            submission: one of the submissions.
            findings: the findings that count, such as those without a waiver.
        """
        is_faulty = any(finding.severity is Severity.ERROR for finding in findings_about(submission.job, findings))
        return "faulty" if is_faulty and submission.verdict in ("admitted", "waits") else submission.verdict


def findings_about(job: manifests.Manifest, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings about a TrainJob of `read_jobs`. In its file, it may have no namespace."""
    metadata = {key: value for key, value in job.body["metadata"].items() if key != "namespace"}
    without = replace(job, body={**job.body, "metadata": metadata})
    names = {job.resource, job.resource_in_file, without.resource}
    return (finding for finding in findings if finding.file == job.file and finding.resource in names)


def submit_filled(
    jobs: Sequence[manifests.Manifest], destination: Destination, engine: Engine
) -> tuple[list[manifests.Manifest], list[Submission]]:
    """Return TrainJobs with the values of their placeholders, and their submissions in this order.

    A TrainJob that has a placeholder without a value is not submitted, and its verdict is unknown.

    Args:
        jobs: the TrainJobs.
        destination: the other objects of the cluster, and the user.
        engine: the schemas of the target versions.

    Raises:
        SimulationError: an object of the cluster is invalid.
    """
    from generator.checks.placeholders import fill
    from generator.checks.submission import Submission, submit

    filled = [fill(job, engine, {}) for job in jobs]
    submitted = iter(submit([job for job, unknown in filled if not unknown], destination, engine))
    submissions = [
        Submission(job, is_clear=False) if unknown else next(submitted)
        for job, (_, unknown) in zip(jobs, filled, strict=True)
    ]
    return [job for job, _ in filled], submissions


def judge_in_cluster(
    jobs: Sequence[manifests.Manifest],
    filled: Sequence[manifests.Manifest],
    destination: Destination,
    engine: Engine,
    suite: Suite,
) -> list[Located]:
    """Return the breaches of the rules that read several objects: the TrainJobs, and objects of the cluster.

    Args:
        jobs: the TrainJobs.
        filled: the same TrainJobs with the values of their placeholders.
        destination: the other objects of the cluster.
        engine: the schemas of the target versions.
        suite: the checks.
    """
    from generator.checks.corrected import correct
    from generator.checks.submission import JUDGED, can_report_jobs, select_near

    namespaces = {job.namespace for job in jobs}
    near = [item for item in destination.world if item.namespace in ("", *namespaces)]
    if not suite.own:  # your own checks can read all
        near = select_near(near, namespaces)
    of_others = {check.id for check in suite.at(Stage.TOGETHER, engine.targets) if not can_report_jobs(check)}
    return list(
        judge_together(
            [*near, *(correct(job, engine) for job in filled)],
            engine.targets,
            files=() if destination.is_complete else None,
            suite=suite,
            left_out=[*JUDGED, *of_others],
        )
    )


def join_breaches(
    submissions: Sequence[Submission], located: Sequence[Located], destination: Destination, targets: Mapping[str, str]
) -> list[Located]:
    """Return the breaches of rules, and the predicted breaches and errors of runtimes that no rule explains.

    Args:
        submissions: the submitted TrainJobs, with their predicted breaches.
        located: the breaches of the rules that read several objects.
        destination: the other objects of the cluster.
        targets: component → minor version.
    """
    from generator.checks.compiled import judge_runtime, without_explained
    from generator.checks.placeholders import names_placeholder
    from generator.upstream.compile import find_runtime

    predicted = (breach for submission in submissions for breach in submission.located)
    breaches = [*located, *without_explained(predicted, located)]
    for submission in submissions:
        job = submission.job
        runtime = find_runtime(job, destination.world)
        if isinstance(runtime, manifests.Manifest) and submission.is_of_known_namespace:
            complete = destination.is_complete
            breaches += judge_runtime(job, runtime, located, targets, is_complete=complete)
    return [item for item in breaches if not (item[0].is_partial or names_placeholder(item[1].message))]


def without_repetition(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Leave out verdicts on TrainJobs whose cause another finding reports.

    `quota/never-admitted` names the size to choose. Other `trainjob/*` errors explain a rejection at the same field.

    Args:
        findings: all findings in the files of the TrainJobs.
    """
    sized = {(finding.file, finding.resource) for finding in findings if finding.check == "quota/never-admitted"}
    verdicts = ("trainjob/denied", "trainjob/forbidden", "trainjob/not-admitted", "trainjob/rejected")
    errors = [finding for finding in findings if finding.severity is Severity.ERROR and finding.check not in verdicts]
    causes = [finding for finding in errors if finding.check.startswith("trainjob/")]
    places = {(finding.file, finding.line, finding.path) for finding in causes}
    for finding in findings:
        is_sized = finding.check == "trainjob/not-admitted" and (finding.file, finding.resource) in sized
        is_predicted = finding.check in ("trainjob/rejected", "workload/job-set")
        is_explained = is_predicted and (finding.file, finding.line, finding.path) in places
        if not (is_sized or is_explained):
            yield finding
