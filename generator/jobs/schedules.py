"""The CronJobs of `tenants[].schedules`: each of their pods creates one TrainJob with `kubectl create`.

The TrainJob is an annotation of the pod, which a volume shows to kubectl as a file (api v0.34.2 core/v1/types.go
DownwardAPIVolumeSource). So a CronJob is one object, and a pod never reads a file of another release. kubectl connects
with the token of its ServiceAccount (client-go v0.34.2 tools/clientcmd/client_config.go inClusterClientConfig).

The API server generates the names of the TrainJobs. If it stores a TrainJob and the connection breaks before kubectl
reads the answer, the Job starts a second pod, and the run creates two TrainJobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from generator.config.model.fields import to_seconds
from generator.config.model.policies import SchedulePods
from generator.config.model.schedules import JobDownload, JobVolume, Schedule
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.documents.emit import BriefEmitter
from generator.documents.messages import format_path
from generator.errors import ConfigError, Problem
from generator.facts.names import SCHEDULES, SWEEP, TRAIN_JOB
from generator.jobs.catalogue import Catalogue
from generator.jobs.job import new_job
from generator.jobs.reach import JobError
from generator.jobs.request import Download, JobRequest, Mount
from generator.manifests import Body, Manifest, omit_none
from generator.policies.schedules import account_of
from generator.runtimes.additions import SecretKey

_FILE = "train-job.yaml"
_FOLDER = "/job"
_SUFFIX = "-xxxxx"
"""Stands for what the API server appends to `generateName` (apiserver v0.34.2 pkg/storage/names/generate.go)."""
_USER = 65532
"""The user of the pods on Kubernetes: the image of kubectl names none. OpenShift chooses a user for each namespace."""
_KEPT_JOBS = 3
_WEEK = 7 * 24 * 3600
_LONGEST_RUN = 900
"""Seconds after which a pod that did not start or did not reach the API server fails. The next run can start then."""


def cron_jobs(platform: Platform, catalogue: Catalogue) -> list[Manifest]:
    """Return the CronJobs of all teams that are not retired.

    Args:
        platform: the platform, with `policies.schedules`.
        catalogue: the objects of the release.

    Raises:
        ConfigError: the API server would reject a TrainJob, Kueue would never admit it, or a field would have no
            effect. The error has every reason, without lines.
    """
    pods = platform.policies.schedules
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    for tenant in platform.tenants:
        for schedule in tenant.schedules if pods and not tenant.retired else ():
            try:
                job = train_job_of(schedule, tenant, catalogue)
            except JobError as error:
                problems += _in_platform_file(error, tenant, schedule)
                continue
            if pods:
                body = _cron_job(schedule, tenant, pods, job, is_openshift=platform.cluster.is_openshift)
                manifests.append(Manifest(body, f"tenants/{tenant.name}/schedules.yaml"))
    if problems:
        raise ConfigError(tuple(problems))
    return manifests


def train_job_of(schedule: Schedule, tenant: Tenant, catalogue: Catalogue) -> Body:
    """Return the TrainJob that each run of a schedule creates, with `generateName` in place of a name.

    Raises:
        JobError: as for `new_job`. The paths of its problems are options of `mpigen job new`.
    """
    job = schedule.job
    request = JobRequest(
        runtime=job.runtime,
        tenant=tenant.name,
        name=f"{schedule.name}{_SUFFIX}",
        nodes=job.nodes or 0,
        queue=job.queue or "",
        command=job.command,
        is_smoke=job.smoke,
        namespace=job.namespace or tenant.name,
        priority=job.priority or "",
        owner=account_of(tenant),
        labels={**job.labels, SWEEP: schedule.name},
        processes=job.processes or 0,
        resources={resource: str(amount) for resource, amount in job.resources.items()},
        environment=job.env,
        secrets={name: SecretKey(entry.secret, entry.key) for name, entry in job.secret_env.items()},
        connection=job.connection or "",
        mounts=tuple(map(_mount, job.volumes)),
        dataset=_download(job.dataset),
        model=_download(job.model),
        seconds=to_seconds(job.timeout) if job.timeout else 0,
    )
    body = new_job(catalogue, request).body
    metadata = {key: value for key, value in body["metadata"].items() if key != "name"}
    return {**body, "metadata": {"generateName": f"{schedule.name}-", **metadata}}


def _mount(volume: JobVolume) -> Mount:
    if volume.claim:
        return Mount("claim", volume.claim, volume.mount_path, volume.read_only)
    if volume.config_map:
        return Mount("configmap", volume.config_map, volume.mount_path)
    return Mount("secret", volume.secret or "", volume.mount_path)


def _download(download: JobDownload | None) -> Download | None:
    return Download(download.uri, download.secret or "") if download else None


def _cron_job(schedule: Schedule, tenant: Tenant, pods: SchedulePods, job: Body, *, is_openshift: bool) -> Body:
    """Return the CronJob of a schedule.

    `concurrencyPolicy` compares only Jobs, which end when their TrainJob is created (kubernetes v1.34.2
    pkg/controller/cronjob/cronjob_controllerv2.go ControllerV2.syncCronJob).
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": schedule.name, "namespace": tenant.schedule_namespace},
        "spec": {
            "schedule": schedule.schedule,
            "timeZone": schedule.time_zone,
            "startingDeadlineSeconds": to_seconds(schedule.starting_deadline),
            "concurrencyPolicy": "Forbid",
            "suspend": schedule.suspend,
            "successfulJobsHistoryLimit": _KEPT_JOBS,
            "failedJobsHistoryLimit": _KEPT_JOBS,
            "jobTemplate": {
                "spec": {
                    "activeDeadlineSeconds": _LONGEST_RUN,
                    "backoffLimit": 3,
                    "ttlSecondsAfterFinished": _WEEK,
                    "template": {
                        "metadata": {"annotations": {TRAIN_JOB: BriefEmitter().emit([job]).removeprefix("---\n")}},
                        "spec": _pod(pods.image, is_openshift=is_openshift),
                    },
                }
            },
        },
    }


def _pod(image: str, *, is_openshift: bool) -> Body:
    """Return the pod that creates a TrainJob. It meets the Pod Security level `restricted`."""
    return {
        "serviceAccountName": SCHEDULES,
        "automountServiceAccountToken": True,
        "restartPolicy": "Never",
        "securityContext": omit_none(
            {
                "runAsNonRoot": True,
                "runAsUser": None if is_openshift else _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            }
        ),
        "containers": [
            {
                "name": "create",
                "image": image,
                "command": ["kubectl", "create", f"--filename={_FOLDER}/{_FILE}"],
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": [{"name": "job", "mountPath": _FOLDER, "readOnly": True}],
            }
        ],
        "volumes": [
            {
                "name": "job",
                "downwardAPI": {
                    "items": [{"path": _FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{TRAIN_JOB}']"}}]
                },
            }
        ],
    }


_FIELDS: Mapping[str, str] = {
    "COMMAND": "command",
    "--label": "labels",
    "--secret-env": "secretEnv",
    "--volume": "volumes",
    "--tenant": "runtime",
    "--matrix": "env",
}
"""Option of `mpigen job new` → the field of a schedule's job, if the field has another name."""
_REWORDED = (
    (re.compile(r"pass --label (\S+)=VALUE"), r"write `labels: {\1: VALUE}`"),
    (re.compile(r"remove --label,"), "remove this label,"),
    (re.compile(r"pass a command after `--`"), "set `command`"),
    (re.compile(r"pass --([a-z]+) (\S+)"), r"write `\1: \2`"),
    (re.compile(r"\bpass (\d+)"), r"write \1"),
    (re.compile(r"(?<![\w`-])--[a-z][a-z-]*"), lambda match: f"`{_field_of(match[0])}`"),
)
"""The words of a command line in the messages of `new_job` → the words of a platform file."""


def _field_of(option: str) -> str:
    return _FIELDS.get(option, option.removeprefix("--"))


def _in_platform_file(error: JobError, tenant: Tenant, schedule: Schedule) -> Iterator[Problem]:
    """Yield the problems of a job, with paths and words of the platform file in place of options."""
    for problem in error.problems:
        if problem.path == "--name":  # its label, or the length that the model of a schedule limits
            field: tuple[str, ...] = ("name",)
        else:
            field = ("job", _field_of(problem.path))
        path = format_path(("tenants", tenant.name, "schedules", schedule.name, *field))
        yield replace(problem, message=_reword(problem.message), fix=_reword(problem.fix), path=path)


def _reword(text: str) -> str:
    for pattern, words in _REWORDED:
        text = pattern.sub(words, text)
    return text
