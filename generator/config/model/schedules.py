"""`tenants[].schedules`: TrainJobs that CronJobs create at given times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from generator.config.model.fields import (
    Count,
    Duration,
    Fault,
    Flag,
    Labels,
    MappingOf,
    Name,
    NamedOf,
    Resources,
    Section,
    String,
    Text,
    between,
    invalid,
    matching,
    one_of,
    reject_reserved_labels,
)
from generator.config.model.runtimes import ConfigMapName, MountPath
from generator.config.model.secrets import SecretKey, SecretName
from generator.documents.messages import format_value
from generator.upstream.kubernetes.cron import find_schedule_problem, is_time_zone, never_runs

LONGEST_NAME = 38
"""Characters of the name of a schedule. The API server appends a hyphen and five characters to the names of its
TrainJobs, and JobSet's pods get names of at most 63 characters, such as `<name>-launcher-0-0-abcde`.

Sources: apiserver v0.34.2 pkg/storage/names/generate.go simpleNameGenerator; jobset v0.12.0
pkg/webhooks/jobset_webhook.go
"""
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_FIX = "write five fields, such as `0 3 * * *` for each day at 3:00, or a preset such as `@daily`"
_DATE_FIX = "write a day that its month has, such as `0 3 1 2 *` for February 1 at 3:00"


def _is_name(value: str) -> str:
    if len(value) > LONGEST_NAME:
        message = f"{format_value(value)} has {len(value)} characters, too many for the names of JobSet's pods"
        raise invalid(message, f"use at most {LONGEST_NAME} characters")
    if not _NAME.fullmatch(value):
        message = f"{format_value(value)} cannot be the beginning of the name of a TrainJob"
        raise invalid(message, "start with a letter, then use lower-case letters, digits and hyphens")
    if value == "np" or value.startswith("np-"):
        message = f"{format_value(value)} is the beginning of names of NetworkPolicies, which TrainJobs may not have"
        raise invalid(message, "choose a name that does not begin with `np-`")
    return value


def _is_schedule(value: str) -> str:
    if problem := find_schedule_problem(value):
        fix = "move the time zone to `timeZone`" if "TZ" in value else _FIX
        raise invalid(f"the schedule {format_value(value)} {problem}", fix)
    if never_runs(value):
        raise invalid(f"no date matches the schedule {format_value(value)}, so no job would ever start", _DATE_FIX)
    return value


def _is_zone(value: str) -> str:
    if not is_time_zone(value):
        fix = "write a name of the IANA database, such as `Europe/Berlin` or `Etc/UTC`"
        raise invalid(f"there is no time zone {format_value(value)}", fix)
    return value


Variable = Annotated[
    String, matching("[A-Za-z_][A-Za-z0-9_]*", "the name of a variable", "write a name such as OMP_NUM_THREADS")
]
Uri = Annotated[String, matching("[A-Za-z][A-Za-z0-9+.-]*://.+", "a URI", "write one such as hf://ORGANIZATION/NAME")]


class SecretVariable(Section):
    """A key of a Secret in the namespace of the job."""

    secret: SecretName
    """The name of the Secret."""
    key: SecretKey
    """The key in the Secret."""


class JobVolume(Section):
    """A volume of all pods of the job: a claim, a ConfigMap or a Secret of the namespace."""

    mount_path: MountPath
    """The absolute path at which the volume is mounted, such as `/data`."""
    claim: Name | None = None
    """The PersistentVolumeClaim, such as an entry of `tenants[].volumes`."""
    config_map: ConfigMapName | None = None
    """The ConfigMap, whose keys become files."""
    secret: SecretName | None = None
    """The Secret, whose keys become files."""
    read_only: Flag = False
    """With `claim`: if true, programs can read the volume but not write to it."""

    def _contradictions(self) -> Iterator[Fault]:
        yield from one_of("a volume", claim=self.claim, configMap=self.config_map, secret=self.secret)
        if self.read_only and self.claim is None:
            message = "`readOnly` has no effect, because volumes of ConfigMaps and Secrets are always read-only"
            yield Fault(message, "remove `readOnly`", ("readOnly",), ("claim",))


class JobDownload(Section):
    """Files that an initializer of the runtime downloads before the ranks start."""

    uri: Uri
    """The address, such as `hf://org/name` or `s3://bucket/path`."""
    secret: SecretName | None = None
    """The Secret in the namespace of the job with the credentials for the download. Default: no credentials."""


class ScheduledJob(Section):
    """The TrainJob that a schedule creates. The fields are the options of `mpigen job new`."""

    runtime: Name
    """The runtime of the job: an entry of `runtimes`, or a runtime that an mpigen_platform.py adds."""
    namespace: Name | None = None
    """A namespace of the team, in which the job runs. Default: the namespace with the name of the team."""
    nodes: Count | None = None
    """`numNodes` of the job: the number of pods that run ranks. Default: `nodes` of the runtime, or fewer if the limit
    or the quota of the team is lower."""
    processes: Count | None = None
    """`numProcPerNode` of the job: the ranks of each pod. Default: the number of the runtime."""
    resources: Resources = Field(default={}, validate_default=True)
    """The amounts that each pod with ranks requests in place of the amounts of the runtime, such as `memory: 64Gi`."""
    command: tuple[Text, ...] = ()
    """The command of the launcher, such as `[mpirun, ./train]`. Default: the example program of the MPI family."""
    smoke: Flag = False
    """If true, the job is the smoke test of `mpigen job new --smoke`: the ranks run an allreduce."""
    env: MappingOf[Variable, String] = Field(default={}, validate_default=True)
    """Variables of all ranks, such as `OMP_NUM_THREADS: "4"`."""
    secret_env: MappingOf[Variable, SecretVariable] = Field(default={}, validate_default=True)
    """Variables of all ranks whose values are keys of Secrets, such as `TOKEN: {secret: wandb, key: token}`."""
    connection: SecretName | None = None
    """The Secret of an S3 connection of OpenShift AI, such as an entry of `tenants[].secrets.connections`. Its keys,
    such as `AWS_S3_ENDPOINT`, become variables of all ranks. Default: none."""
    volumes: tuple[JobVolume, ...] = ()
    """Volumes of all pods."""
    dataset: JobDownload | None = None
    """The dataset that the dataset initializer of the runtime downloads. Default: none."""
    model: JobDownload | None = None
    """The model that the model initializer of the runtime downloads. Default: none."""
    priority: Name | None = None
    """The name of an entry of `queues.priorities`. Default: no priority, which counts as 0."""
    queue: Name | None = None
    """The LocalQueue of the job. Default: the LocalQueue `default` of the namespace."""
    labels: Annotated[Labels, AfterValidator(reject_reserved_labels)] = Field(default={}, validate_default=True)
    """Labels of the TrainJob in addition to the labels of `policies.labels` with a value in `tenants[].labels`."""
    timeout: Annotated[Duration, between("1s", "8760h")] | None = None
    """The time after which the job fails, such as `4h`, without the time in the queue. Default: `limits.timePerJob` of
    the team."""


class Schedule(Section):
    """A CronJob that creates a TrainJob of the team at given times."""

    name: Annotated[Name, AfterValidator(_is_name)]
    """The name of the CronJob, such as `nightly`. Each of its TrainJobs has this name, a hyphen and five random
    characters, and the label `app.kubernetes.io/name` with this name."""
    schedule: Annotated[Text, AfterValidator(_is_schedule)]
    """The times, in five fields: minute, hour, day of the month, month and day of the week, such as `0 3 * * *` for
    each day at 3:00. Or a preset such as `@daily`, or `@every` with a duration."""
    time_zone: Annotated[String, AfterValidator(_is_zone)] = "Etc/UTC"
    """The time zone of the times, as a name of the IANA database, such as `Europe/Berlin`."""
    starting_deadline: Annotated[Duration, between("10s", "8760h")] = "1h"
    """The time after which Kubernetes skips a run that could not start, for example because the control plane was
    down."""
    suspend: Flag = False
    """If true, no further runs start. Running TrainJobs continue."""
    job: ScheduledJob
    """The TrainJob of each run. `mpigen synth` rejects a job that could never run, as `mpigen job new` does."""


Schedules = NamedOf[Schedule]
