"""Checks of CronJobs that create TrainJobs: policy/rejects-scheduled-job and access/scheduled-job.

mpigen writes the TrainJob of a schedule into the annotation `mpigen.dev/train-job` of the pods of a CronJob. The checks
read this annotation, and skip CronJobs without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from generator.checks.admission import OwnAdmission
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, Breach, check
from generator.documents.load import Path
from generator.errors import DocumentError, SimulationError
from generator.facts.names import TRAIN_JOB
from generator.manifests import Manifest, read
from generator.objects.fields import string
from generator.objects.pods import pod_templates
from generator.objects.training import GROUP
from generator.upstream.kubernetes.access import Access, AccessRequest, parse_requester, read_access

_ACCOUNT: Path = ("spec", "jobTemplate", "spec", "template", "spec", "serviceAccountName")
_RBAC = "rbac.authorization.k8s.io"


class ScheduledJob(NamedTuple):
    """A TrainJob that the pods of a CronJob create.

    Attributes:
        cron_job: the CronJob.
        path: the path of the annotation with the TrainJob.
        account: the ServiceAccount of the pods, such as `team-cv-schedules/schedules`.
        job: the TrainJob.
    """

    cron_job: Manifest
    path: Path
    account: str
    job: Manifest


def read_scheduled_jobs(cron_jobs: Iterable[Manifest]) -> Iterator[ScheduledJob]:
    """Yield the TrainJobs in the annotations of CronJobs. An annotation that is not one TrainJob is skipped."""
    for cron_job in cron_jobs:
        for pods in pod_templates(cron_job):
            text = string(pods.annotations.get(TRAIN_JOB))
            with suppress(DocumentError):
                jobs = [item for item in read(text, cron_job.file) if (item.group, item.kind) == (GROUP, "TrainJob")]
                account = f"{cron_job.namespace}/{string(pods.spec.get('serviceAccountName'), 'default')}"
                path = (*pods.path, "metadata", "annotations", TRAIN_JOB)
                yield from (ScheduledJob(cron_job, path, account, job) for job in jobs)


@check("policy/rejects-scheduled-job", severity=ERROR, needs=OwnAdmission)
def rejects_scheduled_job(admission: OwnAdmission) -> Iterator[Breach]:
    """Report a CronJob whose TrainJob an admission policy in the same files rejects.

    The CronJob is valid, so Argo CD and Flux apply it. But each of its pods then fails, and no job starts. Only the log
    of the pod shows the message of the policy.

    The check reads the TrainJob in the annotation `mpigen.dev/train-job` of the pods, and evaluates the policies as
    [policy/rejects-own-object](rejects-own-object.md) does for a TrainJob in the files.

    Source: apiserver v0.34.2 pkg/admission/plugin/policy/validating/dispatcher.go dispatcher.Dispatch
    """
    for scheduled in read_scheduled_jobs(admission.objects.of("batch", "CronJob")):
        for decision, _ in admission.denials(scheduled.job):
            yield Breach(
                scheduled.path,
                f"the policy `{decision.policy}` rejects the TrainJob that this CronJob creates: {decision.message}",
                "the API server rejects the TrainJob, so the pods of the CronJob fail and no job starts",
                "change the TrainJob in this annotation as the message of the policy requires; for a schedule of a"
                " platform file, change `tenants[].schedules[].job`",
                scheduled.cron_job,
            )


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The TrainJobs that the CronJobs of a complete release create, and the RBAC objects of the release."""

    jobs: tuple[ScheduledJob, ...]
    access: Access

    @classmethod
    def read(cls, objects: Objects) -> Scheduled | None:
        """Return the TrainJobs and the RBAC objects; None without such CronJobs, or if RBAC objects conflict."""
        jobs = tuple(read_scheduled_jobs(objects.of("batch", "CronJob"))) if objects.is_complete else ()
        with suppress(SimulationError):
            return cls(jobs, read_access([item for item in objects.manifests if item.group == _RBAC])) if jobs else None
        return None


@check("access/scheduled-job", severity=ERROR, needs=Scheduled)
def scheduled_job(scheduled: Scheduled) -> Iterator[Breach]:
    """Report a CronJob whose ServiceAccount may not create its TrainJob.

    Each pod of the CronJob then fails with `403 Forbidden`, and no job starts. The check reads the TrainJob in the
    annotation `mpigen.dev/train-job` of the pods, and the RBAC objects of a release. It skips files that are not a
    complete release, because other files can have the RoleBinding.

    Source: kubernetes v1.34.2 plugin/pkg/auth/authorizer/rbac/rbac.go RBACAuthorizer.Authorize
    """
    for entry in scheduled.jobs:
        requester, namespace = parse_requester(f"serviceaccount:{entry.account}"), entry.job.namespace
        is_allowed = scheduled.access.allowed(
            requester, AccessRequest("create", GROUP, "trainjobs", namespace=namespace)
        )
        if is_allowed or scheduled.access.gaps(requester, namespace):
            continue
        yield Breach(
            _ACCOUNT,
            f"the ServiceAccount `{entry.account}` of the pods may not create TrainJobs in namespace `{namespace}`",
            "the API server rejects the TrainJob: 403 Forbidden, so the pods of the CronJob fail and no job starts",
            f"bind a role with the verb `create` on `trainjobs.{GROUP}` to this ServiceAccount in namespace"
            f" `{namespace}`",
            entry.cron_job,
        )
